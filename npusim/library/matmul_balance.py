"""Cuts for cores by what blocks multiply for each byte that they load (A2 chips).

Source: public asc-devkit, impl/adv_api/tiling/matmul (snapshot 0da921b91): products of at least 128
rows whose C gives each core more than 0.8 blocks of 128 x 256, and those whose C gives less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cmp_to_key

from npusim.library.matmul_product import HostProduct, Room, aligned_part
from npusim.values.arithmetic import divisors, round_up
from npusim.values.formats import FRACTAL

_BLOCK_M, _BLOCK_N, _BLOCK_K_BITS = 128, 256, 1024
_BIG_L0C_BYTES = 256 * 1024
_CORE_ELEMENTS = 26214  # 0.8 blocks
_LINE_BITS = 2048  # that HBM gives at its best
# How much worse rows of so many elements load than rows of whole lines; others are the worst.
_SLOWER = {256: 1.0, 512: 1.0, 384: 1.5, 448: 1.7, 320: 2.0, 128: 2.0, 192: 2.7}
_SLOWEST = 4.0
_TINY = 32  # rows and columns of parts that so many cores feed at most:
_FED_CORES = 20
_NEAR_INTENSITY, _NEAR_CYCLES, _NEAR_BYTES = 1e-4, 0.01, 0.05

Block = tuple[int, int, int]
Found = tuple[tuple[int, int], Block, tuple[int, int]]


@dataclass(frozen=True)
class _Way:
    """A way of cutting: parts of rows and columns, its block, a core's products and loads."""

    high: int
    wide: int
    block: Block
    cycles: float
    bytes: float
    shared: float

    @property
    def intensity(self) -> float:
        return self.cycles / self.bytes if self.bytes > 0 else 0.0


def balanced(product: HostProduct, cores: int, room: Room) -> Found | None:
    """Parts of rows and columns, block, and its steps in L1; None where the rule isn't asked."""
    if not room.is_a2 or product.splits_k or product.has_shape:
        return None
    m, n, _ = product.whole
    block = _first_block(product, room)
    if m >= _BLOCK_M and m * n > _CORE_ELEMENTS * cores:
        ways = [_large(product, cores, each, block) for each in _pairs(cores)]
        best = _first(ways, _better_large)
    elif m * n < _CORE_ELEMENTS * cores:
        best = _small(product, cores, block)
        block_m, block_n, _ = best.block
        most = room.l0a_bytes // 2 * 8 // product.a_bits
        k = min(most // block_m, most // block_n) // product.lanes * product.lanes
        block = block_m, block_n, min(k, round_up(product.whole[2], product.lanes))
    else:
        return None
    return (best.high, best.wide), block, _steps(product, block, room)


def _first_block(product: HostProduct, room: Room) -> Block:
    """The block to begin with; where both operands are turned, the other way round."""
    m = _BLOCK_N if room.l0c_bytes == _BIG_L0C_BYTES else _BLOCK_M
    n = _BLOCK_N
    if product.turned_a and product.turned_b:
        m, n = _BLOCK_N, _BLOCK_M
    fixed_m, fixed_n = product.fixed
    k = _BLOCK_K_BITS // product.a_bits
    return fixed_m if fixed_m > 0 else m, fixed_n if fixed_n > 0 else n, k


def _pairs(number: int) -> Iterator[tuple[int, int]]:
    return ((each, number // each) for each in sorted(divisors(number)))


def _large(product: HostProduct, cores: int, parts: tuple[int, int], block: Block) -> _Way:
    m, n, _ = product.whole
    line_a, line_b = _LINE_BITS // product.a_bits, _LINE_BITS // product.b_bits
    whole_a, part_m = aligned_part(m, parts[0], line_a, wanted=product.turned_a and m % line_a == 0)
    whole_b, part_n = aligned_part(
        n, parts[1], line_b, wanted=not product.turned_b and n % line_b == 0
    )
    worse = 1.0 if whole_a and whole_b else 2.0
    cycles, moved = _sums(product, part_m, part_n, block, worse, worse)
    return _Way(*parts, block, cycles, moved, _shared(parts, cores, block))


def _small(product: HostProduct, cores: int, block: Block) -> _Way:
    """One axis alone where it gives every core a block, else the best way for any cores."""
    m, n, _ = product.whole
    if m <= _BLOCK_M and n >= _BLOCK_M * cores:
        return _Way(1, cores, _sized(product, m, n // cores, block), 0, 0, 0)
    if n <= _BLOCK_N and m >= _BLOCK_M * cores:
        return _Way(cores, 1, _sized(product, m // cores, n, block), 0, 0, 0)
    ways = []
    for used in range(cores, 0, -1):
        for parts in _pairs(used):
            way = _small_way(product, cores, parts, block)
            block = way.block
            ways.append(way)
    return _first(ways, _better_small)


def _small_way(product: HostProduct, cores: int, parts: tuple[int, int], block: Block) -> _Way:
    m, n, _ = product.whole
    line_a, line_b = _LINE_BITS // product.a_bits, _LINE_BITS // product.b_bits
    even_m, even_n = (any(size % each == 0 for each in _SLOWER) for size in (m, n))
    whole_a, part_m = aligned_part(m, parts[0], line_a, wanted=product.turned_a and even_m)
    whole_b, part_n = aligned_part(n, parts[1], line_b, wanted=not product.turned_b and even_n)
    block = _sized(product, part_m, part_n, block)
    worse_a = 1.0 if whole_a else _SLOWER.get(part_m, _SLOWEST)
    worse_b = 1.0 if whole_b else _SLOWER.get(part_n, _SLOWEST)
    used = parts[0] * parts[1]
    tiny = part_m < _TINY and part_n < _TINY
    waits = used / min(used, _FED_CORES) if tiny else 1.0
    cycles, moved = _sums(product, part_m, part_n, block, worse_a * waits, worse_b * waits)
    return _Way(*parts, block, cycles, moved, _shared(parts, cores, block))


def _sized(product: HostProduct, m: int, n: int, block: Block) -> Block:
    """A block that isn't wider than a part."""
    k = min(block[2], round_up(product.whole[2], 32))
    block_m = _BLOCK_M if m >= _BLOCK_M else round_up(m, FRACTAL)
    most = 384 if k <= 32 and block_m <= 64 else _BLOCK_N
    return block_m, most if n >= most else round_up(n, FRACTAL), k


def _sums(
    product: HostProduct, m: int, n: int, block: Block, worse_a: float, worse_b: float
) -> tuple[float, float]:
    """Cycles and bytes of a part's blocks for one depth, whole ones and those at its ends."""
    block_m, block_n, k = block
    fractal = FRACTAL * FRACTAL * product.lanes
    cycles = moved = 0.0
    for high, rows in ((m // block_m, block_m), (1, m % block_m)):
        for wide, columns in ((n // block_n, block_n), (1, n % block_n)):
            if high and wide and rows and columns:
                cycles += rows * columns * k / fractal * high * wide
                loaded = worse_a * rows * product.a_bits + worse_b * columns * product.b_bits
                moved += loaded * k / 8 * high * wide
    return cycles, moved


def _shared(parts: tuple[int, int], cores: int, block: Block) -> float:
    """The share of loads that other cores make too."""
    m, n, _ = block
    return ((cores - parts[0]) * m + (cores - parts[1]) * n) / ((m + n) * cores)


def _better_large(one: _Way, other: _Way) -> bool:
    if abs(one.intensity - other.intensity) > _NEAR_INTENSITY:
        return one.intensity > other.intensity
    if abs(one.cycles - other.cycles) < _NEAR_CYCLES * other.cycles:
        return one.shared > other.shared
    return one.cycles < other.cycles


def _better_small(one: _Way, other: _Way) -> bool:
    if abs(other.bytes - one.bytes) > _NEAR_BYTES * one.bytes:
        return one.bytes < other.bytes
    if abs(one.cycles - other.cycles) < _NEAR_CYCLES * other.cycles:
        return one.shared > other.shared
    return one.intensity > other.intensity


def _first(ways: list[_Way], better: Callable[[_Way, _Way], bool]) -> _Way:
    """The first of the ways in their order."""

    def compared(one: _Way, other: _Way) -> int:
        return better(other, one) - better(one, other)

    return min(ways, key=cmp_to_key(compared))


def _steps(product: HostProduct, block: Block, room: Room) -> tuple[int, int]:
    """Blocks of depth that L1 takes at once of A and of B, two such loads each."""
    m, n, k = block
    l1 = room.l1_bytes
    held_a = l1 // 2 // m // k * 8 // product.a_bits
    held_b = (l1 + 256) // 2 // n // k * 8 // product.b_bits
    bytes_a, bytes_b = m * k * product.a_bits // 8, k * n * product.b_bits // 8
    if held_a * bytes_a + held_b * bytes_b > l1 - n * product.bias_bits // 8:
        held_a, held_b = (held_a // 2, held_b) if m <= n else (held_a, held_b // 2)
    step_a, step_b = (_even_step(product, held // 2, k) for held in (held_a, held_b))
    if step_a >= step_b > 0:
        step_a = step_a // step_b * step_b
    elif step_a:
        step_b = step_b // step_a * step_a
    return max(1, step_a), max(1, step_b)


def _even_step(product: HostProduct, step: int, k: int) -> int:
    """Fewer steps where that makes a load's rows whole lines of 512 (or 256) bytes."""
    if step * k >= product.k:
        return step
    row = k * product.a_bits // 8
    line = next((each for each in (512, 256) if step * row > each), 0)
    if line and step * row % line and line % row == 0:
        while step * row % line and step > 1:
            step -= 1
    return step

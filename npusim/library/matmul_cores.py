"""How the library's host cuts a matrix product for several cores (``MultiCoreMatmulTiling``).

Kernels reckon where a core's part begins from the cut, so it has to be the library's own: the rules
are those of the public asc-devkit, impl/adv_api/tiling/matmul (snapshot 0da921b91). There are two.
Where the program gave the shape to compute (``SetShape``), ways of cutting fractals are tried in
turn and one that is better than the last is kept (:func:`_by_loads`). Where it gave only the whole
shape, an A2 chip's parts are those whose blocks multiply most for what they load
(:mod:`npusim.library.matmul_balance`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from npusim.library.matmul_balance import balanced
from npusim.library.matmul_product import HostProduct, Room, aligned_part
from npusim.values.arithmetic import ceil_div, round_up
from npusim.values.formats import FRACTAL

_UNBOUNDED = 2**31 - 1
_FRACTAL_BYTES = 512
_SEEDS = (16, 1024)
_FEW, _MANY = 64, 128  # factors up to these are counted
_ROUGH = 8  # parts of this many fractals needn't have factors
_WIDE = 32  # fractals that mini products aren't cut below


@dataclass(frozen=True)
class Cut:
    """Parts of C (and of the depth) in elements, the cores that have one, and the blocks if told.

    ``blocks`` are m, n and k of a block, ``steps`` the blocks of k that L1 takes at once of A, B.
    """

    single_m: int
    single_n: int
    single_k: int
    used: int
    blocks: tuple[int, int, int] | None = None
    steps: tuple[int, int] | None = None


def cut_for_cores(product: HostProduct, cores: int, room: Room) -> Cut:
    """The library's cut of a product for so many cores."""
    found = balanced(product, cores, room) if cores > 1 else None
    if found is not None:
        (high, wide), blocks, steps = found
        return _parts(product, cores, high, wide, 1, is_balanced=True, blocks=blocks, steps=steps)
    high, wide, deep = _by_loads(product, cores, room) if cores > 1 else (1, 1, 1)
    return _parts(product, cores, high, wide, deep)


def _parts(
    product: HostProduct,
    cores: int,
    high: int,
    wide: int,
    deep: int,
    *,
    is_balanced: bool = False,
    blocks: tuple[int, int, int] | None = None,
    steps: tuple[int, int] | None = None,
) -> Cut:
    """The elements of a part, from the numbers of parts."""
    used = high * wide * deep
    m, n, k = (
        ceil_div(size, parts)
        for size, parts in zip((product.m, product.n, product.k), (high, wide, deep), strict=True)
    )
    if cores == 1:
        return Cut(m, n, k, used, blocks, steps)
    lines_a, lines_b = 2048 // product.a_bits, 2048 // product.b_bits  # of 256 bytes
    aligns = is_balanced or product.blocked_in
    stores = product.stores_most(m, n, k)
    rows, columns = round_up(product.m, FRACTAL), round_up(product.n, FRACTAL)
    turned = aligns and (not product.turned_b or stores)
    _, n = aligned_part(columns, wide, lines_b, wanted=turned or product.blocked_out)
    _, m = aligned_part(
        rows, high, lines_a, wanted=(aligns and product.turned_a) or product.blocked_out
    )
    if product.splits_k:
        k = ceil_div(ceil_div(product.k, product.lanes), deep) * product.lanes
    return Cut(m, n, k, used, blocks, steps)


@dataclass
class _Best:
    """The way of cutting kept so far; a core makes ``loops`` products of groups of fractals."""

    high: int = 1
    wide: int = 1
    deep: int = 1
    used: int = 1
    loads: int = _UNBOUNDED
    loops: int = _UNBOUNDED
    is_long: bool = False  # rows of its loads are long
    was_found: bool = False


def _by_loads(product: HostProduct, cores: int, room: Room) -> tuple[int, int, int]:
    """Parts of rows, columns and depth: each way is tried, a better one than the last is kept."""
    rows, columns = ceil_div(product.m, FRACTAL), ceil_div(product.n, FRACTAL)
    depth = ceil_div(product.k, product.lanes)
    mapped = (rows, columns) if product.splits_k else (_mapped(rows), _mapped(columns))
    mapped_depth = _mapped_depth(depth) if product.splits_k else depth
    mini = _mini(product, cores, room, (rows, columns, depth), (*mapped, mapped_depth))
    if mini is not None:
        return mini
    high_ways = _ways(rows, mapped[0], cores, min(cores, rows))
    wide_ways = _ways(columns, mapped[1], cores, min(cores, columns))
    deep_ways = _ways(depth, mapped_depth, cores, cores) if product.splits_k else [1]
    point = math.sqrt(np.float32(rows) / np.float32(columns) * np.float32(cores))
    best_high, best_wide = math.ceil(np.float32(point)), math.ceil(cores / np.float32(point))
    if cores > 1:
        high_ways = sorted({*high_ways, best_high, cores // best_wide})
        wide_ways = sorted({*wide_ways, best_wide, cores // best_high})
    best = _Best()
    for wide in wide_ways:
        for high in high_ways:
            for deep in deep_ways:
                if 0 < wide * high * deep <= cores:
                    _try(
                        best, product, room, (rows, columns, depth, mapped_depth), high, wide, deep
                    )
    part_m = _best_part(rows, mapped[0], best.high)
    part_n = _best_part(columns, mapped[1], best.wide)
    whole = depth if depth % best.deep == 0 else mapped_depth
    part_k = ceil_div(whole, best.deep)
    needed = ceil_div(rows, part_m) * ceil_div(columns, part_n) * ceil_div(depth, part_k)
    if not 0 < needed <= cores:
        part_m, part_n = ceil_div(rows, best.high), ceil_div(columns, best.wide)
        part_k = ceil_div(depth, best.deep)
    deep = min(ceil_div(depth, part_k), cores) if product.splits_k else best.deep
    return min(ceil_div(rows, part_m), cores), min(ceil_div(columns, part_n), cores), deep


def _try(
    best: _Best,
    product: HostProduct,
    room: Room,
    sizes: tuple[int, int, int, int],
    high: int,
    wide: int,
    deep: int,
) -> None:
    rows, columns, depth, mapped_depth = sizes
    m, n, k = ceil_div(rows, high), ceil_div(columns, wide), depth // deep
    line_bytes = depth // deep * _FRACTAL_BYTES
    if product.splits_k and mapped_depth != depth:
        k = mapped_depth // deep * 2
    loads = _loads(room.l1_bytes, (rows, columns), (m, n, k), high, wide, line_bytes)
    loads *= k if product.splits_k else 1
    kind = _kind_of_rows(product, (rows, columns), m, n, is_long=best.is_long)
    loops, used = _loops(m, n, k), high * wide * deep
    uses_cores = not kind and (loops < best.loops or (used > best.used and loops == best.loops))
    as_many = not uses_cores and used == best.used
    loads_less = as_many and loads < best.loads
    spreads = as_many and loads == best.loads and best.wide * best.high < high * wide
    fits = not product.holds_b or _holds(product, room, m, n, k, line_bytes)
    if kind == _SHORTER or not fits or not (kind == _LONGER or uses_cores or loads_less or spreads):
        return
    best.high, best.wide, best.deep, best.used = high, wide, deep, used
    best.loads, best.loops, best.was_found = loads, loops, True
    best.is_long = (
        (product.turned_b or n >= FRACTAL) and (not product.turned_a or m >= FRACTAL) and used > 1
    )


_SHORTER, _LONGER = 1, 2


def _kind_of_rows(
    product: HostProduct, sizes: tuple[int, int], m: int, n: int, *, is_long: bool
) -> int:
    """Whether a way has shorter or longer rows to load than the one kept; 0 where it's the same."""
    if product.turned_b and not product.turned_a:
        return 0
    rows, columns = sizes
    short = (not product.turned_b and columns >= FRACTAL > n) or (
        product.turned_a and rows >= FRACTAL > m
    )
    if is_long:
        return _SHORTER if short else 0
    return 0 if short else _LONGER


def _small_blocks(m: int, n: int, k: int) -> tuple[int, int, int]:
    """Fractals of a block as the search takes it to be."""
    n0 = min(16, n)
    m0 = min(16, m, 128 // n0) if n0 else 0
    k0 = min(64 // m0, 64 // n0, k) if m0 and n0 else k
    return m0, n0, k0


def _loads(
    l1_bytes: int,
    sizes: tuple[int, int],
    part: tuple[int, int, int],
    high: int,
    wide: int,
    line_bytes: int,
) -> int:
    """What all cores load, in fractals of one depth, by what of a part L1 holds."""
    (rows, columns), (m, n, k) = sizes, part
    m0, n0, k0 = _small_blocks(m, n, k)
    whole = min(m + n, m + n0 * 2, n + m0 * 2) * line_bytes <= l1_bytes
    if whole:
        return rows * wide + columns * high
    piece = k0 * _FRACTAL_BYTES
    if min(n0 * line_bytes + m0 * piece, m0 * line_bytes + n0 * piece) * 2 > l1_bytes:
        return rows * ceil_div(columns, n0) + columns * ceil_div(rows, m0)
    if (m0 + n0) * line_bytes * 2 <= l1_bytes:
        m1 = ceil_div(l1_bytes - n0 * line_bytes * 2, line_bytes * 2 * m0) * m0
        n1 = ceil_div(l1_bytes - m0 * line_bytes * 2, line_bytes * 2 * n0) * n0
        by_rows = rows * wide + columns * ceil_div(rows, m1)
        by_columns = columns * high + rows * ceil_div(columns, n1)
        return min(by_rows, by_columns)
    found = _UNBOUNDED
    if min(m, m0 * 2) * line_bytes + n0 * piece * 2 <= l1_bytes:
        n = columns * ceil_div(rows, m0)  # what the next line takes for the part
        found = rows * wide + n
    if min(n, n0 * 2) * line_bytes + m0 * piece * 2 <= l1_bytes:
        found = min(found, columns * high + rows * ceil_div(columns, n0))
    return found


def _loops(m: int, n: int, k: int) -> int:
    """Products of groups of fractals that a core makes."""
    n0 = min(16, n)
    m0 = min(m, 128 // n0, 64) if n0 else 0
    n0 = min(n, 128 // m0, 64) if m0 else 0
    m0 = min(m, 128 // n0, 64) if n0 else 0
    k0 = min(64 // m0, 64 // n0, k) if m0 and n0 else k
    if not k0:  # more parts of the depth than there are fractals: the library counts none
        return 0
    return ceil_div(m, m0) * ceil_div(n, n0) * ceil_div(k, k0)


def _holds(product: HostProduct, room: Room, m: int, n: int, k: int, line_bytes: int) -> bool:
    """Whether L1 holds a core's whole part of B (which lies there: TSCM) beside a block of A."""
    m0, _, k0 = _small_blocks(m, n, k)
    bias = n * FRACTAL * product.bias_bits // 8 if product.bias_bits else 0
    return n * line_bytes * 2 + m0 * k0 * _FRACTAL_BYTES + bias <= room.l1_bytes


def _mini(
    product: HostProduct,
    cores: int,
    room: Room,
    sizes: tuple[int, int, int],
    mapped: tuple[int, int, int],
) -> tuple[int, int, int] | None:
    """Parts of a product that a core's memories hold whole; None for a greater one."""
    rows, columns, depth = sizes
    l0 = room.l0a_bytes // _FRACTAL_BYTES
    uneven = product.splits_k and any(
        size > _WIDE and whole & (_WIDE - 1)
        for size, whole in ((columns, mapped[1]), (rows, mapped[0]))
    )
    too_much = rows * columns > min(cores, room.l0c_bytes // 1024) or uneven
    if too_much or max(rows, columns) * depth > l0:
        return None
    high, wide = (
        1 if size <= _WIDE else ceil_div(size, ceil_div(whole, whole // _WIDE))
        for size, whole in ((rows, mapped[0]), (columns, mapped[1]))
    )
    if depth <= _WIDE or not product.splits_k:
        return high, wide, 1
    deep = next((up for up in range(2, min(cores, depth) + 1) if depth % up == 0), 1)
    return high, wide, ceil_div(depth, ceil_div(mapped[2], deep)) if deep > 1 else 1


def _ways(size: int, mapped: int, cores: int, most: int) -> list[int]:
    """Numbers of parts that divide a size, what stands for it, or the cores."""
    return [
        each
        for each in range(1, most + 1)
        if size % each == 0 or mapped % each == 0 or cores % each == 0
    ]


def _mapped(size: int, *, up: bool = True) -> int:
    """A power of two that stands for a size: 32 to 1,024."""
    seed, most = _SEEDS
    if size < seed:
        return size
    while seed < most and not seed < size <= seed * 2:
        seed *= 2
    return seed * 2 if up else seed


def _mapped_depth(depth: int) -> int:
    few = sum(depth % each == 0 for each in range(1, min(_FEW, depth) + 1))
    many = few + sum(depth % each == 0 for each in range(_FEW + 1, min(_MANY, depth) + 1))
    if (depth > _FEW and few <= 2) or (depth > _MANY and many <= 4):
        return _mapped(depth, up=False)
    return depth


def _has_factors(size: int) -> bool:
    """Whether a part can be cut further: enough divisors that have divisors."""
    if size <= _ROUGH:
        return True
    few = _most_divisors(size, 1, _FEW)
    many = few + (_most_divisors(size, _FEW + 1, _MANY) if size > _MANY else 0)
    return not (few <= 2 or (size > _MANY and many <= 4))


def _most_divisors(size: int, first: int, last: int) -> int:
    found = [each for each in range(first, last + 1) if size % each == 0]
    return max((sum(each % d == 0 for d in range(1, each + 1)) for each in found), default=0)


def _best_part(size: int, mapped: int, parts: int) -> int:
    """The part nearest to an even one that has factors."""
    if parts == 1 and _has_factors(size):
        return size
    part, last = ceil_div(size, parts), ceil_div(mapped, parts)
    while part != last and not _has_factors(part):
        part += 1 if part < last else -1
    return part

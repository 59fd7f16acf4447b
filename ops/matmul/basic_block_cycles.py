"""What the vendor's search for basic blocks takes a layout to cost, in cycles of a core.

Loads, from memory the first time and from L2 later, are as fast as requests in flight, conflicts
on one address and what the cores share let them be; with them come the products, fills of L0 and
stores. The rates are that model's (`block_search` of the profile) and decide among layouts; nothing
here times a kernel. Source:
cann-ops, op_tiling/gemm/estimate/cache_tiling_basic_block_est.cc and
op_tiling/gemm/common/cache_tiling_request_bytes.cc.
"""

from __future__ import annotations

from math import ceil, exp, gcd, inf
from typing import TYPE_CHECKING, NamedTuple

from npusim.ascendc.packets import packets
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from npusim.hardware.groups import BlockSearch, SearchedPath
    from npusim.hardware.profile import Profile
    from npusim.ops.matmul.cache_tiling_cycles import Found
    from npusim.ops.matmul.shapes import Shape


_MERGED_BYTES = (32, 64, 128, 160, 192, 224, 256)  # of narrow rows that are one request
_LINE, _HALF, _PACKET = 512, 256, 128


class _Edge(NamedTuple):
    """An edge of a core's part: elements, of a chunk in L1, and cores along it."""

    total: int
    chunk: int
    cores: int

    @property
    def padded(self) -> int:
        """Elements of whole chunks."""
        return round_up(self.total, self.chunk)


class BlockCycles:
    """Layouts of one product on one chip, compared."""

    def __init__(self, profile: Profile, model: BlockSearch, shape: Shape) -> None:
        self._model, self._shape, self._size = model, shape, shape.dtype.itemsize
        self._cores, self._l2 = profile.cores.cube_cores, profile.memory.l2_bytes
        paths = profile.paths
        self._l0a, self._l0b = paths.l1_to_l0a.bytes_per_cycle, paths.l1_to_l0b.bytes_per_cycle
        self._l0c = profile.cube.fixpipe_bytes_per_cycle or inf
        self._lanes = profile.buffers.block_bytes // self._size

    def of(self, found: Found, *, doubled: bool) -> float:
        """Cycles of a layout, times the rounds that its cores take; L0C may hold two blocks."""
        shape, tiles, grid = self._shape, found.tiles, found.grid
        active = min(grid.high * grid.wide, self._cores)
        high = min(grid.high, active)
        m = _Edge(ceil(shape.m / grid.high), 16 * tiles.m1, high)
        n = _Edge(ceil(shape.n / grid.wide), 16 * tiles.n1, min(grid.wide, active // high))
        depths = tiles.ka * self._lanes, tiles.kb * self._lanes
        turned = self._turned(m, n, depths[0])
        loads, first = self._loads(found, (m, n), depths, turned=turned, active=active)
        stores = self._store_rate(m, n, active)
        leaving, last = (
            each * shape.out_bytes / stores for each in (m.total * n.total, m.chunk * n.chunk)
        )
        fills, fill = self._fills(found, (m, n))
        cube, step = self._products(found, (m, n))
        bound = max(cube, fills, loads + leaving)
        if cube == bound:
            behind = leaving if turned else max(leaving - step, last)
            cycles = bound + first + fill + (last if doubled else behind)
        elif loads + leaving == bound:
            behind = step if doubled else max(step, cube - loads - (0 if turned else step))
            cycles = bound + fill + behind
        else:
            cycles = bound + step + first + leaving
        return cycles * ceil(grid.high * grid.wide / self._cores)

    def _turned(self, m: _Edge, n: _Edge, depth: int) -> bool:
        """Whether cores begin with different chunks of k, so that few load from one address."""
        several = ceil(self._shape.m / m.total) * ceil(self._shape.n / n.total)
        beside = 8 if several > self._cores else max(m.cores, n.cores)
        return beside > 2 and ceil(self._shape.k / depth) > beside // 2

    # -- loads and stores ------------------------------------------------------------------------

    def _loads(
        self,
        found: Found,
        edges: tuple[_Edge, _Edge],
        depths: tuple[int, int],
        *,
        turned: bool,
        active: int,
    ) -> tuple[float, float]:
        """Cycles of all loads, and of the first chunks from memory."""
        shape, size, (m, n) = self._shape, self._size, edges
        whole = self._whole(m, n)
        held = (shape.m + shape.n) * shape.k * size + shape.m * shape.n * shape.out_bytes
        again = self._again(found)
        hits = self._hits(edges, again, depths)
        beside = (
            1 if turned and n.cores > m.cores else n.cores,
            1 if turned and m.cores >= n.cores else m.cores,
        )
        lies = (shape.turned_a, shape.m), (not shape.turned_b, shape.n)
        total = first = 0.0
        for side, (edge, depth) in enumerate(zip(edges, depths, strict=True)):
            wide, deep = edge.chunk, depth
            if not whole:
                wide, deep = min(edge.total, wide), min(shape.k, deep)
            turned_rows, pitch = lies[side]
            block = (deep, wide, pitch, size) if turned_rows else (wide, deep, shape.k, size)
            cores = edges[1 - side].cores
            l2, memory = self._load_rates(_Block(*block), cores, beside[side], active)
            nbytes = size * (
                edge.padded * round_up(shape.k, depth) if whole else edge.total * shape.k
            )
            if not turned and held <= self._l2:
                total += nbytes / memory + nbytes * (again[side] - 1) / l2
            else:
                hit = hits[side]
                total += nbytes * again[side] * (hit / l2 + (1 - hit) / memory)
            first += edge.chunk * depth * size / memory
        return total, first

    def _whole(self, m: _Edge, n: _Edge) -> bool:
        """Whether what remains of an edge is worked on as a whole chunk that begins earlier."""
        return all(each * self._size % 32 == 0 for each in (m.total, n.total, self._shape.k))

    def _load_rates(
        self, block: _Block, cores: int, beside: int, active: int
    ) -> tuple[float, float]:
        """Bytes a cycle from L2 and from memory, for a block that so many ``cores`` load."""
        merged = block.merged(narrow=block.width * block.size in _MERGED_BYTES)
        requests, sent = merged.requests()
        bank = self._bank_rate(block, requests, merged.one_line(), beside, active)
        l2, memory, banks = self._model.l2_loads, self._model.memory_loads, self._model.banks
        by_l2 = self._in_flight(block, l2, requests, cores)
        by_memory = self._in_flight(block, memory, requests, cores)
        lines = banks.bytes_per_cycle * banks.count * self._bank_clock / active
        slowest = min(lines * block.nbytes / sent, bank)
        return (
            min(l2.shared_bytes_per_cycle / active, by_l2, l2.core_bytes_per_cycle, bank),
            min(
                memory.shared_bytes_per_cycle / active,
                by_memory,
                memory.core_bytes_per_cycle,
                slowest,
            ),
        )

    def _store_rate(self, m: _Edge, n: _Edge, active: int) -> float:
        """Bytes a cycle out of L0C."""
        shape = self._shape
        sizes = (m.chunk, n.chunk) if self._whole(m, n) else (min(m[:2]), min(n[:2]))
        block, path = _Block(*sizes, shape.n, shape.out_bytes), self._model.l2_stores
        merged = block.merged(narrow=block.width * block.size <= _HALF)
        requests = merged.stores()
        bank = self._bank_rate(block, requests, merged.stored_at_once(), 1, active)
        by_request = self._in_flight(block, path, requests, 1)
        shared, alone = path.shared_bytes_per_cycle / active, path.core_bytes_per_cycle
        return min(self._l0c, shared, by_request, alone, bank)

    def _in_flight(self, block: _Block, path: SearchedPath, requests: int, cores: int) -> float:
        """Bytes a cycle that requests in flight allow."""
        rate = block.nbytes * path.in_flight / (path.latency_cycles * requests)
        cycles = cores * block.nbytes / rate
        rate *= cycles / (cycles + path.latency_cycles / 2)
        fractals = block.width == block.pitch and block.width * block.size == 32
        return rate if fractals else rate * self._model.plain_row_fraction

    def _bank_rate(self, block: _Block, requests: int, same: int, cores: int, active: int) -> float:
        """Bytes a cycle that the banks of L2 allow, with requests for one address."""
        banks = self._model.banks
        part = cores * block.rows * max(block.width * self._size, _PACKET) / 1e6  # megabytes
        free = 1 - banks.conflict_reach * exp(-banks.conflict_decay_per_mb * part)
        penalty = cores * (same - 1) * requests / free * banks.conflict_share
        return block.nbytes / (requests * active / banks.count * self._bank_clock + penalty)

    @property
    def _bank_clock(self) -> float:
        """Cycles of the banks in one of a core."""
        return self._model.banks.clock_ghz / self._model.clock_ghz

    def _again(self, found: Found) -> tuple[int, int]:
        """How often A and B are loaded."""
        tiles = found.tiles
        wide, high = found.columns // tiles.n0, found.rows // tiles.m0
        deep = ceil(self._shape.k / self._lanes)
        all_a, all_b = tiles.ka >= deep, tiles.kb >= deep
        if found.full_a or found.full_b:
            if found.full_b:
                return 1 if found.full_a else wide, 1
            return 1, 1 if all_b else high
        if all_a:
            return 1, high
        return (wide, 1) if all_b else (wide, high)

    def _hits(
        self,
        edges: tuple[_Edge, _Edge],
        again: tuple[int, int],
        depths: tuple[int, int],
    ) -> tuple[float, float]:
        """Shares of loads that find their bytes in L2."""
        shape, (m, n) = self._shape, edges
        steps = [ceil(shape.k / each) for each in depths]
        all_a, all_b = (
            edge * shape.k * self._size * each
            for edge, each in zip((shape.m, shape.n), steps, strict=True)
        )
        now_a, now_b = (
            edge.cores * edge.chunk * depth * self._size * each
            for edge, depth, each in zip(edges, depths, steps, strict=True)
        )
        miss_a, miss_b = 1 / n.cores, 1 / m.cores
        repeated = miss_a / max(1, again[0]), miss_b / max(1, again[1])
        if all_a + min(all_b, now_b) <= self._l2:
            miss_a, miss_b = repeated
        elif now_a + min(all_b, now_b) <= self._l2:
            miss_b = repeated[1]
        return 1 - miss_a, 1 - miss_b

    # -- products --------------------------------------------------------------------------------

    def _fills(self, found: Found, edges: tuple[_Edge, _Edge]) -> tuple[float, float]:
        """Cycles of all fills of L0, and of one."""
        tiles, size, (m, n) = found.tiles, self._size, edges
        deep, step = round_up(self._shape.k, self._lanes), tiles.k0 * self._lanes
        rates = self._l0a, self._l0b
        times = found.columns // tiles.n0, found.rows // tiles.m0
        fills = sum(
            round_up(edge.total, 16) * deep * size * often / rate
            for edge, often, rate in zip(edges, times, rates, strict=True)
        )
        return fills, step * size * (m.chunk / rates[0] + n.chunk / rates[1])

    def _products(self, found: Found, edges: tuple[_Edge, _Edge]) -> tuple[float, float]:
        """Cycles of all products, and of one."""
        tiles, size, (m, n) = found.tiles, self._size, edges
        wide = self._shape.dtype is FLOAT
        lanes = (8 if self._shape.hf32 else 4) if wide else self._lanes
        step = tiles.k0 * self._lanes
        one = tiles.m0 * (step // lanes) * tiles.n0
        slower = max(
            m.chunk * step * size / self._l0a / one, n.chunk * step * size / self._l0b / one, 1.0
        )
        deep = round_up(round_up(self._shape.k, self._lanes), tiles.kb * self._lanes)
        return m.padded * deep * n.padded / (16 * lanes * 16) * slower, one


class _Block(NamedTuple):
    """Rows of ``width`` elements of ``size`` bytes out of rows of ``pitch``."""

    rows: int
    width: int
    pitch: int
    size: int

    @property
    def nbytes(self) -> int:
        """All of its bytes."""
        return self.rows * self.width * self.size

    def merged(self, *, narrow: bool) -> _Block:
        """One row where all rows lie side by side and are ``narrow``."""
        if self.width != self.pitch or not narrow:
            return self
        return _Block(1, self.rows * self.width, self.rows * self.pitch, self.size)

    def requests(self) -> tuple[int, int]:
        """Requests of a load, and bytes of the packets that they are."""
        period = _LINE // gcd(_LINE, self.pitch * self.size)  # after so many rows
        counted = [
            packets(row * self.pitch * self.size % _LINE, self.width * self.size, _LINE)
            for row in range(min(self.rows, period))
        ]
        times, more = divmod(self.rows, period)
        number, nbytes = (sum(each[i] for each in counted) for i in (0, 1))
        some = [sum(each[i] for each in counted[:more]) for i in (0, 1)]
        if not times:
            return number, nbytes
        return times * number + some[0], times * nbytes + some[1]

    def stores(self) -> int:
        """Requests of a store, in packets of at most half a line."""
        pitch = self.pitch * self.size
        period = _HALF // gcd(_HALF, pitch)
        counted = [self._stored(row * pitch % _HALF) for row in range(min(period, self.rows))]
        times, more = divmod(self.rows, period)
        return times * sum(counted) + sum(counted[:more])

    def _stored(self, begin: int) -> int:
        """Requests of a row that begins so far behind a half."""
        halves, rest = divmod(self.width * self.size, _HALF)
        if begin == 0:
            return halves + ceil(rest / _PACKET)
        if begin == _PACKET:
            return ceil(self.width * self.size / _PACKET)
        tail = rest - (_PACKET - begin % _PACKET)
        return 3 * halves + (ceil(tail / _PACKET) + 1 if rest else 0)

    def one_line(self) -> int:
        """Requests of a load for the same line at a time, at most."""
        width, pitch = self.width * self.size, self.pitch * self.size
        most = _in_line(width, 0)
        if self.rows == 1:
            return most
        places: range | tuple[int, ...] = range(1, 4)
        if pitch % _PACKET == 0:
            repeat = min(4, self.rows)
            places = ((), range(1, repeat), (2,), range(4 - repeat, 4))[pitch % _LINE // _PACKET]
        return max([most, *(_in_line(width, each) for each in places)]) + (pitch % _PACKET > 0)

    def stored_at_once(self) -> int:
        """Requests of a store for the same line at a time, at most."""
        width = self.width * self.size
        if self.pitch * self.size % _PACKET:
            return next((n for most, n in ((128, 2), (256, 3), (384, 5)) if width <= most), 6)
        return max(_stored_in_line(width), _stored_in_line(width - _LINE))


def _in_line(nbytes: int, place: int) -> int:
    """Requests of a row in one line, that begins at one of four places of a line."""
    if place == 0:
        alone = nbytes <= _PACKET or nbytes == _HALF or nbytes >= _LINE
        return 1 if alone else 2 if nbytes <= 384 else 3
    if nbytes <= _PACKET:
        return 1
    if place == 1:
        if nbytes < 384:
            return 2 if nbytes <= _HALF else 3
        return max(2, _in_line(nbytes - 384, 0))
    if place == 2:
        return 2 if nbytes < _HALF else _in_line(nbytes - _HALF, 0)
    return _in_line(nbytes - _PACKET, 0)


def _stored_in_line(nbytes: int) -> int:
    if nbytes <= _PACKET or nbytes == _HALF:
        return 1
    return 3 if 384 < nbytes < _LINE else 2

"""What one instruction costs on one chip.

Every number comes from the profile's tables; this module only knows how they are combined. An
instruction whose dtype has no row takes the row of the float type of the same width (that is how
the vendor's own fit falls back), and one without any row the profile's default.
"""

from __future__ import annotations

from math import ceil, gcd, inf, prod
from typing import TYPE_CHECKING, NamedTuple

from npusim.ascendc.packets import packets_of
from npusim.ascendc.queueing import Queue
from npusim.values.arithmetic import round_up

if TYPE_CHECKING:
    from collections.abc import Hashable

    from npusim.ascendc.passages import Passage
    from npusim.ascendc.recorder import Kept
    from npusim.engine import Code
    from npusim.hardware.groups import Path
    from npusim.hardware.profile import Profile

TURNED_LINES = 16  # lines of 32 bytes that vnchwconv turns at a time, and the halves of each

_SPECIAL = frozenset({"vexp", "vln", "vsqrt", "vrsqrt", "vrec", "vdiv"})  # iterative units
_FALLBACK = {1: "float16", 2: "float16", 4: "float32", 8: "float32"}


class GmCopy(NamedTuple):
    """What a copy from or to global memory takes.

    Fixed cycles, bytes on the bus, the greatest rate, cycles until the data are there, the L2 time
    on top of its own where all cores read the same lines, at which part of the usual rates the
    bytes are served, and the cycles that its rate is lowered by before the first byte.
    """

    cycles: float
    traffic_bytes: float
    bytes_per_cycle: float
    latency_cycles: float
    shared_cost: float
    rate_fraction: float
    setup_cycles: float


class _Rate(NamedTuple):
    """Cycles of each repeat of a vector instruction, a factor on them, and cycles once."""

    cycles_per_repeat: float
    scale: float
    start_cycles: float


class InstructionCosts:
    """Cycles of vector, cube and copy instructions of one profile.

    ``passages`` and ``bodies`` of loops are what parts of the one kernel that asks have been
    written down as; its code is ``for_any_shape`` or knows all sizes.
    """

    def __init__(self, profile: Profile, *, for_any_shape: bool = False) -> None:
        self.profile, self.for_any_shape = profile, for_any_shape
        self._rates: dict[tuple[str, str, int], _Rate] = {}
        self.passages: dict[Hashable, Passage | None] = {}
        self.bodies: dict[Hashable, Kept] = {}
        self._paths: dict[str, Path | None] = {}
        self._fractals: dict[tuple[int, tuple[int, ...], bool], int] = {}
        self._products: dict[tuple[str, int, int, int], float] = {}
        self._repeat_bytes = profile.vector.repeat_bytes
        self.line_bytes = profile.memory.l2_line_bytes
        self._block_bytes = profile.buffers.block_bytes
        self._issue_cycles = profile.scalar.issue_cycles

    def vector(
        self,
        intrinsic: str,
        dtype: str,
        itemsize: int,
        elements: int,
        *,
        rows: int = 1,
        chained: bool = True,
        by_blocks: bool = False,
    ) -> float:
        """Cycles of one vector instruction over ``rows`` rows of ``elements`` elements.

        A repeat takes one row, or ``by_blocks`` a block of each of eight rows (source: TBE's
        instructions with broadcast, public elewise_schedule.py). ``chained`` means that it reads
        what the instruction just before it wrote, so it pays the pipeline's depth; an independent
        instruction in a stream pays its repeats alone.
        """
        rate = self._rates.get((intrinsic, dtype, itemsize)) or self._rate(
            intrinsic, dtype, itemsize
        )
        repeats = self._repeats(rows, elements * itemsize, by_blocks=by_blocks)
        busy = repeats * rate.cycles_per_repeat
        busy *= rate.scale
        return busy + rate.start_cycles if chained else max(busy, self._issue_cycles)

    def _repeats(self, rows: int, row_bytes: int, *, by_blocks: bool) -> int:
        """How often a vector instruction goes through its lanes for ``rows`` rows."""
        block = self._block_bytes
        by_rows = rows * ceil(row_bytes / self._repeat_bytes)
        if not by_blocks or row_bytes % block:
            return by_rows
        return min(by_rows, ceil(rows * block / self._repeat_bytes) * (row_bytes // block))

    def row_fill(self, dtype: str, itemsize: int, elements: int, *, chained: bool) -> float:
        """Cycles of filling one row of a tile with a number, as a loop over its rows does it."""
        vector = self.profile.vector
        cycles = self.vector("vector_dup", dtype, itemsize, elements, chained=chained)
        if elements * itemsize % vector.repeat_bytes:
            cycles = max(cycles, vector.unaligned_floor_cycles)
        return cycles

    def scalar(
        self, *, loads: float = 0, stores: float = 0, operations: float = 0, turns: float = 0
    ) -> float:
        """Cycles of the scalar unit for elements of UB that it reads and writes one by one.

        ``operations`` are those of its ALU, ``turns`` those of a loop beside the body.
        """
        scalar = self.profile.scalar
        cycles = loads * scalar.ub_load_cycles + operations * scalar.alu_cycles
        return cycles + stores * scalar.ub_store_cycles + turns * scalar.loop_cycles

    def gm_element(self) -> float:
        """Cycles of reading one element of global memory through the scalar unit's cache."""
        return self.profile.scalar.gm_load_cycles

    def gm_lines(self, count: int) -> float:
        """Cycles of reading ``count`` lines of global memory that the cache doesn't hold."""
        return count * self.profile.scalar.gm_miss_cycles

    def ai_cpu(self, operations: float) -> float:
        """Cycles of the AI cores that pass while the AI CPUs do so many operations."""
        cpu = self.profile.ai_cpu
        return (cpu.task_us + operations * cpu.operation_ns / 1e3) * self.profile.clock_mhz

    def random_engine(self, numbers: int, bits: int) -> float:
        """Cycles of the AI cores that pass while the random engine draws so much."""
        engine = self.profile.random_engine
        drawn_us = (numbers * engine.number_ns + bits * engine.bit_ns) / 1e3
        return (engine.task_us + drawn_us) * self.profile.clock_mhz

    def core_flag_wait(self) -> float:
        """Cycles that the scalar unit spends on taking a flag of another core."""
        return self.profile.scalar.issue_cycles

    def messages(self, count: int) -> float:
        """Cycles of the scalar unit for messages by which vector cores ask for products."""
        return count * self.profile.launch.message_us * self.profile.clock_mhz

    def issue(self) -> float:
        """Cycles of the scalar unit for an instruction of another pipe: addresses, arguments."""
        return self.profile.scalar.argument_cycles

    def kernel_head(
        self,
        *,
        tiling_of: int,
        buffers: int = 0,
        prepares: bool = False,
        guarded: int = 0,
        begins_us: float = 0.0,
    ) -> float:
        """Cycles of the entry code of every kernel: argument loading, pipe set-up.

        ``tiling_of`` are the blocks that read tiling data, of which they choose among variants; 0
        in kernels for one shape. They reserve ``buffers``; ``prepares`` where it works out axes, or
        can wait for all cores; ``guarded`` are the operands of which a block finds out how much it
        has. ``begins_us`` comes on top.
        """
        launch = self.profile.launch
        cycles = launch.kernel_head_cycles + guarded * launch.guard_cycles
        if tiling_of:
            cycles += launch.tiling_head_cycles + (tiling_of - 1) * launch.tiling_per_block_cycles
        cycles += buffers * launch.buffer_cycles
        begins_us += launch.preparing_us if prepares else 0.0
        return cycles + begins_us * self.profile.clock_mhz

    def code_fetch(
        self,
        blocks: int,
        *,
        code: Code,
        fits: bool = True,
        many_variants: bool = False,
        mix: bool = False,
    ) -> float:
        """Cycles that a block of ``blocks`` waits for its code and tiling data.

        All cores read the same lines of them, which are served one after the other: the share that
        they have lost, or all where it never ``fits`` into the instruction caches. Where they are
        far away they come from HBM; a ``mix`` of cube and vector cores has many more. One of
        ``many_variants`` has more of both, and the more for every further block.
        """
        launch = self.profile.launch
        waiting_us = launch.code_us + launch.code_per_block_us * (blocks - 1)
        if code.far and mix:
            waiting_us += launch.mix_code_us + launch.mix_code_per_block_us * (blocks - 1)
        elif code.far and not (fits and code.one_shape):
            waiting_us += launch.code_far_us
        waiting_us *= _fetched(code, fits=fits)
        if many_variants:
            table_us = launch.variants_code_us + launch.variants_per_block_us * (blocks - 1)
            waiting_us += code.lost * table_us
        return waiting_us * self.profile.clock_mhz

    def code_queue(self, blocks: int, *, code: Code, fits: bool = True) -> Queue | None:
        """What the first transfers of a block of ``blocks`` wait for; None where code is there."""
        launch, clock = self.profile.launch, self.profile.clock_mhz
        apart = (blocks - 1) * clock * _fetched(code, fits=fits)
        load, store = apart * launch.load_queue_us, apart * launch.store_queue_us
        if not (load or store):
            return None
        return Queue(load, store, launch.code_spread_bytes)

    def repeat_elements(self, itemsize: int) -> int:
        """Elements that one repeat of a vector instruction covers."""
        return self._repeat_bytes // itemsize

    def fractal_bytes(self, itemsize: int, shape: tuple[int, ...], *, result: bool = False) -> int:
        """On-chip bytes of a matrix for the cube: its last two axes rounded up to whole fractals.

        A row of a fractal of operands is a block long, one of results ``fractal_n`` elements.
        """
        key = itemsize, shape, result
        found = self._fractals.get(key)
        if found is None:
            cube = self.profile.cube
            width = cube.fractal_n if result else self.profile.buffers.block_bytes // itemsize
            *outer, rows, columns = (1, *shape)
            whole = prod(outer) * round_up(rows, cube.fractal_m)
            found = self._fractals[key] = whole * ceil(columns / width) * width * itemsize
        return found

    def mmad(self, dtype: str, m: int, n: int, k: int) -> float:
        """Cycles of multiplying ``m x k`` by ``k x n`` elements of ``dtype`` in the cube."""
        key = dtype, m, n, k
        found = self._products.get(key)
        if found is None:
            found = self._products[key] = self._mmad(dtype, m, n, k)
        return found

    def _mmad(self, dtype: str, m: int, n: int, k: int) -> float:
        cube = self.profile.cube
        rate = cube.dtypes[dtype]
        high, deep = ceil(m / cube.fractal_m), ceil(k / rate.k_per_fractal)
        fractal_bytes = self.profile.buffers.block_bytes * cube.fractal_n
        fetch = fractal_bytes / (cube.l0b_bytes_per_cycle or inf)
        column = max(high * rate.cycles_per_fractal, fetch)  # one fractal of B with all of A's
        return cube.mad_start_cycles + ceil(n / cube.fractal_n) * deep * column

    def path(self, name: str) -> Path | None:
        """The profile's copy path of that name, None where the chip has none."""
        if name not in self._paths:
            self._paths[name] = getattr(self.profile.paths, name)
        return self._paths[name]

    def on_chip(self, path: Path, nbytes: float) -> float:
        """Cycles of a copy of one run between memories of the core."""
        return path.setup_cycles + nbytes / path.bytes_per_cycle

    def load3d(self, path: Path, nbytes: float, step_bytes: float) -> float:
        """Cycles of unfolding a feature map into ``nbytes`` of a matrix in L0.

        What positions side by side see is ``step_bytes`` apart in L1.
        """
        rate = self.profile.load3d_bytes_per_cycle(path, step_bytes)
        return self.profile.cube.load3d.setup_cycles + nbytes / rate

    def ub_bursts(self, bursts: int, blocks: int, stride: int) -> float:
        """Cycles of ``bursts`` runs of ``blocks`` blocks inside UB, stored ``stride`` blocks apart.

        Where that always meets the same bank groups the blocks are stored one by one.
        """
        path, buffers = self.profile.paths.ub_to_ub, self.profile.buffers
        each = max(blocks * buffers.block_bytes / path.bytes_per_cycle, path.burst_cycles)
        if stride and stride % buffers.ub_bank_groups == 0:
            each = blocks + path.burst_cycles
        return path.setup_cycles + bursts * each

    def bank_conflicts(self, apart_bytes: int) -> float:
        """How many times longer a repeat takes whose blocks lie so many bytes apart.

        Blocks that are a multiple of all bank groups apart lie in one of them, which serves one
        block a cycle instead of all eight (source: public Ascend C guide, avoiding bank conflicts).
        """
        buffers = self.profile.buffers
        around = buffers.ub_bank_groups * buffers.block_bytes
        if not apart_bytes or not around or apart_bytes % around:
            return 1.0
        return self._repeat_bytes / buffers.block_bytes

    def line_cycles(self, lines: int, apart_bytes: int) -> float:
        """Cycles in which the banks take a block of each of ``lines`` lines, so many bytes apart.

        A bank group takes one block a cycle; lines that meet few of the groups wait for them
        (source: public Ascend C guide, avoiding bank conflicts).
        """
        buffers = self.profile.buffers
        groups, blocks = int(buffers.ub_bank_groups), apart_bytes // buffers.block_bytes
        if not groups or not blocks:
            return 0.0
        return ceil(lines / (groups // gcd(groups, blocks)))

    def gm_copy(
        self,
        path: Path,
        run_bytes: int,
        runs: int,
        grain_bytes: int | None = None,
        *,
        rows_apart: bool,
        atomic_sharers: float,
        alone: bool = False,
        singly: bool = False,
    ) -> GmCopy:
        """A copy between global memory and UB of ``runs`` runs of ``run_bytes`` bytes.

        A load's runs start at multiples of ``grain_bytes``, by default of lines of L2. Strides in
        whole blocks can't step from row to row: ``rows_apart`` is then a copy per row, and always
        where the kernel moves them ``singly``. Stores of runs that are ``alone`` in their lines
        have these read and written as a whole.
        """
        busy, traffic = self._runs(path, run_bytes, runs)
        if singly or (rows_apart and not self.profile.has("data_move_pad")):
            busy += (runs - 1) * max(0.0, path.setup_cycles - path.burst_cycles)
        lines = self._lines(run_bytes, grain_bytes) * runs
        if alone:
            lines = 2.0 * round_up(run_bytes, self.profile.memory.l2_line_bytes) * runs
        rate = path.bytes_per_cycle
        return self._gm_copy(path, busy, traffic, rate, atomic_sharers, max(traffic, lines))

    def matrix_copy(
        self,
        path: Path,
        run_bytes: int,
        runs: int,
        grain_bytes: int,
        *,
        atomic_sharers: float,
        turned: bool = False,
    ) -> GmCopy:
        """A copy of ``runs`` runs of a matrix between global memory and the cube's memories.

        They go as packets that don't cross a line of L2, and each takes the time of a whole line.
        Rows that are ``turned`` into fractals go as lines, halves and quarters of lines that begin
        at multiples of their size. Runs start at multiples of ``grain_bytes``, which decides how
        many packets they are on average. Source: public cube tiling model of the vendor (cann-ops,
        cache_tiling_request_bytes.cc); rows of 128 bytes take 3.4 to 3.6 cycles on dav-c220
        (asc-devkit, matmul sample).
        """
        line, granule = self.line_bytes, path.granule_bytes
        traffic = runs * ceil(run_bytes / granule) * granule
        if turned:
            cut = packets_of(run_bytes, grain_bytes, line)
        else:
            cut = (round_up(run_bytes, grain_bytes) + line - grain_bytes) / line
        served = max(float(traffic), self._lines(run_bytes, grain_bytes) * runs)
        rate = path.bytes_per_cycle * min(1.0, served / (runs * cut * line))
        busy = path.setup_cycles
        return self._gm_copy(path, busy, float(traffic), rate, atomic_sharers, served)

    def _lines(self, run_bytes: int, grain_bytes: int | None) -> float:
        """Bytes that memory serves for a run that starts at multiples of ``grain_bytes``.

        Whole lines of L2 if that is in the middle of a block, else none that aren't asked for
        (source: asc-devkit, data_copy sample; where rows are 24,574 bytes apart, pieces of 512
        bytes take 1.91 and those of 2 KiB 1.28 times as long as aligned ones, which is by how many
        more lines they touch; pieces of 128 bytes that begin at whole sectors take 1.08).
        """
        line = self.line_bytes
        if grain_bytes is None or not grain_bytes % self._block_bytes:
            return 0.0
        return float(round_up(run_bytes, grain_bytes) + line - grain_bytes)

    def fixpipe_rate(self, shrink: float, lanes: int = 0) -> float:
        """Bytes per cycle that leave L0C, where each is worth ``shrink`` of those that are read.

        They are read and sent on in turns (source: cann-ops, GemmCycleModelL0c2out), or where
        blocks of ``lanes`` columns split fractals, piece by piece (channelSplit of Fixpipe).
        """
        cube = self.profile.cube
        if 0 < lanes < cube.fractal_n and cube.fixpipe_split_bytes_per_cycle is not None:
            return cube.fixpipe_split_bytes_per_cycle
        read = 1 / (shrink * (cube.l0c_read_bytes_per_cycle or inf))
        sent = 1 / (cube.fixpipe_bytes_per_cycle or inf)
        return 1 / (read + sent) if read + sent else inf

    def taking_turns(self, sharers: float) -> float:
        """Cycles that a load waits for those of other cores from the same line of L2.

        Source: public Ascend C guide, avoiding same-address access: whatever lies in 512 bytes is
        served one after the other.
        """
        return (sharers - 1) * self.profile.memory.load_conflict_cycles

    def adding_at_once(self, cores: int) -> float:
        """How many of ``cores`` that add once, at the end of alike work, do so at a time.

        Blocks are started one after the other, so they end one after the other too; they meet as
        far as an addition takes longer than starting a block.
        """
        profile = self.profile
        apart = profile.launch.per_block_us * profile.clock_mhz
        waiting = max(0.0, 1 - apart / max(1.0, profile.memory.atomic_conflict_cycles))
        return 1 + (cores - 1) * waiting

    def core_flag_delay(self) -> float | None:
        """Cycles that a flag takes from core to core; None on chips without such flags."""
        delay_us = self.profile.launch.sync_flag_us
        return None if delay_us is None else delay_us * self.profile.clock_mhz

    def _runs(self, path: Path, run_bytes: int, runs: int) -> tuple[float, float]:
        """Fixed cycles of several runs, and their bytes on the bus."""
        granule = path.granule_bytes
        traffic = float(runs * ceil(run_bytes / granule) * granule)
        if runs > 1 and run_bytes % granule and path.ragged_burst_cycles:
            return path.setup_cycles + runs * path.ragged_burst_cycles, traffic
        return path.setup_cycles + (runs - 1) * path.burst_cycles, traffic

    def _gm_copy(
        self,
        path: Path,
        busy: float,
        traffic: float,
        rate: float,
        sharers: float,
        served: float,
    ) -> GmCopy:
        """A copy; with ``sharers`` it adds, into lines that so many cores add to at a time.

        Its requests leave one by one while the data of others are on their way: the ``busy`` cycles
        of the pipe lower the rate that it reaches by itself, and take none of the time it waits
        for memory (source: asc-devkit, data_copy sample; 64 runs of 128 bytes read as fast as runs
        of 2 KiB as long as HBM is what all cores wait for). ``served`` are the bytes that memory
        serves for those of the ``traffic``.
        """
        cycles, fraction, memory = 0.0, traffic / served if served else 1.0, self.profile.memory
        if served:
            rate = served / (busy + served / rate)
        if sharers:
            cycles += (sharers - 1) * memory.atomic_conflict_cycles
            fraction *= memory.atomic_rate_fraction
            rate /= memory.atomic_rate_fraction  # a core stores as ever; L2 reads besides it
        shared_cost = 1.0 / path.shared_fraction - 1.0
        latency, setup = path.latency_cycles, path.setup_cycles
        return GmCopy(cycles, traffic, rate, latency, shared_cost, fraction, setup)

    def _rate(self, intrinsic: str, dtype: str, itemsize: int) -> _Rate:
        vector = self.profile.vector
        rows = vector.instructions.get(intrinsic, {})
        rate = rows.get(dtype) or rows.get(_FALLBACK.get(itemsize, "float32")) or vector.default
        scale = vector.special_scale if intrinsic in _SPECIAL else vector.simple_scale
        start_cycles = rate.start_cycles * vector.start_scale
        found = _Rate(rate.cycles_per_repeat, scale, start_cycles)
        self._rates[intrinsic, dtype, itemsize] = found
        return found


def _fetched(code: Code, *, fits: bool) -> float:
    """The share of a kernel's code that is fetched; what never ``fits`` comes anew each time."""
    return code.lost or (0.0 if fits else 1.0)

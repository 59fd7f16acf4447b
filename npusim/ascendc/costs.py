"""What one instruction costs on one chip.

Every number comes from the profile's tables; this module only knows how they are combined. An
instruction whose dtype has no row takes the row of the float type of the same width (that is how
the vendor's own fit falls back), and one without any row the profile's default.
"""

from __future__ import annotations

from math import ceil, prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npusim.hardware.profile import Path, Profile, Rate

_SPECIAL = frozenset({"vexp", "vln", "vsqrt", "vrsqrt", "vrec", "vdiv"})  # iterative units
_FALLBACK = {1: "float16", 2: "float16", 4: "float32", 8: "float32"}


class InstructionCosts:
    """Cycles of vector, cube and copy instructions of one profile."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self._rates: dict[tuple[str, str, int], Rate] = {}
        self._repeat_bytes = profile.vector.repeat_bytes

    def vector(
        self,
        intrinsic: str,
        dtype: str,
        itemsize: int,
        elements: int,
        *,
        rows: int = 1,
        chained: bool = True,
    ) -> float:
        """Cycles of one vector instruction over ``rows`` rows of ``elements`` elements.

        ``chained`` means that it reads what the instruction just before it wrote, so it pays the
        pipeline's depth; an independent instruction in a stream pays its repeats alone.
        """
        rate = self._rate(intrinsic, dtype, itemsize)
        repeats = rows * ceil(elements * itemsize / self._repeat_bytes)
        scales = self.profile.vector
        special = intrinsic in _SPECIAL
        busy = repeats * rate.cycles_per_repeat
        busy *= scales.special_scale if special else scales.simple_scale
        return (
            busy + rate.start_cycles * scales.start_scale
            if chained
            else max(busy, self.profile.scalar.issue_cycles)
        )

    def repeat_elements(self, itemsize: int) -> int:
        """Elements that one repeat of a vector instruction covers."""
        return self._repeat_bytes // itemsize

    def fractal_bytes(self, itemsize: int, shape: tuple[int, ...], *, result: bool = False) -> int:
        """On-chip bytes of a matrix for the cube: its last two axes rounded up to whole fractals.

        A row of a fractal of operands is a block long, one of results ``fractal_n`` elements.
        """
        cube = self.profile.cube
        width = cube.fractal_n if result else self.profile.buffers.block_bytes // itemsize
        *outer, rows, columns = (1, *shape)
        whole_rows = ceil(rows / cube.fractal_m) * cube.fractal_m
        return prod(outer) * whole_rows * ceil(columns / width) * width * itemsize

    def mmad(self, dtype: str, m: int, n: int, k: int) -> float:
        """Cycles of multiplying ``m x k`` by ``k x n`` elements of ``dtype`` in the cube."""
        cube = self.profile.cube
        rate = cube.dtypes[dtype]
        fractals = (
            ceil(m / cube.fractal_m) * ceil(n / cube.fractal_n) * ceil(k / rate.k_per_fractal)
        )
        return cube.mad_start_cycles + fractals * rate.cycles_per_fractal

    def path(self, name: str) -> Path | None:
        """The profile's copy path of that name, None where the chip has none."""
        found: Path | None = getattr(self.profile.paths, name)
        return found

    def copy(self, path: Path, burst_bytes: int, bursts: int, *, gap: bool) -> tuple[float, float]:
        """Fixed cycles and bytes on the bus of a copy of ``bursts`` runs of ``burst_bytes`` bytes.

        ``gap`` says whether the runs are apart in global memory; adjacent ones make one long burst.
        """
        if not gap:
            burst_bytes, bursts = burst_bytes * bursts, 1
        granule = path.granule_bytes
        traffic = float(bursts * ceil(burst_bytes / granule) * granule)
        if bursts > 1 and burst_bytes % granule and path.ragged_burst_cycles:
            return path.setup_cycles + bursts * path.ragged_burst_cycles, traffic
        return path.setup_cycles + (bursts - 1) * path.burst_cycles, traffic

    def matrix_copy(
        self, path: Path, run_bytes: int, runs: int, grain_bytes: int
    ) -> tuple[float, float, float]:
        """Fixed cycles, bytes on the bus and greatest rate of moving ``runs`` runs of a matrix.

        They go as packets that don't cross a line of L2, and each takes the time of a whole line.
        Runs start at multiples of ``grain_bytes``: on average that decides how many lines they cut.
        Source: public cube tiling model of the vendor; rows of 128 bytes take 3.4 to 3.6 cycles on
        dav-c220 (asc-devkit, matmul sample), those of 512 bytes that don't start at a line nearly
        twice as long as others (data_copy sample).
        """
        line = self.profile.memory.l2_line_bytes
        traffic = runs * ceil(run_bytes / path.granule_bytes) * path.granule_bytes
        cut = (ceil(run_bytes / grain_bytes) * grain_bytes + line - grain_bytes) / line
        rate = path.bytes_per_cycle * min(1.0, traffic / (runs * cut * line))
        return path.setup_cycles, float(traffic), rate

    def _rate(self, intrinsic: str, dtype: str, itemsize: int) -> Rate:
        key = (intrinsic, dtype, itemsize)
        rate = self._rates.get(key)
        if rate is None:
            vector = self.profile.vector
            rows = vector.instructions.get(intrinsic, {})
            rate = rows.get(dtype) or rows.get(_FALLBACK.get(itemsize, "float32")) or vector.default
            self._rates[key] = rate
        return rate

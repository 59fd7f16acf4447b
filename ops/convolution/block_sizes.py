"""The parts of a convolution that cores work on, and the sizes of blocks that fit into L0."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from npusim.library.unfolded import plane_rows
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from npusim.hardware.profile import Profile
    from npusim.ops.convolution.geometry import Geometry
    from npusim.values.dtypes import DType

_FRACTALS = (128, 96, 64, 48, 32, 24, 20, 16, 12, 10, 8, 6, 5, 4, 3, 2, 1)  # of an edge of a block
_USUAL = slice(2, 4)  # of them, for a first look


@dataclass(frozen=True, slots=True)
class Job:
    """What decides about a tiling.

    ``steps_out`` are vector instructions on results before they are stored; ``sums`` says that
    results are added up for each channel, too, ``uneven`` that images needn't be shared in equal
    parts, ``dilated`` that planes get zeros between elements. What windows see comes from memory in
    runs of ``gathered_bytes``, where it isn't unfolded in L1.
    """

    geometry: Geometry
    dtype: DType
    out_bytes: int
    hf32: bool = False
    has_bias: bool = False
    steps_out: float = 0
    sums: bool = False
    uneven: bool = False
    dilated: bool = False
    gathered_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Grid:
    """Parts of the images, of all groups' output channels, and of the positions of an image."""

    images: int
    columns: int
    rows: int

    @property
    def cores(self) -> int:
        """Cores that have a part."""
        return self.images * self.columns * self.rows


def part_of(total: int, parts: int, grain: int) -> int:
    """Elements of a part, in whole fractals."""
    return total if parts == 1 else ceil(ceil(total / grain) / parts) * grain


class Part(NamedTuple):
    """What the core with most to do has on a grid, numbers or arrays of them.

    Images, groups, positions and output channels, these two also in fractals; bytes of weights and
    from HBM that a core gets each cycle; and whether the positions begin a row.
    """

    images: Any
    groups: Any
    m: Any
    n: Any
    high: Any
    wide: Any
    b_rate: Any
    hbm: Any
    aligned: Any

    @classmethod
    def of(cls, profile: Profile, geometry: Geometry, grid: Grid) -> Part:
        """The part of a core on a grid."""
        path, grain = profile.paths.gm_to_l1, profile.cube.fractal_m
        m = min(geometry.positions, part_of(geometry.positions, grid.rows, grain))
        n = part_of(geometry.out_channels, max(1, grid.columns // geometry.groups), grain)
        shared = grid.images * grid.rows > 1
        return cls(
            ceil(geometry.images / grid.images),
            ceil(geometry.groups / grid.columns),
            m,
            n,
            ceil(m / grain),
            ceil(n / grain),
            path.bytes_per_cycle * (path.shared_fraction if shared else 1.0),
            profile.hbm_sustained_gbps * 1e3 / profile.clock_mhz / grid.cores,
            grid.rows == 1,
        )


class Sizes(NamedTuple):
    """Sizes of blocks that fit into L0, a row each.

    The ``place`` of a grid, a core's part on it, rows, columns and depth of blocks, bytes that one
    sees of a slice of channels, whether it is looked at first, and how many there are.
    """

    place: NDArray[Any]
    part: Part
    base_m: NDArray[Any]
    base_n: NDArray[Any]
    base_k: NDArray[Any]
    slice_bytes: NDArray[Any]
    usual: NDArray[Any]
    tall: NDArray[Any]
    broad: NDArray[Any]

    @classmethod
    def of(cls, profile: Profile, job: Job, grids: list[Grid]) -> Sizes:
        """Those of all grids, one after the other."""
        parts = [Part.of(profile, job.geometry, grid) for grid in grids]
        rows = [row for place, part in enumerate(parts) for row in _rows(profile, job, place, part)]
        table = np.array(rows, float).T
        buffers, size = profile.buffers, job.dtype.itemsize
        grain, lanes = profile.cube.fractal_m, buffers.block_bytes // size
        deep = max(grain, lanes)  # of pieces that are turned on their way into L0B
        in_l0 = np.minimum(buffers.l0a_bytes // table[1], buffers.l0b_bytes // table[2])
        base_k = in_l0 // (2 * size) // deep * deep
        fits = base_k > 0
        base_k = np.minimum(base_k, round_up(round_up(job.geometry.depth, lanes), deep))
        place, base_m, base_n, slice_bytes, usual = table[:, fits, None]
        part = Part(*np.array(parts, float)[place[:, 0].astype(int)].T[:, :, None])
        tall, broad = np.ceil(part.m / base_m), np.ceil(part.n / base_n)
        last = usual > 0, tall, broad
        return cls(place[:, 0], part, base_m, base_n, base_k[fits, None], slice_bytes, *last)


def _rows(profile: Profile, job: Job, place: int, part: Part) -> Iterator[tuple[int, ...]]:
    """Place, rows and columns of blocks, the bytes that they see, and whether they are usual."""
    buffers, grain = profile.buffers, profile.cube.fractal_m
    deep = max(grain, buffers.block_bytes // job.dtype.itemsize)
    table = buffers.bias_table_bytes if job.has_bias else None
    widest = min(part.n, (table or part.n * FLOAT.itemsize) // FLOAT.itemsize)
    results = buffers.l0c_bytes // FLOAT.itemsize
    high, wide = _edges(part.m, grain), _edges(part.n, deep)
    seen: dict[int, int] = {}
    usual = _within(wide[_USUAL], widest, deep)
    for base_n in _within(wide, widest, deep):
        most = results // base_n
        those = _within(high[_USUAL], most, grain) if base_n in usual else []
        for base_m in _within(high, most, grain):
            if base_m not in seen:
                seen[base_m] = _slice_bytes(job, part, base_m)
            yield place, base_m, base_n, seen[base_m], base_m in those


def _edges(total: int, grain: int) -> list[tuple[int, int]]:
    """Edges of blocks that cut a total as evenly as fractals allow, with the longest that each is.

    The longest come first.
    """
    whole = ceil(total / grain)
    return [(each * grain, ceil(whole / ceil(whole / each)) * grain) for each in _FRACTALS]


def _within(edges: list[tuple[int, int]], most: int, least: int) -> list[int]:
    """Those that aren't longer; the least where all are."""
    return list(dict.fromkeys(edge for longest, edge in edges if longest <= most)) or [least]


def _slice_bytes(job: Job, part: Part, base_m: int) -> int:
    """Bytes of the rows that a block sees of the planes of a slice of channels."""
    geometry, size = job.geometry, job.dtype.itemsize
    window, lanes = geometry.window, geometry.lanes
    if window.is_point and not job.dilated:
        return base_m * lanes * size
    rows = plane_rows(
        window, geometry.plane, geometry.out_plane, min(base_m, part.m), aligned=part.aligned
    )
    return rows * geometry.plane[1] * lanes * size

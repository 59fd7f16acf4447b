"""How a convolution is cut: images, output channels and positions for the cores, blocks for each.

Cores share the images in equal parts first, then blocks of output channels in equal parts, then
positions. Sources: profiled block counts of the first generation and of A2, where 32 and 64 images
are shared by 16 cores, of 24 and of 30; ops-nn, conv/conv3d_v2 (axes that are split, what stays in
L1, ping-pong of L0); TBE, conv2d (whole slices of channels in L1).

All cores share the images of an input's gradient, two or three each of 64 on 30 cores; so do they
where results are summed up, if no smaller number has as little to do at most (32 images take 16
cores). There an image that has more positions than L0A takes at a time may be parted, too; while a
block is summed up, the cube waits
(convolutions with BNTrainingReduce take as long as products and sums one after the other). Of the
blocks that fit into the memories those are taken with which the busiest pipe is busy for the
shortest time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, inf
from typing import TYPE_CHECKING, NamedTuple

from npusim.ops.convolution.block_costs import BlockCosts
from npusim.ops.convolution.block_sizes import Grid, Job, part_of
from npusim.values.arithmetic import divisors, greatest_divisor, round_up
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile
    from npusim.library.matmul_tiling import MatmulTiling

_SHORTLIST = 3  # grids that are looked at with every block


class Share(NamedTuple):
    """What a core does: images, output channels of packed groups, and positions."""

    image: int
    images: int
    group: int
    column: int
    columns: int
    row: int
    rows: int


@dataclass(frozen=True, slots=True)
class Tiling:
    """A grid, and the blocks that a core works in."""

    job: Job
    grid: Grid
    blocks: MatmulTiling
    grain: int

    @property
    def block_dim(self) -> int:
        """Cores in use."""
        return self.grid.cores

    def shares(self, core: int) -> list[Share]:
        """What a core does, a packed group after the other."""
        geometry, grid = self.job.geometry, self.grid
        rest, part = divmod(core, grid.rows)
        image, column = divmod(rest, grid.columns)
        each, more = divmod(geometry.images, grid.images)
        first, images = image * each + min(image, more), each + (image < more)
        high = part_of(geometry.positions, grid.rows, self.grain)
        row = part * high
        rows = min(high, geometry.positions - row)
        groups = max(1, geometry.groups // grid.columns)
        if geometry.groups >= grid.columns:
            chosen = range(column * groups, min(geometry.groups, (column + 1) * groups))
            return [
                Share(first, images, group, 0, geometry.out_channels, row, rows)
                for group in chosen
                if rows > 0
            ]
        group, place = divmod(column * geometry.groups, grid.columns)
        wide = part_of(geometry.out_channels, grid.columns // geometry.groups, self.grain)
        begin = place // geometry.groups * wide
        columns = min(wide, geometry.out_channels - begin)
        if rows <= 0 or columns <= 0:
            return []
        return [Share(first, images, group, begin, columns, row, rows)]


@lru_cache(maxsize=4096)
def tiling_of(profile: Profile, job: Job) -> Tiling:
    """The tiling of a convolution on a chip."""
    grain = profile.cube.fractal_m
    grids = list(_grids(profile, job))
    costs = BlockCosts(profile, job, grids)
    least, blocks, grid = inf, None, grids[0]
    for place in sorted(range(len(grids)), key=costs.usual)[:_SHORTLIST]:
        cycles, better = costs.best(place, least)
        if better is not None:
            least, blocks, grid = cycles, better, grids[place]
    if blocks is None:
        rows, columns = job.geometry.plane
        problem = f"what windows see of planes of {rows} x {columns} doesn't fit into L1"
        raise KernelError("Conv2D", problem)
    return Tiling(job, grid, blocks, grain)


def _grids(profile: Profile, job: Job) -> Iterator[Grid]:
    """As many parts of the images as there are cores for; then of the rest what fits."""
    geometry, cores, grain = job.geometry, profile.cores.cube_cores, profile.cube.fractal_m
    high = ceil(geometry.positions / grain)
    longest = profile.buffers.l0a_bytes // (2 * grain * profile.buffers.block_bytes)
    images = greatest_divisor(geometry.images, cores)
    if job.uneven:
        images = min(geometry.images, cores)
        if images < cores and _stays_in_l0(profile, job):
            images = _most_parts_of_cores(geometry.images, cores)
            yield Grid(images, 1, min(high, cores // images))
            return
    if job.sums and geometry.images > cores:
        fewest = ceil(geometry.images / cores)  # images of a part
        most = min(geometry.images, 4 * fewest)
        parts = {ceil(geometry.images / each) for each in range(fewest, most + 1)}
        if geometry.images % max(parts):  # no core has less to do for parts of equal sizes
            parts = parts - {max(parts)} | {cores}
        for images in sorted(parts):
            yield Grid(images, 1, min(max(1, high // longest), cores // images))
        return
    blocks = geometry.groups * ceil(geometry.out_channels / grain)
    for columns in range(1, cores // images + 1):
        if blocks % columns or (geometry.groups % columns and columns % geometry.groups):
            continue
        rows = min(high, cores // images // columns)
        yield Grid(images, columns, ceil(high / ceil(high / rows)))


def _stays_in_l0(profile: Profile, job: Job) -> bool:
    """Whether a compiled kernel loads all weights into L0B once, beside those of the next product.

    Then nothing is loaded again for parts of an image. Source: profiled block counts of 16 images,
    with 4 to 32 fractals of weights and with 64 and more.
    """
    geometry = job.geometry
    weights = round_up(geometry.depth, profile.cube.fractal_m) * geometry.out_channels
    fits = 4 * weights * job.dtype.itemsize <= profile.buffers.l0b_bytes
    point = geometry.window.is_point and not job.dilated and geometry.groups == 1
    return profile.software.compiled_for_shape and point and fits


def _most_parts_of_cores(images: int, cores: int) -> int:
    """The equal parts of the images that leave fewest cores without one, with parts of each."""
    return max(divisors(images), key=lambda each: (cores // each * each, each))

"""Blocks of convolutions: they fit into the memories, and none that fit take less."""

from __future__ import annotations

from math import ceil, inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.ascendc.windows import Padding, Window
from npusim.hardware import load_profile
from npusim.ops.convolution.block_costs import BlockCosts
from npusim.ops.convolution.block_sizes import Grid, Job
from npusim.ops.convolution.geometry import Geometry
from npusim.ops.convolution.tiling import tiling_of
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT, FLOAT16
from support.tasks import CHIPS

EDGE = st.integers(1, 20)


def job_of(kernel: int, stride: int, images: int, slices: int, outs: int, size: int) -> Job:
    """Of planes of ``size`` + ``kernel`` rows and columns, in halves."""
    around = Padding(*[kernel // 2] * 4)
    window = Window((kernel, kernel), (stride, stride), padding=around)
    plane = size + kernel, size + kernel
    given = images, slices, 16, plane, outs, 16, window.positions(plane), window
    return Job(Geometry(*given), FLOAT16, FLOAT16.itemsize)


JOBS = st.builds(
    job_of, st.sampled_from([1, 2, 3, 5]), st.integers(1, 2), EDGE, EDGE, EDGE, st.integers(1, 99)
)


@pytest.mark.parametrize("chip", CHIPS)
@given(JOBS)
def test_blocks_fit_into_the_memories(chip: str, job: Job) -> None:
    profile = load_profile(chip)
    blocks, buffers, size = tiling_of(profile, job).blocks, profile.buffers, job.dtype.itemsize
    results = blocks.base_m * blocks.base_n * FLOAT.itemsize
    assert blocks.depth_c * results <= buffers.l0c_bytes
    assert 2 * blocks.base_m * blocks.base_k * size <= buffers.l0a_bytes
    assert 2 * blocks.base_n * blocks.base_k * size <= buffers.l0b_bytes
    whole_b = blocks.base_n * round_up(job.geometry.depth, blocks.base_k) * size
    tile_b = blocks.base_n * blocks.step_k * size
    of_a = blocks.panels if blocks.keep_a and not blocks.keep_b else blocks.depth_1
    of_b = blocks.panels * blocks.wide * whole_b if blocks.keep_b else blocks.depth_1 * tile_b
    assert of_a * blocks.a_bytes + of_b <= buffers.l1_bytes


@pytest.mark.parametrize("chip", CHIPS)
@given(JOBS, st.integers(1, 4), st.integers(1, 4))
def test_the_best_blocks_of_a_grid_are_those_that_it_has_alone(
    chip: str, job: Job, columns: int, rows: int
) -> None:
    """Whatever other grids are looked at beside it; the first that fit take no less."""
    profile, geometry = load_profile(chip), job.geometry
    grids = [Grid(1, 1, 1), Grid(1, min(columns, geometry.out_slices), rows), Grid(1, 1, rows)]
    together = BlockCosts(profile, job, grids)
    for place, grid in enumerate(grids):
        alone = BlockCosts(profile, job, [grid])
        cycles, blocks = alone.best(0, inf)
        assert together.best(place, inf) == (cycles, blocks)
        assert together.usual(place) == alone.usual(0) >= cycles
        assert alone.best(0, cycles) == (cycles, None)  # none is better than the best


def test_products_take_at_least_the_cubes_time() -> None:
    profile, job = load_profile("Ascend910B3"), job_of(3, 1, 8, 16, 16, 53)
    geometry, rate = job.geometry, profile.cube.dtypes["float16"]
    fractals = ceil(geometry.positions / 16) * geometry.out_slices
    fractals *= geometry.images * ceil(geometry.depth / rate.k_per_fractal)
    tiling = tiling_of(profile, job)
    cycles, _ = BlockCosts(profile, job, [tiling.grid]).best(0, inf)
    cube = fractals * rate.cycles_per_fractal / tiling.grid.cores
    assert cube < cycles < 2 * cube

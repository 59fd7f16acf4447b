"""Launches from Python of more blocks than there are cores: in rounds, up to a limit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import npusim
from npusim.ascendc import FLOAT, TPosition, TQue
from npusim.values.errors import ArgumentError, KernelError

TILE = 256
CHIPS = ("Ascend910A", "Ascend910B3", "Ascend310P3")


@npusim.kernel
def numbered(core: Any, x: Any, z: Any) -> None:
    """Every block adds its number, and the number of blocks, to its share."""
    que, out = TQue(TPosition.VECIN, 1, "x"), TQue(TPosition.VECOUT, 1, "z")
    core.pipe.init_buffer(que, 2, TILE * 4)
    core.pipe.init_buffer(out, 2, TILE * 4)
    block = core.get_block_idx()
    share = x.numel // core.get_block_num()
    for first, count in core.tiles(block * share, share, TILE):
        tile = que.copy_in(x.span(first, count))
        added = core.adds(
            out.alloc_tensor(z.dtype, count), tile, float(block + 1000 * core.get_block_num())
        )
        que.free_tensor(tile)
        out.copy_out(z.span(first, count), added)


def _launched(chip: str, blocks: int, *, exact: bool = False) -> npusim.Result:
    x = np.random.default_rng(blocks).random(blocks * TILE, np.float32)
    z = np.zeros_like(x)
    result = npusim.Device(chip, exact=exact).launch(numbered, x, z, block_dim=blocks)
    number = np.repeat(np.arange(blocks, dtype=np.float32), TILE) + np.float32(1000 * blocks)
    np.testing.assert_allclose(z, x + number, rtol=1e-6)
    assert result.tasks[0].block_dim == blocks
    return result


@pytest.mark.parametrize("chip", CHIPS)
def test_every_block_runs_and_time_is_that_of_rounds(chip: str) -> None:
    profile = npusim.Device(chip).profile
    cores = profile.cores.vector_cores
    times = {rounds: _launched(chip, rounds * cores).duration_us for rounds in (1, 2, 4, 6, 8)}
    assert times[1] < times[2] < times[4]
    assert times[8] - times[6] == pytest.approx(times[6] - times[4], rel=0.01)
    assert times[6] - times[4] > 0.99 * 2 * cores * profile.launch.per_block_us
    ragged = _launched(chip, 4 * cores + 1).duration_us
    assert times[4] < ragged < 1.25 * times[4]


@pytest.mark.parametrize("blocks", [41, 397])
def test_jumping_over_rounds_changes_no_time(blocks: int) -> None:
    quick, exact = (_launched("Ascend910B3", blocks, exact=exact) for exact in (False, True))
    assert quick.duration_us == pytest.approx(exact.duration_us, rel=1e-9)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("blocks", [0, 65_536, 70_000])
def test_a_grid_that_no_launch_has_is_refused_at_once(chip: str, blocks: int) -> None:
    spec = npusim.TensorSpec((70_000 * TILE,), "float32")
    with pytest.raises(ArgumentError, match=f"block_dim={blocks}.* 1 to 65535 .*107000"):
        npusim.Device(chip).launch(numbered, spec, spec, block_dim=blocks)


def test_the_largest_grid_is_launched() -> None:
    spec = npusim.TensorSpec((65_535,), "float32")

    @npusim.kernel
    def idle(core: Any, x: Any) -> None:
        assert core.get_block_idx() < x.numel

    result = npusim.Device("Ascend910B3").launch(idle, spec, block_dim=65_535)
    assert result.duration_us == pytest.approx(65_535 * 0.028, rel=0.1)  # the launch of blocks


def test_meeting_of_more_blocks_than_cores_is_refused() -> None:
    @npusim.kernel
    def meeting(core: Any, x: Any) -> Any:
        assert x.numel
        yield core.sync_all()

    spec = npusim.TensorSpec((64,), "float32")
    npu = npusim.Device("Ascend910B3")
    assert npu.launch(meeting, spec, block_dim=40).duration_us > 0
    with pytest.raises(KernelError, match="sync_all of 41 blocks on 40 cores"):
        npu.launch(meeting, spec, block_dim=41)


@npusim.kernel(is_mix=True)
def handed_over(core: Any, x: Any, z: Any) -> Any:
    """The cube core tells its vector cores to begin; each works on half of the block's share."""
    if core.unit.kind == "cube":
        core.cross_core_set_flag(0, npusim.ascendc.Pipe.FIXP)
        yield from ()
        return
    que = TQue(TPosition.VECIN, 1, "x")
    out = TQue(TPosition.VECOUT, 1, "z")
    core.pipe.init_buffer(que, 1, TILE * 4)
    core.pipe.init_buffer(out, 1, TILE * 4)
    yield core.cross_core_wait_flag(0)
    first = (core.get_block_idx() * 2 + core.get_sub_block_idx()) * TILE
    tile = que.copy_in(x.span(first, TILE))
    doubled = core.muls(out.alloc_tensor(FLOAT, TILE), tile, 2.0)
    que.free_tensor(tile)
    out.copy_out(z.span(first, TILE), doubled)


def test_clusters_of_a_mix_kernel_go_in_rounds_too() -> None:
    """20 cube cores run 20 blocks at once: 200 blocks take ten rounds, not one."""
    times = {}
    for blocks in (20, 21, 200):
        x = np.random.default_rng(1).random(blocks * 2 * TILE, np.float32)
        z = np.zeros_like(x)
        result = npusim.Device("Ascend910B3").launch(handed_over, x, z, block_dim=blocks)
        np.testing.assert_array_equal(z, 2 * x)
        assert len(result.timeline.cores) == 60
        times[blocks] = result.duration_us
    assert times[20] < times[21] < times[200]
    assert times[200] > 3 * times[20]
    specs = [npusim.TensorSpec((400 * TILE,), "float32")] * 2
    exact = npusim.Device("Ascend910B3", exact=True).launch(handed_over, *specs, block_dim=200)
    assert exact.duration_us == pytest.approx(times[200], rel=1e-9)

"""Kernels of one's own on a device: arrays give numbers and time, shapes the same time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import npusim
from npusim import Device, TensorSpec
from npusim.ascendc import Core, GlobalTensor, Kernel, TPosition, TQue
from npusim.values.errors import ArgumentError, KernelCodeError, KernelError

CHIP = "Ascend910B3"
Array = np.ndarray[Any, Any]


class Scaled(Kernel):
    """y = factor * x; every block has a row."""

    def __init__(
        self, _profile: object, x: GlobalTensor, y: GlobalTensor, *, factor: float = 2.0
    ) -> None:
        self.x, self.y, self.factor = x, y, factor
        self.reads, self.writes = (x,), (y,)

    def process(self, core: Core) -> None:
        row, width = core.get_block_idx(), self.x.shape[1]
        into, out = TQue(TPosition.VECIN, 1, "in"), TQue(TPosition.VECOUT, 1, "out")
        for queue in (into, out):
            core.pipe.init_buffer(queue, 1, width * self.x.dtype.itemsize)
        x = into.copy_in(self.x[row])
        y = core.muls(out.alloc_tensor(self.y.dtype, width), x, self.factor)
        into.free_tensor(x)
        out.copy_out(self.y[row], y)


def rows(count: int = 4, width: int = 256) -> Array:
    return np.arange(count * width, dtype=np.float32).reshape(count, width)


def test_arrays_give_numbers_and_time() -> None:
    x, y = rows(), np.zeros((4, 256), np.float32)
    result = Device(CHIP).launch(Scaled, x, y, block_dim=4, factor=3.0)
    np.testing.assert_array_equal(y, 3 * x)
    assert result.outputs is not None
    assert list(result.outputs) == ["y"]
    assert result.outputs["y"] is y
    assert result.op == "Scaled"
    assert result.duration_us > 0
    assert {each.name for each in result.timeline.slices()} >= {"copy_gm_to_ubuf", "vmuls"}
    assert any("test_launch.py:" in each.site for each in result.timeline.slices())


def test_shapes_give_the_same_time_and_no_numbers() -> None:
    device, spec = Device(CHIP), TensorSpec((4, 256), "float32")
    with_numbers = device.launch(Scaled, rows(), rows(), block_dim=4)
    without = device.launch(Scaled, spec, spec, block_dim=4)
    assert without.outputs is None
    assert without.cycles == with_numbers.cycles


def test_the_band_says_that_nothing_like_it_was_measured() -> None:
    spec = TensorSpec((4, 256), "float32")
    result = Device(CHIP).launch(Scaled, spec, spec, block_dim=4)
    low, high = result.band_us
    assert low < result.duration_us < high
    assert "no Scaled kernels among them" in result.band_basis


def test_a_launch_without_blocks_takes_every_core() -> None:
    device = Device(CHIP)
    cores = device.profile.cores.vector_cores
    spec = TensorSpec((cores, 256), "float32")
    assert device.launch(Scaled, spec, spec).tasks[0].block_dim == cores


def test_views_of_arrays_are_read_and_written_where_they_lie() -> None:
    whole, out = rows(4, 512), np.zeros((8, 256), np.float32)
    Device(CHIP).launch(Scaled, whole[:, :256], out[::2], block_dim=4)
    np.testing.assert_array_equal(out[::2], 2 * whole[:, :256])
    assert not out[1::2].any()


@pytest.mark.parametrize("blocks", [0, 65536])
def test_a_launch_has_some_blocks_and_not_too_many(blocks: int) -> None:
    with pytest.raises(ArgumentError, match="a launch has 1 to 65535 blocks") as error:
        Device(CHIP).launch(Scaled, rows(), rows(), block_dim=blocks)
    assert "as many blocks as Ascend910B3 has cores (40" in error.value.remedy


def test_operands_that_the_kernel_doesnt_take() -> None:
    with pytest.raises(ArgumentError, match="launch of Scaled: missing a required argument: 'y'"):
        Device(CHIP).launch(Scaled, rows())
    with pytest.raises(ArgumentError, match="unexpected keyword argument 'scale'") as error:
        Device(CHIP).launch(Scaled, rows(), rows(), scale=3.0)
    assert "factor: 'float' = 2.0" in error.value.remedy
    with pytest.raises(ArgumentError, match=r"y is 3\.0, not a tensor"):
        Device(CHIP).launch(Scaled, rows(), 3.0)


class Silent(Scaled):
    """Doesn't say what it reads and writes."""

    def __init__(self, _profile: object, *_tensors: GlobalTensor) -> None:
        pass


class Broken(Scaled):
    """A mistake in its ``__init__``."""

    def __init__(self, _profile: object, *tensors: GlobalTensor) -> None:
        self.reads = tensors[7:8]
        self.writes = (tensors[7],)


def test_mistakes_in_init_are_told() -> None:
    with pytest.raises(KernelError, match="doesn't say which tensors it reads and writes") as error:
        Device(CHIP).launch(Silent, rows(), rows())
    assert "self.reads = (x, ...)" in error.value.remedy
    with pytest.raises(KernelCodeError, match=r"test_launch\.py:\d+: IndexError"):
        Device(CHIP).launch(Broken, rows(), rows())


def test_a_kernel_is_named_after_its_class_unless_it_says_otherwise() -> None:
    class Named(Scaled):
        op_type = "MyScale"

    assert Scaled.op_type == "Scaled"
    assert Named.op_type == "MyScale"


def test_the_language_is_public() -> None:
    assert npusim.ascendc.Kernel is Kernel
    for name in npusim.ascendc.__all__:
        assert getattr(npusim.ascendc, name) is not None
    assert {"Core", "TBuf", "TPosition", "GmBuffer", "RoundMode"} <= set(npusim.ascendc.__all__)

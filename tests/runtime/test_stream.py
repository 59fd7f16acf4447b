"""A stream is a stream: what one call leaves in L2 the next one on the stream finds there."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from npusim import Device, TensorSpec
from npusim.runtime.argument_memory import KeptMemory
from npusim.values.errors import ArgumentError
from support.cross_entropy import CROSS_ENTROPY, cross_entropy

if TYPE_CHECKING:
    from npusim.runtime.stream import Stream

CHIPS = ["Ascend910A", "Ascend910B3", "Ascend310P3"]
SHAPE = (512, 512)
MUL = "aclnnMul"

Array = np.ndarray[Any, Any]


@pytest.fixture(params=CHIPS)
def npu(request: pytest.FixtureRequest) -> Device:
    return Device(request.param)


def full(value: float = 1.0) -> Array:
    return np.full(SHAPE, value, np.float16)


def multiply(npu: Device, x: object, y: object, out: object, stream: Stream | None = None) -> float:
    """Microseconds of a product, element by element."""
    call = npu.run if isinstance(x, np.ndarray) else npu.estimate
    return call(MUL, self=x, other=y, out=out, stream=stream).duration_us


def times(npu: Device) -> tuple[float, float]:
    """The product with nothing and with its inputs in L2."""
    x, y, out = full(), full(), full()
    cold, warm = (multiply(Device(npu.profile, l2=l2), x, y, out) for l2 in ("cold", "warm"))
    assert warm < cold
    return cold, warm


def test_the_second_call_finds_what_the_first_one_left(npu: Device) -> None:
    cold, warm = times(npu)
    x, y, out, stream = full(), full(), full(), npu.create_stream()
    assert [multiply(npu, x, y, out, stream) for _ in range(3)] == [cold, warm, warm]


def test_phases_on_a_stream_find_it_too(npu: Device) -> None:
    cold, warm = times(npu)
    stream, arguments = npu.create_stream(), {"self": full(), "other": full(), "out": full()}
    for _ in range(2):
        size, executor = npu.get_workspace_size(MUL, **arguments)
        stream.execute(None, size, executor)
    assert [result.duration_us for result in stream.synchronize()] == [cold, warm]


def test_numbers_are_those_of_calls_by_themselves(npu: Device) -> None:
    stream = npu.create_stream()
    for call in (cross_entropy(20, 30), cross_entropy(7, 5)):
        together = npu.run(CROSS_ENTROPY, stream=stream, **call).outputs
        alone = npu.run(CROSS_ENTROPY, **call).outputs
        assert together is not None
        assert alone is not None
        for name, array in alone.items():
            np.testing.assert_array_equal(together[name], array)


def test_calls_without_a_stream_start_cold(npu: Device) -> None:
    cold, _ = times(npu)
    x, y, out = full(), full(), full()
    assert [multiply(npu, x, y, out) for _ in range(2)] == [cold, cold]
    stream = npu.create_stream()
    multiply(npu, x, y, out, stream)
    assert multiply(npu, x, y, out, npu.create_stream()) == cold


@pytest.mark.parametrize("l2", ["cold", "warm", "in_graph"])
def test_what_the_caller_says_of_l2_holds_for_every_call(npu: Device, l2: str) -> None:
    said = Device(npu.profile, l2=l2)
    x, y, out, stream = full(), full(), full(), said.create_stream()
    alone = multiply(said, x, y, out)
    assert [multiply(said, x, y, out, stream) for _ in range(3)] == [alone] * 3


def test_other_memory_is_cold(npu: Device) -> None:
    cold, warm = times(npu)
    stream = npu.create_stream()
    assert multiply(npu, full(), full(), full(), stream) == cold
    gc.collect(1)  # the new arrays may well lie where the old ones did
    x, y = full(), full()
    again = multiply(npu, x, y, full(), stream)
    assert warm < again <= cold  # on A2 the code is there
    assert warm < multiply(npu, x, full(), full(), stream) < again


def test_a_result_is_in_l2_for_the_next_call(npu: Device) -> None:
    _, warm = times(npu)
    x, y, stream = full(2.0), full(3.0), npu.create_stream()
    first = npu.run(MUL, self=x, other=y, stream=stream).outputs
    assert first is not None
    second = npu.run(MUL, self=first["out"], other=y, stream=stream)
    assert second.duration_us == warm
    assert second.outputs is not None
    np.testing.assert_array_equal(second.outputs["out"], full(18.0))


def test_another_view_of_the_same_memory_is_the_same_memory(npu: Device) -> None:
    cold, warm = times(npu)
    x, y, out, stream = full(), full(), full(), npu.create_stream()
    assert multiply(npu, x, y, out, stream) == cold
    flat = [each.reshape(-1) for each in (x, y, out)]
    assert multiply(npu, *(each.reshape(SHAPE) for each in flat), stream) == warm
    assert multiply(npu, *(each[:] for each in (x, y, out)), stream) == warm


def test_what_other_calls_have_driven_out_is_gone(npu: Device) -> None:
    cold, warm = times(npu)
    x, y, out, stream = full(), full(), full(), npu.create_stream()
    large = TensorSpec((npu.profile.memory.l2_bytes // 2,), "float16")
    multiply(npu, x, y, out, stream)
    multiply(npu, large, large, large, stream)
    assert warm < multiply(npu, x, y, out, stream) <= cold


def test_a_description_passed_again_is_the_same_tensor(npu: Device) -> None:
    cold, warm = times(npu)
    x, y, out = (TensorSpec(SHAPE, "float16") for _ in range(3))
    stream = npu.create_stream()
    assert [multiply(npu, x, y, out, stream) for _ in range(2)] == [cold, warm]
    assert multiply(npu, out, y, x, stream) == warm
    others = [TensorSpec(SHAPE, "float16") for _ in range(3)]
    assert warm < multiply(npu, *others, stream) <= cold


def test_one_array_for_several_arguments_is_read_for_each_of_them(npu: Device) -> None:
    cold, warm = times(npu)
    x, stream = full(), npu.create_stream()
    assert [multiply(npu, x, x, x, stream) for _ in range(2)] == [cold, warm]


def test_a_stream_forgets_memory_that_is_gone(npu: Device) -> None:
    stream = npu.create_stream()
    for _ in range(300):
        multiply(npu, *(np.ones(16, np.float16) for _ in range(3)), stream)
    assert len(stream._places._known) < 200


def test_a_stream_of_another_chip_is_refused() -> None:
    one, other = Device("Ascend910A"), Device("Ascend910B3")
    with pytest.raises(ArgumentError, match="belongs to Ascend910B3, the device is Ascend910A"):
        multiply(one, full(), full(), full(), other.create_stream())
    same = Device("Ascend910A")
    assert multiply(one, full(), full(), full(), same.create_stream()) > 0


def test_memory_between_tasks_is_used_again_once_nobody_looks_at_it() -> None:
    kept, count = KeptMemory(), 1 << 20
    first = kept.empty(count, np.dtype(np.float32))
    place, part = first.ctypes.data, first[5:9].reshape(2, 2)
    part[:] = 7
    del first
    other = kept.empty(count, np.dtype(np.int32))
    other[:] = 1
    assert (part == 7).all(), "somebody looks at a part of it"
    del part
    assert kept.empty(count - 1, np.dtype(np.float32)).ctypes.data == place
    assert kept.empty(count // 4, np.dtype(np.float32)).ctypes.data != place, "it is far too large"
    held = [kept.empty(8 * count, np.dtype(np.float32)) for _ in range(3)]
    assert len({each.ctypes.data for each in held}) == 3, "more than is kept"

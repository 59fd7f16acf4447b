"""Tensor descriptions agree with NumPy about shapes, strides, bytes and broadcasting."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.values.dtypes import BFLOAT16, FLOAT, INT4
from npusim.values.errors import ArgumentError, DTypeError, UnknownNameError
from npusim.values.formats import Format, format_of
from npusim.values.tensors import TensorSpec, broadcastable, contiguous_strides, parse_tensor

SHAPES = st.lists(st.integers(0, 5), max_size=4).map(tuple)
KINDS = st.sampled_from([np.float32, np.float16, np.int64, np.bool_, ml_dtypes.bfloat16])


@st.composite
def views(draw: st.DrawFn) -> np.ndarray[Any, Any]:
    """An array, sliced with positive steps and transposed at will."""
    array = np.zeros(draw(SHAPES), draw(KINDS))
    slices = []
    for size in array.shape:
        start = draw(st.integers(0, size))
        slices.append(slice(start, draw(st.integers(start, size)), draw(st.integers(1, 3))))
    return array[tuple(slices)].transpose(draw(st.permutations(range(array.ndim))))


@given(views())
def test_a_view_is_described_as_numpy_sees_it(view: np.ndarray[Any, Any]) -> None:
    spec = TensorSpec.of(view)
    assert (spec.shape, spec.rank, spec.numel, spec.nbytes) == (
        view.shape,
        view.ndim,
        view.size,
        view.nbytes,
    )
    assert spec.is_empty == (view.size == 0)
    assert spec.is_contiguous == view.flags.c_contiguous
    if view.size:
        assert tuple(step * view.itemsize for step in spec.strides) == view.strides
        assert spec.storage_bytes >= view.itemsize
    if spec.is_contiguous:
        assert spec.storage_bytes == spec.nbytes


@given(SHAPES, SHAPES)
def test_broadcasting_agrees_with_numpy(shape: tuple[int, ...], to: tuple[int, ...]) -> None:
    try:
        expected = np.broadcast_shapes(shape, to) == to
    except ValueError:
        expected = False
    assert broadcastable(shape, to) is expected


@given(
    SHAPES, st.sampled_from(["bf16", "FLOAT", "int64", "DT_BOOL"]), st.sampled_from(["", ":NCHW"])
)
def test_text_and_description_are_two_forms_of_one_thing(
    shape: tuple[int, ...], kind: str, layout: str
) -> None:
    spec = parse_tensor(f"{kind}[{','.join(map(str, shape))}]{layout}")
    assert spec == TensorSpec(shape, kind, layout[1:] or Format.UNDEFINED)
    assert parse_tensor(str(spec)) == spec


def test_an_expanded_dimension_has_stride_zero() -> None:
    spec = TensorSpec.of(np.broadcast_to(np.zeros(6, np.float32), (3, 6)))
    assert spec.strides == (0, 1)
    assert not spec.is_contiguous
    assert (spec.nbytes, spec.storage_bytes) == (72, 24)


def test_strides_count_elements_and_default_to_row_major() -> None:
    assert contiguous_strides((2, 3, 4)) == (12, 4, 1)
    assert TensorSpec((2, 3, 4), "fp16") == TensorSpec((2, 3, 4), "float16", strides=(12, 4, 1))
    assert TensorSpec((2, 3), "fp16", strides=(1, 2)).is_contiguous is False
    assert TensorSpec((1, 3), "fp16", strides=(77, 1)).is_contiguous
    assert TensorSpec((2, 3), "fp16", offset=4).storage_bytes == 20


def test_a_scalar_has_one_element() -> None:
    spec = parse_tensor("fp16[]")
    assert (spec.shape, spec.numel, spec.nbytes, spec.is_contiguous) == ((), 1, 2, True)


def test_packed_elements_take_less_than_a_byte() -> None:
    assert TensorSpec((3, 5), INT4).nbytes == 8


def test_a_description_needs_no_memory() -> None:
    assert TensorSpec((1 << 20, 1 << 20), "float32").nbytes == 1 << 42


def test_a_strided_description_becomes_contiguous_in_a_copy() -> None:
    spec = TensorSpec.of(np.zeros((4, 6), np.float32).T, format="NCHW")
    assert spec.contiguous() == TensorSpec((6, 4), FLOAT, "NCHW")
    assert str(spec) == "FLOAT[6,4]:NCHW strides [1, 6]"


def test_raw_two_byte_data_must_say_what_it_holds() -> None:
    raw = np.zeros(3, "V2")
    with pytest.raises(DTypeError, match="view"):
        TensorSpec.of(raw)
    assert TensorSpec.of(raw, dtype="bf16").dtype is BFLOAT16
    with pytest.raises(ArgumentError, match="2-byte raw elements can't hold FLOAT"):
        TensorSpec.of(raw, dtype="float32")
    with pytest.raises(ArgumentError, match="the array holds FLOAT16, not BFLOAT16"):
        TensorSpec.of(np.zeros(3, np.float16), dtype="bf16")


@pytest.mark.parametrize(
    ("view", "says"),
    [
        (np.zeros(4, np.float32)[::-1], "negative stride"),
        (np.zeros(4, [("x", np.float32), ("y", np.int16)])["x"], "6 bytes is not a multiple"),
    ],
)
def test_a_view_that_no_device_can_read_is_refused(view: np.ndarray[Any, Any], says: str) -> None:
    with pytest.raises(ArgumentError, match=says) as caught:
        TensorSpec.of(view)
    assert "np.ascontiguousarray" in caught.value.remedy


@pytest.mark.parametrize(
    "arguments",
    [
        {"shape": (2, -1)},
        {"shape": (2.5,)},
        {"shape": "ab"},
        {"shape": 3},
        {"shape": (2,), "strides": (1, 1)},
        {"shape": (2,), "strides": (-1,)},
        {"shape": (2,), "offset": -1},
    ],
)
def test_ill_matched_numbers_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError):
        TensorSpec(dtype="float32", **arguments)


@pytest.mark.parametrize(
    "text", ["bf16", "bf16[2", "bf16[2,,3]", "[2]", "bf16[-2]", "bf16[2]:", ""]
)
def test_text_that_is_no_tensor_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ArgumentError, match=r"bf16\[2,64,4096\]"):
        parse_tensor(text)


@pytest.mark.parametrize(
    "spelling", ["NCHW", "nchw", "ACL_FORMAT_NCHW", "aclFormat::ACL_FORMAT_NCHW", 0, Format.NCHW]
)
def test_every_spelling_of_a_format_is_understood(spelling: object) -> None:
    assert format_of(spelling) is Format.NCHW


def test_an_unknown_format_is_refused_with_near_misses() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean NCHW"):
        format_of("NCHV")

"""aclnnConvolutionBackward: gradients against float64 sums over taps, the chain, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from npusim import Device, TensorSpec
from npusim.ascendc.windows import Padding, Window
from npusim.values.errors import AclnnError
from support.convolution import call, windows

Array = np.ndarray[Any, Any]

CHIPS = ["Ascend910B3", "Ascend310P3", "Ascend910A"]
A2 = CHIPS[0]


def gradients(x: Array, weight: Array, dy: Array, window: Window, groups: int) -> list[Array]:
    """Of the input, the weight and the bias of a convolution of planes, tap by tap in float64."""
    padding, (high, wide) = window.padding, dy.shape[2:]
    around = ((0, 0), (0, 0), (padding.top, padding.bottom), (padding.left, padding.right))
    padded = np.pad(x.astype(np.float64), around)
    dx, dw, wide_dy = np.zeros(padded.shape), np.zeros(weight.shape), dy.astype(np.float64)
    of, out_of = weight.shape[1], weight.shape[0] // groups
    for group, row, column in np.ndindex(groups, *window.kernel):
        ins = slice(group * of, group * of + of)
        outs = slice(group * out_of, group * out_of + out_of)
        top, left = row * window.dilation[0], column * window.dilation[1]
        rows = slice(top, top + (high - 1) * window.stride[0] + 1, window.stride[0])
        columns = slice(left, left + (wide - 1) * window.stride[1] + 1, window.stride[1])
        seen, taps = padded[:, ins, rows, columns], weight[outs, :, row, column].astype(float)
        dw[outs, :, row, column] = np.einsum("nohw,nchw->oc", wide_dy[:, outs], seen)
        dx[:, ins, rows, columns] += np.einsum("nohw,oc->nchw", wide_dy[:, outs], taps)
    inside = dx[:, :, padding.top :, padding.left :][:, :, : x.shape[2], : x.shape[3]]
    return [inside, dw, wide_dy.sum((0, 2, 3))]


def backward(
    shape: tuple[int, ...], outs: int, window: Window, groups: int = 1, **more: Any
) -> dict[str, Any]:
    """Arguments of the gradients of a convolution of small whole numbers."""
    arguments = call(shape, outs, window, **more)
    arguments |= {"weight": arguments["weight"][:, : shape[1] // groups], "groups": groups}
    sizes = window.positions((shape[2], shape[3]))
    dy = np.random.default_rng(3).integers(-3, 4, (shape[0], outs, *sizes))
    arguments["gradOutput"] = dy.astype(arguments["input"].dtype)
    return arguments | {"biasSizes": [outs], "outputMask": [True] * 3} | more


@settings(max_examples=30, deadline=None)
@given(
    windows(),
    st.tuples(st.integers(1, 2), st.integers(4, 8), st.integers(4, 8)),
    st.sampled_from(
        [
            (1, 1, 1),
            (1, 20, 7),
            (1, 16, 33),
            (2, 8, 5),
            (3, 17, 20),
            (17, 1, 3),
            (33, 1, 1),
            (5, 12, 12),
        ]
    ),
    st.sampled_from(CHIPS),
    st.sampled_from([np.float16, np.float32]),
)
def test_gradients_of_planes(
    window: Window, images: tuple[int, int, int], groups: tuple[int, int, int], chip: str, kind: Any
) -> None:
    (number, of, out_of), (count, *plane) = groups, images
    rows, columns = window.extent
    assume(min(window.positions((plane[0], plane[1]))) > 0)
    assume(max(window.padding[:2]) < rows and max(window.padding[2:]) < columns)
    shape = (count, number * of, *plane)
    arguments = backward(shape, number * out_of, window, number, kind=kind)
    arguments.pop("kind")
    found = Device(chip).run("aclnnConvolutionBackward", **arguments).outputs
    given = (arguments[name] for name in ("input", "weight", "gradOutput"))
    wanted = gradients(*given, window, number)
    for name, numbers in zip(("gradInput", "gradWeight", "gradBias"), wanted, strict=True):
        np.testing.assert_allclose(found[name], numbers, rtol=2**-10, err_msg=name)


@pytest.mark.parametrize("chip", CHIPS)
def test_gradients_of_transposed_convolutions(chip: str) -> None:
    """Forward and back change places."""
    window = Window((3, 2), (2, 1), (1, 2), Padding(1, 1, 1, 1))
    forward = backward((2, 5, 9, 8), 7, window)
    x, dy = forward["gradOutput"], forward["input"]  # (2, 7, ...) becomes (2, 5, 9, 8)
    more = [dy.shape[2] - (x.shape[2] - 1) * 2 + 2 - 3, dy.shape[3] - (x.shape[3] - 1) + 2 - 3]
    said = forward | {"input": x, "gradOutput": dy, "transposed": True, "outputPadding": more}
    found = Device(chip).run("aclnnConvolutionBackward", **said | {"biasSizes": [5]}).outputs
    dy_wide = np.pad(dy.astype(float), ((0, 0), (0, 0), (1, 1), (1, 1)))
    dx = np.zeros(x.shape)
    for row, column in np.ndindex(3, 2):
        seen = dy_wide[:, :, row:, 2 * column :][:, :, ::2][:, :, : x.shape[2], : x.shape[3]]
        dx += np.einsum("nchw,oc->nohw", seen, forward["weight"][:, :, row, column].astype(float))
    np.testing.assert_array_equal(found["gradInput"], dx)
    np.testing.assert_array_equal(found["gradBias"], dy.astype(float).sum((0, 2, 3)))
    dw = gradients(dy, forward["weight"], x, window, 1)[1]
    np.testing.assert_array_equal(found["gradWeight"], dw)


def tasks(chip: str, **arguments: Any) -> list[str]:
    estimate = Device(chip).estimate("aclnnConvolutionBackward", **arguments)
    return [task.name for task in estimate.tasks]


def test_the_chain_of_tasks() -> None:
    plain = backward((2, 16, 9, 9), 32, Window((3, 3)))
    of_input = ["TransData", "MemSet", "TransData", "Conv2DBackpropInput", "TransData"]
    of_weight = ["TransData", "MemSet", "Conv2DBackpropFilter", "TransData", "Cast"]
    assert tasks(A2, **plain) == ["ReduceSum", *of_input, *of_weight]
    assert tasks(A2, **plain | {"outputMask": [True, False, False]}) == of_input
    alone = plain | {"outputMask": [False, True, False], "biasSizes": None}
    assert tasks(A2, **alone) == ["TransData", *of_weight]
    wide = {n: plain[n].astype(np.float32) for n in ("input", "weight", "gradOutput")}
    found = tasks("Ascend910A", **plain | wide)
    assert found[:4] == ["ReduceSum", "Cast", "Cast", "Cast"]
    assert tasks(A2, **plain | {"outputMask": [False] * 3}) == []


def test_lines_are_planes_of_one_row() -> None:
    window = Window((1, 3), (1, 2), (1, 1), Padding(0, 0, 1, 1))
    plane = backward((2, 5, 1, 11), 7, window)
    flat = {n: plane[n][:, :, 0] for n in ("input", "weight", "gradOutput")}
    steps = {n: plane[n][1:] for n in ("stride", "dilation", "outputPadding")}
    found = Device(A2).run("aclnnConvolutionBackward", **plane | flat | steps | {"padding": [1]})
    wanted = gradients(plane["input"], plane["weight"], plane["gradOutput"], window, 1)
    np.testing.assert_array_equal(found.outputs["gradInput"], wanted[0][:, :, 0])
    np.testing.assert_array_equal(found.outputs["gradWeight"], wanted[1][:, :, 0])


@pytest.mark.parametrize(
    ("chip", "changed", "code", "words"),
    [
        (A2, {"weight": None, "stride": [0, 0]}, 161001, "weight"),
        (A2, {"outputMask": [True]}, 161002, "outputMask should have 3 entries"),
        (A2, {"gradWeight": None}, 161001, "clear its entry in outputMask"),
        (A2, {"biasSizes": None}, 161001, "biasSizes is needed"),
        (A2, {"biasSizes": [5]}, 161002, "biasSizes should be [4]"),
        (A2, {"gradOutput": TensorSpec((2, 4, 7, 8), "float16")}, 161002, "should be [2, 4, 7, 7]"),
        (A2, {"weight": TensorSpec((4, 3, 3), "float16")}, 161002, "4 dimensions like input"),
        (A2, {"cubeMathType": 5}, 161002, "cubeMathType should be in"),
        ("Ascend310P3", {"cubeMathType": 3}, 161002, "cubeMathType 3 is not supported"),
        ("Ascend910A", {"input": TensorSpec((2, 3, 9, 9), "bfloat16")}, 161002, "DT_BFLOAT16"),
    ],
)
def test_what_is_refused(chip: str, changed: dict[str, Any], code: int, words: str) -> None:
    arguments = backward((2, 3, 9, 9), 4, Window((3, 3))) | changed
    with pytest.raises(AclnnError, match=str(code)) as refused:
        Device(chip).estimate("aclnnConvolutionBackward", **arguments)
    assert words in str(refused.value)

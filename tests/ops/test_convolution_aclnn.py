"""aclnnConvolution: numbers, the chain of tasks, and what it refuses in which order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from npusim import Device, TensorSpec
from npusim.ascendc.windows import Padding, Window
from npusim.values.errors import AclnnError
from support.convolution import call, convolved, windows

A2 = "Ascend910B3"
CHIPS = [A2, "Ascend310P3"]


@settings(max_examples=15, deadline=None)
@given(
    windows(),
    st.tuples(st.integers(1, 3), st.integers(1, 20), st.integers(1, 9), st.integers(1, 9)),
    st.integers(1, 20),
    st.sampled_from(CHIPS),
    st.sampled_from([np.float16, np.float32]),
    st.booleans(),
)
def test_planes_are_convolved(
    window: Window, shape: tuple[int, ...], outs: int, chip: str, kind: Any, bias: bool
) -> None:
    assume(min(window.positions((shape[2], shape[3]))) > 0)
    arguments = call(shape, outs, window, kind=kind)
    wanted = convolved(arguments["input"], arguments["weight"], window)
    if bias:
        arguments["bias"] = np.arange(outs).astype(kind)
        wanted = wanted + np.arange(outs)[:, None, None]
    found = Device(chip).run("aclnnConvolution", **arguments).outputs["output"]
    np.testing.assert_allclose(found, wanted, rtol=2**-10)


@pytest.mark.parametrize("chip", CHIPS)
def test_lines_are_planes_of_one_row(chip: str) -> None:
    window = Window((1, 4), (1, 2), (1, 3), Padding(0, 0, 5, 2))
    arguments = call((2, 5, 23), 7, window)
    wanted = convolved(arguments["input"][:, :, None], arguments["weight"][:, :, None], window)
    found = Device(chip).run("aclnnConvolution", **arguments).outputs["output"]
    np.testing.assert_array_equal(found, wanted[:, :, 0])


def test_one_padding_is_that_of_both_sides() -> None:
    window = Window((3, 2), padding=Padding(2, 2, 1, 1))
    arguments = call((1, 3, 6, 7), 4, window, padding=[2, 1])
    wanted = convolved(arguments["input"], arguments["weight"], window)
    found = Device(A2).run("aclnnConvolution", **arguments).outputs["output"]
    np.testing.assert_array_equal(found, wanted)


def tasks(chip: str, **arguments: Any) -> list[str]:
    return [task.name for task in Device(chip).estimate("aclnnConvolution", **arguments).tasks]


def test_the_chain_of_tasks() -> None:
    plain = call((2, 16, 9, 9), 32, Window((3, 3)))
    turned = ["TransData", "TransData", "Conv2D", "TransData"]
    cleared = ["TransData", "MemSet", "TransData", "Conv2D", "TransData"]  # fractals of halves
    assert tasks(A2, **plain) == cleared
    wide = {name: each.astype(np.float32) for name, each in plain.items() if name == "input"}
    wide["weight"] = plain["weight"].astype(np.float32)
    assert tasks(A2, **plain | wide) == turned
    assert tasks("Ascend310P3", **plain | wide) == ["Cast", "Cast", *turned, "Cast"]
    narrow = plain | wide | {"cubeMathType": 2}
    assert tasks(A2, **narrow) == ["Cast", "Cast", *cleared, "Cast"]


def test_a_kernel_that_covers_the_plane_is_a_matrix_product() -> None:
    """On A2 and A3; source: aclnn_convolution.cpp."""
    arguments = call((5, 6, 4, 3), 9, Window((4, 3)), bias=np.arange(9).astype(np.float16))
    wanted = convolved(arguments["input"], arguments["weight"], Window((4, 3)))
    wanted = wanted + np.arange(9)[:, None, None]
    for chip, names in ((A2, ["MatMulV3"]), ("Ascend310P3", None)):
        found = Device(chip).run("aclnnConvolution", **arguments)
        np.testing.assert_allclose(found.outputs["output"], wanted, rtol=2**-10)
        assert names is None or [task.name for task in found.tasks] == names


def test_float32_is_multiplied_as_asked_for() -> None:
    """HF32 at twice the speed, and with its rounding; float16 on the first generation."""
    shape = TensorSpec((8, 256, 28, 28), "float32")
    said = call((8, 256, 28, 28), 256, Window((3, 3)), input=shape)
    said |= {"weight": TensorSpec((256, 256, 3, 3), "float32")}
    exact, fast = (
        Device(A2).estimate("aclnnConvolution", **said | {"cubeMathType": kind}).tasks
        for kind in (0, 1)
    )
    products = [task.duration_us for task in (*exact, *fast) if task.name == "Conv2D"]
    assert products[1] < 0.75 * products[0]


@pytest.mark.parametrize(
    ("changed", "code", "words"),
    [
        ({"weight": None, "stride": [0, 0]}, 161001, "weight"),
        ({"transposed": True, "outputPadding": None}, 161001, "outputPadding is needed"),
        ({"input": TensorSpec((2, 3, 9, 9), "int32")}, 161002, "not implemented for DT_INT32"),
        ({"weight": TensorSpec((4, 3, 3), "float16")}, 161002, "4 dimensions like input"),
        ({"bias": TensorSpec((5,), "float16")}, 161002, "bias should have 4 elements"),
        ({"stride": [1]}, 161002, "stride should have 2 entries"),
        ({"padding": [1, 1, 1]}, 161002, "padding should have 2 or 4 entries"),
        ({"stride": [0, 1]}, 161002, "stride [0, 1] should be at least 1"),
        ({"padding": [-1, 1]}, 161002, "padding [-1, 1] should be at least 0"),
        ({"groups": 0}, 161002, "groups should be at least 1"),
        ({"groups": 3}, 161002, "input has 3 channels, but weight [4, 3] takes 9"),
        ({"dilation": [9, 9]}, 161002, "shorter than the kernel"),
        ({"output": TensorSpec((2, 4, 9, 9), "float16")}, 161002, "output should be [2, 4, 7, 7]"),
        ({"cubeMathType": 4}, 161002, "cubeMathType should be in"),
    ],
)
def test_what_is_refused(changed: dict[str, Any], code: int, words: str) -> None:
    arguments = call((2, 3, 9, 9), 4, Window((3, 3))) | changed
    with pytest.raises(AclnnError, match=str(code)) as refused:
        Device(A2).estimate("aclnnConvolution", **arguments)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("chip", "kind", "math", "words"),
    [
        ("Ascend310P3", "float32", 0, "cubeMathType 0 is not supported for FLOAT"),
        ("Ascend310P3", "float16", 3, "cubeMathType 3 is not supported"),
        ("Ascend310P3", "bfloat16", 1, "not implemented for DT_BFLOAT16"),
        (A2, "bfloat16", 2, "cubeMathType 2 doesn't take BFLOAT16"),
    ],
)
def test_products_and_arithmetic(chip: str, kind: str, math: int, words: str) -> None:
    arguments = call((2, 3, 9, 9), 4, Window((3, 3)), cubeMathType=math)
    arguments["input"] = TensorSpec((2, 3, 9, 9), kind)
    arguments["weight"] = TensorSpec((4, 3, 3, 3), kind)
    with pytest.raises(AclnnError) as refused:
        Device(chip).estimate("aclnnConvolution", **arguments)
    assert words in str(refused.value)


def test_the_first_generation_has_the_kernel_alone() -> None:
    """Its page doesn't list the product."""
    status = Device("Ascend910A").check("aclnnConvolution", **call((1, 1, 5, 5), 1, Window((3, 3))))
    assert (status.code, status.is_modelled) == (561003, True)


def test_long_lines_on_310p() -> None:
    arguments = call((1, 1, 2, 4097), 1, Window((1, 1)))
    assert Device(A2).check("aclnnConvolution", **arguments).code == 0
    assert Device("Ascend310P3").check("aclnnConvolution", **arguments).code == 161002


@settings(max_examples=15, deadline=None)
@given(
    windows(),
    st.tuples(st.integers(1, 2), st.integers(1, 20), st.integers(1, 6), st.integers(1, 6)),
    st.integers(1, 20),
    st.sampled_from(CHIPS),
    st.booleans(),
)
def test_transposed_convolutions(
    window: Window, shape: tuple[int, ...], outs: int, chip: str, bias: bool
) -> None:
    """Every element adds the kernel, times itself, to where it falls on the output."""
    rows, columns = window.extent
    assume(max(window.padding[:2]) < rows and max(window.padding[2:]) < columns)
    arguments = call(shape, outs, window) | {"transposed": True}
    random = np.random.default_rng(2)
    x, weight = arguments["input"], random.integers(-3, 4, (shape[1], outs, *window.kernel))
    arguments["weight"] = weight.astype(np.float16)
    (down, right), (below, beside), padding = window.stride, window.dilation, window.padding
    high, wide = ((size - 1) * step for size, step in zip(shape[2:], window.stride, strict=True))
    whole = np.zeros((shape[0], outs, high + window.extent[0], wide + window.extent[1]))
    for i in range(window.kernel[0]):
        for j in range(window.kernel[1]):
            part = np.einsum("nchw,co->nohw", x.astype(np.float64), weight[:, :, i, j])
            lines = slice(i * below, i * below + high + 1, down)
            whole[:, :, lines, j * beside : j * beside + wide + 1 : right] += part
    assume(min(whole.shape[2] - sum(padding[:2]), whole.shape[3] - sum(padding[2:])) > 0)
    wanted = whole[
        :,
        :,
        padding.top : whole.shape[2] - padding.bottom,
        padding.left : whole.shape[3] - padding.right,
    ]
    if bias:
        arguments["bias"] = np.arange(outs).astype(np.float16)
        wanted = wanted + np.arange(outs)[:, None, None]
    found = Device(chip).run("aclnnConvolution", **arguments)
    np.testing.assert_allclose(found.outputs["output"], wanted, rtol=2**-10)
    assert "Conv2DTranspose" in [task.name for task in found.tasks]


@settings(max_examples=25, deadline=None)
@given(
    windows(),
    st.tuples(st.integers(1, 40), st.integers(1, 24), st.integers(1, 24)),
    st.tuples(st.integers(1, 2), st.integers(4, 7), st.integers(4, 7)),
    st.sampled_from(CHIPS),
    st.sampled_from([np.float16, np.float32]),
)
@example(Window((1, 2)), (13, 15, 16), (1, 4, 4), "Ascend910B3", np.float16)  # lines of two
def test_groups_dont_mix(
    window: Window, groups: tuple[int, int, int], plane: tuple[int, ...], chip: str, kind: Any
) -> None:
    """Groups of any size, those that fill no slice of channels among them."""
    (number, of, out_of), (images, *sizes) = groups, plane
    number = min(number, 300 // max(of, out_of))
    assume(min(window.positions((sizes[0], sizes[1]))) > 0)
    arguments = call((images, number * of, *sizes), number * out_of, window, kind=kind)
    arguments |= {"weight": arguments["weight"][:, :of], "groups": number}
    wanted = convolved(arguments["input"], arguments["weight"], window, number)
    found = Device(chip).run("aclnnConvolution", **arguments).outputs["output"]
    np.testing.assert_allclose(found, wanted, rtol=2**-10)


def test_what_is_not_modelled_says_so() -> None:
    arguments = call((2, 6, 9, 9), 6, Window((3, 3)))
    arguments |= {name: np.zeros((2, 6, 5, 5, 5), np.float16) for name in ("input", "weight")}
    arguments |= {name: [1, 1, 1] for name in ("stride", "padding")}
    status = Device(A2).check("aclnnConvolution", **arguments | {"dilation": [2, 1, 1]})
    assert (status.code, status.is_modelled) == (161002, True)
    arguments["weight"] = arguments["weight"][:, :, :2]
    status = Device(A2).check("aclnnConvolution", **arguments | {"dilation": [2, 1, 1]})
    assert status.verdict == "unknown"


@pytest.mark.parametrize(("channels", "times"), [(16, 1), (5, 2), (33, 1)])
def test_a_group_for_every_channel(channels: int, times: int) -> None:
    window = Window((3, 2), (2, 1), (1, 2), Padding(1, 1, 2, 2))
    said = call((2, channels, 9, 8), channels * times, window)
    weight = said["weight"][:, :1]
    arguments = {"self": said["input"], "weight": weight, "kernelSize": [3, 2], "cubeMathType": 1}
    arguments |= {"bias": np.arange(channels * times).astype(np.float16), "stride": [2, 1]}
    arguments |= {"padding": [1, 2], "dilation": [1, 2]}
    found = Device(A2).run("aclnnConvDepthwise2d", **arguments).outputs["out"]
    wanted = convolved(said["input"], weight, window, channels)
    wanted = wanted + np.arange(channels * times)[:, None, None]
    np.testing.assert_allclose(found, wanted, rtol=2**-10)

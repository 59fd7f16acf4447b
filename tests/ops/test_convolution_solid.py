"""Convolutions of volumes in NCDHW: numbers of both directions, the chain, TransData of volumes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from npusim import Device, TensorSpec
from npusim.hardware import load_profile
from npusim.operators.tasks import TaskSpec, kernels_of
from support.convolution import in_fractals, in_slices
from support.tasks import CHIPS, kernels, run

Array = np.ndarray[Any, Any]

A2 = "Ascend910B3"


@st.composite
def volumes(draw: st.DrawFn) -> tuple[Array, Array, dict[str, Any]]:
    """Volumes, a weight, and how it moves."""
    kernel = [draw(st.integers(1, 3)) for _ in range(3)]
    said = {
        "stride": [draw(st.integers(1, 2)) for _ in range(3)],
        "padding": [draw(st.integers(0, size - 1)) for size in kernel],
        "dilation": [1, draw(st.integers(1, 2)), draw(st.integers(1, 2))],
    }
    random, channels = np.random.default_rng(0), draw(st.sampled_from([(3, 5), (16, 20), (33, 1)]))
    shape = (draw(st.integers(1, 2)), channels[0], *(draw(st.integers(3, 7)) for _ in range(3)))
    x = random.integers(-3, 4, shape)
    return x, random.integers(-3, 4, (channels[1], channels[0], *kernel)), said


def windows(
    x: Array, weight: Array, said: dict[str, Any]
) -> tuple[Array, list[int], dict[tuple[int, ...], Any]]:
    """Padded volumes, sizes of the result, and what every tap sees."""
    around = [(0, 0), (0, 0), *((pad, pad) for pad in said["padding"])]
    wide = np.pad(x.astype(np.float64), around)
    outs = [
        (size - (taps - 1) * dilation - 1) // stride + 1
        for size, taps, dilation, stride in zip(
            wide.shape[2:], weight.shape[2:], said["dilation"], said["stride"], strict=True
        )
    ]
    seen = {}
    for tap in np.ndindex(*weight.shape[2:]):
        begin = [t * d for t, d in zip(tap, said["dilation"], strict=True)]
        part = (
            slice(first, first + (count - 1) * stride + 1, stride)
            for first, count, stride in zip(begin, outs, said["stride"], strict=True)
        )
        seen[tap] = (slice(None), slice(None), *part)
    return wide, outs, seen


@settings(max_examples=20, deadline=None)
@given(volumes(), st.sampled_from([np.float16, np.float32]), st.booleans())
def test_volumes_forward_and_the_gradient_of_their_weight(
    case: tuple[Array, Array, dict[str, Any]], kind: Any, bias: bool
) -> None:
    x, weight, said = case
    wide, outs, seen = windows(x, weight, said)
    assume(min(outs) > 0)
    y = np.zeros((x.shape[0], weight.shape[0], *outs))
    for tap, part in seen.items():
        taps = weight[(slice(None), slice(None), *tap)]
        y += np.einsum("ncdhw,oc->nodhw", wide[part], taps)
    given_ = {"input": x.astype(kind), "weight": weight.astype(kind), "groups": 1}
    given_ |= said | {"transposed": False, "outputPadding": [0] * 3, "cubeMathType": 1}
    more = {"bias": np.arange(len(weight)).astype(kind)} if bias else {}
    found = Device(A2).run("aclnnConvolution", **given_ | more).outputs["output"]
    added = np.arange(len(weight)).reshape(-1, 1, 1, 1) if bias else 0
    np.testing.assert_allclose(found, y + added, rtol=2**-10)
    dy = np.random.default_rng(1).integers(-3, 4, y.shape)
    dw = np.zeros(weight.shape)
    for tap, part in seen.items():
        dw[(slice(None), slice(None), *tap)] = np.einsum("nodhw,ncdhw->oc", dy, wide[part])
    back = given_ | {"gradOutput": dy.astype(kind), "biasSizes": [len(weight)]}
    dx = np.zeros(wide.shape)
    for tap, part in seen.items():
        dx[part] += np.einsum("nodhw,oc->ncdhw", dy, weight[(slice(None), slice(None), *tap)])
    inside = [slice(each, each + size) for each, size in zip(
        said["padding"], x.shape[2:], strict=True)]  # fmt: skip
    back |= {"outputMask": [True, True, True]}
    grads = Device(A2).run("aclnnConvolutionBackward", **back).outputs
    np.testing.assert_allclose(grads["gradInput"], dx[(..., *inside)], rtol=2**-10)
    np.testing.assert_allclose(grads["gradWeight"], dw, rtol=2**-10)
    extents = [
        (taps - 1) * d + 1 for taps, d in zip(weight.shape[2:], said["dilation"], strict=True)
    ]
    spare = [size + 2 * pad - extent for size, pad, extent in zip(
        x.shape[2:], said["padding"], extents, strict=True)]  # fmt: skip
    longer = [each % stride for each, stride in zip(spare, said["stride"], strict=True)]
    turned = given_ | {"input": dy.astype(kind), "transposed": True, "outputPadding": longer}
    found = Device(A2).run("aclnnConvolution", **turned).outputs["output"]
    np.testing.assert_allclose(found, dx[(..., *inside)], rtol=2**-10)
    np.testing.assert_allclose(grads["gradBias"], dy.sum((0, 2, 3, 4)), rtol=2**-10)


def test_the_chain_of_tasks() -> None:
    x, weight = np.zeros((1, 16, 4, 8, 8), np.float16), np.zeros((16, 16, 3, 3, 3), np.float16)
    said = {"stride": [1] * 3, "padding": [1] * 3, "dilation": [1] * 3, "groups": 1}
    said |= {"transposed": False, "outputPadding": [0] * 3, "cubeMathType": 1}
    names = Device(A2).estimate("aclnnConvolution", input=x, weight=weight, **said).tasks
    assert [task.name for task in names] == ["TransData", "TransData", "Conv3D", "TransData"]
    back = said | {"gradOutput": x, "biasSizes": [16], "input": x, "weight": weight}
    found = Device(A2).estimate("aclnnConvolutionBackward", **back, outputMask=[True, False, False])
    names = [task.name for task in found.tasks]
    assert names == ["TransData", "TransData", "Conv3DBackpropInput", "TransData"]


def test_gradients_of_weights_are_added_to_zeros() -> None:
    """As the published lists of kernels have it."""
    x, grads = TensorSpec((2, 11, 5, 13, 17), "float16"), TensorSpec((2, 22, 5, 13, 17), "float16")
    said = {"pads": [1] * 6, "filter_size": [22, 11, 3, 3, 3]}
    task = TaskSpec("Conv3DBackpropFilter", (x, grads), (), said)
    names = [kernel.op_type for kernel in kernels_of(load_profile(A2), task)]
    assert names == ["TransData", "TransData", "MemSet", "Conv3DBackpropFilter", "TransData"]


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("shape", [(2, 5, 3, 4, 6), (1, 33, 2, 7, 7), (3, 16, 5, 1, 1)])
def test_layouts_of_volumes_there_and_back(chip: str, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).integers(-9, 9, shape).astype(np.float16)
    slices = np.stack([in_slices(x[:, :, d], 16) for d in range(shape[2])], 1)
    fractals = np.concatenate([in_fractals(x[:, :, d], 16) for d in range(shape[2])])
    for stored in (slices, fractals):
        there, back = np.full(stored.shape, 77, x.dtype), np.full(shape, 77, x.dtype)
        np.testing.assert_array_equal(run(chip, "TransData", [x], [there])[0], stored)
        np.testing.assert_array_equal(run(chip, "TransData", [stored], [back])[0], x)


def test_the_gradient_of_a_weight_is_cleared_before_cores_add_to_it() -> None:
    x, grads = np.ones((2, 16, 4, 6, 6), np.float16), np.ones((2, 32, 4, 6, 6), np.float16)
    said = {"strides": [1, 1, 1], "pads": [1] * 6, "dilations": [1, 1, 1], "groups": 1}
    size = [32, 16, 3, 3, 3]
    tasks, _ = kernels(A2, "Conv3DBackpropFilter", [x, grads], [], said | {"filter_size": size})
    names = [each.op_type for each in tasks]
    assert names == [*["TransData"] * 2, "MemSet", "Conv3DBackpropFilter", "TransData"]
    assert tasks[2].writes == tasks[3].adds_into

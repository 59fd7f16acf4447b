"""Norms of tensors and of lists of them against float64, and which tasks they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim import Device
from npusim.values.errors import KernelError
from support.tasks import BFLOAT16, assert_time_needs_no_numbers, kernels, run

Array = np.ndarray[Any, Any]


def numbers(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


NORMS = [2.0, 1.0, 3.0, 2.5, -1.0, np.inf, -np.inf]


def norm(x: Array, order: float) -> float:
    size = np.abs(x.astype(np.float64))
    if np.isinf(order):
        return float(size.max() if order > 0 else size.min())
    return float((size**order).sum() ** (1 / order))


@settings(max_examples=30, deadline=None)
@given(
    shapes=st.lists(st.tuples(st.integers(1, 40), st.integers(1, 900)), min_size=1, max_size=3),
    order=st.sampled_from(NORMS),
    kind=st.sampled_from([np.float32, np.float16, BFLOAT16]),
)
def test_norms_of_lists(shapes: list[tuple[int, int]], order: float, kind: Any) -> None:
    xs = [(np.abs(numbers(*shape)) + np.float32(0.1)).astype(kind) for shape in shapes]
    outputs = [np.full((), 77, kind) for _ in xs]
    got = run("Ascend910B3", "ForeachNorm", xs, outputs, scalar=order)
    fits = {np.float32: 1e-4, np.float16: 3e-3}.get(kind, 2e-2)
    want = [norm(x, order) for x in xs]
    np.testing.assert_allclose([float(each) for each in got], want, rtol=fits)
    assert_time_needs_no_numbers("Ascend910B3", "ForeachNorm", xs, outputs, scalar=order)
    tasks, _ = kernels("Ascend910B3", "ForeachNorm", xs, outputs, {"scalar": order})
    names = [each.op_type for each in tasks]
    if order in (1.0, 2.0):
        assert names == ["ForeachNorm"]
    elif order in (3.0, np.inf, -np.inf):
        assert names == ["LpNormV2"] * len(xs)
    else:
        half = ["Cast"] * (kind is not np.float32)
        assert names == [*half, "LpNormReduceV2", "LpNormUpdateV2", *half] * len(xs)


@pytest.mark.parametrize("order", NORMS)
def test_norms_of_one_tensor_in_one_task_or_two(order: float) -> None:
    x, one = np.abs(numbers(300, 40)) + np.float32(0.1), np.zeros((), np.float32)
    (total,) = run("Ascend910B3", "LpNormReduceV2", [x], [one], p=order)
    (whole,) = run("Ascend910B3", "LpNormV2", [x], [np.full((), 77, np.float32)], p=order)
    np.testing.assert_allclose(float(whole), norm(x, order), rtol=1e-4)
    if np.isinf(order):
        np.testing.assert_allclose(float(total), norm(x, order), rtol=1e-6)
    else:
        (root,) = run(
            "Ascend910B3", "LpNormUpdateV2", [total.reshape(1)], [one.reshape(1)], p=order
        )
        np.testing.assert_allclose(float(root[0]), norm(x, order), rtol=1e-4)


def test_a_norm_by_name_and_orders_that_are_none() -> None:
    x = numbers(6, 7)
    found = Device("Ascend910B3").run("aclnnForeachNorm", x0=x, x1=2 * x, scalar=2.0).outputs
    assert found is not None
    np.testing.assert_allclose(
        [float(each) for each in found.values()], [norm(x, 2), 2 * norm(x, 2)], rtol=1e-5
    )
    for order in (float("nan"), "wide"):
        with pytest.raises(KernelError, match="order"):
            run("Ascend910B3", "LpNormV2", [x], [np.zeros((), np.float32)], p=order)


SPREADS = {  # by the kinds of the chip's tasks
    "aclnnVar": ("ReduceMean", "Expand", "ReduceStdV2Update"),
    "aclnnVarMean": ("ReduceMean", "ReduceMean", "Expand", "ReduceStdV2Update"),
    "aclnnStd": ("ReduceMean", "Expand", "ReduceStdWithMean"),
    "aclnnStdMeanCorrection": ("ReduceMean", "Expand", "ReduceStdWithMean"),
}
FOLDED = [  # rows, turned rows, columns, both, all
    ((70, 4097), (1,)), ((20_011, 7), (1,)), ((3000, 37), (0,)), ((6, 5, 33, 40), (0, 2)),
    ((233, 401), (0, 1)),
]  # fmt: skip


@pytest.mark.parametrize("chip", ["Ascend910B3", "Ascend910A"])
@pytest.mark.parametrize(("shape", "axes"), FOLDED, ids=str)
@pytest.mark.parametrize("api", SPREADS)
def test_variances_read_their_means(
    chip: str, shape: tuple[int, ...], axes: tuple[int, ...], api: str
) -> None:
    x = numbers(*shape) + np.float32(2)
    told = {"unbiased": True} if api == "aclnnVar" else {"correction": 1}
    found = Device(chip).run(api, self=x, dim=list(axes), keepdim=False, **told)
    assert found.outputs is not None
    got, *mean = found.outputs.values()
    wide = x.astype(np.float64)
    want = wide.std(axes, ddof=1) if "Std" in api else wide.var(axes, ddof=1)
    np.testing.assert_allclose(got, want, rtol=1e-4)
    for each in mean:
        np.testing.assert_allclose(each, wide.mean(axes), rtol=1e-4)
    tasks = [each.name for each in found.tasks if each.name != "MemSet"]
    assert tuple(name for name in tasks if name != "TensorMove") == SPREADS[api]


@pytest.mark.parametrize("kind", [np.float16, np.float32])
@pytest.mark.parametrize("order", [0.0, 1.0, 2.0, 3.0, np.inf])
@pytest.mark.parametrize(("shape", "axes"), FOLDED, ids=str)
def test_norms_along_axes(
    kind: Any, order: float, shape: tuple[int, ...], axes: tuple[int, ...]
) -> None:
    x = np.where(numbers(*shape) > 0, numbers(*shape), 0).astype(kind)
    wide = np.abs(x.astype(np.float64))
    want = (wide > 0).sum(axes) if order == 0 else wide.max(axes)
    if 0 < order < np.inf:
        want = (wide**order).sum(axes) ** (1 / order)
    given = {"self": x, "pScalar": order, "dim": list(axes), "keepdim": False}
    fits = 1e-4 if kind is np.float32 else 2e-3
    half = ["Cast"] * (kind is np.float16)
    for chip, tasks in (
        ("Ascend910B3", ["LpNormV2"]),
        ("Ascend910A", [*half, "LpNormReduceV2", "LpNormUpdateV2", *half]),
    ):
        found = Device(chip).run("aclnnNorm", **given)
        assert found.outputs is not None
        np.testing.assert_allclose(found.outputs["out"].astype(np.float64), want, rtol=fits)
        assert [each.name for each in found.tasks if each.name != "MemSet"] == tasks


def test_fused_reductions_read_once() -> None:
    chip, x = Device("Ascend910B3"), np.abs(numbers(512, 1000))
    log = chip.run("aclnnReduceLogSum", data=x, axes=[1], keepDims=False, noopWithEmptyAxes=False)
    holes = np.where(x > 1, np.float32(np.nan), x)
    sums = chip.run("aclnnReduceNansum", self=holes, dim=[0], keepDim=False, dtype="FLOAT")
    exps = chip.run("aclnnLogSumExp", self=100 * x, dim=[1], keepDim=False)
    every = chip.run("aclnnAll", self=x * (x > 1e-5), dim=[1], keepdim=False)
    for found, names, want in (
        (log, ["ReduceLogSum"], np.log(x.astype(np.float64).sum(1))),
        (sums, ["ReduceNansum"], np.nansum(holes.astype(np.float64), 0)),
        (exps, ["ReduceMax", "Abs", "Equal", "MaskedFill", "Sub", "ReduceLogSumExp", "Add"],
         np.logaddexp.reduce(100 * x.astype(np.float64), 1)),
        (every, ["ReduceAll", "Cast"], (x > 1e-5).all(1)),
    ):  # fmt: skip
        assert found.outputs is not None
        (got,) = found.outputs.values()
        np.testing.assert_allclose(got, want, rtol=1e-4)
        assert [each.name for each in found.tasks if each.name != "MemSet"] == names


@pytest.mark.parametrize("order", [1.0, 2.0, 2.5, np.inf])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_slices_shrink_to_a_norm(order: float, dim: int) -> None:
    x, axes = numbers(30, 5, 41), tuple(axis for axis in range(3) if axis != dim)
    size = np.abs(x.astype(np.float64))
    largest = size.max(axes, keepdims=True)
    sums = (size ** (1.0 if np.isinf(order) else order)).sum(axes, keepdims=True)
    norms = largest if np.isinf(order) else sums ** (1 / order)
    found = Device("Ascend910B3").run("aclnnRenorm", self=x, p=order, dim=dim, maxNorm=3.0)
    assert found.outputs is not None
    want = x * np.minimum(1.0, 3.0 / norms)
    np.testing.assert_allclose(found.outputs["out"], want, rtol=1e-5, atol=1e-6)
    names = [each.name for each in found.tasks if each.name != "MemSet"]
    assert names == ["Renorm", "BroadcastTo", "Mul"]

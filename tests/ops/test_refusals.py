"""Recorded tasks that a kernel can't be: an error that says what is missing; and odd fills."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

from npusim import Device
from npusim.values.errors import AclnnError, KernelError
from support.tasks import cycles, kernels, like, run

CHIP = "Ascend910B3"
X = np.arange(1, 25, dtype=np.float32).reshape(4, 6)
NOTHING = np.zeros((0, 6), np.int64)
HALF = X.astype(np.float16)

REFUSED: list[tuple[str, tuple[Any, ...], tuple[Any, ...], dict[str, Any], str]] = [
    ("Fill", (None, X[:1, 0]), (), {}, "shape of the result"),
    ("OnesLike", (), (), {}, "no tensor to fill"),
    ("AtomicAddrClean", (), (), {}, "no tensor to clear"),
    ("Exp", (None,), (X,), {}, "0 tensors where 1"),
    ("MaskedScale", (X, None), (X,), {"value": 2.0}, "1 tensors where 2"),
    ("DropOutDoMask", (X, None, None), (X,), {}, "missing a required argument: .keep_prob"),
    ("TensorMove", (X,), (HALF,), {}, "copies FLOAT into FLOAT16"),
    ("Assign", (X, None), (X,), {}, "needs a variable and a value"),
    ("SwiGlu", (None,), (X,), {}, "0 tensors where 1"),
    ("SwiGlu", (np.ones((3, 4), np.float32),), (X,), {"dim": 0}, "has no halves"),
    ("ForeachAddcdivScalar", (X, X), (X,), {}, "0 tensors for 3 lists"),
    ("ApplyAdamW", (X, X, None, X), (X, X, X), {}, "needs var, grad, m and v"),
    ("ROIAlignGrad", (None, X), (X,), {}, "2 tensors where 3"),
    ("ROIAlignGrad", (X, X), (X,), {}, "gradients and map are NC1HWC0"),
    ("UpsampleNearestExact2dGrad", (X[None, None],), (X[None, None],), {}, "only rows of float32"),
    ("GroupNormGrad", (X, X), (X,), {}, "doesn't tell enough"),
    ("ArgMaxV2", (NOTHING,), (X[0],), {"axis": 0}, "axis 0, which has no elements"),
    ("AdaptiveAvgPool3dGrad", (X, X), (X,), {}, "gradients .4, 6. of"),
    ("AdaptiveAvgPool3dGrad", (X[None], X[None, None]), (X[None, None],), {}, "gradients"),
    ("MultiScaleDeformableAttentionGrad", (X,) * 6, (X,) * 3, {}, "doesn't tell enough"),
]


@pytest.mark.parametrize(
    ("op_type", "inputs", "outputs", "attributes", "message"),
    REFUSED,
    ids=[f"{row[0]}-{number}" for number, row in enumerate(REFUSED)],
)
def test_a_record_that_is_no_call_is_refused(
    op_type: str,
    inputs: tuple[Any, ...],
    outputs: tuple[Any, ...],
    attributes: dict[str, Any],
    message: str,
) -> None:
    with pytest.raises(KernelError, match=message):
        kernels(CHIP, op_type, inputs, outputs, attributes)


@pytest.mark.parametrize("interface", ["aclnnAminmax", "aclnnMaxV2", "aclnnLogSumExp"])
def test_nothing_has_no_extreme(interface: str) -> None:
    dims = {"dims" if interface == "aclnnMaxV2" else "dim": [1]}
    with pytest.raises(AclnnError, match="an axis to reduce has no elements"):
        Device(CHIP).run(interface, self=np.zeros((3, 0, 2), np.float32), **dims)


@pytest.mark.parametrize("op_type", ["NPUClearFloatStatus", "NPUGetFloatStatus"])
@pytest.mark.parametrize("chip", ["Ascend910A", "Ascend310P3"])
def test_every_core_adds_nothing_to_the_flags(chip: str, op_type: str) -> None:
    flags = np.zeros(8, np.float32)
    (got,) = run(chip, op_type, (flags,), (like(flags),))
    np.testing.assert_array_equal(got, 0)
    ((task,), _) = kernels(chip, op_type, (flags,), (like(flags),))
    assert task.block_dim > 1
    fills = 6 if "Clear" in op_type else 7  # of 150 repeats, whose blocks meet two bank groups
    assert cycles(chip, op_type, (flags,), (like(flags),)) > fills * 150 * 4


def test_what_the_next_kernel_adds_to_is_cleared() -> None:
    (got,) = run("Ascend910A", "AtomicAddrClean", (), (like(X),))
    np.testing.assert_array_equal(got, 0)
    # A float16 feature map stands for the two sums per channel, which are a thousandth of it.
    features = np.ones((8, 2, 32, 32, 16), np.float16)
    all_of_it = cycles("Ascend910A", "AtomicAddrClean", (), (features.astype(np.float32),))
    assert cycles("Ascend910A", "AtomicAddrClean", (), (features,)) < 0.7 * all_of_it


@pytest.mark.parametrize(
    ("numbers", "blocks"),  # as profilers recorded them on 30 cores
    [(1, 1), (999, 1), (16384, 2), (36864, 4), (65536, 6), (73728, 7), (294912, 25), (524288, 22)],
)
def test_zeros_are_stored_48_kilobytes_at_a_time(numbers: int, blocks: int) -> None:
    x = np.ones((numbers,), np.float32)
    ((task,), _) = kernels("Ascend910B", "AtomicAddrClean", (), (x,))
    assert task.block_dim == blocks
    (got,) = run("Ascend910B", "AtomicAddrClean", (), (like(x),))
    np.testing.assert_array_equal(got, 0)


@pytest.mark.parametrize(
    ("op_type", "wanted"),
    [
        ("ForeachAddcdivScalar", lambda x, a, b: x + 0.5 * a / b),
        ("ForeachAddcmulScalar", lambda x, a, b: x + 0.5 * a * b),
    ],
)
def test_foreach_kernels_add_a_scaled_quotient_or_product(op_type: str, wanted: Any) -> None:
    lists = [[X * (number + list_) for number in (1, 2)] for list_ in range(3)]
    inputs = [tensor for each in lists for tensor in each]
    got = run(CHIP, op_type, inputs, [like(X), like(X)], scalar=0.5)
    for number, found in enumerate(got):
        np.testing.assert_allclose(found, wanted(*(each[number] for each in lists)), rtol=1e-5)


@pytest.mark.parametrize(
    "module",
    [
        "activation.gradients",
        "elementwise.comparison",
        "elementwise.fusion",
        "loss.kernel",
        "optimizer.kernel",
    ],
)
def test_a_table_of_kernels_has_no_others(module: str) -> None:
    with pytest.raises(AttributeError, match="NoSuchKernel"):
        _ = import_module(f"npusim.ops.{module}").NoSuchKernel


def test_a_recorded_roi_align_gradient_has_the_samples_it_says_or_two() -> None:
    grad = np.ones((40, 1, 3, 3, 16), np.float32)
    boxes = np.tile(np.array([0, 1, 1, 13, 13], np.float32), (40, 1))
    maps = (np.zeros((1, 1, 20, 20, 16), np.float32),)
    took = {
        said: cycles(CHIP, "ROIAlignGrad", (grad, boxes), maps, sample_num=said)
        for said in (1, 2, 150, -1)
    }
    assert took[1] < took[2] < took[150]  # more than a batch of samples at once
    assert took[-1] == took[2]

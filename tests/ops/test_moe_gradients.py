"""Gradients of routed tokens against sums in float64, and rows that have been left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim import Device
from npusim.values.errors import DeviceFault
from support.tasks import BFLOAT16

Array = np.ndarray[Any, Any]

DEVICE = Device("Ascend910B3")
KINDS = st.sampled_from([np.float32, np.float16, BFLOAT16])
WIDTHS = st.sampled_from([1, 16, 67, 300, 20_000])
TOLERANCE = {np.float32: 1e-4, np.float16: 1e-2, BFLOAT16: 6e-2}


def numbers(*shape: int, seed: int, kind: Any) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(kind)


def close(found: Array, wanted: Array, kind: Any) -> None:
    scale = max(1.0, np.abs(wanted).max())
    np.testing.assert_allclose(found.astype(np.float64), wanted, atol=TOLERANCE[kind] * scale)


@settings(max_examples=8, deadline=None)
@given(
    tokens=st.integers(1, 70), k=st.integers(1, 5), width=WIDTHS, kept=st.floats(0.2, 1),
    weighed=st.booleans(), kind=KINDS,
)  # fmt: skip
def test_rows_on_their_way_back(
    tokens: int, k: int, width: int, kept: float, weighed: bool, kind: Any
) -> None:
    """Without weights a token has one row. Rows behind the last were left out."""
    tokens, k = min(tokens, 7) if width > 300 else tokens, k if weighed else 1
    pairs = tokens * k
    rows = max(1, int(pairs * kept))
    places = np.random.default_rng(1).permutation(pairs).astype(np.int32)
    x = numbers(rows, width, seed=2, kind=kind)
    grad = numbers(tokens, width, seed=3, kind=kind)
    weights = numbers(tokens, k, seed=4, kind=kind) if weighed else None
    found = DEVICE.run(
        "aclnnMoeTokenUnpermuteGrad", permutedTokens=x, unpermutedTokensGrad=grad,
        sortedIndices=places, probsOptional=weights, paddedMode=False,
        permutedTokensGradOut=np.zeros_like(x),
    ).outputs  # fmt: skip
    by = np.ones((tokens, k)) if weights is None else weights.astype(np.float64)
    spread = (grad.astype(np.float64)[:, None] * by[..., None]).reshape(pairs, width)
    wanted, whole = np.zeros((pairs, width)), np.zeros((pairs, width))
    wanted[places], whole[:rows] = spread, x.astype(np.float64)
    close(found["permutedTokensGradOut"], wanted[:rows], kind)
    if weighed:
        shares = whole[places].reshape(tokens, k, width) * grad.astype(np.float64)[:, None]
        close(found["probsGradOut"], shares.sum(-1), kind)


@settings(max_examples=8, deadline=None)
@given(
    tokens=st.integers(1, 70), k=st.integers(1, 5), width=WIDTHS, kept=st.floats(0.2, 1), kind=KINDS
)
def test_rows_that_were_copied_add_up(
    tokens: int, k: int, width: int, kept: float, kind: Any
) -> None:
    tokens = min(tokens, 7) if width > 300 else tokens
    rows = max(1, int(tokens * k * kept))
    places = np.random.default_rng(1).permutation(tokens * k).astype(np.int32)
    grad = numbers(rows, width, seed=3, kind=kind)
    whole = np.zeros((tokens * k, width))
    whole[:rows] = grad.astype(np.float64)
    wanted = whole[places].reshape(tokens, k, width).sum(1)
    given = {"sortedIndices": places, "paddedMode": False}
    out = np.zeros((tokens, width), kind)
    found = DEVICE.run(
        "aclnnMoeTokenPermuteGrad", permutedOutputGrad=grad, numTopk=k, out=out, **given
    )
    close(found.outputs["out"], wanted, kind)
    name, said = "aclnnMoeInitRoutingV2Grad", {"topK": k, "dropPadMode": 0, "activeNum": rows}
    found = DEVICE.run(name, gradExpandedX=grad, expandedRowIdx=places, out=out, **said)
    close(found.outputs["out"], wanted, kind)
    by_expert = {"gradExpandedX": grad.reshape(1, rows, width), "topK": k, "dropPadMode": 1}
    dropped = np.where(places < rows, places, -1).astype(np.int32)
    found = DEVICE.run(name, **by_expert, expandedRowIdx=dropped, activeNum=0, out=out)
    close(found.outputs["out"], wanted, kind)
    weights = np.ones((tokens, k), kind)
    found = DEVICE.run(
        "aclnnMoeTokenUnpermute", permutedTokens=grad, probsOptional=weights, out=out, **given
    )
    close(found.outputs["out"], wanted, kind)


@settings(max_examples=8, deadline=None)
@given(
    tokens=st.integers(1, 70), k=st.integers(1, 5), width=WIDTHS, biased=st.booleans(), kind=KINDS
)
def test_rows_of_experts_with_a_bias(
    tokens: int, k: int, width: int, biased: bool, kind: Any
) -> None:
    tokens = min(tokens, 7) if width > 300 else tokens
    places = np.random.default_rng(1).permutation(tokens * k).astype(np.int32)
    x = numbers(tokens * k, width, seed=2, kind=kind)
    grad, scales = (numbers(tokens, each, seed=3, kind=kind) for each in (width, k))
    experts = np.random.default_rng(5).integers(0, 3, (tokens, k)).astype(np.int32)
    bias = numbers(3, width, seed=6, kind=kind)
    found = DEVICE.run(
        "aclnnMoeFinalizeRoutingV2Grad", gradY=grad, expandedRowIdx=places, expandedXOptional=x,
        scalesOptional=scales, expertIdxOptional=experts if biased else None,
        biasOptional=bias if biased else None, dropPadMode=0, activeNum=0, expertNum=0,
        expertCapacity=0, gradScalesOut=np.zeros_like(scales), gradExpandedXOut=np.zeros_like(x),
    ).outputs  # fmt: skip
    own = grad.astype(np.float64)[:, None]
    wanted = np.zeros(x.shape)
    wanted[places] = (own * scales.astype(np.float64)[..., None]).reshape(x.shape)
    close(found["gradExpandedXOut"], wanted, kind)
    whole = x.astype(np.float64)[places].reshape(tokens, k, width)
    whole = whole + bias.astype(np.float64)[experts] if biased else whole
    close(found["gradScalesOut"], (whole * own).sum(-1), kind)


CALL: dict[str, Any] = {
    "permutedTokens": "fp16[8,16]", "unpermutedTokensGrad": "fp16[4,16]",
    "sortedIndices": "int32[8]", "probsOptional": "fp16[4,2]", "paddedMode": False,
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"sortedIndices": "int32[7]"}, 161002),
        ({"probsOptional": "fp16[3,2]"}, 161002),
        ({"permutedTokens": "fp16[8,15]"}, 161002),
        ({"unpermutedTokensGrad": None}, 161001),
        ({"paddedMode": True}, 161002),  # not modelled
    ],
)
def test_what_is_refused(change: dict[str, Any], code: int | None) -> None:
    name = "aclnnMoeTokenUnpermuteGrad"
    assert DEVICE.check(name, **CALL).ok
    assert DEVICE.check(name, **{**CALL, **change}).code == code
    assert Device("Ascend910A").check(name, **CALL).code == 561003


@pytest.mark.parametrize(
    "change",
    [{"topK": 3}, {"dropPadMode": 2}, {"dropPadMode": 1}, {"activeNum": 7}, {"activeNum": -1},
     {"out": "fp16[4,15]"}, {"out": "fp16[8,16]"}],
)  # fmt: skip
def test_what_the_gradient_of_routing_refuses(change: dict[str, Any]) -> None:
    call = {"gradExpandedX": "fp16[8,16]", "expandedRowIdx": "int32[8]", "topK": 2,
            "dropPadMode": 0, "activeNum": 0, "out": "fp16[4,16]"}  # fmt: skip
    assert DEVICE.check("aclnnMoeInitRoutingV2Grad", **call).ok
    assert DEVICE.check("aclnnMoeInitRoutingV2Grad", **{**call, **change}).code == 561103


def test_places_in_front_of_rows_are_faults() -> None:
    places = np.array([0, -1], np.int32)
    given = {"permutedTokens": numbers(2, 16, seed=0, kind=np.float16), "sortedIndices": places}
    with pytest.raises(DeviceFault, match="index -1"):
        DEVICE.run("aclnnMoeTokenUnpermute", **given, paddedMode=False)

"""ApplyTopKTopP against the formula of its page."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npusim import Device
from support.tasks import BFLOAT16

Array = np.ndarray[Any, Any]

CHIP = "Ascend910B3"


def wanted(logits: Array, p: Array | None, k: Array | None) -> Array:
    found = logits.astype(np.float64)
    order = np.argsort(found, -1, kind="stable")
    for row, places in enumerate(order):
        own = found[row, places]
        if k is not None and 0 < k[row] < own.size:
            own[own < own[own.size - k[row]]] = -np.inf
        if p is not None:
            shares = np.exp(own - own.max())
            cut = np.cumsum(shares / shares.sum()) <= 1 - float(p[row])
            cut[-1] = False
            own[cut] = -np.inf
        found[row, places] = own
    return found


@pytest.mark.parametrize(
    ("rows", "length", "kind", "k", "p"),
    [
        (3, 100, np.float32, [5, 0, 100], [0.9, 0.5, 0.7]),
        (2, 5000, np.float32, [50, 7], None),
        (2, 3000, np.float32, None, [0.9, 0.2]),
        (50, 701, BFLOAT16, [20] * 50, [0.8] * 50),
        (2, 9001, np.float16, [9001, 6000], [0.8, 0.3]),
        (4, 1, np.float32, [1] * 4, [0.5] * 4),
    ],
)
def test_logits_that_are_likely_stay(
    rows: int, length: int, kind: Any, k: list[int] | None, p: list[float] | None
) -> None:
    rng = np.random.default_rng(length)
    # Numbers of which some are alike.
    logits = (rng.permutation(rows * length).reshape(rows, length) % 997 / 64 - 5).astype(kind)
    counts = None if k is None else np.array(k, np.int32)
    shares = None if p is None else np.array(p, kind)
    found = Device(CHIP).run("aclnnApplyTopKTopP", logits=logits, p=shares, k=counts)
    got = found.outputs["out"].astype(np.float64)
    np.testing.assert_array_equal(got, wanted(logits, shares, counts))


def test_few_are_cheap_and_probabilities_of_all_are_not() -> None:
    npu = Device(CHIP)

    def taken_us(**limits: str) -> float:
        found = npu.estimate("aclnnApplyTopKTopP", logits="fp32[32,151936]", **limits)
        assert [each.name for each in found.tasks] == ["Sort", "ApplyTopKTopPWithSorted"]
        return found.tasks[1].duration_us

    few = taken_us(p="fp32[32]", k="int32[32]")
    assert few < taken_us(p="fp32[32]") / 5
    # -inf is stored for every logit at least.
    assert few > 32 * 151936 * 4 / 2.5e6


def test_what_the_page_refuses() -> None:
    given = {"logits": "fp32[4,100]", "p": "fp32[4]", "k": "int32[4]", "out": "fp32[4,100]"}
    for soc, code in ((CHIP, 0), ("Ascend910_9391", 0), ("Ascend310P3", 561003)):
        assert Device(soc).check("aclnnApplyTopKTopP", **given).code == code
    npu = Device(CHIP)
    for changed, code in (
        ({"p": None, "k": None}, 161001),
        ({"p": "fp16[4]"}, 161002),
        ({"k": "int32[3]"}, 161002),
        ({"out": "fp32[4,101]"}, 161002),
        ({"logits": "fp32[400]"}, 161002),
    ):
        assert npu.check("aclnnApplyTopKTopP", **(given | changed)).code == code

"""TopKTopPSample against the formula of its page."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npusim import Device
from support.tasks import BFLOAT16

Array = np.ndarray[Any, Any]

CHIP = "Ascend910B3"
GUESS = 32


def softmax(x: Array) -> Array:
    power = np.exp(x - x.max())
    return np.asarray(power / power.sum())


def first_over(shares: Array, p: float) -> int:
    sums = np.cumsum(shares)
    return int(np.argmax(sums > p)) + 1 if sums[-1] > p else 0


def wanted(row: Array, k: int, p: float, q: Array | None) -> tuple[int, Array]:
    """The token, and the places of logits that are left, of one row in float64."""
    limited, place = 0 < p < 1, np.argsort(-row, kind="stable")
    if 0 < k <= min(1024, row.size):
        place = place[:k]
        shares = softmax(row[place])
        place = place[: (first_over(shares, p) if limited else 0) or k]
        shares = softmax(row[place])
    elif limited:
        every = softmax(row)
        place = place[: first_over(every[place], p) or row.size]
        shares = softmax(every[place])  # of probabilities, as the kernel has it
    else:
        place, shares = np.arange(row.size), softmax(row)
    if q is not None:
        shares = shares / (np.abs(q[: place.size]) + 1e-8)
    return int(place[np.argmax(shares)]), place


@pytest.mark.parametrize("kind", [np.float16, BFLOAT16])
@pytest.mark.parametrize("drawn", [False, True])
@pytest.mark.parametrize(("rows", "length"), [(3, 100), (50, 701), (7, 9001), (2, 20_011), (4, 1)])
def test_tokens_of_every_kind_of_row(rows: int, length: int, drawn: bool, kind: Any) -> None:
    rng = np.random.default_rng(length)
    # Numbers far apart, so that no rounding decides.
    steps = np.argsort(rng.random((rows, length)), -1) - length
    logits = np.maximum(steps / 8, -40).astype(kind)
    k = rng.choice([1, 5, min(60, length), length + 1, -1], rows).astype(np.int32)
    p = rng.choice([0.0, 0.3, 0.9, 1.0], rows).astype(kind)
    q = rng.exponential(size=(rows, length)).astype(np.float32) if drawn else None
    call = {"logits": logits, "topK": k, "topP": p, "q": q, "eps": 1e-8, "topKGuess": GUESS}
    found = Device(CHIP).run("aclnnTopKTopPSample", **call, isNeedLogits=True).outputs
    for row in range(rows):
        numbers = logits[row].astype(np.float64)
        token, left = wanted(numbers, int(k[row]), float(p[row]), None if q is None else q[row])
        kept = np.full(length, -np.inf)
        kept[left] = numbers[left]
        np.testing.assert_array_equal(found["logitsTopKPSelect"][row], kept)
        assert found["logitsSelectIdx"][row] == token


def test_probabilities_of_all_that_the_largest_few_do_not_reach() -> None:
    logits = np.tile(np.linspace(-1, 0, 5000).astype(np.float16), (2, 1))
    call = {"logits": logits, "topK": np.array([-1, -1], np.int32), "eps": 1e-8, "q": None}
    call |= {"isNeedLogits": True, "topKGuess": GUESS}
    p = np.array([0.75, 0.75], np.float16)
    flat = Device(CHIP).run("aclnnTopKTopPSample", **call, topP=p)
    left = np.isfinite(flat.outputs["logitsTopKPSelect"]).sum(-1)
    shares = softmax(np.sort(logits[0].astype(np.float64))[::-1])
    assert abs(left - first_over(shares, 0.75)).max() <= 2
    few = Device(CHIP).run("aclnnTopKTopPSample", **{**call, "logits": 1024 * logits}, topP=p)
    assert few.duration_us < 0.8 * flat.duration_us


def test_what_costs_what() -> None:
    npu = Device(CHIP)

    def taken_us(rows: int = 32, length: int = 151_936, **more: Any) -> float:
        call = {"logits": f"bf16[{rows},{length}]", "topK": f"int32[{rows}]", "eps": 1e-8,
            "topP": f"bf16[{rows}]", "isNeedLogits": False, "topKGuess": GUESS}  # fmt: skip
        found = npu.estimate("aclnnTopKTopPSample", **call | more)
        assert [each.name for each in found.tasks] == ["TopKTopPSample"]
        return found.duration_us

    one = taken_us()
    assert taken_us(rows=40) < 1.3 * one < 1.6 * taken_us(rows=80)
    assert taken_us(length=75_968) < 0.7 * one
    assert taken_us(q="fp32[32,151936]") > one
    assert taken_us(isNeedLogits=True) > 1.1 * one


def test_what_the_page_refuses() -> None:
    given = {"logits": "fp16[4,100]", "topK": "int32[4]", "topP": "fp16[4]", "q": "fp32[4,100]",
        "eps": 1e-8, "isNeedLogits": False, "topKGuess": 32}  # fmt: skip
    for soc, code in ((CHIP, 0), ("Ascend910_9391", 0), ("Ascend310P3", 561003)):
        assert Device(soc).check("aclnnTopKTopPSample", **given).code == code
    npu = Device(CHIP)
    for changed, code in (
        ({"topK": None}, 161001),
        ({"q": None}, 0),
        ({"topP": "bf16[4]"}, 161002),
        ({"logits": "fp32[4,100]", "topP": "fp32[4]"}, 161002),
        ({"topK": "int64[4]"}, 161002),
        ({"topK": "int32[3]"}, 161002),
        ({"q": "fp32[4,99]"}, 161002),
        ({"topKGuess": 0}, 161002),
        ({"logits": "fp16[4,1048577]", "q": None}, 161002),
        ({"logitsTopKPSelect": "fp16[4,100]"}, 161002),
        ({"logitsSelectIdx": "int32[4]"}, 161002),
    ):
        assert npu.check("aclnnTopKTopPSample", **{**given, **changed}).code == code, changed

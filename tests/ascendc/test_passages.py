"""Work that is written down once and repeated is what it is when it is done each time."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import pytest

from npusim import Device
from npusim.ascendc import trace
from npusim.ascendc.costs import InstructionCosts
from npusim.engine import Memo
from npusim.runtime import streams

if TYPE_CHECKING:
    from npusim.engine.program import Transfer
    from npusim.hardware import Profile

PRODUCT = {"self": "fp16[700,1500]", "mat2": "fp16[1500,900]", "cubeMathType": 0}
TURNED = {"self": "fp16[95,333]", "mat2": "fp16[333,41]", "cubeMathType": 0}
CONVOLUTION = {
    "input": "fp16[2,70,33,31]:NCHW", "weight": "fp16[100,70,3,3]:NCHW", "bias": None,
    "stride": [1, 1], "padding": [1, 1], "dilation": [1, 1], "transposed": False,
    "outputPadding": [0, 0], "groups": 1, "cubeMathType": 0,
}  # fmt: skip
ATTENTION = {
    "query": "fp16[2,5,700,128]", "key": "fp16[2,5,700,128]", "value": "fp16[2,5,700,128]",
    "headNum": 5, "inputLayout": "BNSD", "scaleValue": 0.088, "keepProb": 1.0,
    "preTokens": 2147483647, "nextTokens": 2147483647, "innerPrecise": 0, "sparseMode": 0,
}  # fmt: skip
A2, INFERENCE, TRAINING = "Ascend910B3", "Ascend310P3", "Ascend910A"
CALLS = (
    ("aclnnMatmul", PRODUCT, (A2, INFERENCE, TRAINING)),
    ("aclnnMatmul", TURNED, (A2, INFERENCE, TRAINING)),
    ("aclnnConvolution", CONVOLUTION, (A2, INFERENCE)),
    ("aclnnFlashAttentionScore", ATTENTION, (A2,)),
)


class Passages(dict[Hashable, Any]):
    """Passages of a kernel, and how often they are ``repeated``: not at all unless it ``keeps``."""

    def __init__(self, keeps: bool) -> None:
        super().__init__()
        self.repeated, self._keeps = 0, keeps

    def get(self, key: Hashable, default: Any = None) -> Any:
        found = super().get(key, default)
        self.repeated += found is not None
        return found

    def __setitem__(self, key: Hashable, passage: Any) -> None:
        if self._keeps:
            super().__setitem__(key, passage)


def told(
    monkeypatch: pytest.MonkeyPatch, chip: str, op: str, call: dict[str, Any]
) -> tuple[list[Hashable], float]:
    """The programs of a call's kernels but for the numbers of buffers, and its time."""
    found: list[Hashable] = []

    def noting(*given: Any, **how: Any) -> Any:
        groups = trace(*given, **how)
        numbers: dict[int, int] = {}  # of buffers, which every call has others of
        for group in groups:
            for each, times in group.program.instructions():
                order = each.pipe, each.name, each.cycles, each.waits, each.sets, each.latency
                text = each.detail, each.site, each.unit_flag
                found.append((*order, *text, times, _moved(each.transfer, numbers)))
        return groups

    monkeypatch.setattr(streams, "trace", noting)
    duration_us = Device(chip, memo=Memo(0)).estimate(op, **call).duration_us
    return found, duration_us


def _moved(transfer: Transfer | None, numbers: dict[int, int]) -> Hashable:
    if transfer is None:
        return None
    reuses = [
        (each.share, *((numbers.setdefault(n, len(numbers)), size) for n, size in each.between))
        for each in transfer.reuses
    ]
    place = numbers.setdefault(transfer.buffer, len(numbers))
    return transfer._replace(buffer=place, reuses=()), tuple(reuses)


@pytest.mark.parametrize(
    ("op", "call", "chip"), [(op, call, chip) for op, call, chips in CALLS for chip in chips]
)
def test_what_is_repeated_is_what_is_written_down_each_time(
    op: str, call: dict[str, Any], chip: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Passages] = []
    prepare = InstructionCosts.__init__

    def prepared(costs: InstructionCosts, profile: Profile, **how: bool) -> None:
        prepare(costs, profile, **how)
        costs.passages = Passages(keeps)
        made.append(costs.passages)

    monkeypatch.setattr(InstructionCosts, "__init__", prepared)
    keeps = True
    short = told(monkeypatch, chip, op, call)
    assert sum(each.repeated for each in made) or call is not CONVOLUTION
    made.clear()
    keeps = False
    assert told(monkeypatch, chip, op, call) == short
    assert not sum(each.repeated for each in made)

"""Work that is written down once and repeated is what it is when it is done each time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from npusim import Device
from npusim.ascendc import Core, mistakes, trace
from npusim.ascendc.recorder import Recorder
from npusim.engine import Memo
from npusim.runtime import streams
from support.programs import given_to

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Hashable, Sequence

    from npusim.ascendc.passages import Passage, Setting
    from npusim.ascendc.recorder import Body
    from npusim.engine.program import Transfer

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
RAGGED = {
    "query": "fp16[2,12,2052,64]", "key": ["fp16[2,12,1301,64]"], "value": ["fp16[2,12,1301,64]"],
    "numHeads": 12, "numKeyValueHeads": 12, "scaleValue": 0.1, "inputLayout": "BNSD",
}  # fmt: skip
A2, INFERENCE, TRAINING = "Ascend910B3", "Ascend310P3", "Ascend910A"
CALLS = (
    ("aclnnMatmul", PRODUCT, (A2, INFERENCE, TRAINING)),
    ("aclnnMatmul", TURNED, (A2, INFERENCE, TRAINING)),
    ("aclnnConvolution", CONVOLUTION, (A2, INFERENCE)),
    ("aclnnFlashAttentionScore", ATTENTION, (A2,)),
    ("aclnnFusedInferAttentionScoreV3", RAGGED, (A2,)),
)

WIDTHS = (7, 100, 1023, 9000, 70_001)  # of rows, which fit many times, and not at all


def told(
    monkeypatch: pytest.MonkeyPatch, chip: str, op: str, call: dict[str, Any]
) -> tuple[list[Counter[Hashable]], float]:
    """What each core is given in a call, but for the numbers of buffers and flags; its time."""
    found: list[Counter[Hashable]] = []

    def noting(*given: Any, **how: Any) -> Any:
        groups = trace(*given, **how)
        numbers: dict[int, int] = {}  # of buffers, which every call has others of
        found.extend(
            given_to(group.program, lambda transfer: _moved(transfer, numbers)) for group in groups
        )
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
    repeated: list[int] = []
    repeat = Recorder.repeat

    def noting(recorder: Recorder, passage: Passage, times: int, setting: Setting) -> None:
        repeated.append(times)
        repeat(recorder, passage, times, setting)

    def plainly(_: Core, __: Hashable, works: Sequence[Callable[[], object]], *___: object) -> int:
        for work in works:
            work()
        return 0

    monkeypatch.setitem(mistakes._files, __file__, mistakes._LANGUAGE_CODE)  # no line of a kernel
    monkeypatch.setattr(Recorder, "repeat", noting)
    short, duration_us = told(monkeypatch, chip, op, call)
    assert sum(repeated) > (call is RAGGED) * 20 or call is PRODUCT or call is TURNED
    monkeypatch.setattr(Core, "alike", plainly)
    assert told(monkeypatch, chip, op, call) == (short, pytest.approx(duration_us, rel=1e-12))


@pytest.mark.parametrize("chip", [A2, INFERENCE, TRAINING])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("op", ["aclnnSoftmax", "aclnnSoftmaxBackward", "aclnnLayerNorm"])
def test_a_body_that_another_core_has_written_down_is_the_one_that_it_would_write(
    op: str, width: int, chip: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, line = f"fp16[{1 + 20_000_000 // width},{width}]", f"fp16[{width}]"
    call = {
        "aclnnSoftmax": {"self": x, "dim": 1},
        "aclnnSoftmaxBackward": {"gradOutput": x, "output": x, "dim": 1},
        "aclnnLayerNorm": {
            "input": x, "normalizedShape": [width], "weightOptional": line, "biasOptional": line,
            "eps": 1e-5,
        },
    }[op]  # fmt: skip
    assert_a_body_is_what_another_core_would_write(monkeypatch, chip, op, call)


@pytest.mark.parametrize(
    "sizes", [(3843, 2020, 3120), (1776, 3344, 2290), (1489, 1613, 3140), (2044, 3465, 1302)]
)
def test_tiles_that_another_core_has_turned_are_those_that_it_would_turn(
    sizes: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ragged rows of a product, which vector cores turn into fractals first."""
    m, k, n = sizes
    call = {"self": f"fp16[{m},{k}]", "mat2": f"fp16[{k},{n}]", "cubeMathType": 0}
    assert_a_body_is_what_another_core_would_write(monkeypatch, A2, "aclnnMatmul", call)


def assert_a_body_is_what_another_core_would_write(
    monkeypatch: pytest.MonkeyPatch, chip: str, op: str, call: dict[str, Any]
) -> None:
    known: list[int] = []
    repeat = Recorder.repeat_body

    def noting(recorder: Recorder, body: Body, count: int, depth: int) -> None:
        known.append(count)
        repeat(recorder, body, count, depth)

    monkeypatch.setattr(Recorder, "repeat_body", noting)
    short, duration_us = told(monkeypatch, chip, op, call)
    assert known
    monkeypatch.setattr(Core, "_only_writes_down", False)
    assert told(monkeypatch, chip, op, call) == (short, pytest.approx(duration_us, rel=1e-12))

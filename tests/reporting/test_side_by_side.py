"""Two kept results: the numbers that changed, whichever verb printed them, and clear refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from npusim.reporting.side_by_side import compared, comparison_json, read_result
from npusim.values.errors import FileError
from support import commands, kept_pages

SERVED = {
    "soc": "Ascend910B3", "output_tok_s": 500.0, "req_s": 2.0, "goodput_req_s": 1.5,
    **{name: {"mean": 9.0, "p50": 9.0, "p90": 10.0, "p99": 12.0}
       for name in ("ttft_ms", "tpot_ms", "end_to_end_ms")},
}  # fmt: skip
STEP = {"soc": "Ascend910B3", "step_ms": 30.0, "band_ms": [27.0, 40.0],
        "operators": [{"op": "MatMulV2", "tensors": "float16[8,8]", "total_us": 2e4}]}  # fmt: skip
PLAN = {"product": "Atlas 800T A2", "cards": {"installed": 6}, "card_requests_per_s": 70.0}
CALL = {"soc": "Ascend910B3", "duration_us": 20.0, "band_us": [18.0, 30.0], "tasks": []}


def changes(before: Any, now: Any) -> dict[str, tuple[float, float]]:
    found = compared(read_result(before, Path("a.json")), read_result(now, Path("b.json")))
    told = comparison_json(found)
    return {each["name"]: (each["before"], each["now"]) for each in told["changes"]}


def test_numbers_of_every_verb_are_paired_by_name() -> None:
    faster = {**SERVED, "output_tok_s": 600.0}
    found = changes({"answers": [SERVED]}, {"answers": [faster]})
    assert found["Ascend910B3: output tokens"] == (500.0, 600.0)
    assert len(found) == 12
    assert changes({"answers": [STEP]}, {"answers": [{**STEP, "step_ms": 33.0}]}) == {
        "Ascend910B3": (30e3, 33e3)
    }
    fewer = {**PLAN, "cards": {"installed": 4}}
    assert changes({"products": [PLAN]}, {"products": [fewer]})["Atlas 800T A2: cards"] == (6, 4)
    rows = kept_pages.ROWS
    assert len(changes(rows, rows)) == 5  # the sixth has no time


def test_a_change_counts_where_bands_tell_it_from_none_and_more_may_be_better() -> None:
    def tone(before: Any, now: Any) -> str:
        found = compared(read_result(before, Path("a")), read_result(now, Path("b")))
        return found.changes[0].tone

    call = {"answers": [CALL]}
    near = {"answers": [{**CALL, "duration_us": 24.0}]}
    far = {"answers": [{**CALL, "duration_us": 60.0, "band_us": [50.0, 70.0]}]}
    assert [tone(call, near), tone(call, far), tone(far, call)] == ["open", "bad", "good"]
    more = {"answers": [{**SERVED, "output_tok_s": 600.0}]}
    assert [tone({"answers": [SERVED]}, more), tone(more, {"answers": [SERVED]})] == ["good", "bad"]


@pytest.mark.parametrize(
    ("before", "now", "why"),
    [
        ({"answers": [CALL]}, {"answers": [SERVED]}, "is of `npusim llm serve`"),
        ({"answers": [CALL]}, {"answers": [{**CALL, "soc": "X"}]}, "nothing in common"),
        ({"answers": [CALL]}, {"answers": [{"soc": "X"}]}, "has no time"),
        ({"answers": [CALL]}, {"verdict": 1}, "isn't what"),
        ({"answers": [CALL]}, [], "has no numbers"),
        ({"answers": [CALL]}, [1], "isn't what"),
        ({"answers": [CALL]}, 7, "isn't what"),
        ({"answers": [CALL]}, {"products": [7]}, "isn't what"),
        ({"answers": [CALL]}, {"answers": [{**SERVED, "ttft_ms": 3}]}, "isn't what"),
        ({"answers": [CALL]}, {"answers": [{**CALL, "band_us": "x"}]}, "isn't what"),
    ],
)
def test_what_cannot_be_compared_is_refused(before: Any, now: Any, why: str) -> None:
    with pytest.raises(FileError, match=why):
        changes(before, now)


def test_the_command_line_compares_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new, page = (tmp_path / name for name in ("old.json", "new.json", "page.html"))
    old.write_text(json.dumps({"op": "Add", "answers": [CALL]}))
    slow = {**CALL, "duration_us": 60.0, "band_us": [50.0, 70.0]}
    new.write_text(json.dumps({"op": "Add", "answers": [slow]}))
    said = commands.npusim(capsys, "compare", old, new, "--html", page, "--json")
    assert said.code == 0
    assert json.loads(said.out)["changes"][0]["ratio"] == 3.0
    assert "3.0 times as long on Ascend910B3" in page.read_text()
    assert "+200 %" in commands.npusim(capsys, "compare", old, new).out
    assert commands.npusim(capsys, "compare", old, tmp_path / "none.json").code == 2
    assert commands.npusim(capsys, "compare", old, new, "--html", old, "--force").code == 2

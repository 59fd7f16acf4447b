"""Terminals: what is asked fits into as many columns as there are."""

from __future__ import annotations

import pytest

from support.commands import npusim

GELU = "estimate aclnnGelu -s 910b3,310p3 self=fp16[1024,1024]"


@pytest.mark.parametrize(
    ("line", "columns"), [(GELU, 60), (GELU, 80), ("profiles", 80), ("--help", 80)]
)
def test_no_line_is_wider_than_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, line: str, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    said = npusim(capsys, line)
    assert said.code == 0
    lines = said.out.splitlines()
    assert max(map(len, lines)) <= columns
    assert all(each == each.rstrip(" ") for each in lines)


def test_a_table_that_is_too_wide_comes_in_parts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    line = "estimate aclnnGelu -s 910b3 self=fp16[1024,1024]"
    whole = npusim(capsys, line).out
    monkeypatch.setenv("COLUMNS", "60")
    parts = npusim(capsys, line).out
    words, again = ({each for each in text.split() if "─" not in each} for text in (whole, parts))
    assert words == again, "nothing is cut"
    heads = [each for each in parts.splitlines() if each.startswith("task ")]
    assert len(heads) > 1


def test_help_says_whole_sentences(capsys: pytest.CaptureFixture[str]) -> None:
    assert "..." not in npusim(capsys, "--help").out.partition("Commands:")[2].partition("Will")[0]

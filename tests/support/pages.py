"""What pages show, compared with what is printed."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"\d[\d,.]*")


def lines_of(text: str) -> list[str]:
    """What is printed, whatever its numbers and its spaces are."""
    masked = (_NUMBER.sub("0", " ".join(line.split())) for line in text.splitlines())
    return [line.replace("─", "") for line in masked if line.strip("─ ")]


def assert_prints(printed: str, told: str) -> None:
    """Every line of a page is printed, in this order."""
    left = lines_of(printed)
    for line in lines_of(told):
        if line != "...":
            assert line in left, f"{line!r} isn't among {left}"
            left = left[left.index(line) + 1 :]

"""Writes reports/plan_report.html and .md: cards for the backward pass of a detection head.

python reports/plan_report.py
"""

from __future__ import annotations

import shlex
import sys
from contextlib import chdir
from pathlib import Path

from npusim.cli import main

HERE = Path(__file__).parent
CALL = "plan reports/plans/detection_head.yaml"
TARGETS = ("plan_report.html", "plan_report.md")


def write(folder: Path) -> None:
    """Make the report in both forms in a folder; the plan is evaluated once."""
    files = [str(folder.resolve() / name) for name in TARGETS]
    with chdir(HERE.parent):
        try:
            main([*shlex.split(CALL), "--html", files[0], "--md", files[1], "--force"])
        except SystemExit as done:
            if done.code:
                raise


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)

"""Writes reports/operator_report.html and .md: one operator on three products, looked at closely.

python reports/operator_report.py
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from npusim.cli import main

HERE = Path(__file__).parent
CALL = (
    "report GroupNormBackward -s Ascend910B3 -s Ascend910A -s Ascend310P3 "
    "gradOut=fp16[8,256,4096] input=fp16[8,256,4096] mean=fp16[8,32] rstd=fp16[8,32] "
    "gamma=fp16[256] N=8 C=256 HxW=4096 group=32 outputMask=true,true,true"
)
TARGETS = ("operator_report.html", "operator_report.md")


def write(folder: Path) -> None:
    """Make the report in both forms in a folder."""
    for name in TARGETS:
        try:
            main([*shlex.split(CALL), "-o", str(folder / name), "--force"])
        except SystemExit as done:
            if done.code:
                raise


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)

"""Fits the constants again, and all that follows from them: `python reports/refit.py`.

Constants, errors on workloads left out, bands, and the page with the accuracy: each uses what the
one before has written, so each is a process of its own. About 25 minutes on two idle cores.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
STEPS = (
    ("calibrate.py",),
    ("calibrate.py", "--leave-one-out"),
    ("calibrate.py", "--residuals"),
    ("validation.py",),
)

if __name__ == "__main__":
    for script, *options in STEPS:
        command = [sys.executable, str(HERE / script), *options]
        subprocess.run(command, check=True)  # noqa: S603 - our own scripts

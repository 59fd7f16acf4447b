"""A few dozen odd commands and calls, always the same; ``python tests/fuzz`` does many more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.skipif(sys.platform == "win32", reason="every case is a forked process")
def test_odd_cases_end_in_answers_or_clean_refusals() -> None:
    command = [sys.executable, str(Path(__file__).parent / "fuzz"), "--cases", "40", "--show"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "refused" in done.stdout

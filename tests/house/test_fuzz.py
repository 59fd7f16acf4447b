"""A few dozen odd commands and calls, and two kills, always the same.

``python tests/fuzz`` and ``python tests/fuzz/kills.py`` do many more.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from support.paths import TESTS


@pytest.mark.skipif(sys.platform == "win32", reason="every case is a forked process")
def test_odd_cases_end_in_answers_or_clean_refusals() -> None:
    command = [sys.executable, str(TESTS / "fuzz"), "--cases", "40", "--show"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "refused" in done.stdout


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="every case is a forked process")
def test_random_and_broken_onnx_graphs_end_in_answers_or_clean_refusals() -> None:
    pytest.importorskip("onnx")
    command = [sys.executable, str(TESTS / "fuzz"), "--cases", "400", "--show"]
    done = subprocess.run(
        [*command, "--only", "onnx_graphs"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "success" in done.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent to groups of processes")
def test_a_killed_command_leaves_nothing_half_written_and_goes_on() -> None:
    script = str(TESTS / "fuzz" / "kills.py")
    command = [sys.executable, script, "--kills", "2", "--only", "sweep", "--only", "trace"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 faults" in done.stdout

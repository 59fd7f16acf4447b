"""A few dozen odd commands and calls, and two kills, always the same.

``python tests/fuzz`` and ``python tests/fuzz/kills.py`` do many more.
"""

from __future__ import annotations

import os
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
@pytest.mark.parametrize(
    ("kind", "cases"),
    [
        ("onnx_graphs", 500),
        ("configurations", 300),
        ("api_verbs", 500),
        ("numbers", 500),
        ("optional_arguments", 500),
        ("python_kernels", 500),
        ("cpp_kernels", 60),
    ],
)
def test_cases_of_each_kind_end_in_answers_or_clean_refusals(kind: str, cases: int) -> None:
    if kind == "onnx_graphs":
        pytest.importorskip("onnx")
    if os.environ.get("CI"):  # which has other things to do as well
        cases //= 6
    command = [sys.executable, str(TESTS / "fuzz"), "--cases", str(cases), "--show"]
    done = subprocess.run([*command, "--only", kind], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "success" in done.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent to groups of processes")
def test_a_killed_command_leaves_nothing_half_written_and_goes_on() -> None:
    script = str(TESTS / "fuzz" / "kills.py")
    command = [sys.executable, script, "--kills", "2", "--only", "sweep", "--only", "trace"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 faults" in done.stdout

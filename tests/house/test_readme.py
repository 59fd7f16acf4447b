"""The README tells the truth: every command and every snippet in it runs."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from support.capi import workshop
from support.commands import npusim
from support.paths import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
CI = (ROOT / ".ci" / "run").read_text(encoding="utf-8")

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[str]:
    return [text for kind, text in _BLOCK.findall(README) if kind == language]


LINES = [line for block in blocks("sh") for line in block.splitlines()]
INSTALLING = [line for line in LINES if line.startswith("python3 -m venv")]
PROGRAMS = [line for line in LINES if line.startswith(("npusim cc", "npusim exec"))]
COMMANDS = [line for line in LINES if line.startswith("npusim ") and line not in PROGRAMS]
LONG = ("detection_head.yaml", "chat.yaml")  # plans that take seconds


def run(line: str, folder: Path, **given: Any) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", *shlex.split(line)]
    as_in_a_clone(folder)
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, **given)


def as_in_a_clone(folder: Path) -> None:
    """The folders that commands name."""
    for each in ("reports", "examples"):
        if not (folder / each).exists():
            (folder / each).symlink_to(ROOT / each)


def test_every_line_is_tested_somehow() -> None:
    assert sorted([*INSTALLING, *COMMANDS, *PROGRAMS]) == sorted(LINES)
    assert {kind for kind, _ in _BLOCK.findall(README)} == {"sh", "python"}


def test_the_first_screen_asks_the_questions() -> None:
    first = "\n".join(README.splitlines()[:40])
    for question in ("Will it run?", "How long does it take?", "How many cards?"):
        assert question in first


def test_the_two_commands_are_those_of_the_ci() -> None:
    main_job, test_job = INSTALLING
    assert main_job.endswith("npusim demo")
    assert test_job.endswith("pytest")
    for line in re.findall(r"grep -m1 -E '(.+)' README\.md", CI):
        assert sum(re.search(line, command) is not None for command in INSTALLING) == 1
    assert CI.count('bash -euo pipefail -c "$main_job"') == 1
    assert CI.count('bash -euo pipefail -c "$test_job"') == 1


def test_the_main_job_does_what_it_promises(tmp_path: Path) -> None:
    done = run(INSTALLING[0].rpartition(".venv/bin/")[2], tmp_path)
    assert done.returncode == 0, done.stderr
    for word in ("Ascend910A", "Ascend910B3", "561003", " us (", "pass", "npusim_demo_trace.json"):
        assert word in done.stdout
    assert (tmp_path / "npusim_demo_trace.json").stat().st_size > 0


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(line, marks=[pytest.mark.slow] if line.endswith(LONG) else [])
        for line in COMMANDS
    ],
)
def test_commands(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    as_in_a_clone(tmp_path)
    monkeypatch.chdir(tmp_path)
    said = npusim(capsys, "", *shlex.split(line)[1:])
    assert said.code == 0, said.err
    assert said.out + said.err


def test_programs(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    pytest.importorskip("cffi")
    if which("c++") is None:
        pytest.skip("there is no C++ compiler here")
    for line in PROGRAMS:
        done = run(line, tmp_path, env=workshop(tmp_path_factory).environment)
        assert done.returncode == 0, done.stderr
    assert "Ascend910B3" in done.stdout


@pytest.mark.parametrize("number", range(len(blocks("python"))))
def test_snippets(number: int, tmp_path: Path) -> None:
    (tmp_path / "reports").symlink_to(ROOT / "reports")  # they read what a clone has
    done = subprocess.run(
        [sys.executable, "-c", blocks("python")[number]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout + done.stderr

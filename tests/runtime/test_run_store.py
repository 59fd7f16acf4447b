"""Runs kept on disk: shared, off unless asked, safe against damage and other writers."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

import npusim
from npusim import Device
from npusim.engine import Memo
from npusim.reading import run_store
from npusim.reading.run_store import RunStore
from npusim.runtime import streams

# Runs are kept by the code that made them: a child takes ours, not what lies where it starts.
PYTHON = [sys.executable, "-P", "-c"]
SAME_CODE = {"PYTHONPATH": str(Path(npusim.__file__).parents[1])}
CALL = {"self": "fp16[40,300]", "dim": 1}
WRITER = """
import sys
from pathlib import Path
from npusim.reading.run_store import RunStore
store, who = RunStore(Path(sys.argv[1])), sys.argv[2]
for number in range(1000):
    store.put(f"{who} {number}".encode(), f"by {who}".encode())
    store.put(f"both {number}".encode(), b"the same")
store.flush()
"""
ESTIMATE = """
import json
from npusim import Device
found = Device("Ascend910B3").estimate("aclnnSoftmax", self="fp16[40,300]", dim=1)
print(json.dumps([[task.duration_us, task.pipes, task.hbm_bytes] for task in found.tasks]))
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "runs.sqlite"


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels that are traced."""
    names: list[str] = []
    trace = streams.trace

    def noting(kernel: streams.Kernel, *given: object, **how: object) -> object:
        names.append(kernel.op_type)
        return trace(kernel, *given, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(streams, "trace", noting)
    return names


def estimated(path: Path) -> list[float]:
    """The durations of a call's tasks, by a process that has only the file."""
    store = RunStore(path)
    found = Device("Ascend910B3", memo=Memo(store=store)).estimate("aclnnSoftmax", **CALL)
    store.flush()
    return [task.duration_us for task in found.tasks]


def test_nothing_is_kept_on_disk_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(run_store.VARIABLE, raising=False)
    run_store.shared.cache_clear()
    assert Memo().store is None


def test_another_process_finds_what_one_has_kept(path: Path, traced: list[str]) -> None:
    first = estimated(path)
    assert traced
    traced.clear()
    assert estimated(path) == first
    assert traced == []
    environment = {**os.environ, **SAME_CODE, run_store.VARIABLE: str(path)}
    command = [*PYTHON, ESTIMATE]
    rows = sqlite3.connect(path).execute("SELECT COUNT(*) FROM runs").fetchone()
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    assert [task[0] for task in json.loads(done.stdout)] == first
    assert sqlite3.connect(path).execute("SELECT COUNT(*) FROM runs").fetchone() == rows


def test_other_code_and_other_numbers_of_a_chip_are_other_runs(
    path: Path, traced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    estimated(path)
    traced.clear()
    profile = Device("Ascend910B3").profile
    launch = profile.launch.model_copy(update={"base_us": 9.0})
    other = profile.model_copy(update={"launch": launch})
    Device(other, memo=Memo(store=RunStore(path))).estimate("aclnnSoftmax", **CALL)
    assert traced
    traced.clear()
    monkeypatch.setattr(run_store, "_code", lambda: b"12345678")
    estimated(path)
    assert traced


def test_two_writers_lose_nothing(path: Path) -> None:
    environment = {**os.environ, **SAME_CODE}
    writers = [
        subprocess.Popen([*PYTHON, WRITER, str(path), who], env=environment)
        for who in ("one", "two")
    ]
    assert [each.wait() for each in writers] == [0, 0]
    store = RunStore(path)
    for number in range(1000):
        assert store.get(f"one {number}".encode()) == b"by one"
        assert store.get(f"two {number}".encode()) == b"by two"
        assert store.get(f"both {number}".encode()) == b"the same"


@pytest.mark.parametrize("cut", ["other text", "half", "a hole", "empty"])
def test_a_damaged_file_costs_time_alone(path: Path, traced: list[str], cut: str) -> None:
    first = estimated(path)
    data = path.read_bytes()
    path.write_bytes(
        {
            "other text": b"no database at all\n" * 100,
            "half": data[: len(data) // 2],
            "a hole": data[:100] + bytes(len(data) - 100),
            "empty": b"",
        }[cut]
    )
    assert estimated(path) == first
    traced.clear()
    assert estimated(path) == first
    assert traced == []  # it has been begun anew


@pytest.mark.parametrize("text", [b"", b"no checksum", b"[1,2", b"null", b"[1,[2],{}]"])
def test_a_damaged_run_is_found_anew(path: Path, text: bytes) -> None:
    first = estimated(path)
    with sqlite3.connect(path) as database:
        for (key,) in database.execute("SELECT key FROM runs").fetchall():
            for stored in (text, run_store._checksum(key, text) + text):
                database.execute("UPDATE runs SET text = ? WHERE key = ?", (stored, key))
    assert estimated(path) == first


@pytest.mark.skipif(sys.platform == "win32", reason="files have no such mode")
def test_a_file_that_others_may_write_to_is_left_alone(path: Path, traced: list[str]) -> None:
    estimated(path)
    path.chmod(0o666)
    traced.clear()
    estimated(path)
    assert traced


def test_a_place_that_cannot_be_written_costs_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = RunStore(tmp_path / "file" / "runs.sqlite")
    store.put(b"key", b"text")
    store.flush()
    assert store.get(b"key") is None

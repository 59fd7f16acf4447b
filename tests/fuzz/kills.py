"""Commands that are killed: ``python tests/fuzz/kills.py --kills 200``, or with ``--signal KILL`` only.

Each command is started, told to end (TERM, KILL, INT) at a random moment, and looked at: no
traceback of ours, nothing half-written, and what is begun again gives what an undisturbed command
gives. Cache and store of runs are empty before each, so that they are being written. Before the first line of `npusim/__main__.py` has run, Ctrl-C is Python's own to answer, with
a traceback; these are counted apart. And when it comes while a C extension is being imported, Python ends itself
by SIGINT, whatever exit code is asked of it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path

import yaml

sys.path[:0] = [str(Path(__file__).parents[1])]

from fuzz.cases import KERNELS, MEASURED, MODEL
from fuzz.configurations import DENSE, LLM_PLAN
from support.commands import started
from support.paths import ROOT
from support.plans import plan

SIGNALS = (signal.SIGINT, signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
CACHE, RUNS, BUILT = "cache", "runs.sqlite", "npusim_ops"
SPEC = {
    "products": ["Ascend910B3", "Ascend310P3"],
    "axes": {"N": {"from": 1, "to": 60, "step": 1}},
    "calls": [
        {"op": "aclnnRelu", "arguments": {"self": "fp16[{N},64]"}},
        {"op": "SoftmaxV2", "arguments": {"x": "fp16[{N},{N}]"}},
    ],
}
CALL = ("SoftmaxV2", "x=fp16[2000,129]", "-s", "910b3")
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "sweep": ("sweep", "s.yaml", "-o", "r.jsonl", "--csv", "r.csv", "--workers", "2"),
    "report": ("report", *CALL, "-o", "r.html"),
    "plan": ("plan", "p.yaml", "--html", "p.html", "--md", "p.md"),
    "run": ("run", *CALL, "-o", "o.npz"),
    "trace": ("trace", *CALL, "-o", "t.json"),
    "summary": ("estimate", *CALL, "--format", "msprof", "-o", "prof", "--timestamp", "20260102030405"),
    "model": ("model", "m.yaml", "-s", "910b3,310p3", "--csv", "m.csv"),
    "kernels": ("model", "k.csv", "-s", "910b3", "--csv", "k_out.csv"),
    "validate": ("validate", "v.csv", "--csv", "v_out.csv", "--workers", "2"),
    "llm_plan": ("plan", "l.yaml", "--html", "l.html", "--md", "l.md"),
    "matrix": ("ops", "matrix", "-o", "matrix.csv"),
    "build": ("op", "build", "op_project", "-o", BUILT),
}  # fmt: skip


def _files(folder: Path) -> None:
    for name, content in (
        ("s", SPEC),
        ("p", plan(simulation={"runs": 3, "requests": 4000})),
        ("m", MODEL),
        ("l", LLM_PLAN),
    ):
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    (folder / "config.json").write_text(json.dumps(DENSE), encoding="utf-8")
    shutil.copytree(ROOT / "examples/op_project", folder / "op_project")
    (folder / "k.csv").write_bytes(KERNELS)
    (folder / "v.csv").write_bytes(MEASURED + MEASURED.split(b"\n")[1] * 1)


def _contents(folder: Path) -> dict[str, str]:
    """What is finished, by a digest; a sweep's lines come in any order.

    Libraries and what names them have their folder's name in them, and no digest.
    """
    found = {}
    for path in sorted(_paths(folder)):
        inner = str(path.relative_to(folder))
        if (
            path.is_file()
            and not inner.startswith((CACHE, RUNS))
            and not inner.endswith(".lock")
            and ".part" not in inner
        ):
            data = b"" if inner.startswith(BUILT) else path.read_bytes()
            if path.suffix == ".jsonl":
                data = b"\n".join(sorted(data.splitlines()))
            found[inner] = hashlib.sha256(data).hexdigest()
    return found


def _paths(folder: Path) -> Iterator[Path]:
    """Everything in a folder but the cache's."""
    for path in folder.iterdir():
        if path.name != CACHE:
            yield path
            yield from path.rglob("*")


def _settle(group: int, folder: Path) -> list[str]:
    """Wait for what a killed command started, and for whoever sweeps up behind it; what stays."""
    left: list[object] = []
    for _ in range(3000):
        left = list(folder.glob(f"{BUILT}/.*"))
        with suppress(ProcessLookupError):
            os.killpg(group, 0)
            left.append(f"processes of {group}")
        if not left:
            break
        time.sleep(0.02)
    return [f"stays for a minute: {each}" for each in left]


class Round:
    """One command: what it makes undisturbed, and how it takes being killed."""

    def __init__(self, name: str) -> None:
        self.name, self.words = name, COMMANDS[name]
        self.before_us = 0
        with tempfile.TemporaryDirectory() as folder:
            _files(Path(folder))
            start = time.monotonic()
            process = started(self.words, Path(folder))
            _, said = process.communicate()
            self.takes_s = time.monotonic() - start
            assert process.returncode in (0, 1, 3), said
            self.wanted = _contents(Path(folder))

    def kill(self, dice: random.Random, signals: Sequence[signal.Signals]) -> list[str]:
        """Kill it once and let it go on; what was wrong."""
        folder = Path(tempfile.mkdtemp(prefix="kill-"))
        _files(folder)
        before = set(_contents(folder))
        number = dice.choice(signals)
        after_s = dice.choice((0.05, self.takes_s)) * dice.random() * 1.1
        process = started(self.words, folder)
        time.sleep(after_s)
        whole = number != signal.SIGKILL or dice.random() < 0.5
        if process.poll() is None:
            (os.killpg if whole else os.kill)(process.pid, number)
        try:
            _, said = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return [f"{self.name} {number.name} at {after_s:.2f} s: goes on for a minute"]
        wrong = _settle(process.pid, folder)
        wrong += self._judge(number, process.returncode, said, folder, before)
        if self.name == "build" and list(folder.glob(f"{BUILT}/npusim_*")):
            wrong += _faulty_plug_in(folder)
        again = ("--force",) if set(_contents(folder)) - before else ()
        if self.name == "sweep":
            again = ("--resume",) if (folder / "r.jsonl").exists() else ()
            (folder / "r.csv").unlink(missing_ok=True)
        last = started((*self.words, *again), folder)
        _, said = last.communicate(timeout=120)
        if last.returncode not in (0, 1, 3):
            wrong.append(f"again: exit {last.returncode}: {said[-300:]}")
        elif _contents(folder) != self.wanted:
            kept = {*_contents(folder).items()} ^ {*self.wanted.items()}
            wrong.append(
                f"again: other files than undisturbed: {sorted({name for name, _ in kept})}"
            )
        wrong += _faulty_store(folder)
        if self.name == "build":
            wrong += _faulty_plug_in(folder)
        shutil.rmtree(folder, ignore_errors=True)
        return [f"{self.name} {number.name} at {after_s:.3f} s: {each}" for each in wrong]

    def _judge(
        self, number: signal.Signals, code: int, said: str, folder: Path, before: set[str]
    ) -> list[str]:
        wrong = []
        if "Traceback" in said and "npusim/" not in said.replace("npusim/__init__.py", ""):
            self.before_us += 1
        elif "Traceback" in said:
            wrong.append(f"a traceback: {said[-900:]}")
        if code not in (0, 1, 3, -number, 128 + number, -signal.SIGINT):
            wrong.append(f"exit code {code}: {said[-300:]}")
        if number != signal.SIGKILL:
            wrong += [
                f"left over: {path.name}" for path in _paths(folder) if path.suffix == ".part"
            ]
        for name, digest in _contents(folder).items():
            if (
                name not in before
                and not name.endswith(".jsonl")
                and digest != self.wanted.get(name)
            ):
                wrong.append(f"half-written: {name}")
        return wrong


def _faulty_plug_in(folder: Path) -> list[str]:
    """What is wrong with a plug-in that is there."""
    words = ("estimate", "ScaledShift", "x=fp16[64,64]", "-s", "910b3")
    os.environ["NPUSIM_OPS"] = BUILT
    process = started(words, folder)
    del os.environ["NPUSIM_OPS"]
    _, said = process.communicate(timeout=120)
    return [f"the plug-in: {said[-300:]}"] if process.returncode or "warn" in said else []


def _faulty_store(folder: Path) -> list[str]:
    """What is wrong with the store of runs."""
    if not (folder / RUNS).exists():
        return []
    with closing(sqlite3.connect(folder / RUNS)) as store:
        told = store.execute("pragma integrity_check").fetchall()
    return [] if told == [("ok",)] else [f"{RUNS}: {told}"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=COMMANDS, action="append")
    parser.add_argument("--signal", choices=[each.name[3:] for each in set(SIGNALS)])
    given = parser.parse_args()
    signals = [signal.Signals[f"SIG{given.signal}"]] if given.signal else SIGNALS
    os.environ |= {"NPUSIM_CACHE": CACHE, "NPUSIM_RUNS": RUNS}  # in each command's own folder
    rounds = [Round(name) for name in given.only or COMMANDS]
    dice, faults, done = random.Random(given.seed), 0, Counter[str]()  # noqa: S311
    for turn in range(given.kills):
        each = rounds[turn % len(rounds)]
        wrong = each.kill(dice, signals)
        done[each.name] += 1
        faults += bool(wrong)
        for line in wrong:
            print(line, flush=True)
        if (turn + 1) % 10 == 0:
            print(f"{turn + 1} kills, {faults} faults", flush=True)
    before_us = sum(each.before_us for each in rounds)
    print(", ".join(f"{count} x {name}" for name, count in done.items()))
    print(f"{faults} faults; {before_us} x Ctrl-C before npusim was there")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

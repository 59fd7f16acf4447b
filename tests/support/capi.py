"""Compiling and running C++ programs on the simulator, each program once in a test run."""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.paths import DATA

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

PROGRAMS, KERNELS = DATA / "capi", DATA / "ascendc"

needs_capi = pytest.mark.skipif(
    shutil.which("c++") is None and shutil.which("g++") is None,
    reason="there is no C++ compiler",
)
needs_cffi = pytest.mark.skipif(
    importlib.util.find_spec("cffi") is None, reason="cffi is not installed"
)


@dataclass(frozen=True)
class Ran:
    """What a program said."""

    code: int
    out: str
    err: str

    def answers(self) -> dict[str, str]:
        """Its lines, by their first word."""
        pairs = (line.partition(" ") for line in self.out.splitlines())
        return {name: answer for name, _, answer in pairs}


@dataclass(frozen=True)
class Workshop:
    """A folder that all workers of a test run share, with the library and the programs."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """For commands that must not touch the user's cache.

        They import npusim from where it is installed, not from the folder in which they are
        started: the library is named by that, and would be built for each of the two.
        """
        told = {name: text for name, text in os.environ.items() if not name.startswith("NPUSIM_")}
        return told | {"NPUSIM_CACHE": str(self.folder / "cache"), "PYTHONSAFEPATH": "1"}

    def npusim(self, *words: str | Path, **more: str) -> Ran:
        """Run `npusim` in a process of its own."""
        command = [sys.executable, "-m", "npusim", *map(str, words)]
        return _run(command, self.environment | more)

    def python(self, source: str, *words: str | Path) -> Ran:
        """Run some Python in a process of its own, on the chip of A2."""
        command = [sys.executable, "-c", source, *map(str, words)]
        return _run(command, self.environment | {"NPUSIM_SOC": "Ascend910B3"})

    def program(self, name: str, *flags: str) -> Path:
        """The program of a source in tests/data/capi, compiled when first asked for."""
        words = ("-Wall", "-Wextra", "-Werror", "-Wno-nonnull", *flags)
        return self.compiled(PROGRAMS / f"{name}.cpp", flags, words)

    def kernels(self, name: str, *flags: str) -> Path:
        """The program of a source in tests/data/ascendc, compiled when first asked for."""
        return self.compiled(KERNELS / f"{name}.asc", flags, flags)

    def compiled(self, source: Path, told: Sequence[str], flags: Sequence[str]) -> Path:
        """A source's program, which is named by it and the flags that are `told`."""
        from npusim.capi.compiling import compile_program

        target = self.folder / "-".join((source.stem, *(flag.strip("-=") for flag in told)))
        with target.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not target.exists():
                with self.cache():
                    compile_program([source], target, flags)
        return target

    def once(self, name: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What some work finds, which one of the workers of a test run does."""
        file = self.folder / name
        with file.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not file.exists():
                file.write_text(json.dumps(work()), encoding="utf-8")
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return found

    def project(self, project: Path, kernels: dict[str, int], ops: Sequence[str] = ()) -> Path:
        """A folder with an operator project that is built when first asked for: NPUSIM_OPS."""
        from npusim.capi.projects.building import build

        target = self.folder / f"plugins-{project.name}"
        with target.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not target.exists():
                with self.cache():
                    (done,) = build(project, target, ops=ops)
                assert done.kernels == kernels
        return target

    @contextmanager
    def cache(self) -> Iterator[None]:
        """What this process compiles meanwhile uses the library of the test run."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("NPUSIM_CACHE", self.environment["NPUSIM_CACHE"])
            yield

    def run(self, program: Path, *words: str | Path, soc: str = "Ascend910B3", **more: str) -> Ran:
        """Run a program by itself, as ./program does, without the paths of this test run."""
        told = {name: text for name, text in self.environment.items() if name != "VIRTUAL_ENV"}
        return _run([str(program), *map(str, words)], told | {"NPUSIM_SOC": soc} | more)


def workshop(factory: pytest.TempPathFactory) -> Workshop:
    """The shared folder of this test run; also for several workers of pytest-xdist."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "capi"
    folder.mkdir(exist_ok=True)
    return Workshop(folder)


def without_code(folder: Path) -> dict[str, str]:
    """An environment in which the library is built of nothing, for programs that never load it.

    The folder gets a compiler that makes empty files.
    """
    compiler = folder / "makes_nothing"
    compiler.write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\n: > "$2"\n')
    compiler.chmod(0o755)
    return {"CC": str(compiler), "CXX": str(compiler)}


def _run(command: list[str], environment: dict[str, str]) -> Ran:
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    return Ran(done.returncode, done.stdout, done.stderr)

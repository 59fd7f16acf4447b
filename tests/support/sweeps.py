"""Sweeps for the tests: a specification, a process that works on it, and what it leaves behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from support.paths import ROOT

# Calls that take some 10 ms each: long enough to stop a sweep in the middle.
NORM = """
products: [Ascend910B3, Ascend910B4]
axes:
  N: {from: 1, to: 8, step: 1}
  C: [64, 128, 256]
  dtype: [fp16, fp32]
calls:
  - op: GroupNormBackward
    arguments:
      gradOut: "{dtype}[{N},{C},{16*16}]"
      input: "{dtype}[{N},{C},256]"
      mean: "{dtype}[{N},{C // 8}]"
      rstd: "{dtype}[{N},{C // 8}]"
      gamma: null
      N: "{N}"
      C: "{C}"
      HxW: 256
      group: "{C // 8}"
      outputMask: [true, true, true]
"""
NORM_POINTS = 8 * 3 * 2 * 2

# Quick ones, of which some are rejected: no bf16 on 310P.
LOSS = """
products: [Ascend910B3, Ascend310P3]
axes:
  n: [64, 4096, 1048576]
  dtype: [fp32, bf16]
calls:
  - op: BinaryCrossEntropyBackward
    arguments:
      gradOutput: "{dtype}[{n}]"
      self: "{dtype}[{n}]"
      target: "{dtype}[{n}]"
      weightOptional: null
      reduction: 0
"""
LOSS_POINTS = 3 * 2 * 2

# Operator types and aclnn names without a page of their own here, as `npusim estimate` takes them.
STANDARD = """
products: "Ascend910B3, 310P3"
axes: {n: [64, 80]}
calls:
  - {op: aclnnAdd, arguments: {self: "fp16[{n}]", other: "fp16[{n}]", alpha: 1}}
  - {op: [Gelu, Relu], arguments: {x: "fp16[{n}]"}}
  - {op: MatMulV3, arguments: {x1: "fp16[{n},32]", x2: "fp16[32,{n}]", transpose_x1: "false"}}
  - op: GroupNorm
    arguments: {x: "fp16[8,64,{n}]", gamma: "fp16[64]", beta: "fp16[64]", num_groups: "8"}
"""


def write(folder: Path, text: str, name: str = "spec.yaml") -> Path:
    """A specification on disk."""
    path = folder / name
    path.write_text(text)
    return path


def rows(path: Path) -> list[dict[str, Any]]:
    """All rows of a file of results, every line of which must be whole."""
    content = path.read_text()
    assert content == "" or content.endswith("\n")
    return [json.loads(line) for line in content.splitlines()]


def lines(path: Path) -> list[str]:
    """The lines in an order that doesn't depend on who was first."""
    return sorted(path.read_text().splitlines())


def start(spec: Path, out: Path, *options: str) -> subprocess.Popen[str]:
    """`npusim sweep` as a process group of its own."""
    command = [sys.executable, "-m", "npusim", "sweep", str(spec), "-o", str(out), *options]
    return subprocess.Popen(
        command,
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=_listen_to_ctrl_c,  # noqa: PLW1509 - no thread of ours is running
    )


def _listen_to_ctrl_c() -> None:
    """What a shell starts in the background ignores SIGINT, and so do its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def wait_for_lines(process: subprocess.Popen[str], path: Path, count: int) -> None:
    """Until so many results are there; fails if the process ends before or takes a minute."""
    deadline = time.monotonic() + 60
    while not path.exists() or path.read_bytes().count(b"\n") < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)

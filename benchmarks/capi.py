"""Times aclnn programs in C++ against their limits: `python benchmarks/capi.py`.

A call is compared with the same two phases in Python, in processor time and in turns, because the
difference is small beside what a call takes and beside what a busy machine adds.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from speed import REPEATS, Figure, told_by

from npusim.capi.compiling import compile_program

SOURCES = Path(__file__).parent.parent / "tests" / "data" / "capi"
ENVIRONMENT = os.environ | {"NPUSIM_SOC": "Ascend910B3"}
CALLS = 200

IN_PYTHON = f"""
import json, time, numpy as np, npusim
npu = npusim.Device("Ascend910B3")
x = np.full((32, 32), 0.5, np.float32)
arguments = dict.fromkeys(("gradOutput", "self", "target", "weightOptional"), x)
arguments |= {{"reduction": 0, "out": x.copy()}}
def call():
    size, executor = npu.get_workspace_size("aclnnBinaryCrossEntropyBackward", **arguments)
    stream = npu.create_stream()
    stream.execute(None, size, executor)
    stream.synchronize()
for _ in range(20):
    call()
start = time.process_time()
for _ in range({CALLS}):
    call()
print(json.dumps((time.process_time() - start) / {CALLS}))
"""


def start_up_seconds(program: Path) -> float:
    """The wall time of a program that makes one call, the best of several."""
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        subprocess.run([program], check=True, stdout=subprocess.DEVNULL, env=ENVIRONMENT)
        times.append(time.perf_counter() - start)
    return min(times)


def call_seconds(program: Path) -> float:
    """The processor time of one call of a program that makes many."""
    command = [str(program), str(CALLS), "keep"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=ENVIRONMENT)
    return float(done.stdout.split()[1]) / 1e6


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        programs = {
            name: compile_program([SOURCES / f"{name}.cpp"], Path(folder) / name)
            for name in ("cross_entropy", "cycles")
        }
        start_up = start_up_seconds(programs["cross_entropy"])
        in_c, in_python = [], []
        for _ in range(3):
            in_c.append(call_seconds(programs["cycles"]))
            in_python += told_by(IN_PYTHON)
    figures = (
        Figure("start a C++ program, one BinaryCrossEntropyBackward", start_up, 1.5, "s"),
        Figure("a call in C++ beyond the Python API", (min(in_c) - min(in_python)) * 1e3, 1, "ms"),
        Figure("  the call itself, in Python", min(in_python) * 1e3, float("inf"), "ms"),
    )
    for figure in figures:
        print(figure, flush=True)
    return 0 if all(figure.ok for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())

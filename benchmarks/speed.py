"""Times what people wait for, against the limits that we promise: `python benchmarks/speed.py`.

Every figure is the best of several, each in a fresh process, because the limits are about the
program and not about what else the machine does; where another program is the measure, the two take
turns. Exits 1 when a limit is missed. ``--write reports/performance.md`` makes the page.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from against_torch import CALLS, in_a_process
from calls import LARGE
from new_shapes import KINDS

import npusim
from npusim.reporting.files import atomic_write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

REPEATS = 5
TURNS = 3  # of commands that take half a minute, and of who is compared
WHO = ("fast", "plain", "torch")
HERE = Path(__file__).parent
_TABLE = "data/measured_ops.csv.gz"
ELEMENTWISE = ("aclnnBinaryCrossEntropyBackward", "aclnnGelu", "aclnnGatherV2")
# What we aim at: a sixth of a tenth of a second for a kind with many tiles, and less for others.
NEW_MS = dict(zip(KINDS, (1.67, 1.67, 1.67, 8.3, 16.7), strict=True))
TWO_THREADS = {**os.environ, "OMP_NUM_THREADS": "2"}

IMPORTS = ("-c", "import numpy, pydantic, simpy")
QUESTION = """\
estimate GroupNormBackward -s Ascend910B3 gradOut=bf16[32,512,4096] input=bf16[32,512,4096]
mean=bf16[32,32] rstd=bf16[32,32] gamma=bf16[512] N=32 C=512 HxW=4096 group=32
outputMask=[True,True,True]"""

WARM = """
import json, sys, time
sys.path.insert(0, {here!r})
from calls import LARGE, estimate
large, other = LARGE[{name!r}]
estimate(other)
times = []
for _ in range(6):
    start = time.perf_counter()
    estimate(large)
    times.append(time.perf_counter() - start)
print(json.dumps([times[0], min(times[1:])]))
"""

# No card holds the largest of these, so they are asked of a chip with more memory.
SIZES = """
import json, sys, tempfile, time
from pathlib import Path
sys.path.insert(0, {here!r})
import npusim
from calls import CHIP, cross_entropy, estimate, group_norm
chip = Path(tempfile.mkdtemp()) / "roomy.yaml"
chip.write_text('''
inherits: ''' + CHIP + '''
name: Roomy
memory:
  capacity_bytes: 1125899906842624
  provenance:
    capacity_bytes: {{source: own_statement, confidence: assumed}}
''')
estimate(cross_entropy(999))
estimate(group_norm(3, 24, 500, 4))
def best(call):
    times = []
    for _ in range(5):
        device = npusim.Device(str(chip))
        start = time.perf_counter()
        estimate(call, device)
        times.append(time.perf_counter() - start)
    return min(times)
small, large = best(cross_entropy(2**20)), best(cross_entropy(2**34))
huge = best(group_norm(2**10, 2**10, 2**20, 32))
print(json.dumps([max(small, large) / min(small, large), huge]))
"""

PRODUCT = """
import json, resource, sys
import numpy as np
from npusim import TensorSpec, load_profile
from npusim.runtime.task import run_tasks
from npusim.operators.tasks import TaskSpec, kernels_of
profile, numbers, n = load_profile("Ascend910B3"), {numbers}, 4096
x = TensorSpec((n, n), "float16")
(kernel,) = kernels_of(profile, TaskSpec("MatMulV2", (x, x), (x,)))
if numbers:
    random = np.random.default_rng(0)
    for tensor in kernel.reads:
        tensor.buffer.data = random.random(n * n, dtype=np.float32).astype(np.float16)
    kernel.writes[0].buffer.data = np.empty(n * n, np.float16)
run_tasks([kernel], profile, numerics=numbers)
print(json.dumps([resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""

NEW_SHAPES = """
import json, sys
sys.path.insert(0, {here!r})
from new_shapes import per_second
print(json.dumps([1 / per_second({kind!r})]))
"""

BOXES = """
import json, sys, time, numpy as np, npusim
sys.path.insert(0, {here!r})
import roi_align
rng = np.random.default_rng(0)
middle, size = rng.uniform(0, (1088, 800), (512, 2)), rng.uniform(8, 120, (512, 2))
corners = (np.zeros((512, 1)), middle - size / 2, middle + size / 2)
boxes = np.concatenate(corners, axis=1).astype(np.float32)
grad = rng.standard_normal((512, 256, 7, 7), dtype=np.float32)
def plain():
    return roi_align.gradient(grad, boxes, (1, 256, 200, 272), 0.25, 2)
npu = npusim.Device("Ascend910B3")
def ours():
    return npu.run("aclnnRoiAlignV2Backward", gradOutput=grad, boxes=boxes,
                   inputShape=[1, 256, 200, 272], pooledHeight=7, pooledWidth=7, spatialScale=0.25,
                   samplingRatio=2, aligned=True).outputs["gradInput"]
def timed(work):
    start = time.perf_counter()
    return work(), time.perf_counter() - start
(found, ours_s), (wanted, plain_s) = timed(ours), timed(plain)
np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=2e-5 * np.abs(wanted).max())
print(json.dumps([ours_s, plain_s]))
"""


@dataclass(frozen=True)
class Figure:
    """One measured value and the most that it may be."""

    what: str
    value: float
    limit: float
    unit: str

    @property
    def ok(self) -> bool:
        return self.value <= self.limit

    @property
    def allowed(self) -> str:
        return "" if self.limit == inf else f"{self.limit:.3g} {self.unit}"

    def __str__(self) -> str:
        verdict = "" if self.limit == inf else "ok" if self.ok else "TOO SLOW"
        return f"{self.what:<64} {self.value:>8.3g} {self.unit:<4} {self.allowed:>12} {verdict}"

    @property
    def row(self) -> str:
        """A line of the page's table."""
        verdict = "" if self.limit == inf else "yes" if self.ok else "**no**"
        return f"| {self.what} | {self.value:.3g} {self.unit} | {self.allowed} | {verdict} |"


def seconds_of(words: Sequence[str]) -> tuple[float, str]:
    """The wall time of a command of Python, and what it prints."""
    start = time.perf_counter()
    command = [sys.executable, "-P", *words]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=TWO_THREADS)
    return time.perf_counter() - start, done.stdout


def in_turns(*commands: Sequence[str]) -> list[float]:
    """The wall times of commands, the best of several of each, taking turns."""
    times = [[seconds_of(words)[0] for words in commands] for _ in range(REPEATS)]
    return [min(column) for column in zip(*times, strict=True)]


def told_by(*words: str, repeats: int = REPEATS) -> list[float]:
    """What a command prints as JSON, the best of several processes, number by number."""
    results = [json.loads(seconds_of(words)[1]) for _ in range(repeats)]
    return [min(values) for values in zip(*results, strict=True)]


def start_up() -> Iterator[Figure]:
    question = ("-m", "npusim", *QUESTION.split())
    imports, page, answer = in_turns(IMPORTS, ("-m", "npusim", "--help"), question)
    yield Figure("`import numpy, pydantic, simpy`", imports, inf, "s")
    yield Figure("`npusim --help`, over these imports", page / imports, 0.7, "x")
    yield Figure("`npusim estimate` of a GroupNormBackward, over them", answer / imports, 2.5, "x")


def estimates() -> Iterator[Figure]:
    for name in LARGE:
        first, again = told_by("-c", WARM.format(here=str(HERE), name=name), repeats=3)
        new = 120 if "Deformable" in name else 60
        yield Figure(f"{name}, first time", 1e3 * first, new, "ms")
        yield Figure(f"{name}, again", 1e3 * again, 10, "ms")
    ratio, huge = told_by("-c", SIZES.format(here=str(HERE)))
    yield Figure("GroupNormBackward of 2**40 elements", 1e3 * huge, 100, "ms")
    yield Figure("BinaryCrossEntropyBackward of 2**34 elements, over 2**20", ratio, 3, "x")


def new_shapes() -> Iterator[Figure]:
    for kind in KINDS:
        (seconds,) = told_by("-c", NEW_SHAPES.format(here=str(HERE), kind=kind), repeats=3)
        yield Figure(f"{kind}, processor time of a new shape", 1e3 * seconds, NEW_MS[kind], "ms")


def products() -> Iterator[Figure]:
    for numbers, seconds, mib in ((False, 1, 150), (True, 3, 600)):
        words = ("-c", PRODUCT.format(numbers=numbers))
        what = "MatMul 4096x4096x4096 fp16 with its result" if numbers else "MatMul, time alone"
        yield Figure(f"{what}, whole process", in_turns(words)[0], seconds, "s")
        yield Figure(f"{what}, peak memory", told_by(*words, repeats=1)[0], mib, "MiB")


def numbers() -> Iterator[Figure]:
    for operator in CALLS if find_spec("torch") else ():
        turns = [[in_a_process(operator, who) for who in WHO] for _ in range(TURNS)]
        fast, plain, torch = map(min, zip(*turns, strict=True))
        limit = 2.0 if operator in ELEMENTWISE else inf
        yield Figure(f"run {operator} with [fast], processor time", fast, inf, "ms")
        yield Figure("the same, over torch on 2 threads", fast / torch, 1.3, "x")
        yield Figure("without [fast], over torch on 2 threads", plain / torch, limit, "x")
    ours, plain = told_by("-c", BOXES.format(here=str(HERE)), repeats=2)
    yield Figure("run RoiAlignV2Backward of 512 boxes, 256 channels, ratio 2", ours, inf, "s")
    yield Figure("the same, over vectorised NumPy", ours / plain, 1, "x")


def validation() -> Iterator[Figure]:
    table = str(HERE.parent / "reports" / _TABLE)
    seconds, _ = seconds_of(("-m", "npusim", "validate", table))
    yield Figure("`npusim validate` of the whole measured table", seconds, 60, "s")


def sweeps() -> Iterator[Figure]:
    spec = str(HERE.parent / "reports" / "sweep_example.yaml")
    times: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for workers in ("2", "1") * TURNS:  # whatever else the machine does, it does to both
            rows = str(Path(folder) / "rows.jsonl")
            words = ("-m", "npusim", "sweep", spec, "-o", rows, "--workers", workers, "--force")
            times[workers] = min(times.get(workers, inf), seconds_of(words)[0])
    yield Figure("`npusim sweep` of 3,000 points, 2 processes", times["2"], 60, "s")
    yield Figure("the same with 1 process", times["1"], inf, "s")
    yield Figure("2 processes over 1", times["2"] / times["1"], 1 / 1.7, "x")


def against(other: Path) -> Iterator[Figure]:
    """Sweep and validation, over those of another checkout and its own .venv, taking turns.

    Both replay the rows that the other has a time of: what it refuses costs it nothing.
    """
    pythons = {"this": sys.executable, "other": str(other / ".venv" / "bin" / "python")}
    spec = str(HERE.parent / "reports" / "sweep_example.yaml")
    with tempfile.TemporaryDirectory() as folder:
        table = str(answered_by(pythons["other"], Path(folder)))
        for what, words in (
            ("`npusim sweep` of 3,000 points", ("sweep", spec, "--force", "-o", "rows.jsonl")),
            (
                "`npusim validate` of common rows",
                ("validate", table, "--force", "--csv", "rows.csv"),
            ),
        ):
            used: dict[str, list[tuple[float, float]]] = {who: [] for who in pythons}
            for _ in range(TURNS):
                for who, python in pythons.items():
                    # One process: those of a sweep are nobody's to wait for, and wouldn't count.
                    used[who].append(times_of((python, "-m", "npusim", *words, "--workers", "1")))
            ours, theirs = (
                [min(each) for each in zip(*used[who], strict=True)] for who in ("this", "other")
            )
            yield Figure(f"{what}, processor time", ours[0], inf, "s")
            yield Figure("the same, over the other checkout", ours[0] / theirs[0], 0.5, "x")
            yield Figure("its wall time, over the other checkout", ours[1] / theirs[1], 0.5, "x")


def answered_by(python: str, folder: Path) -> Path:
    """The rows of the measured table that a checkout has a time of, as a table in a folder."""
    table, told = HERE.parent / "reports" / _TABLE, folder / "told.csv"
    words = ("-m", "npusim", "validate", str(table), "--csv", str(told))
    subprocess.run((python, *words), check=True, capture_output=True, cwd=folder)
    with told.open(newline="") as stream:
        lines = {int(row["line"]) for row in csv.DictReader(stream) if row["simulated_us"]}
    common = folder / "common.csv"
    with gzip.open(table, "rt", newline="") as stream, common.open("w", newline="") as kept:
        head, *rows = csv.reader(stream)
        csv.writer(kept).writerows([head, *(row for at, row in enumerate(rows, 2) if at in lines)])
    return common


def times_of(command: Sequence[str]) -> tuple[float, float]:
    """Processor time of a command and its processes, and wall time."""
    import resource  # not on Windows

    def used() -> float:
        about = resource.getrusage(resource.RUSAGE_CHILDREN)
        return about.ru_utime + about.ru_stime

    before, start = used(), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(command, check=True, capture_output=True, cwd=folder)
    return used() - before, time.perf_counter() - start


PARTS = {
    "Start-up": start_up,
    "Estimates, warm": estimates,
    "Estimates of new shapes": new_shapes,
    "A matrix product": products,
    "Numbers": numbers,
    "Sweeps": sweeps,
    "Validation": validation,
}


_HEAD = """# How fast npusim is

npusim {version} on {machine}; {versions}.
Made by `python benchmarks/speed.py --write reports/performance.md`.

Every figure is the best of several processes of the installed package; started from its sources
with PYTHONDONTWRITEBYTECODE, Python compiles them each time. *First time* is an estimate of a shape
that the process hasn't seen, *again* the same one once more; all else is warm: modules are imported
and the profile is loaded."""


def page(parts: dict[str, list[Figure]]) -> str:
    versions = f"Python {platform.python_version()}, NumPy {np.__version__}"
    lines = [_HEAD.format(version=npusim.__version__, machine=machine(), versions=versions)]
    for title, figures in parts.items():
        lines += [
            "",
            f"## {title}",
            "",
            "| what | measured | at most | kept |",
            "|---|---|---|---|",
        ]
        lines += [figure.row for figure in figures]
    return "\n".join(lines) + "\n"


def machine() -> str:
    model = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        found = [line for line in information.read_text().splitlines() if "model name" in line]
        model = found[0].partition(":")[2].strip() if found else model
    return f"{os.cpu_count()} x {model}, {platform.system()}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, add_help=True)
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the page")
    help_of_other = "only compare sweep and validate with another checkout, which has a .venv"
    parser.add_argument("--against", type=Path, metavar="FOLDER", help=help_of_other)
    given = parser.parse_args()
    wanted = given.write
    measured: dict[str, Callable[[], Iterator[Figure]]] = PARTS
    if given.against is not None:
        measured = {f"Against {given.against}": partial(against, given.against.resolve())}
    parts: dict[str, list[Figure]] = {}
    for title, measure in measured.items():
        print(title)
        parts[title] = []
        for figure in measure():
            print(" ", figure, flush=True)
            parts[title].append(figure)
    if wanted is not None:
        with atomic_write(wanted, force=True) as stream:
            stream.write(page(parts).encode())
    return 0 if all(figure.ok for figures in parts.values() for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())

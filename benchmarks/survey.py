"""Times estimates of new large tasks of every operator type, on each chip that has a kernel.

`python benchmarks/survey.py [NAME ...]` draws tasks as `tests/support/task_cases.py` does, but with
tensors of millions of elements in ragged shapes, and lists those that take longest: the first time,
in a process that has imported everything and estimated a small task of the same type, and again.
Times are of the processor.
"""

from __future__ import annotations

import argparse
import random
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import exp, log, prod
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np

sys.path.append(str(Path(__file__).parent.parent / "tests"))

from npusim import TensorSpec, load_profile
from npusim.ascendc import GlobalTensor, GmBuffer, Kernel
from npusim.engine import Memo
from npusim.operators.registry import kernel_class, op_types
from npusim.operators.tasks import TaskSpec, kernels_of
from npusim.runtime.task import run_tasks
from npusim.values.dtypes import dtype
from npusim.values.errors import NpusimError
from support import row_cases, task_cases

if TYPE_CHECKING:
    from npusim.hardware import Profile

Array = np.ndarray[Any, Any]
CHIPS = ("Ascend910B3", "Ascend910A", "Ascend310P3")
ELEMENTS = 2**25  # of one tensor, about
STRETCH = 23  # what sizes that a task chooses from are multiplied by, in every second draw
LONGEST_S = 30  # that an estimate may take
ROOM_BYTES = 6 << 30  # of the process: draws that work on large numbers don't fit
MOST_SHOWN = 7  # operands
TRIES = 12  # draws, of which the largest is taken
REFUSED = (
    NpusimError,
    ValueError,
    IndexError,
    ZeroDivisionError,
    AttributeError,
    AssertionError,
    MemoryError,
    TypeError,
)


def blank(*shape: int, kind: Any = np.float32) -> Array:
    """An array that takes no memory: nobody asks for its numbers."""
    return np.broadcast_to(np.array(0, kind), shape)


@contextmanager
def without_memory() -> Iterator[None]:
    """Inside, arrays of one number take no memory."""

    def like(array: Array, kind: Any = None) -> Array:
        return blank(*array.shape, kind=kind or array.dtype)

    def of(shape: Any, kind: Any = np.float64) -> Array:
        return blank(*np.atleast_1d(shape), kind=kind)

    def full(shape: Any, _: object, kind: Any = np.float64) -> Array:
        return of(shape, kind)

    with patch.multiple(np, zeros=of, full=full, zeros_like=like, ascontiguousarray=lambda x: x):
        yield


class Large(task_cases.Pick):
    """Draws large tasks where :class:`Pick` draws small ones."""

    def __init__(self, seed: str, profile: Profile, stretch: int, elements: int) -> None:
        self.profile = profile
        self.stretch = stretch
        self.elements = elements
        self._chance = random.Random(seed)  # noqa: S311 - no secret
        self._random = np.random.default_rng(0)

    def of(self, *choices: Any) -> Any:
        found = self._chance.choice(choices)
        if type(found) is int and found >= 5 and self.stretch > 1 and found % 16:
            found = found * self.stretch + self._chance.randrange(self.stretch)
        return found

    def size(self, most: int = 130) -> int:
        if self.stretch == 1:
            return self._between(most / 2, most)
        return self._between(most, most * 31)

    def shape(self, least: int = 1, most: int = 3, elements: int = 12_000) -> tuple[int, ...]:
        rank = self._chance.randint(least, most)
        left = self.elements * min(1.0, elements / 12_000)
        found = []
        for axis in range(rank):
            mean = left ** (1 / (rank - axis))
            found.append(
                self._between(mean / 3, mean * 3) if axis < rank - 1 else max(1, int(left))
            )
            left /= found[-1]
        return tuple(found)

    def numbers(self, *shape: int, kind: Any = np.float32) -> Array:
        return blank(*shape, kind=kind)

    positive = numbers

    def places(self, count: Sequence[int], below: int, kind: Any = np.int32) -> Array:
        if prod(count) > 2**20:
            return blank(*count, kind=kind)
        return self._random.integers(0, below * self.stretch, count).astype(kind)

    def once(self, count: int, below: int, kind: Any = np.int32) -> Array:
        return blank(min(count, below), kind=kind)

    def bytes(self, count: int) -> Array:
        return blank(count, kind=np.uint8)

    def _between(self, least: float, most: float) -> int:
        return round(exp(self._chance.uniform(log(max(1, least)), log(max(1, most)))))


def specs(arrays: Sequence[Array | None]) -> tuple[TensorSpec | None, ...]:
    return tuple(
        None if each is None else TensorSpec(each.shape, dtype(each.dtype).name) for each in arrays
    )


def built(task: task_cases.Task, profile: Profile, op_type: str) -> Sequence[Kernel]:
    if task.direct is None:
        given, made = specs(task.inputs), specs(task.outputs)
        return kernels_of(profile, TaskSpec(op_type, given, made, task.attributes))  # type: ignore[arg-type]
    given = [gm(each, f"x{n}") for n, each in enumerate(task.inputs) if each is not None]
    made = {f"y{n}": gm(each, f"y{n}") for n, each in enumerate(task.outputs)}
    named = {name: made.get(str(value), value) for name, value in task.direct.items()}
    rest = [each for name, each in made.items() if name not in task.direct.values()]
    return [kernel_class(op_type)(profile, *given, *rest, **named)]


def gm(array: Array, name: str) -> GlobalTensor:
    return GlobalTensor(GmBuffer(name, max(1, array.nbytes)), dtype(array.dtype), array.shape)


@dataclass(frozen=True)
class Found:
    op_type: str
    chip: str
    task: task_cases.Task
    first_ms: float
    again_ms: float
    duration_us: float

    def __str__(self) -> str:
        shapes = " ".join(
            "-" if each is None else f"{each.dtype}{list(each.shape)}"
            for each in self.task.inputs[:MOST_SHOWN]
        )
        said = " ".join(f"{k}={v}" for k, v in self.task.attributes.items())
        return (
            f"{self.op_type:<28} {self.chip:<12} {self.first_ms:>8.1f} {self.again_ms:>7.1f} "
            f"{self.duration_us:>12.0f} us  {shapes} {said}"
        )


class TooLongError(Exception):
    """An estimate that isn't worth waiting for."""


def estimated(
    task: task_cases.Task, profile: Profile, op_type: str, memo: Memo
) -> tuple[float, float]:
    """Milliseconds of the processor, and what the task takes."""
    start = time.process_time()
    run = run_tasks(built(task, profile, op_type), profile, memo=memo)
    return 1e3 * (time.process_time() - start), run.duration_us


def survey(op_type: str, chip: str, seed: int) -> Found | None:
    """A large task of an operator type on a chip; None where no draw is one that it takes."""
    profile, memo = load_profile(chip), Memo()
    case = task_cases.case_of(op_type)
    small = any(
        _takes(
            lambda n=n: estimated(
                case(Large(f"{n}", profile, 1, 5000), op_type), profile, op_type, memo
            )
        )
        for n in range(TRIES)
    )
    if not small:
        return None
    task = largest(case, op_type, profile, seed)
    if task is None:
        return None
    try:
        first, duration = estimated(task, profile, op_type, memo)
        again, _ = estimated(task, profile, op_type, memo)
    except NpusimError as error:
        print(f"{op_type} on {chip} ({seed}): {error}", flush=True)
        return None
    return Found(op_type, chip, task, first, again, duration)


def largest(
    case: task_cases.Case, op_type: str, profile: Profile, seed: int
) -> task_cases.Task | None:
    """The draw with most elements that the kernel takes."""
    drawn: list[tuple[int, task_cases.Task]] = []
    for number in range(TRIES):
        pick = Large(f"{seed} {number}", profile, (1, STRETCH)[number % 2], ELEMENTS)
        with suppress(*REFUSED), without_memory():
            task = case(pick, op_type)
            sizes = [each.size for each in (*task.inputs, *task.outputs) if each is not None]
            if max(sizes) <= 4 * ELEMENTS:
                drawn.append((sum(sizes), task))
    for _, task in sorted(drawn, key=lambda each: -each[0]):
        with suppress(*REFUSED):
            built(task, profile, op_type)
            return task
    return None


def _takes(work: Callable[[], object]) -> bool:
    with suppress(*REFUSED):
        work()
        return True
    return False


def _too_long(*_: object) -> None:
    raise TooLongError


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="operator types; all by default")
    parser.add_argument("--chips", nargs="*", default=CHIPS)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0])
    parser.add_argument("--above", type=float, default=60.0, help="milliseconds that are listed")
    given = parser.parse_args()
    signal.signal(signal.SIGALRM, _too_long)
    resource.setrlimit(resource.RLIMIT_AS, (ROOM_BYTES, ROOM_BYTES))
    found: list[Found] = []
    without: list[str] = []
    for op_type in given.names or (
        each for each in op_types() if each not in row_cases.stood_for()
    ):
        for chip in given.chips:
            for seed in given.seeds:
                signal.alarm(LONGEST_S)
                try:
                    one = survey(op_type, chip, seed)
                except TooLongError:
                    one = None
                    print(f"{op_type} on {chip} ({seed}): too long", flush=True)
                signal.alarm(0)
                if one is None:
                    without.append(op_type)
                    continue
                found.append(one)
                if one.first_ms > given.above or one.again_ms > 10:
                    print(one, flush=True)
    print("no task:", *without)
    found.sort(key=lambda each: -each.first_ms)
    print(f"\n{len(found)} tasks; the longest:")
    for each in found[:40]:
        print(each)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Rows of a measured table replayed on their chips, next to what a roofline says of them."""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from npusim.engine import Code, L2State, Memo, process_memo
from npusim.hardware import Profile, load_profile
from npusim.operators.tasks import TaskSpec, kernels_of
from npusim.runtime.cache_start import (
    LAYERS,
    empty_cache,
    hold_code,
    lost_code,
    prime,
)
from npusim.runtime.task import TaskRuns, run_tasks
from npusim.validation.roles import ALONE, Role
from npusim.validation.roofline import roofline_us
from npusim.values.dtypes import BOOL
from npusim.values.errors import NpusimError
from npusim.values.garbage import WORKERS_COLLECT_AFTER, collect_rarely
from npusim.values.signals import end_with_parent, hidden_from_children, in_order

if TYPE_CHECKING:
    from npusim.ascendc import Kernel
    from npusim.validation.table import MeasuredRow

_Answers = Generator["Prediction", None, None]

_MOST_WORKERS = 61  # what Windows can wait for
# What L2 holds of inputs where a row's start isn't the name of that.
_IN_STEPS = {
    "prefetched": "in_graph",
    "uncached": "cold",
    "between": "in_graph",
}
_CHUNK = 64  # rows that a worker process predicts one after the other


@dataclass(frozen=True)
class Prediction:
    """What the simulator says of one row; ``reason`` tells why it says nothing.

    ``pipes`` are the busy ratios of the longest kernel's pipes, of its time on the cores.
    """

    row: MeasuredRow
    simulated_us: float | None
    band_us: tuple[float, float] | None
    roofline_us: float | None
    bound: str
    reason: str
    pipes: Mapping[str, float] = field(default_factory=dict)

    @property
    def error(self) -> float | None:
        """Relative error of the simulated time, positive where it is too long."""
        return None if self.simulated_us is None else self.simulated_us / self.row.duration_us - 1


def replay(
    rows: Iterable[MeasuredRow],
    *,
    l2: str = "in_graph",
    workers: int = 1,
    progress: Callable[[int], None] | None = None,
) -> Iterator[Prediction]:
    """Predict every row, in order.

    ``l2`` says what the cache holds when a task starts (cold, warm or in_graph); in a graph, rows
    of loops find what the turn before has left.
    """
    for done, prediction in enumerate(_predictions(rows, l2, workers), start=1):
        if progress is not None:
            progress(done)
        yield prediction


def _predictions(rows: Iterable[MeasuredRow], l2: str, workers: int) -> Iterator[Prediction]:
    """What is asked several times is answered once."""
    everything = list(rows)
    questions: dict[Hashable, MeasuredRow] = {}
    for row in everything:
        questions.setdefault(row.question, row)
    found: dict[Hashable, Prediction] = {}
    with closing(_answers(list(questions.values()), l2, workers)) as answers:
        for row in everything:
            if row.question not in found:
                found[row.question] = next(answers)
            yield replace(found[row.question], row=row)


def _answers(rows: Sequence[MeasuredRow], l2: str, workers: int) -> _Answers:
    if workers == 1:
        yield from (predict(row, l2, process_memo()) for row in rows)
        return
    chunks = [rows[at : at + _CHUNK] for at in range(0, len(rows), _CHUNK)]
    processes = max(1, min(workers, len(chunks), _MOST_WORKERS))
    # The pool ends its processes by SIGTERM, which is for none of our own handlers.
    pool = ProcessPoolExecutor(processes, None, _begin)
    try:
        with hidden_from_children():  # all of them are started by the first chunks
            answers = [pool.submit(_predict_all, l2, chunk) for chunk in chunks]
        for answered in in_order(answers):
            yield from answered
    finally:
        pool.shutdown(cancel_futures=True)


def _begin() -> None:
    """Prepare a worker process, which ends with the one that asks, however that ends."""
    end_with_parent()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    collect_rarely(WORKERS_COLLECT_AFTER)


def _predict_all(l2: str, rows: Sequence[MeasuredRow]) -> list[Prediction]:
    return [predict(row, l2, process_memo()) for row in rows]


def predict(row: MeasuredRow, l2: str, memo: Memo | None = None) -> Prediction:
    """One row: a prediction, or the reason why there is none."""
    if row.task is None:
        return Prediction(row, None, None, None, "", row.problem)
    if not row.soc:
        return Prediction(row, None, None, None, "", row.problem)
    profile = load_profile(row.soc)
    roofline = roofline_us(profile, row.task)
    try:
        found = simulate_row(profile, row, row.task, l2, memo)
    except NpusimError as error:
        return Prediction(row, None, None, roofline, "", " ".join(str(error).split()))
    pipes = found.longest.pipes if found.longest else {}
    return Prediction(row, found.duration_us, found.band_us, roofline, found.bound, "", pipes)


def simulate_row(
    profile: Profile, row: MeasuredRow, task: TaskSpec, l2: str, memo: Memo | None = None
) -> TaskRuns:
    """The ``task`` of a row on a chip, with all that the row says of its step."""
    return simulate_task(profile, task, start_of(row, l2), memo, row.role)


def start_of(row: MeasuredRow, l2: str) -> str:
    """What a row's task finds in L2: ``l2``, but for a graph what the row says if it says it."""
    return row.start or l2 if l2 == "in_graph" else l2


def simulate_task(
    profile: Profile,
    task: TaskSpec,
    l2: str,
    memo: Memo | None = None,
    role: Role = ALONE,
) -> TaskRuns:
    """The kernels of a recorded task, each with its inputs in L2 as ``l2`` says.

    In a ``loop`` they find what the turn before has left in L2 and in the cores; where it is
    ``flushed`` in between, in the cores alone, and in L2 what has flushed it, some of it modified:
    what code the cores can't hold comes from HBM. Where it is ``cleared``, L2 holds what was read
    last, which gives way to results (msprof op ahead of every launch: msopcom, ClearL2Cache.cpp and
    ProfDataCollect.cpp). ``prefetched`` is a graph that loads weights into L2 ahead of the products
    with them, ``uncached`` one in which none of the inputs is there, ``between`` a call between two
    runs of a graph, whose code nobody has run since the one before. The ``role`` says what the task
    is in its step.
    """
    cache = empty_cache(profile, reuse_fraction=profile.memory.l2_reuse_fraction)
    kernels = tuple(kernels_of(profile, task))
    lost = lost_code(profile, LAYERS if role.layered else 1)
    again = l2 in ("loop", "flushed", "cleared")
    far = l2 in ("between", "flushed", "cleared") or (role.one_shape and not role.layered)
    hold_code(cache, kernels, l2, Code(lost, far, role.one_shape))
    if l2 == "loop":
        tensors = (tensor for each in kernels for tensor in (*each.reads, *each.writes))
        cache.repeat({each.buffer.number: each.buffer.nbytes for each in tensors})
        if role.cast_masks:
            _hold_masks(cache, kernels[0], profile)
    if l2 == "flushed":
        cache.write_back_share = profile.memory.l2_write_back_share
        for _ in task.inputs:  # whoever measures fills each anew
            cache.keep_code(None)
    if again:
        return run_tasks(kernels, profile, cache, memo=memo)
    return run_tasks(_primed(kernels, profile, cache, l2, role), profile, cache, memo=memo)


def _hold_masks(cache: L2State, kernel: Kernel, profile: Profile) -> None:
    """Let AI CPUs have written the operands of BOOL just before."""
    for each in kernel.reads:
        if each.dtype is BOOL:
            cache.written_by_cpus(each.buffer.number, each.nbytes, profile.ai_cpu.cache_bytes)


def _primed(
    kernels: Iterable[Kernel], profile: Profile, cache: L2State, l2: str, role: Role
) -> Iterator[Kernel]:
    for kernel in kernels:
        cold = kernel.reads if role.streams else kernel.cold
        prime(cache, kernel.reads, _IN_STEPS.get(l2, l2), profile, cold, kernel.writes)
        cache.pushed_out_share = 1.0 if role.amid else 0.0
        if l2 == "prefetched":
            for weights in kernel.cold:
                cache.touch(weights.buffer.number, weights.buffer.nbytes)
        yield kernel

"""Tasks on the device, one after the other: numbers, time, and what limits each.

This is the only loop in which kernels run one after the other; a call, a step of a model and a
replayed measurement all use it.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from npusim.ascendc.ai_cpu import AiCpuKernel
from npusim.ascendc.checked import check_once
from npusim.ascendc.tracing import compute, is_separable
from npusim.engine import KernelRun, L2State, Memo, machine_for, simulate, verdict
from npusim.runtime.bands import band_of
from npusim.runtime.cache_start import empty_cache
from npusim.runtime.known_runs import KnownRun
from npusim.runtime.streams import describe as described_as
from npusim.runtime.streams import streams_of
from npusim.runtime.timeline import TaskResult, pipe_ratios
from npusim.values.garbage import CollectLater

if TYPE_CHECKING:
    from npusim.ascendc import Kernel
    from npusim.hardware.profile import Profile


@dataclass(frozen=True, slots=True)
class TaskRuns:
    """Tasks that ran one after the other, and what the engine played for each."""

    tasks: tuple[TaskResult, ...]
    runs: tuple[KernelRun, ...]

    @property
    def duration_us(self) -> float:
        """From the first launch to the end of the last task."""
        return sum(task.duration_us for task in self.tasks)

    @property
    def band_us(self) -> tuple[float, float]:
        """The 80 % band of the duration."""
        low, high = (sum(task.band_us[end] for task in self.tasks) for end in (0, 1))
        return low, high

    @property
    def longest(self) -> TaskResult | None:
        """The task that took longest; None where there was nothing to do."""
        return max(self.tasks, key=lambda task: task.duration_us, default=None)

    @property
    def bound(self) -> str:
        """What limits the longest task."""
        return self.longest.bound if self.longest else "nothing to do"


def run_tasks(
    kernels: Iterable[Kernel],
    profile: Profile,
    l2: L2State | None = None,
    *,
    numerics: bool = False,
    exact: bool = False,
    memo: Memo | None = None,
) -> TaskRuns:
    """Run kernels in their order; each finds ``l2`` (default: cold) as the one before it left it.

    Kernels that ``memo`` knows aren't played again. A kernel is taken from ``kernels`` when the one
    before it has ended, so that a generator can prepare memory and L2 for it.
    """
    tasks: list[TaskResult] = []
    runs: list[KernelRun] = []
    start_us = 0.0
    cache = empty_cache(profile) if l2 is None else l2
    with nullcontext() if numerics else CollectLater():
        for kernel in kernels:
            run = play(kernel, profile, cache, numerics=numerics, exact=exact, memo=memo)
            task = describe(kernel, profile, run, start_us)
            start_us = task.start_us + task.duration_us
            runs.append(run)
            tasks.append(task)
    return TaskRuns(tuple(tasks), tuple(runs))


def play(
    kernel: Kernel,
    profile: Profile,
    l2: L2State,
    *,
    numerics: bool = False,
    exact: bool = False,
    memo: Memo | None = None,
) -> KernelRun:
    """One kernel's numbers, its instruction streams and their time."""
    tensors = (*kernel.reads, *kernel.writes, *kernel.scratch)
    sizes = {tensor.buffer.number: tensor.buffer.nbytes for tensor in tensors}
    code = l2.place_of_code(kernel.code, kernel.op_type)
    l2.keep_code(kernel.code, kernel.op_type)
    if numerics:
        check_once(kernel, profile)
    apart = not numerics or is_separable(kernel)
    described = described_as(kernel, profile, code=code) if apart else None
    asked = False

    def played(cache: L2State, *, numerics: bool = False) -> KernelRun:
        nonlocal asked
        found = streams_of(kernel, profile, memo, described, numerics=numerics, code=code)
        groups, known_as, asked = found
        named = {theirs: sizes[own] for theirs, own in known_as.items() if own in sizes}
        machine = machine_for(profile, groups)
        return simulate(groups, machine, cache, sizes | named, exact=exact, known_as=known_as)

    if described is None:
        run = played(l2, numerics=numerics)
    else:
        known = KnownRun(memo, described, l2, played, exact=exact)
        run = known.find(l2) or known.keep(played(l2), asked=asked)
        if numerics:
            compute(kernel, profile)
    late = _cycles_for_cpus(kernel, profile, l2)
    if not late:
        return run
    return replace(run, cycles=run.cycles + late, launch_cycles=run.launch_cycles + late)


def _cycles_for_cpus(kernel: Kernel, profile: Profile, l2: L2State) -> float:
    """Cycles until a kernel has got what AI CPUs hold of its inputs; what they hold after it."""
    cpus = profile.ai_cpu
    if kernel.runs_on == AiCpuKernel.runs_on:
        for each in kernel.writes:
            l2.written_by_cpus(each.buffer.number, each.nbytes, cpus.cache_bytes)
        return 0.0
    nbytes = l2.taken_from_cpus(each.buffer.number for each in kernel.reads)
    return nbytes / cpus.cache_gbps / 1e3 * profile.clock_mhz if nbytes else 0.0


def describe(kernel: Kernel, profile: Profile, run: KernelRun, start_us: float = 0.0) -> TaskResult:
    """What a run of a kernel says in microseconds; ``start_us`` is when the task starts."""
    clock = profile.clock_mhz
    moved = run.traffic.read_bytes + run.traffic.written_bytes
    core_us = run.core_cycles / clock
    band, ratios = band_of(kernel, profile, run), run.busy_ratios()
    return TaskResult(
        name=kernel.op_type,
        block_dim=kernel.block_dim,
        cycles=round(run.cycles),
        start_us=start_us,
        duration_us=run.cycles / clock,
        launch_us=run.launch_cycles / clock,
        bound=kernel.runs_on or verdict(run, ratios),
        pipes=pipe_ratios(ratios),
        bytes_read=run.traffic.read_bytes,
        bytes_written=run.traffic.written_bytes,
        hbm_bytes=round(run.traffic.hbm_bytes),
        bandwidth_gbps=moved / core_us / 1e3 if core_us > 0 else 0.0,
        band_us=(run.cycles / clock * band.low, run.cycles / clock * band.high),
        band_basis=band.basis,
        jumped_ratio=run.jumped_cycles / run.cycles if run.cycles else 0.0,
    )

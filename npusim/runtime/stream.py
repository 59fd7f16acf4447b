"""The second phase of a call: planned tasks run on a stream, in their order.

Results are there after :meth:`Stream.synchronize`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from npusim.operators.oracle import has_run, refused_by_kernel
from npusim.runtime import argument_memory
from npusim.runtime.argument_memory import Places
from npusim.runtime.cache_start import hold_code, new_cache
from npusim.runtime.call import Executor
from npusim.runtime.results import Result
from npusim.runtime.task import TaskRuns, run_tasks
from npusim.runtime.timeline import Timeline
from npusim.values import locks
from npusim.values.errors import ArgumentError, KernelError, expect
from npusim.values.status import Status, StatusCode
from npusim.values.takes import takes

if TYPE_CHECKING:
    from threading import RLock

    from numpy.typing import NDArray

    from npusim.ascendc import Kernel
    from npusim.engine import Memo
    from npusim.hardware.profile import Profile
    from npusim.operators.task_chain import Chain


@dataclass(eq=False)
class Stream:
    """Tasks run in order; a fault of one is reported at :meth:`synchronize`, as on the device.

    A call finds in L2 what those before it on the stream left there, the first one nothing;
    ``l2`` says instead what every call finds (see :func:`npusim.runtime.cache_start.prime`).
    ``exact`` plays every repetition instead of jumping over the steady state; ``memo`` keeps what
    has been played.
    """

    profile: Profile
    exact: bool = False
    l2: str | None = None
    memo: Memo | None = None
    lock: RLock | nullcontext[None] = field(default_factory=locks.lock, repr=False)
    """Held by whoever queues a call and waits for it; threads that share a stream take turns."""
    _pending: list[Executor] = field(default_factory=list)
    _places: Places = field(default_factory=Places)

    def __post_init__(self) -> None:
        self._cache = new_cache(self.profile)

    def __reduce__(self) -> tuple[object, ...]:
        raise ArgumentError("a stream belongs to its process", "Copy the device; create another.")

    @takes()
    def execute(self, workspace: object, workspace_size: int, executor: Executor | None) -> Status:
        """Phase two: queue the executor's tasks.

        Returns 161001 for a null executor or a missing workspace. Raises ArgumentError for what is
        no executor or no size.
        """
        if executor is None:
            return _null("executor is a null pointer")
        expect(executor, Executor, "executor")
        expect(workspace_size, int, "workspace_size")
        if workspace_size > 0 and workspace is None:
            return _null(f"workspace is a null pointer, {workspace_size} bytes are needed")
        if executor.used:
            return Status(
                StatusCode.ACLNN_ERR_PARAM_INVALID,
                "the executor has been executed before",
                "An executor works once; call the first phase again.",
            )
        executor.used = True
        self._pending.append(executor)
        return Status(StatusCode.ACLNN_SUCCESS, "", "")

    def synchronize(self) -> list[Result]:
        """Run everything queued; one result per call. Raises DeviceFault where a kernel faulted."""
        results = []
        with self.lock:
            while self._pending:
                results.append(self._run(self._pending.pop(0)))
        return results

    def _run(self, executor: Executor) -> Result:
        chain, profile = executor.chain, self.profile
        outputs = argument_memory.bind(executor) if executor.numerics else None
        self._places.recognise(executor, self._cache)
        if self.l2 is not None:
            self._cache = new_cache(profile, tuple(chain.inputs()), self.l2, chain.tasks)
            hold_code(self._cache, chain.tasks, self.l2)
        kernels = _kernels(chain, numerics=executor.numerics)
        try:
            done = run_tasks(
                kernels,
                profile,
                self._cache,
                numerics=executor.numerics,
                exact=self.exact,
                memo=self.memo,
            )
        except KernelError as error:
            raise refused_by_kernel(error, executor.call) from error
        has_run(executor.call, chain)
        for buffer in chain.arguments.values():  # the caller's, who wants it back when he is done
            buffer.data = None
        return result_of(
            executor.call.contract.name,
            profile,
            done,
            outputs,
            workspace_size=executor.workspace_size,
            assumptions=tuple(chain.assumptions),
        )


def _kernels(chain: Chain, *, numerics: bool) -> Iterator[Kernel]:
    """The kernels of a chain; an intermediate has memory from its first task to its last."""
    last_use = {buffer.number: last for buffer, _, last in chain.lifetimes()}
    for index, kernel in enumerate(chain.tasks):
        if numerics:
            argument_memory.allocate_results(kernel)
        yield kernel
        for tensor in (*kernel.reads, *kernel.writes):
            if last_use.get(tensor.buffer.number) == index:
                tensor.buffer.data = None


def _null(sentence: str) -> Status:
    return Status(StatusCode.ACLNN_ERR_PARAM_NULLPTR, sentence, "")


def result_of(
    op: str,
    profile: Profile,
    done: TaskRuns,
    outputs: dict[str, NDArray[Any]] | None,
    *,
    workspace_size: int = 0,
    assumptions: tuple[str, ...] = (),
) -> Result:
    """The result of tasks that ran one after the other, under the name ``op``."""
    tasks, longest, duration_us = done.tasks, done.longest, done.duration_us
    names = dict.fromkeys(name for task in tasks for name in task.pipes)
    pipes = {
        name: sum(task.pipes.get(name, 0.0) * task.duration_us for task in tasks) / duration_us
        for name in names
    }
    return Result(
        op=op,
        soc=profile.name,
        outputs=outputs,
        cycles=sum(task.cycles for task in tasks),
        duration_us=duration_us,
        band_us=done.band_us,
        band_basis=longest.band_basis if longest else "nothing to do",
        bound=done.bound,
        pipes=pipes,
        workspace_size=workspace_size,
        tasks=tasks,
        timeline=Timeline(tasks, done.runs, profile),
        assumptions=assumptions,
        jumped_ratio=sum(task.jumped_ratio * task.cycles for task in tasks)
        / max(1, sum(t.cycles for t in tasks)),
    )

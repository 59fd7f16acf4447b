"""The two-phase call: check and plan first, then execute the planned tasks on a stream.

Phase one (:func:`get_workspace_size`) judges the arguments and returns the workspace size and an
executor; phase two (:meth:`Stream.execute`) queues the executor's tasks, once. Results are there
after :meth:`Stream.synchronize`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc import GlobalTensor, Kernel, trace
from npusim.engine import KernelRun, L2State, machine_of, simulate, verdict
from npusim.operators import arguments as binding
from npusim.operators.checks import check_call
from npusim.operators.contract import Call, Contract, TensorArg
from npusim.operators.registry import plan_of
from npusim.operators.task_chain import Chain
from npusim.runtime.bands import band_of
from npusim.runtime.cache_start import prime
from npusim.runtime.results import Result, TaskResult, Timeline, pipe_ratios
from npusim.values.errors import AclnnError
from npusim.values.status import Status, StatusCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from npusim.hardware.profile import Profile


@dataclass(eq=False)
class Executor:
    """The planned tasks of one accepted call.

    It can be executed once (the device leaves a second time undefined).
    """

    call: Call
    chain: Chain
    workspace_size: int
    numerics: bool
    used: bool = False


@dataclass(eq=False)
class Stream:
    """Tasks run in order; a fault of one is reported at :meth:`synchronize`, as on the device.

    ``exact`` plays every repetition instead of jumping over the steady state.
    """

    profile: Profile
    exact: bool = False
    l2: str = "cold"
    _pending: list[Executor] = field(default_factory=list)

    def execute(self, workspace: object, workspace_size: int, executor: Executor | None) -> Status:
        """Phase two: queue the executor's tasks.

        Returns 161001 for a null executor or a missing workspace.
        """
        if executor is None:
            return _null("executor is a null pointer")
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
        while self._pending:
            results.append(_execute(self._pending.pop(0), self.profile, self.exact, self.l2))
        return results


def check(contract: Contract, profile: Profile, arguments: Mapping[str, object]) -> Status:
    """The status that phase one would return; nothing is planned."""
    bound = binding.bind(contract, arguments, require_data=False)
    return check_call(Call(contract, profile, bound))


def get_workspace_size(
    contract: Contract,
    profile: Profile,
    arguments: Mapping[str, object],
    *,
    numerics: bool,
    assume: Mapping[str, object] | None = None,
) -> tuple[int, Executor]:
    """Phase one: workspace bytes and executor. Raises AclnnError when a check objects.

    ``assume`` sets numbers that the plan assumes where only data could tell them (see
    :meth:`Chain.assumed`).
    """
    bound = binding.bind(contract, arguments, require_data=numerics)
    call = Call(contract, profile, bound)
    status = check_call(call)
    if not status.ok:
        raise AclnnError(status)
    call = binding.complete(call)
    chain = Chain(call, profile, assume)
    if not contract.is_empty(call):
        plan_of(contract)(call, chain)
    chain.refuse_unknown_assumptions()
    return chain.workspace_bytes(), Executor(call, chain, chain.workspace_bytes(), numerics)


def _null(sentence: str) -> Status:
    return Status(StatusCode.ACLNN_ERR_PARAM_NULLPTR, sentence, "")


def _execute(executor: Executor, profile: Profile, exact: bool, mode: str) -> Result:
    chain = executor.chain
    outputs = _bind_memory(executor) if executor.numerics else None
    last_use = {id(buffer): last for buffer, _, last in chain.lifetimes()}
    l2 = L2State(profile.memory.l2_bytes)
    prime(l2, tuple(chain.inputs()), mode, profile)
    tasks: list[TaskResult] = []
    runs: list[KernelRun] = []
    for index, kernel in enumerate(chain.tasks):
        if executor.numerics:
            _provide(kernel)
        start_us = tasks[-1].start_us + tasks[-1].duration_us if tasks else 0.0
        run, task = run_task(
            kernel, profile, l2, numerics=executor.numerics, exact=exact, start_us=start_us
        )
        runs.append(run)
        tasks.append(task)
        for tensor in (*kernel.reads, *kernel.writes):
            if last_use.get(id(tensor.buffer)) == index:
                tensor.buffer.data = None
    for buffer in chain.arguments.values():  # the caller's, who wants it back when he is done
        buffer.data = None
    return _result(executor, profile, tuple(tasks), tuple(runs), outputs)


def run_task(
    kernel: Kernel,
    profile: Profile,
    l2: L2State,
    *,
    numerics: bool,
    exact: bool = False,
    start_us: float = 0.0,
) -> tuple[KernelRun, TaskResult]:
    """Run one kernel: its numbers, its instruction streams, its time."""
    machine = machine_of(profile, kernel.block_dim, mix=kernel.is_mix, generated=kernel.generated)
    tensors = (*kernel.reads, *kernel.writes, *kernel.scratch)
    sizes = {tensor.buffer.number: tensor.buffer.nbytes for tensor in tensors}
    groups = trace(kernel, profile, numerics=numerics)
    run = simulate(groups, machine, l2, sizes, exact=exact)
    clock = profile.clock_mhz
    moved = run.traffic.read_bytes + run.traffic.written_bytes
    core_us = run.core_cycles / clock
    band = band_of(kernel, profile, run)
    task = TaskResult(
        name=kernel.op_type,
        block_dim=kernel.block_dim,
        cycles=round(run.cycles),
        start_us=start_us,
        duration_us=run.cycles / clock,
        launch_us=run.launch_cycles / clock,
        bound=verdict(run, machine.rates),
        pipes=pipe_ratios(run),
        bytes_read=run.traffic.read_bytes,
        bytes_written=run.traffic.written_bytes,
        hbm_bytes=round(run.traffic.hbm_bytes),
        bandwidth_gbps=moved / core_us / 1e3 if core_us > 0 else 0.0,
        band_us=(run.cycles / clock * band.low, run.cycles / clock * band.high),
        band_basis=band.basis,
        jumped_ratio=run.jumped_cycles / run.cycles if run.cycles else 0.0,
    )
    return run, task


def _bind_memory(executor: Executor) -> dict[str, NDArray[Any]]:
    """Give the arguments' buffers their memory; outputs that the caller left out are allocated."""
    call, chain = executor.call, executor.chain
    outputs: dict[str, NDArray[Any]] = {}
    for parameter in call.contract.parameters:
        argument = call.arguments.get(parameter.name)
        if not isinstance(argument, TensorArg):
            continue
        data = argument.data
        if data is None:
            flat = np.zeros(
                argument.spec.storage_bytes // argument.spec.dtype.itemsize,
                argument.spec.dtype.numpy,
            )
            data = flat if argument.spec.rank == 0 else _strided(flat, argument)
        if parameter.name in chain.arguments:
            chain.arguments[parameter.name].data = _storage(data, argument)
        if parameter.io == "out" or parameter.is_changed:
            outputs[parameter.name] = data.reshape(argument.spec.shape)
    return outputs


def _strided(flat: NDArray[Any], argument: TensorArg) -> NDArray[Any]:
    spec = argument.spec
    steps = tuple(step * flat.itemsize for step in spec.strides)
    return np.lib.stride_tricks.as_strided(flat[spec.offset :], spec.shape, steps)


def _storage(data: NDArray[Any], argument: TensorArg) -> NDArray[Any]:
    """The flat memory behind an array, from its first element to its last."""
    if data.flags.c_contiguous:
        return data.reshape(-1)
    count = argument.spec.storage_bytes // argument.spec.dtype.itemsize - argument.spec.offset
    return np.lib.stride_tricks.as_strided(data, (count,), (data.itemsize,))


def _provide(kernel: Kernel) -> None:
    """Allocate what a kernel writes and nobody has allocated yet."""
    for tensor in (*kernel.writes, *kernel.scratch):
        if tensor.buffer.data is None:
            tensor.buffer.data = _allocate(tensor)


def _allocate(tensor: GlobalTensor) -> NDArray[Any]:
    held = np.dtype(np.float32) if tensor.buffer.wide else tensor.dtype.numpy
    return np.empty(tensor.buffer.nbytes // tensor.dtype.itemsize, held)


def _result(
    executor: Executor,
    profile: Profile,
    tasks: tuple[TaskResult, ...],
    runs: tuple[KernelRun, ...],
    outputs: dict[str, NDArray[Any]] | None,
) -> Result:
    duration_us = sum(task.duration_us for task in tasks)
    longest = max(tasks, key=lambda task: task.duration_us, default=None)
    names = dict.fromkeys(name for task in tasks for name in task.pipes)
    pipes = {
        name: sum(task.pipes.get(name, 0.0) * task.duration_us for task in tasks) / duration_us
        for name in names
    }
    return Result(
        op=executor.call.contract.name,
        soc=profile.name,
        outputs=outputs,
        cycles=sum(task.cycles for task in tasks),
        duration_us=duration_us,
        band_us=(sum(task.band_us[0] for task in tasks), sum(task.band_us[1] for task in tasks)),
        band_basis=longest.band_basis if longest else "nothing to do",
        bound=longest.bound if longest else "nothing to do",
        pipes=pipes,
        workspace_size=executor.workspace_size,
        tasks=tasks,
        timeline=Timeline(tasks, runs, profile),
        assumptions=tuple(executor.chain.assumptions),
        jumped_ratio=sum(task.jumped_ratio * task.cycles for task in tasks)
        / max(1, sum(t.cycles for t in tasks)),
    )

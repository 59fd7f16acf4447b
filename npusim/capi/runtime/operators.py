"""The two phases of every operator: handles in, a planned call, a task on a stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.capi.declarations import arguments_of, taking_memory_of
from npusim.capi.phases import is_real
from npusim.capi.runtime.handles import Handles, WrongHandleError
from npusim.capi.runtime.memory import AddressError
from npusim.capi.runtime.objects import Bound, Tensor, bind, in_blocks
from npusim.capi.runtime.planned import Planned
from npusim.capi.runtime.refusals import Refusal, aclnn_refusal, task_fault
from npusim.operators.contract import TensorArg
from npusim.values.dtypes import from_acl
from npusim.values.errors import DeviceFault, NpusimError, error_of
from npusim.values.status import Status, StatusCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from npusim.capi.runtime.session import Session
    from npusim.capi.runtime.streams import Stream
    from npusim.runtime.call import Executor

_NULL = StatusCode.ACLNN_ERR_PARAM_NULLPTR
_INVALID = StatusCode.ACLNN_ERR_PARAM_INVALID
_AGAIN = "An executor works once; call the first phase again."


class FirstPhase:
    """``aclnnXGetWorkspaceSize`` of one operator."""

    def __init__(self, session: Session, op: str) -> None:
        self._session = session
        self._op = op

    def __call__(self, words: Any, size: Any, executor: Any) -> None:
        """Writes workspace size and executor. Raises Refusal with the operator's code."""
        if not size or not executor:
            which = "executor" if size else "workspaceSize"
            raise Refusal(_NULL, f"{which} is a null pointer")
        self._session.current_device()
        try:
            arguments, bounds = self._arguments(words)
            changed = dict(self._changed(words, arguments, bounds))
            planned = self._plan(arguments, bounds)
        except NpusimError as problem:
            raise aclnn_refusal(problem) from problem
        for handle, tensor in changed.items():
            self._session.tables.tensors.replace(handle, tensor)
        size[0] = planned.workspace_size
        executor[0] = self._session.tables.executors.add(planned)

    def _arguments(self, words: Any) -> tuple[dict[str, Any], dict[str, Bound]]:
        """The arguments by name, and where the tensors among them lie."""
        arguments: dict[str, Any] = {}
        bounds: dict[str, Bound] = {}
        for place, (kind, name) in enumerate(arguments_of(self._op)):
            value = words[place].real if is_real(kind) else words[place].whole
            if "*" not in kind:
                arguments[name] = _plain(kind, value)
            elif not value:
                if "aclTensorList" not in kind:  # which has no members then
                    arguments[name] = None
            elif "char" in kind:
                arguments[name] = self._session.text(value)
            elif "aclTensorList" in kind:  # its members are parameters of their own: x0, x1 ...
                members = self._handle(self._session.tables.tensor_lists, value, name)
                for index, member in enumerate(members):
                    self._bind(member, f"{name}{index}", arguments, bounds)
            elif "aclTensor" in kind:
                self._bind(value, name, arguments, bounds)
            elif "aclScalar" in kind:
                arguments[name] = self._scalar(value, name, kind)
            else:
                arguments[name] = self._handle(self._array_table(kind), value, name)
        return arguments, bounds

    def _changed(
        self, words: Any, arguments: dict[str, Any], bounds: dict[str, Bound]
    ) -> Iterator[tuple[int, Tensor]]:
        """Tensors that the call changes the format of, by their handles; binds what they become."""
        into = taking_memory_of(self._op)
        names = [name for _, name in arguments_of(self._op)]
        for output, source in into.items():
            handle = words[names.index(source)].whole
            if not handle:
                continue  # the checks say so
            tensor = self._handle(self._session.tables.tensors, handle, source)
            found = in_blocks(tensor)
            bounds[output] = bind(found, output, self._session.memory)
            arguments[output] = bounds[output].argument
            yield handle, found

    def _bind(
        self, handle: int, name: str, arguments: dict[str, Any], bounds: dict[str, Bound]
    ) -> None:
        tensor = self._handle(self._session.tables.tensors, handle, name)
        bounds[name] = bind(tensor, name, self._session.memory)
        arguments[name] = bounds[name].argument

    def _scalar(self, handle: int, name: str, kind: str) -> object:
        """The number of an aclScalar, or the numbers of an aclScalarList."""
        tables = self._session.tables
        if "aclScalarList" in kind:
            members = self._handle(tables.scalar_lists, handle, name)
            return [self._handle(tables.scalars, each, name).number for each in members]
        return self._handle(tables.scalars, handle, name).number

    def _array_table(self, kind: str) -> Handles[Any]:
        tables = self._session.tables
        if "aclFloatArray" in kind:
            return tables.float_arrays
        return tables.bool_arrays if "aclBoolArray" in kind else tables.int_arrays

    def _handle(self, table: Handles[Any], handle: int, name: str) -> Any:
        try:
            return table.get(handle)
        except WrongHandleError as wrong:
            remedy = "Destroy arguments after the second phase, and each of them once."
            raise Refusal(_INVALID, f"{name}: {wrong.message}", remedy) from None

    def _plan(self, arguments: dict[str, Any], bounds: dict[str, Bound]) -> Planned:
        npu = self._session.npu
        try:
            _, executor = npu.get_workspace_size(self._op, **arguments)
        except DeviceFault:
            # The first phase doesn't see data: what is wrong with them shows when the task runs.
            _, executor = npu.get_workspace_size(self._op, **_without_data(arguments))
            return Planned(self._op, arguments, executor, bounds, None)
        planned = Planned(self._op, arguments, executor, bounds)
        planned.versions = planned.versions_now()
        return planned


def _plain(kind: str, value: float) -> object:
    """An argument that is passed by value."""
    if "aclDataType" in kind:
        return from_acl(int(value)).name
    return bool(value) if kind.strip() == "bool" else value


def _without_data(arguments: dict[str, Any]) -> dict[str, Any]:
    return {
        name: TensorArg(value.spec, np.zeros(value.spec.shape, value.data.dtype))
        if isinstance(value, TensorArg) and value.data is not None
        else value
        for name, value in arguments.items()
    }


class SecondPhase:
    """``aclnnX`` of one operator: queues the call on a stream."""

    def __init__(self, session: Session, op: str) -> None:
        self._session = session
        self._op = op

    def __call__(self, workspace: int, size: int, handle: int, stream: int) -> None:
        """Queues the executor's tasks. Raises Refusal; a refused executor stays usable."""
        if not handle:
            raise Refusal(_NULL, "executor is a null pointer")
        planned = self._planned(handle)
        if size > 0 and not workspace:
            raise Refusal(_NULL, f"workspace is a null pointer, workspaceSize says {size} bytes")
        if size < planned.workspace_size:
            raise Refusal(
                _INVALID,
                f"the workspace has {size} bytes, {planned.workspace_size} are needed",
                "Allocate what the first phase said, and pass that size on.",
            )
        try:
            queue = self._session.stream(stream)
        except Refusal as refusal:
            raise Refusal(
                StatusCode.ACLNN_ERR_RUNTIME_ERROR, str(refusal), refusal.status.remedy
            ) from None
        if not planned.is_repeatable:
            self._session.tables.executors.remove(handle)
        task = _Task(self._session, planned, workspace, queue)
        queue.submit(task)

    def _planned(self, handle: int) -> Planned:
        try:
            planned = self._session.tables.executors.get(handle)
        except WrongHandleError as wrong:
            if wrong.gone:
                raise Refusal(_INVALID, "the executor has been executed before", _AGAIN) from None
            raise Refusal(_INVALID, wrong.message, _AGAIN) from None
        if planned.op != self._op:
            raise Refusal(
                _INVALID,
                f"the executor was planned for {planned.op}",
                f"Execute it with {planned.op}.",
            )
        return planned


@dataclass(eq=False)
class _Task:
    """A planned call that waits in a stream."""

    session: Session
    planned: Planned
    workspace: int
    stream: Stream

    def __call__(self, start_us: float) -> float:
        """Runs the call and returns its simulated duration. Raises DeviceFault."""
        try:
            self._require_memory()
            executor = self._executor()
            queue = self.stream.simulated or self.session.npu.create_stream()
            self.stream.simulated = queue
            status: Status = queue.execute(bytearray(0), executor.workspace_size, executor)
            if not status.ok:
                raise error_of(status)
            (result,) = queue.synchronize()
        except NpusimError as problem:
            fault = task_fault(problem, self.session.npu.profile)
            self.session.journal.fault(self.planned.op, self.stream.name, start_us, fault)
            raise fault from None
        for _, block in self.planned.blocks():
            block.version += 1  # inputs too: some operators work in place
        self.session.journal.call(executor, self.stream.name, start_us, result)
        return result.duration_us

    def _executor(self) -> Executor:
        """The plan of the first phase, or a new one where data that it looked at has changed."""
        planned = self.planned
        if planned.versions_now() == planned.versions and not planned.executor.used:
            return planned.executor
        _, executor = self.session.npu.get_workspace_size(planned.op, **planned.arguments)
        return executor

    def _require_memory(self) -> None:
        for bound in self.planned.bounds.values():
            if bound.problem is not None:
                raise bound.problem
        for name, block in self.planned.blocks():
            if block.is_freed:
                raise AddressError(
                    f"the memory of {name} was freed before the task ran",
                    "Synchronise the stream before freeing what its tasks use.",
                )
            self.session.memory.used(block, name)
        size = self.planned.workspace_size
        if size and self.planned.executor.chain.tasks:
            self.session.memory.find(self.workspace, size, "the workspace")

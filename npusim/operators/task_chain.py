"""The device tasks of one aclnn call.

Everything around the main kernel is a task too, with its own time.

A plan function asks a :class:`Chain` for contiguous inputs, casts, intermediates and launches; the
chain queues the tasks and works out the workspace. Nothing is free that isn't free on the device: a
contiguous view and a contiguous output cost nothing, everything else is a kernel. Source: aclnn
first phase, operators' common rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf, prod
from typing import TYPE_CHECKING

from npusim.ascendc import GlobalTensor, GmBuffer, Kernel
from npusim.ascendc.task import Task
from npusim.operators.on_ai_cpu import is_only_on_ai_cpu, tasks_of
from npusim.operators.registry import kernel_class
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import BOOL, FLOAT16, INT32, INT64, DType
from npusim.values.errors import ArgumentError, RefusedTaskError, brief
from npusim.values.formats import Format
from npusim.values.tensors import contiguous_strides

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile
    from npusim.operators.contract import Call, TensorArg
    from npusim.values.tensors import TensorSpec

_WORKSPACE_ALIGN = 512  # bytes an intermediate tensor is rounded up to


class Chain:
    """Queues the tasks of one call on one chip.

    ``assume`` sets what a plan would otherwise assume by itself.
    """

    def __init__(
        self, call: Call, profile: Profile, assume: Mapping[str, object] | None = None
    ) -> None:
        self._call = call
        self._assume = dict(assume or {})
        self._assumed: list[str] = []
        self.profile = profile
        self.tasks: list[Kernel] = []
        self.assumptions: list[str] = []
        # A chain of half-type tasks whose numbers are kept in float32 until the last one stores
        # them.
        self.rounds_once = False
        self.arguments: dict[str, GmBuffer] = {}
        self._intermediates: list[GmBuffer] = []

    def input(self, name: str) -> GlobalTensor:
        """A tensor input as a contiguous tensor; one more task when the caller's isn't."""
        argument = self._call.tensor(name)
        given = self._bound(name, argument)
        if given.strides is None:
            return given
        dense = self.empty(argument.spec.shape, argument.spec.dtype, f"{name}_contiguous")
        self.launch(_contiguous_op(given), given, dense)
        return dense

    def told(self, name: str) -> TensorSpec | None:
        """What the caller says of a tensor; None where it is left out."""
        return self._call.spec(name) if self._call.is_given(name) else None

    def turned_input(self, name: str) -> GlobalTensor | None:
        """A matrix input that is a transposed view, as it lies in memory; None for any other."""
        argument = self._call.tensor(name)
        spec = argument.spec
        if spec.rank < 2 or spec.is_contiguous:
            return None
        if spec.stored != spec.shape:
            return self._bound(name, argument) if spec.is_turned else None
        shape = (*spec.shape[:-2], spec.shape[-1], spec.shape[-2])
        steps = (*spec.strides[:-2], spec.strides[-1], spec.strides[-2])
        moving = [(size, step) for size, step in zip(shape, steps, strict=True) if size != 1]
        wanted = [
            (size, step)
            for size, step in zip(shape, contiguous_strides(shape), strict=True)
            if size != 1
        ]
        if moving != wanted:
            return None
        given = self._bound(name, argument)
        return GlobalTensor(given.buffer, spec.dtype, shape, spec.offset)

    def output(self, name: str, dtype: DType | None = None) -> GlobalTensor:
        """Where to put an output.

        The caller's memory when it is contiguous and of ``dtype``, else an intermediate.
        """
        argument = self._call.tensor(name)
        wanted = dtype or argument.spec.dtype
        if argument.spec.is_contiguous and argument.spec.dtype is wanted:
            return self._bound(name, argument)
        return self.empty(argument.spec.shape, wanted, f"{name}_value")

    def finish(self, name: str, value: GlobalTensor) -> None:
        """Bring ``value`` into the caller's output.

        Cast and ViewCopy, as far as they are needed.
        """
        argument = self._call.tensor(name)
        target = self._bound(name, argument)
        if value.buffer is target.buffer:
            return
        self.require_fit(name, value, target)
        if value.dtype is not target.dtype:
            value = self.cast(value, target.dtype, into=target if target.strides is None else None)
        if value.buffer is not target.buffer:
            self.launch("ViewCopy", value.view(*target.shape), target)

    def require_fit(self, name: str, value: GlobalTensor, target: GlobalTensor) -> None:
        """Raises RefusedTaskError where the caller's output has no room for just this result."""
        if value.numel != target.numel:
            problem = f"{name} should have the shape {value.shape}, but has {target.shape}"
            raise RefusedTaskError(self._call.contract.name, problem)

    def is_callers(self, tensor: GlobalTensor) -> bool:
        """Whether it is memory of the caller's, not an intermediate."""
        return any(tensor.buffer is each for each in self.arguments.values())

    def inputs(self) -> Iterator[GlobalTensor]:
        """The caller's input tensors that the plan has asked for."""
        for parameter in self._call.contract.inputs:
            if parameter.name in self.arguments:
                yield self._bound(parameter.name, self._call.tensor(parameter.name))

    def empty(self, shape: tuple[int, ...], dtype: DType, name: str) -> GlobalTensor:
        """An intermediate tensor in workspace."""
        buffer = GmBuffer(
            name, prod(shape) * dtype.itemsize, wide=self.rounds_once and dtype is FLOAT16
        )
        self._intermediates.append(buffer)
        return GlobalTensor(buffer, dtype, shape)

    def cast(
        self, tensor: GlobalTensor, dtype: DType, into: GlobalTensor | None = None
    ) -> GlobalTensor:
        """``tensor`` in ``dtype``; no task when it already is."""
        if tensor.dtype is dtype:
            return tensor
        target = into or self.empty(tensor.shape, dtype, f"{tensor.buffer.name}_{dtype.intrinsic}")
        task = Task(self.profile, "Cast", (tensor,), (target,))
        if is_only_on_ai_cpu(task):
            for kernel in tasks_of(task):
                self.queue(kernel)
        else:
            self.launch("Cast", tensor, target)
        return target

    def fill(self, shape: tuple[int, ...], dtype: DType, value: float, name: str) -> GlobalTensor:
        """An intermediate tensor with one value everywhere (Fill)."""
        target = self.empty(shape, dtype, name)
        self.launch("Fill", target, value=value)
        return target

    def launch(self, op_type: str, *tensors: GlobalTensor, **attributes: object) -> Kernel:
        """Queue the kernel of ``op_type`` on ``tensors`` (inputs, then outputs).

        Results that it adds into are cleared by a MemSet before it.
        """
        kernel = kernel_class(op_type)(self.profile, *tensors, **attributes)
        for tensor in kernel.adds_into:
            self.launch("MemSet", tensor)
        self.tasks.append(kernel)
        return kernel

    def lies_in(self, name: str, buffer: GmBuffer) -> None:
        """Have an output, which no task knows yet, lie where an intermediate does."""
        if (asked := self.arguments[name]).has_data:
            buffer.data = asked.data
        buffer.name = name
        self.arguments[name] = buffer
        self._intermediates = [each for each in self._intermediates if each is not buffer]

    def adopt(self, kernel: Kernel) -> None:
        """Count what a kernel made elsewhere passes to others, or is passed, as intermediates."""
        known = {id(each) for each in (*self.arguments.values(), *self._intermediates)}
        for tensor in (*kernel.reads, *kernel.writes):
            if id(tensor.buffer) not in known:
                known.add(id(tensor.buffer))
                self._intermediates.append(tensor.buffer)

    def queue(self, kernel: Kernel) -> Kernel:
        """Queue a kernel that the plan has made itself."""
        self.tasks.append(kernel)
        return kernel

    @property
    def is_told(self) -> bool:
        """Whether the caller said what the plan would otherwise assume."""
        return bool(self._assume)

    def assume(self, sentence: str) -> None:
        """Note an assumption that the estimate rests on; shown with the result."""
        if sentence not in self.assumptions:
            self.assumptions.append(sentence)

    def assumed(
        self,
        name: str,
        default: float,
        sentence: str,
        *,
        at_least: float = 0.0,
        at_most: float = inf,
    ) -> float:
        """A number that only data could tell, where there is none.

        The caller's, or else ``default``.

        Notes ``sentence`` as an assumption, with {value} replaced by the number.
        """
        self._assumed.append(name)
        value = self._assume.get(name, default)
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not at_least <= value <= at_most
        ):
            wanted = f"at least {at_least:g}" if at_most == inf else f"{at_least:g} to {at_most:g}"
            raise ArgumentError(
                f"{self._call.contract.name}: can't assume {name} = {brief(value)}",
                f"Give a number, {wanted}.",
            )
        self.assume(sentence.format(value=f"{value:g}"))
        return float(value)

    def refuse_unknown_assumptions(self) -> None:
        """Raise ArgumentError for an assumption of the caller's that no plan has asked for."""
        unknown = sorted(set(self._assume) - set(self._assumed))
        if unknown:
            known = ", ".join(self._assumed) or "nothing; it follows from the arguments"
            raise ArgumentError(
                f"{self._call.contract.name}: nothing is assumed as {unknown[0]!r}",
                f"This call assumes: {known}.",
            )

    def lifetimes(self) -> Iterator[tuple[GmBuffer, int, int]]:
        """(buffer, first task, last task) of every intermediate that some task uses."""
        if not self._intermediates:
            return
        used: dict[int, tuple[int, int]] = {}
        for index, task in enumerate(self.tasks):
            for tensor in (*task.reads, *task.writes):
                first, _ = used.get(tensor.buffer.number, (index, index))
                used[tensor.buffer.number] = first, index
        for buffer in self._intermediates:
            if buffer.number in used:
                yield buffer, *used[buffer.number]

    def workspace_bytes(self) -> int:
        """Bytes the call asks for.

        Buckets shared by intermediates whose lifetimes don't overlap, plus the kernels'.

        Source: opbase composite_op memory allocator (512-byte rounding, reuse of buckets).
        """
        buckets: list[tuple[int, int]] = []  # last task, bytes
        for buffer, first, last in sorted(self.lifetimes(), key=lambda life: (life[1], life[2])):
            need = round_up(buffer.nbytes, _WORKSPACE_ALIGN)
            free = [index for index, (until, _) in enumerate(buckets) if until < first]
            if free:
                best = min(free, key=lambda index: abs(buckets[index][1] - need))
                buckets[best] = (last, max(buckets[best][1], need))
            else:
                buckets.append((last, need))
        kernels = max((task.workspace_bytes for task in self.tasks), default=0)
        return sum(nbytes for _, nbytes in buckets) + kernels

    def _bound(self, name: str, argument: TensorArg) -> GlobalTensor:
        spec = argument.spec
        buffer = self.arguments.get(name)
        if buffer is None:
            buffer = self.arguments[name] = GmBuffer(name, spec.storage_bytes)
            data = argument.data
            if data is not None and _decides(spec) and data.flags.c_contiguous:
                buffer.data = data.reshape(-1)
        if spec.format is Format.FRACTAL_NZ:
            return GlobalTensor(buffer, spec.dtype, spec.stored, spec.offset, None, spec.format)
        strides = None if spec.is_contiguous else spec.strides
        return GlobalTensor(buffer, spec.dtype, spec.shape, spec.offset, strides)


def _decides(spec: TensorSpec) -> bool:
    """Whether numbers of a tensor may say how work is divided: lengths, places, flags of rows."""
    return spec.dtype is INT64 or (spec.dtype in (INT32, BOOL) and spec.rank == 1)


def _contiguous_op(tensor: GlobalTensor) -> str:
    """The operator that makes a strided view contiguous, by what the strides are."""
    steps = tensor.steps
    moving = [(step, size) for step, size in zip(steps, tensor.shape, strict=True) if size > 1]
    if any(step == 0 for step, _ in moving):
        return "BroadcastTo"
    if [step for step, _ in moving] == sorted((step for step, _ in moving), reverse=True):
        return "StridedSlice" if moving and moving[-1][0] != 1 else "Slice"
    ordered = sorted(moving, reverse=True)
    expected = 1
    for step, size in reversed(ordered):
        if step != expected:
            return "AsStrided"
        expected *= size
    return "Transpose"

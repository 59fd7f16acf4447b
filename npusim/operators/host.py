"""What an aclnn function does on the host: it calls one operator after the other.

An interface that is more than one operator (:class:`~npusim.operators.definition.Composed`) has a
function that takes a :class:`Host` and the arguments, and asks it for the operators in order::

    def addcmul(host, x, tensor1, tensor2, value=1):
        product = host.run("Mul", tensor1, tensor2)
        return host.run("Add", x, host.run("Muls", product, value=value))

Each takes what the one before it made; the last one stores into the caller's output.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc import GlobalTensor, GmBuffer, Kernel
from npusim.ascendc.task import Task, made
from npusim.operators.on_ai_cpu import tasks_of
from npusim.operators.registry import definition
from npusim.schedules.elementwise import ElementwiseKernel
from npusim.values.dtypes import BOOL, COMPLEX64, FLOAT, INT64, DType
from npusim.values.errors import KernelError
from npusim.values.promotion import promote
from npusim.values.tensors import TensorSpec

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile
    from npusim.operators.task_chain import Chain

ScalarValue = bool | float | complex

_RANKS = {"bool": 0, "int": 1, "uint": 1, "float": 2, "complex": 3}  # each holds those before it


@dataclass(frozen=True)
class _Launch:
    """A task whose kernels stand in the chain, for the time when its result gets another place."""

    task: Task
    first: int  # of its kernels in the chain
    count: int


class Host:
    """Queues operators on a chain, and gives their results to those that follow."""

    def __init__(self, chain: Chain, results: Iterable[str] = ()) -> None:
        self._chain, self._results = chain, tuple(results)
        self._launches: dict[int, _Launch] = {}  # by the number of the result's buffer

    @property
    def profile(self) -> Profile:
        """The chip."""
        return self._chain.profile

    @property
    def chain(self) -> Chain:
        """The tasks so far, for functions that queue kernels of their own."""
        return self._chain

    def told(self, name: str) -> TensorSpec | None:
        """What the caller says of a tensor, an output for one; None where it is left out."""
        return self._chain.told(name)

    def assume(self, sentence: str) -> None:
        """Note what the estimate rests on; shown with the result."""
        self._chain.assume(sentence)

    def run(
        self,
        op_type: str,
        *inputs: GlobalTensor | None,
        outputs: Sequence[GlobalTensor] = (),
        **attributes: object,
    ) -> Any:
        """Queue an operator type: its result, or a tuple of several.

        Without ``outputs`` they are what the operator makes of its inputs. Raises KernelError for
        what its kernel doesn't take.
        """
        given = outputs or self.described(op_type, inputs, attributes)
        results = self._launch(Task(self.profile, op_type, inputs, tuple(given), attributes))
        return results[0] if len(results) == 1 else results

    def _launch(self, task: Task) -> tuple[GlobalTensor, ...]:
        """Queue a task; its results, which are remembered as far as they are whole tensors."""
        kernels = tasks_of(task)
        results = task.outputs or results_of(kernels[-1], task.inputs)
        launch = _Launch(task, len(self._chain.tasks), self._queue(kernels))
        for each in results:
            self._launches.pop(each.buffer.number, None)
            if each.strides is None and each.nbytes == each.buffer.nbytes:
                self._launches[each.buffer.number] = launch
        return results

    def together(
        self,
        op_type: str,
        *operands: GlobalTensor | ScalarValue | None,
        dtype: DType | None = None,
        **attributes: Any,
    ) -> Any:
        """`run` on tensors and numbers in the dtype that they have together, or in ``dtype``."""
        wanted = dtype or self.joint_dtype(*operands)
        tensors = [each if each is None else self.operand(each, wanted) for each in operands]
        return self.run(op_type, *tensors, **attributes)

    def operand(self, given: GlobalTensor | ScalarValue, wanted: DType) -> GlobalTensor:
        """A tensor, or a number as a tensor of one element, in a dtype."""
        if isinstance(given, GlobalTensor):
            return self.cast(given, wanted)
        return constant(given, wanted)

    def joint_dtype(self, *operands: GlobalTensor | ScalarValue | None) -> DType:
        """The dtype that tensors and scalars are computed in together.

        A scalar counts where its kind is above that of all tensors: a fraction makes integers
        float32. Raises KernelError for dtypes that don't combine.
        """
        kinds = [each.dtype for each in operands if isinstance(each, GlobalTensor)]
        found = promote(*kinds) if kinds else BOOL
        if found is None:
            raise KernelError("", f"{' and '.join(map(str, kinds))} don't combine")
        for number in operands:
            if number is not None and not isinstance(number, GlobalTensor):
                own = _kind_of(number)
                found = own if _rank(own) > _rank(found) else found
        return found

    def cast(self, tensor: GlobalTensor, wanted: DType) -> GlobalTensor:
        """``tensor`` in another dtype; no task when it is in it already."""
        if tensor.dtype is wanted:
            return tensor
        target = made(tensor.shape, wanted, f"{tensor.buffer.name}_{wanted.name.lower()}")
        found: GlobalTensor = self.run("Cast", tensor, outputs=(target,))
        return found

    def result(self, name: str, value: GlobalTensor, like: GlobalTensor) -> GlobalTensor:
        """A result as it is; in the dtype of ``like`` where the caller leaves output ``name`` out.

        Interfaces store into whatever the caller gives them. ``like`` decides if it is floating.
        """
        is_told = self.told(name) is not None or not like.dtype.is_float
        return value if is_told else self.cast(value, like.dtype)

    def constant(
        self, value: ScalarValue | Sequence[float], kind: DType, name: str = "scalar"
    ) -> GlobalTensor:
        """A tensor that the host fills: one element for a number, else a row."""
        return constant(value, kind, name)

    def owns(self, tensor: GlobalTensor) -> bool:
        """Whether it may be changed: an intermediate, or an input that the call stores into."""
        given = {name for name, each in self._chain.arguments.items() if each is tensor.buffer}
        return given <= set(self._results)

    def own(self, tensor: GlobalTensor) -> GlobalTensor:
        """A tensor that may be changed in place: itself, or a copy of an input of the caller's.

        Interfaces work on the contiguous tensor that they get, with no copy of it where it is what
        they store into; else they copy it, into the result where that is like it (ops-nn
        index/*/op_api: Contiguous, TensorMove, the kernel, ViewCopy, which is none onto itself).
        """
        if self.owns(tensor):
            return tensor
        found: GlobalTensor = self.run("TensorMove", tensor, outputs=self._alike(tensor))
        return found

    def _alike(self, tensor: GlobalTensor) -> tuple[GlobalTensor, ...]:
        """The caller's result, where it is as large as a tensor and of its dtype."""
        for name in self._results:
            told = self.told(name)
            if told and told.is_contiguous and (told.dtype, told.numel) == (
                tensor.dtype, tensor.numel
            ):  # fmt: skip
                return (self._chain.output(name).view(*tensor.shape),)
        return ()

    def empty(self, shape: Sequence[int], kind: DType, name: str = "y") -> GlobalTensor:
        """A tensor for a result."""
        return made(tuple(shape), kind, name)

    def finish(self, name: str, value: GlobalTensor) -> None:
        """Store a result in the caller's output, by the task that makes it where it can."""
        is_fresh = name not in self._chain.arguments
        target = self._chain.output(name)
        self._chain.require_fit(name, value, target)
        value = self.cast(value, target.dtype)
        if not self._chain.is_callers(target):  # a view, into which the chain copies what it gets
            self._chain.finish(name, value)
            return
        launch = self._launches.get(value.buffer.number)
        if launch and self._can_move(launch, value, target):
            if is_fresh and target.nbytes == target.buffer.nbytes and not value.buffer.wide:
                del self._launches[value.buffer.number]
                self._chain.lies_in(name, value.buffer)
                return
            outputs = tuple(
                target.view(*each.shape) if each.buffer is value.buffer else each
                for each in launch.task.outputs or self._made_by(launch)
            )
            later = self._chain.tasks[launch.first + launch.count :]
            del self._chain.tasks[launch.first :]
            self._launch(replace(launch.task, outputs=outputs))
            self._chain.tasks += later
            value = target
        if value.buffer is not target.buffer:
            if target.numel:
                self._chain.launch("TensorMove", value.view(*target.shape), target)
            value = target
        self._chain.finish(name, value)

    def _can_move(self, launch: _Launch, value: GlobalTensor, target: GlobalTensor) -> bool:
        """Whether the task may store into ``target``: what no later one reads, nor its place."""
        reads = {each.buffer.number for each in launch.task.inputs if each is not None}
        end = launch.first + launch.count
        last, later = self._chain.tasks[end - 1], self._chain.tasks[end:]
        used = {each.buffer.number for task in later for each in (*task.reads, *task.writes)}
        return (
            used.isdisjoint((value.buffer.number, target.buffer.number))
            and value.numel == target.numel == prod(value.shape)
            and value.buffer.number not in reads
            and (target.buffer.number not in reads or isinstance(last, ElementwiseKernel))
        )

    def _made_by(self, launch: _Launch) -> tuple[GlobalTensor, ...]:
        return results_of(self._chain.tasks[launch.first + launch.count - 1], launch.task.inputs)

    def _queue(self, kernels: Sequence[Kernel]) -> int:
        """Queue kernels, and a MemSet in front of those that add to what they find."""
        before = len(self._chain.tasks)
        for kernel in kernels:
            if kernel.writes and not any(each.numel for each in kernel.writes):
                continue  # nothing comes out
            self._chain.adopt(kernel)
            for cleared in kernel.adds_into:
                self._chain.launch("MemSet", cleared)
            self._chain.queue(kernel)
        return len(self._chain.tasks) - before

    def described(
        self, op_type: str, inputs: Sequence[GlobalTensor | None], attributes: dict[str, object]
    ) -> tuple[GlobalTensor, ...]:
        """Tensors for results as the operator's rule tells them; none where the kernel does."""
        rule = definition(op_type).infer
        if rule is None:
            return ()
        specs = [TensorSpec(each.shape, each.dtype) for each in inputs if each is not None]
        found = rule(specs, attributes)
        return tuple(made(each.shape, each.dtype) for each in found if each is not None)


def constant(
    value: ScalarValue | Sequence[float], kind: DType, name: str = "scalar"
) -> GlobalTensor:
    """A tensor that the host fills: one element for a number, else a row."""
    numbers = np.asarray(value).astype(kind.numpy)
    buffer = GmBuffer(name, numbers.nbytes, numbers.reshape(-1))
    return GlobalTensor(buffer, kind, numbers.shape)


def _rank(kind: DType) -> int:
    return 0 if kind is BOOL else _RANKS[kind.category]


def _kind_of(number: ScalarValue) -> DType:
    if isinstance(number, bool):
        return BOOL
    if isinstance(number, int):
        return INT64
    return COMPLEX64 if isinstance(number, complex) else FLOAT


def results_of(kernel: Kernel, inputs: Sequence[GlobalTensor | None]) -> tuple[GlobalTensor, ...]:
    """What a kernel writes that was none of its inputs."""
    given = {each.buffer.number for each in inputs if each is not None}
    found: dict[int, GlobalTensor] = {}
    for each in kernel.writes:
        if each.buffer.number not in given:
            found.setdefault(each.buffer.number, each)
    return tuple(found.values())

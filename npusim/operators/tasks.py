"""Single device tasks as a profiler records them.

An OpType with shapes and dtypes, no aclnn call around it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

from npusim.ascendc import GlobalTensor, GmBuffer, Kernel
from npusim.ascendc.task import Task, made
from npusim.operators.checks import MADE_FOR_OTHERS, note
from npusim.operators.registry import builder
from npusim.values.errors import KernelError, expect

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile
    from npusim.values.dtypes import DType
    from npusim.values.tensors import TensorSpec


@dataclass(frozen=True)
class TaskSpec:
    """One recorded task. An absent optional input is None.

    ``attributes`` holds what the record tells, often nothing.
    """

    op_type: str
    inputs: tuple[TensorSpec | None, ...]
    outputs: tuple[TensorSpec, ...]
    attributes: Mapping[str, object] = field(default_factory=dict)


def kernels_of(profile: Profile, task: TaskSpec) -> tuple[Kernel, ...]:
    """The kernels that carry out a recorded task.

    One, or several where the operator is composed of others.

    Raises UnknownNameError for an operator type without a kernel, KernelError for a combination it
    doesn't cover.
    """
    inputs = tuple(
        None if spec is None else _tensor(f"x{index}", spec)
        for index, spec in enumerate(task.inputs)
    )
    outputs = tuple(_tensor(f"y{index}", spec) for index, spec in enumerate(task.outputs))
    with refusing_nonsense(task.op_type, f" of {_told(task)}"):
        return kernels_on(Task(profile, task.op_type, inputs, outputs, task.attributes))


def kernels_on(task: Task) -> tuple[Kernel, ...]:
    """The same on tensors that are there already; outputs may be left out where they follow.

    None for results without elements: hosts launch nothing then. KernelError where a kernel isn't
    made for inputs that have none.
    """
    if task.outputs and not any(each.numel for each in task.outputs):
        return ()
    try:
        kernels = builder(task.op_type)(task)
    except MADE_FOR_OTHERS:
        tensors = [each for each in task.inputs if each is not None]
        if not tensors or any(each.numel for each in tensors):
            raise
        raise task.refused("results of tensors without elements aren't modelled") from None
    expect(kernels, tuple, f"what makes the kernels of {task.op_type}")
    return kernels


class Tasks:
    """The kernels of an operator that consists of others, in their order."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.kernels: list[Kernel] = []

    def run(
        self,
        op_type: str,
        *given: GlobalTensor | None,
        out: GlobalTensor | Sequence[GlobalTensor],
        **attributes: object,
    ) -> GlobalTensor:
        """One more task; its first result."""
        outputs = (out,) if isinstance(out, GlobalTensor) else tuple(out)
        self.kernels += kernels_on(Task(self.profile, op_type, given, outputs, attributes))
        return outputs[0]

    def cast(self, x: GlobalTensor, dtype: DType) -> GlobalTensor:
        """A tensor in a dtype: itself where it has it."""
        return x if x.dtype is dtype else self.run("Cast", x, out=made(x.shape, dtype))


@contextmanager
def refusing_nonsense(op_type: str, given: str = "") -> Iterator[None]:
    """KernelError for records that are no call of the operator.

    Tilings rely on its ranks, sizes and numbers of tensors, which checks see to where parameters
    are known: in calls, but not in records and for operators without a prototype. The message says
    what was ``given``; what Python said of it is the cause of the error.
    """
    try:
        yield
    except MADE_FOR_OTHERS as error:
        note(f"what makes the tasks of {op_type}", error)
        raise KernelError(op_type, f"no call{given}: they don't fit one another") from error


def _told(task: TaskSpec) -> str:
    """A task's tensors and attributes, for people."""
    given = [_listed("inputs", [each for each in task.inputs if each is not None])]
    given += [
        _listed("results", task.outputs),
        f"attributes {', '.join(task.attributes) or 'none'}",
    ]
    return "; ".join(given)


def _listed(what: str, tensors: Sequence[TensorSpec]) -> str:
    shown = ", ".join(f"{each.dtype.name}{list(each.shape)}" for each in tensors[:4])
    return f"{what} {shown or 'none'}{' and more' * (len(tensors) > 4)}"


def _tensor(name: str, spec: TensorSpec) -> GlobalTensor:
    spec.addressable()
    buffer = GmBuffer(name, max(1, prod(spec.shape)) * spec.dtype.itemsize)
    return GlobalTensor(buffer, spec.dtype, spec.shape, format=spec.format)

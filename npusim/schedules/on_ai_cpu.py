"""Kernels made from a row of a table for what the AI CPUs compute: a function of arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc.ai_cpu import AiCpuKernel, faults_of
from npusim.ascendc.rounding import to_integers
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc import GlobalTensor
    from npusim.ascendc.task import Task

SIMPLE, FUNCTION = 1.0, 20.0
"""Operations for an element: an addition or a comparison; a function of the C library."""


@dataclass(frozen=True)
class OnAiCpu:
    """One row of a table of what runs on the AI CPUs.

    ``compute`` takes the arrays of the inputs (None where one is absent), then the ``attributes``,
    which are given with their defaults, and returns an array, or one for each result; half types
    reach it in float32. ``operations`` counts the steps of the whole task (see
    :class:`npusim.ascendc.ai_cpu.AiCpuKernel`), or those for every element of the
    largest tensor. ``kernel`` is another one where another engine does it.
    """

    op_type: str
    compute: Callable[..., Any]
    operations: float | Callable[[Task], float] = SIMPLE
    attributes: Mapping[str, object] = field(default_factory=dict)
    kernel: type[AiCpuKernel] = AiCpuKernel

    def from_task(self, task: Task) -> tuple[AiCpuKernel, ...]:
        """The kernel for a task, whose results are known."""
        if not task.outputs:
            raise task.refused("the shape of the result isn't known")
        places = [tensor is not None for tensor in task.inputs]
        present = [tensor for tensor in task.inputs if tensor is not None]
        operations = self.operations
        if callable(operations):
            count = operations(task)
        else:
            count = operations * max(tensor.numel for tensor in (*present, *task.outputs))

        def compute(*arrays: NDArray[Any]) -> Sequence[NDArray[Any]]:
            rest = iter(arrays)
            operands = [next(rest) if there else None for there in places]
            found = self.results(*operands, **task.attributes)
            return [_stored(each, out) for each, out in zip(found, task.outputs, strict=True)]

        return (self.kernel(task.op_type, present, task.outputs, count, compute),)

    def results(self, *operands: NDArray[Any] | None, **attributes: Any) -> list[NDArray[Any]]:
        """What comes out, in the dtypes that it is computed in."""
        known = {name: attributes[name] for name in self.attributes if name in attributes}
        given = [each if each is None else _wide(each) for each in operands]
        try:
            with np.errstate(all="ignore"), faults_of(self.op_type):
                found = self.compute(*given, **{**self.attributes, **known})
        except TypeError as error:  # of NumPy, for dtypes that a function isn't defined for
            kinds = ", ".join(str(each.dtype) for each in operands if each is not None)
            raise KernelError(self.op_type, f"it isn't defined for {kinds}") from error
        return [np.asarray(each) for each in (found if isinstance(found, tuple) else (found,))]


def _wide(array: NDArray[Any]) -> NDArray[Any]:
    """Half types in float32, which is what processors compute in."""
    return array.astype(np.float32) if array.dtype.itemsize == 2 and _is_floating(array) else array


def _is_floating(array: NDArray[Any]) -> bool:
    return array.dtype.kind not in "iub"


def _stored(found: Any, out: GlobalTensor) -> NDArray[Any]:
    """A result in the dtype and shape of its output; integers saturate, as on Arm."""
    found = np.asarray(found)
    with np.errstate(all="ignore"):
        if found.dtype.kind == "f" and out.dtype.category == "int":
            values = np.empty(found.shape, out.dtype.numpy)
            to_integers(found, values)
        else:
            values = found.astype(out.dtype.numpy)
    return np.broadcast_to(values, out.shape) if values.size != out.numel else values

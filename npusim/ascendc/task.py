"""What kernels are made for: an operator type with its tensors and attributes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

from npusim.ascendc.gm import GlobalTensor
from npusim.ascendc.gm_buffers import GmBuffer
from npusim.values.errors import KernelError, RefusedTaskError, UnsaidError

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile
    from npusim.values.dtypes import DType


@dataclass(frozen=True)
class Task:
    """One task of the device before it has kernels: tensors in the operator's order.

    An optional input that is absent is None; outputs may be left out where they follow.
    ``attributes`` holds what the caller or a profiler's record tells, often nothing.
    """

    profile: Profile
    op_type: str
    inputs: tuple[GlobalTensor | None, ...] = ()
    outputs: tuple[GlobalTensor, ...] = ()
    attributes: Mapping[str, object] = field(default_factory=dict)

    def present(self, inputs: int, outputs: int = 0) -> tuple[GlobalTensor, ...]:
        """The first inputs, then the first outputs; raises KernelError where one is missing."""
        tensors = (*self.inputs[:inputs], *self.outputs[:outputs])
        found = tuple(tensor for tensor in tensors if tensor is not None)
        if len(found) < inputs + outputs:
            raise self.refused(f"{len(found)} tensors where {inputs + outputs} are needed")
        return found

    def first(self, *names: str) -> object:
        """The first attribute that there is, under any of its names; None without one."""
        return next((self.attributes[name] for name in names if name in self.attributes), None)

    def number(self, name: str, default: float) -> float:
        """An attribute that is a number, or ``default`` where there is none."""
        value = self.attributes.get(name, default)
        return float(value) if isinstance(value, int | float) else default

    def whole_number(self, name: str, default: int) -> int:
        """An attribute that is a whole number, or ``default`` where there is none."""
        value = self.attributes.get(name, default)
        return value if isinstance(value, int) and not isinstance(value, bool) else default

    def refused(self, problem: str) -> KernelError:
        """The error for a combination that the kernel doesn't cover, though a device's may."""
        return KernelError(self.op_type, problem)

    def unfit(self, problem: str) -> RefusedTaskError:
        """The error for tensors and attributes that don't belong together, on whatever chip."""
        return RefusedTaskError(self.op_type, problem)

    def unsaid(self, problem: str) -> UnsaidError:
        """The error for a record without what decides the time."""
        return UnsaidError(self.op_type, problem)


def made(shape: tuple[int, ...], dtype: DType, name: str = "y") -> GlobalTensor:
    """A tensor of its own: a result that is left out, or what passes between two kernels."""
    return GlobalTensor(GmBuffer(name, max(1, prod(shape)) * dtype.itemsize), dtype, shape)

"""One direction of a recurrent layer: its tensors over all steps, and those of one step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from npusim.ascendc.task import Task
from npusim.operators.tasks import kernels_on
from npusim.ops.recurrent.steps import Step

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from npusim.ascendc import GlobalTensor, Kernel
    from npusim.ops.recurrent.cells import Cell


@dataclass(frozen=True, slots=True)
class Layer:
    """One direction of a layer: tensors over all steps (steps, rows, columns), and its cell."""

    task: Task
    cell: Cell
    x: GlobalTensor
    weights: tuple[GlobalTensor, GlobalTensor]  # of the input and of the state
    biases: tuple[GlobalTensor | None, GlobalTensor | None]
    first: Mapping[str, GlobalTensor]  # states before the first step
    mask: GlobalTensor | None
    results: Mapping[str, GlobalTensor]
    backward: bool

    @property
    def columns(self) -> int:
        """Elements of a state."""
        return self.weights[1].shape[0]

    @property
    def order(self) -> Iterator[int]:
        """Steps as they follow on each other."""
        steps = range(self.x.shape[0])
        return reversed(steps) if self.backward else iter(steps)

    @property
    def reads(self) -> tuple[GlobalTensor, ...]:
        """Operands."""
        given = (self.x, *self.weights, *self.biases, *self.first.values(), self.mask)
        found: dict[int, GlobalTensor] = {}
        for each in given:
            if each is not None:
                found.setdefault(each.buffer.number, each)
        return tuple(found.values())

    def states(self, before: int | None) -> dict[str, GlobalTensor]:
        """What a step finds: the states of step ``before``, or the first ones."""
        if before is None:
            return dict(self.first)
        return {name: at(self.results[name], before) for name in self.cell.states}

    def step(self, sums: tuple[GlobalTensor, ...], now: int, before: int | None) -> Step:
        """Tensors of step ``now``."""
        found = self.states(before)
        if self.mask is not None:
            found["mask"] = at(self.mask, now)
        results = {name: at(each, now) for name, each in self.results.items()}
        return Step(sums, found, results, self.biases[1] if before is None else None)


def at(tensor: GlobalTensor, step: int) -> GlobalTensor:
    """One step of a tensor."""
    shape = tensor.shape[1:]
    elements = tensor.numel // tensor.shape[0]
    return replace(tensor, start=tensor.start + step * elements, shape=shape)


def product(
    layer: Layer,
    a: GlobalTensor,
    b: GlobalTensor,
    c: GlobalTensor,
    bias: GlobalTensor | None = None,
    *,
    adds: bool = False,
) -> Kernel:
    """c = (or +=) a @ b + bias, rows of all steps, as a part of the layer's kernel."""
    profile = layer.task.profile
    flat = [replace(each, shape=(each.numel // each.shape[-1], each.shape[-1])) for each in (a, c)]
    said = {"transpose_x1": False, "transpose_x2": False, "part": True, "adds": adds}
    name = "MatMulV3" if profile.cores.style == "split" else "MatMulV2"
    (kernel,) = kernels_on(Task(profile, name, (flat[0], b, bias), (flat[1],), said))
    return kernel

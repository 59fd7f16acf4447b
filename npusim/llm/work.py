"""What a step does, written down: device tasks in order, and what ranks exchange between them.

Where a product has no kernel for a task, the next way that does the same is taken, and noted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from npusim.catalogue.verdicts import Answer
from npusim.model.step import Item, Operation, task_in_fp16
from npusim.operators.listed import task_verdict
from npusim.operators.tasks import TaskSpec
from npusim.values.tensors import TensorSpec

if TYPE_CHECKING:
    from npusim.hardware import Profile
    from npusim.values.dtypes import DType


@dataclass(frozen=True)
class Exchange:
    """A collective of a step: `nbytes` as `npusim collective` counts, `count` times."""

    operation: str
    ranks: int
    nbytes: float
    count: int
    why: str


@dataclass(frozen=True)
class Part:
    """A device task with the tensors among its inputs that stay on the device."""

    task: TaskSpec
    weights: tuple[TensorSpec, ...] = ()
    count: int = 1


def part(
    op: str,
    inputs: Sequence[TensorSpec | None],
    outputs: Sequence[TensorSpec],
    *,
    weights: Sequence[TensorSpec] = (),
    count: int = 1,
    **attributes: object,
) -> Part:
    """A part with its attributes by keyword."""
    return Part(TaskSpec(op, tuple(inputs), tuple(outputs), attributes), tuple(weights), count)


def tensor(dtype: DType, *shape: int) -> TensorSpec:
    """A tensor of a dtype."""
    return TensorSpec(shape, dtype)


class Work:
    """Collects the parts of a step for one chip; `times` is how often what follows is done."""

    def __init__(self, chip: Profile) -> None:
        self.items: list[Item] = []
        self.exchanges: list[Exchange] = []
        self.replaced: dict[str, str] = {}
        self.times = 1
        self._chip = chip
        self._refused: dict[tuple[object, ...], bool] = {}

    @property
    def fixed_scales(self) -> bool:
        """Whether products of bytes scale by columns alone: on chips without a fixpipe.

        Then activations are quantised by a scale that was found beforehand (vllm-ascend on 310P).
        """
        return self._chip.paths.l0c_to_gm is None

    def run(self, *parts: Part) -> None:
        """Do these parts, whatever the product says of them."""
        for each in parts:
            operation = Operation(each.task.op_type, each.task, weights=each.weights)
            self.items.append(Item(operation, each.count * self.times))

    def first_of(self, *ways: Sequence[Part]) -> None:
        """Do the first way that the product doesn't refuse a part of; the last one at worst."""
        refused = list[str]()
        for way in ways:
            lacking = [each.task.op_type for each in way if self._refuses(each.task)]
            if not lacking or way is ways[-1]:
                instead = ", ".join(dict.fromkeys(each.task.op_type for each in way))
                self.replaced |= dict.fromkeys(refused, instead)
                self.run(*way)
                return
            refused.append(lacking[0])

    def exchange(self, operation: str, ranks: int, nbytes: float, why: str) -> None:
        """Let ranks exchange; nothing where there is one rank or nothing to say."""
        if ranks > 1 and nbytes > 0:
            self.exchanges.append(Exchange(operation, ranks, nbytes, self.times, why))

    def _refuses(self, task: TaskSpec) -> bool:
        specs = (*task.inputs, *task.outputs)
        key = (task.op_type, *(spec and spec.dtype.name for spec in specs))
        if key not in self._refused:
            answers = [task_verdict(each, self._chip) for each in (task, task_in_fp16(task))]
            self._refused[key] = all(
                found is not None and found.answer is Answer.REJECTED for found in answers
            )
        return self._refused[key]

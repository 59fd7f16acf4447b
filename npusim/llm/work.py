"""What a step does, written down: device tasks in order, and what ranks exchange between them.

Where a product has no kernel for a task, the next way that does the same is taken, and noted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from npusim.catalogue.verdicts import Answer
from npusim.model.step import Item, Operation, task_in_fp16
from npusim.operators.listed import task_verdict
from npusim.operators.tasks import TaskSpec
from npusim.values.tensors import TensorSpec

if TYPE_CHECKING:
    from npusim.hardware import Profile
    from npusim.values.dtypes import DType


PRODUCTS: Final = ("MatMulV2", "QuantBatchMatmulV3", "WeightQuantBatchMatmulV2", "GroupedMatmul")


@dataclass(frozen=True)
class Part:
    """A device task with the tensors among its inputs that stay on the device."""

    task: TaskSpec
    weights: tuple[TensorSpec, ...] = ()
    count: int = 1


@dataclass(frozen=True)
class Exchange:
    """A collective of a step: `nbytes` as `npusim collective` counts, `count` times.

    `product` is the one that makes what is sent, or that takes what comes. `kernel` is the task
    that does it where that is no collective of HCCL's. Ranks that lie `apart` have as many of other
    groups in between.
    """

    operation: str
    ranks: int
    nbytes: float
    count: int
    why: str
    product: Part | None = None
    kernel: Part | None = None
    apart: int = 1


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
    """Collects the tasks of a step for one chip.

    `times` is how often what follows is done, `part` of what it is; `parts` are those of `items`.
    """

    def __init__(self, chip: Profile) -> None:
        self.items: list[Item] = []
        self.parts: list[str] = []
        self.part = ""
        self.exchanges: list[Exchange] = []
        self.replaced: dict[str, str] = {}
        self.times = 1
        self._chip = chip
        self._product: Part | None = None
        self._open: int | None = None  # the exchange whose bytes the next product takes
        self._refused: dict[tuple[object, ...], bool] = {}

    @property
    def chip(self) -> Profile:
        """The chip."""
        return self._chip

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
            self.parts.append(self.part)
            if each.task.op_type in PRODUCTS:
                self._product = each
                if self._open is not None:
                    self.exchanges[self._open] = replace(self.exchanges[self._open], product=each)
                    self._open = None

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

    def exchange(
        self,
        operation: str,
        ranks: int,
        nbytes: float,
        why: str,
        *,
        product: str = "",
        kernel: Part | None = None,
        apart: int = 1,
    ) -> None:
        """Let ranks exchange; nothing where there is one rank or nothing to say.

        `product` says which one it could overlap with: the ``last`` or the ``next``. A `kernel`
        does it by itself.
        """
        if ranks < 2 or nbytes <= 0:
            return
        beside = self._product if product == "last" else None
        found = Exchange(operation, ranks, nbytes, self.times, why, beside, kernel, apart)
        self.exchanges.append(found)
        if product == "next":
            self._open = len(self.exchanges) - 1

    def _refuses(self, task: TaskSpec) -> bool:
        specs = (*task.inputs, *task.outputs)
        key = (task.op_type, *(spec and spec.dtype.name for spec in specs))
        if key not in self._refused:
            answers = [task_verdict(each, self._chip) for each in (task, task_in_fp16(task))]
            self._refused[key] = all(
                found is not None and found.answer is Answer.REJECTED for found in answers
            )
        return self._refused[key]

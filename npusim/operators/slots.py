"""Inputs of a profiler's row put where the operator has them.

Profilers list what a kernel was given. Some keep an empty place for an optional input that a call
left out, others don't, and then a mask stands where a shift would. The operator information tells
which inputs there are, which of them may be left out, and of what dtypes they are. Lengths that
host tilings read (one axis of INT64) are inputs there and attributes of ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations, islice
from typing import TYPE_CHECKING

from npusim.catalogue.facts import catalogue
from npusim.catalogue.operators import on_ai_core
from npusim.hardware import load_profile
from npusim.hardware.products import product_lines
from npusim.operators.registry import definition, has_kernel
from npusim.operators.tasks import kernels_of
from npusim.values.errors import NpusimError

if TYPE_CHECKING:
    from npusim.catalogue.facts import OperatorTensor
    from npusim.operators.tasks import TaskSpec
    from npusim.values.tensors import TensorSpec

_FAMILIES = ("A2", "A3", "910", "310P")
_MOST_WAYS = 24  # of placing inputs that are tried
_ON_HOST = "INT64"  # of numbers that a tiling on the host reads

Places = tuple["TensorSpec | None", ...]


def in_slots(task: TaskSpec) -> TaskSpec:
    """The task with its inputs in the order of our kernel, None where one is left out.

    Of several ways of placing them it is the first that the kernel takes. The task is as it is
    where the operator information doesn't know its inputs, or the inputs don't fit them.
    """
    family, slots = _slots(task.op_type)
    if not any(_is_optional(each) for each in slots) or len(task.inputs) > len(slots):
        return task
    ways = list(islice(_placed(task, slots), _MOST_WAYS))
    if len(ways) > 1:
        ways = [next((each for each in ways if _serves(each, family)), ways[0])]
    return ways[0] if ways else task


@cache
def _slots(op_type: str) -> tuple[str, Sequence[OperatorTensor]]:
    """A family that has the operator, and its inputs there."""
    for family in _FAMILIES:
        for entry in on_ai_core(catalogue(), op_type, family):
            inputs = [each for each in entry.tensors if each.io.startswith("in")]
            if inputs:
                return family, inputs
    return "", ()


@cache
def _ours(op_type: str) -> Sequence[str]:
    """What our kernel calls its inputs; nothing where it has no prototype."""
    known = definition(op_type) if has_kernel(op_type) else None
    return [each.name for each in known.inputs] if known is not None and known.is_known else ()


def _placed(task: TaskSpec, slots: Sequence[OperatorTensor]) -> Iterator[TaskSpec]:
    """The task with its inputs in each of the ways that fit, in our order."""
    ours, names = _ours(task.op_type), [each.name for each in slots]
    for way in _ways(task.inputs, slots):
        places = list(way)
        if ours and names[: len(ours)] != list(ours):
            found = dict(zip(names, places, strict=True))
            left = [spec for name, spec in found.items() if spec is not None and name not in ours]
            if any(spec.dtype.name != _ON_HOST or spec.rank > 1 for spec in left):
                continue
            places = [found.get(name) for name in ours]
        while places and places[-1] is None and len(places) > len(task.inputs):
            places.pop()
        yield replace(task, inputs=tuple(places))


def _ways(given: Sequence[TensorSpec | None], slots: Sequence[OperatorTensor]) -> Iterator[Places]:
    """The inputs by slot: as they stand where that fits, then each in any later one that it fits.

    A row that has empty places has all of them.
    """
    if all(_fits(spec, slot) for spec, slot in zip(given, slots, strict=False)):
        yield (*given, *[None] * (len(slots) - len(given)))
    if any(spec is None for spec in given):
        return
    as_they_stand = tuple(range(len(given)))
    optional = [index for index, slot in enumerate(slots) if _is_optional(slot)]
    needed = [index for index, slot in enumerate(slots) if not _is_optional(slot)]
    for chosen in combinations(optional, max(0, len(given) - len(needed))):
        filled = tuple(sorted((*needed, *chosen)))
        pairs = dict(zip(filled, given, strict=False))
        if filled == as_they_stand or len(filled) != len(given):
            continue
        if all(_fits(spec, slots[index]) for index, spec in pairs.items()):
            yield tuple(pairs.get(index) for index in range(len(slots)))


def _serves(task: TaskSpec, family: str) -> bool:
    """Whether the kernel takes the inputs where they stand, on a chip of the family."""
    soc = next(each.soc for each in product_lines() if each.family == family)
    try:
        kernels_of(load_profile(soc), task)
    except NpusimError:
        return False
    return True


def _is_optional(slot: OperatorTensor) -> bool:
    return slot.param_type != "required"


def _fits(spec: TensorSpec | None, slot: OperatorTensor) -> bool:
    return spec is None or not slot.dtypes or spec.dtype.name in slot.dtypes

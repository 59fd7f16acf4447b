"""What the rows of a profile leave out: profilers print tensors and no attributes.

Where the shapes allow one value of an attribute that decides the time, it is taken; where they
allow a few, the likely one is timed and the band reaches over all of them. What no shape tells
stays unsaid, and the kernel has no price (`UnsaidError`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice, permutations
from typing import TYPE_CHECKING, Final

from npusim.operators.slots import in_slots
from npusim.values.language import say

if TYPE_CHECKING:
    from npusim.operators.tasks import TaskSpec
    from npusim.values.tensors import TensorSpec

_ATTENTION: Final = re.compile(r"FlashAttention|FusedInferAttention")
_COMPRESSED: Final = (2048, 2048)
"""The mask of sparse modes 2 to 4. Source: aclnnFlashAttentionScore, aclnnFusedInferAttentionScore.
"""
_RIGHT_DOWN: Final = 3  # sparse mode: causal, the last query sees the last key
_MASKS: Final = ("BOOL", "UINT8", "INT8")
_GIVEN, _STATS = 4, 8  # inputs of every gradient of attention, and where maxima stand behind them
_SHIFT, _DROPPED, _MASK = 0, 1, 3  # places of what is optional between them
_LANES: Final = 8  # of a row of maxima
_POOLING: Final = re.compile(r"(Max|Avg)Pool(V2|V3)?$")
_POOLED: Final = re.compile(r"^(?!.*(Adaptive|Global|Argmax|WithMask)).*Pool")
_KSIZE: Final = ("ksize", "kernelsize", "kernel", "window", "kernelshape")
_IMAGE_AXES: Final = (4, 5)  # NCHW, NC1HWC0
_COMMON: Final = (3, 2)  # sides of windows, the likely one first
_WIDE: Final = (5, 7, 9, 13)  # of windows that move by one
_TRANSPOSES: Final = ("Transpose", "TransposeD")
_REDUCTIONS: Final = re.compile(
    r"Reduce(Sum|Mean|Max|Min|Prod|All|Any|SumD|MeanD|MaxD|MinD|ProdD)$"
)
_MOST: Final = 6  # values that are tried


@dataclass(frozen=True)
class Reading:
    """A row with what its shapes tell of its attributes, the likely values first.

    `others` are the same row with other values that its shapes allow, `note` says what was taken.
    """

    task: TaskSpec
    others: tuple[TaskSpec, ...] = ()
    note: str = ""


def reading_of(task: TaskSpec) -> Reading:
    """The row read; one whose attributes don't matter, or follow in its kernel, as it is.

    Inputs stand where the operator has them (:func:`npusim.operators.slots.in_slots`).
    """
    task = in_slots(task)
    for rule in (_attention, _pooling, _transposition, _reduction):
        found = rule(task)
        if found is not None:
            return found
    return Reading(task)


def _attention(task: TaskSpec) -> Reading | None:
    """A mask of 2048 x 2048 for all sequences and heads is compressed: the call is causal."""
    if not _ATTENTION.search(task.op_type):
        return None
    task = _in_places(task)
    if not any(_is_compressed(each) for each in task.inputs if each is not None):
        return Reading(task)
    note = say(
        "{op_type}: a mask of 2048 x 2048 is the compressed one of "
        "sparse modes 2 to 4, taken as causal (mode 3)"
    ).format(op_type=task.op_type)
    return Reading(_with(task, {"sparse_mode": _RIGHT_DOWN}), (), note)


def _in_places(task: TaskSpec) -> TaskSpec:
    """A gradient whose row has no slots for optional inputs that the call left out.

    Maxima and sums, the only pair of FLOAT with 8 in a row, tell where the rest begins.
    """
    given = task.inputs
    if task.op_type != "FlashAttentionScoreGrad":
        return task
    at = next((place for place in range(_GIVEN, len(given)) if _is_statistic(given[place])), _STATS)
    if at >= _STATS:
        return task
    places: list[TensorSpec | None] = [None] * (_STATS - _GIVEN)
    for each in given[_GIVEN:at]:
        if each is not None and each.shape:
            is_mask = each.dtype.name in _MASKS
            places[(_MASK if each.rank > 1 else _DROPPED) if is_mask else _SHIFT] = each
    return replace(task, inputs=(*given[:_GIVEN], *places, *given[at:]))


def _is_statistic(spec: TensorSpec | None) -> bool:
    return spec is not None and spec.dtype.name == "FLOAT" and spec.shape[-1:] == (_LANES,)


def _is_compressed(spec: TensorSpec) -> bool:
    one = all(size == 1 for size in spec.shape[:-2])
    return spec.dtype.name in _MASKS and spec.shape[-2:] == _COMPRESSED and one


def _pooling(task: TaskSpec) -> Reading | None:
    if not _POOLING.match(task.op_type) or not task.inputs or not task.outputs:
        return None
    x, y = task.inputs[0], task.outputs[0]
    if x is None or len(x.shape) not in _IMAGE_AXES or len(y.shape) != len(x.shape):
        return None
    if x.format.name == "NHWC" or min(*x.shape, *y.shape) < 1:
        return None
    windows = list(_windows(x.shape[2:4], y.shape[2:4]))
    if not windows:
        return None
    sides = ", ".join(f"{high} x {wide}" for high, wide in (each["ksize"][2:] for each in windows))
    first, *others = (_with(task, each) for each in windows)
    return Reading(first, tuple(others), _note(task, "windows", sides, len(windows)))


def _windows(before: Sequence[int], after: Sequence[int]) -> Iterator[dict[str, list[int]]]:
    """Square windows from which such planes follow, the likely one first.

    Padding is as networks have it, at most half a window and the same on both sides.
    """
    if tuple(after) == (1, 1):
        yield {"ksize": [1, 1, *before], "strides": [1, 1, *before], "pads": [0] * 4}
        return
    step = max(1, *(round(size / out) for size, out in zip(before, after, strict=True)))
    sides = dict.fromkeys((*_COMMON, step, *(_WIDE if step == 1 else (step + 1, 2 * step + 1))))
    for side in sides:
        pads = [_padding(size, out, side, step) for size, out in zip(before, after, strict=True)]
        if step <= side and None not in pads:
            high, wide = (each or 0 for each in pads)
            yield {
                "ksize": [1, 1, side, side],
                "strides": [1, 1, step, step],
                "pads": [high, high, wide, wide],
            }


def _padding(size: int, out: int, side: int, step: int) -> int | None:
    """Zeros on either side of a line from which so many windows follow, rounded down or else up."""
    pads = range(side // 2 + 1)
    down = (pad for pad in pads if out == (size + 2 * pad - side) // step + 1)
    up = (pad for pad in pads if out == -(-(size + 2 * pad - side) // step) + 1)
    return next(down, next(up, None))


def _transposition(task: TaskSpec) -> Reading | None:
    """Where sizes repeat, several orders lead from one shape to the other."""
    if task.op_type not in _TRANSPOSES or not task.inputs or not task.outputs:
        return None
    x, y = task.inputs[0], task.outputs[0]
    if x is None or sorted(x.shape) != sorted(y.shape) or len(x.shape) > _MOST:
        return None
    # Orders that differ in axes of one element only are one.
    found = {
        tuple(axis for axis in order if x.shape[axis] > 1): order
        for order in permutations(range(len(x.shape)))
        if tuple(x.shape[axis] for axis in order) == y.shape and _moves(order, x.shape)
    }
    ways = list(islice(found.values(), _MOST))
    if len(ways) < 2:
        return None
    # The kernel itself takes the likely order.
    others = tuple(_with(task, {"perm": list(order)}) for order in ways)
    return Reading(task, others, _note(task, "orders of axes", "", len(ways)))


def _moves(order: Sequence[int], sizes: Sequence[int]) -> bool:
    """Whether an order moves an element at all."""
    long = [axis for axis in order if sizes[axis] > 1]
    return long != sorted(long)


def _reduction(task: TaskSpec) -> Reading | None:
    """Where sizes repeat, several axes may have been folded."""
    if not _REDUCTIONS.match(task.op_type) or not task.inputs or not task.outputs:
        return None
    x, y = task.inputs[0], task.outputs[0]
    if x is None or len(y.shape) >= len(x.shape):
        return None
    axes = range(len(x.shape))
    found = (
        tuple(axis for axis in axes if axis not in kept)
        for kept in combinations(axes, len(y.shape))
        if tuple(x.shape[axis] for axis in kept) == y.shape
    )
    ways = list(islice(found, _MOST))
    if len(ways) < 2:
        return None
    others = tuple(_with(task, {"axes": list(way)}) for way in ways)
    return Reading(task, others, _note(task, "axes to fold", "", len(ways)))


def leaves_out(task: TaskSpec) -> str:
    """What decides the time of an operator without a kernel here, and isn't in its row."""
    named = {name.lower().replace("_", "") for name in task.attributes}
    if _POOLED.search(task.op_type) and named.isdisjoint(_KSIZE):
        return "a record without ksize"
    return ""


def _note(task: TaskSpec, what: str, values: str, ways: int) -> str:
    shown = f" ({values})" if values else ""
    if ways == 1:
        return say("{op_type}: its {what}{shown} follow from its shapes").format(
            op_type=task.op_type, what=what, shown=shown
        )
    return say(
        "{op_type}: its shapes allow {ways} {what}{shown}; the likely "
        "one is timed, and the band reaches over all"
    ).format(op_type=task.op_type, ways=ways, what=what, shown=shown)


def _with(task: TaskSpec, attributes: Mapping[str, object]) -> TaskSpec:
    return replace(task, attributes={**attributes, **task.attributes})

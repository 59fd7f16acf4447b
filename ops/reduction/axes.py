"""Which axes a reduction removes, and the fewest loops that describe it.

Axes of size one count as they come; neighbours that are treated alike are merged. What is left
alternates between kept and reduced axes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import prod

from npusim.values.errors import RefusedTaskError
from npusim.values.formats import FRACTAL

_NAMES = ("axes", "axis", "dim", "dims", "reduction_indices")  # how records call the axes


@dataclass(frozen=True, slots=True)
class Axis:
    """One loop: its size, and the distance of its steps in the input and in the result."""

    size: int
    step: int
    out_step: int = 0


_ONE = Axis(1, 0)


@dataclass(frozen=True, slots=True)
class Nest:
    """A reduction as loops: ``kept`` and ``folded`` ones around an inner kept and an inner folded.

    ``by_rows`` tells that the folded one of the two inner axes is the last: rows of numbers are
    folded, else rows are folded onto each other.
    """

    kept: tuple[Axis, ...]
    folded: tuple[Axis, ...]
    inner_kept: Axis
    inner_folded: Axis
    by_rows: bool

    @classmethod
    def of(cls, shape: tuple[int, ...], axes: Iterable[int]) -> Nest:
        """The loops of a reduction of ``shape`` over ``axes``."""
        merged = _merged(shape, frozenset(axes))
        by_rows = bool(merged) and merged[-1][1]
        last = _pop(merged, folded=by_rows)
        # The other inner axis has to lie directly around the last one.
        other = _pop(merged, folded=not by_rows) if merged else _ONE
        inner_folded, inner_kept = (last, other) if by_rows else (other, last)
        kept = tuple(axis for axis, is_folded in merged if not is_folded)
        folded = tuple(axis for axis, is_folded in merged if is_folded)
        return cls(kept, folded, inner_kept, inner_folded, by_rows)

    @property
    def outer(self) -> int:
        """Iterations of the kept loops around the inner ones."""
        return prod(axis.size for axis in self.kept)

    @property
    def results(self) -> int:
        """Numbers that come out."""
        return self.outer * self.inner_kept.size

    @property
    def count(self) -> int:
        """Numbers that make up one result."""
        return prod(axis.size for axis in self.folded) * self.inner_folded.size


def _merged(shape: tuple[int, ...], axes: frozenset[int]) -> list[tuple[Axis, bool]]:
    """Axes with steps, outside in, like neighbours merged, each with whether it's folded."""
    merged: list[tuple[Axis, bool]] = []
    step = out_step = 1
    for axis in reversed(range(len(shape))):
        size, folded = shape[axis], axis in axes
        if size == 1:
            continue
        if merged and merged[0][1] == folded:
            inner = merged[0][0]
            merged[0] = (Axis(inner.size * size, inner.step, inner.out_step), folded)
        else:
            merged.insert(0, (Axis(size, step, 0 if folded else out_step), folded))
        step *= size
        out_step *= 1 if folded else size
    return merged


def _pop(merged: list[tuple[Axis, bool]], *, folded: bool) -> Axis:
    if merged and merged[-1][1] == folded:
        return merged.pop()[0]
    return _ONE


def axes_of(
    op_type: str, shape: tuple[int, ...], result: tuple[int, ...], attributes: Mapping[str, object]
) -> tuple[int, ...]:
    """The axes that a recorded reduction removes: those it names, else those the shapes tell.

    Raises KernelError where no axes explain the result.
    """
    named = next((attributes[name] for name in _NAMES if name in attributes), None)
    if isinstance(named, int) and not isinstance(named, bool):
        named = (named,)
    if isinstance(named, tuple | list) and named and all(isinstance(each, int) for each in named):
        axes = tuple(sorted({each % max(1, len(shape)) for each in named}))
        kept = [size for axis, size in enumerate(shape) if axis not in axes and size != 1]
        if kept == [size for size in result if size != 1]:
            return axes
    return reduced_axes(op_type, shape, result)


def reduced_axes(op_type: str, shape: tuple[int, ...], result: tuple[int, ...]) -> tuple[int, ...]:
    """The axes that a reduction from ``shape`` to ``result`` removes, as the shapes tell.

    Of several ways the one that alternates least between kept and removed axes is taken, and
    among those the one that removes the last axes.
    """
    if len(shape) == len(result) and all(b in (a, 1) for a, b in zip(shape, result, strict=True)):
        return tuple(i for i, (a, b) in enumerate(zip(shape, result, strict=True)) if a != b)
    kept = [size for size in result if size != 1]
    large = [axis for axis, size in enumerate(shape) if size != 1]
    ways = [
        chosen
        for chosen in combinations(large, len(kept))
        if [shape[axis] for axis in chosen] == kept
    ]
    if not ways:
        raise RefusedTaskError(op_type, f"{shape} can't be reduced to {result}")

    def groups(chosen: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
        folded = [axis not in chosen for axis in large]
        changes = sum(now != before for before, now in pairwise(folded))
        return changes, chosen

    best = min(ways, key=groups)
    return tuple(axis for axis in large if axis not in best)


def bias_axes(op_type: str, shape: tuple[int, ...], result: tuple[int, ...]) -> tuple[int, ...]:
    """The axes that the gradient of a bias is summed over: all but the channels'.

    Channels are the last axis, the second one of NCHW, the second and last of NC1HWC0 or the first
    and last of FRACTAL_NZ, by what fits the size of the result.
    """
    channels = prod(result)
    rank = len(shape)
    if rank >= 4 and shape[-2:] == (FRACTAL, FRACTAL) and channels == shape[0] * FRACTAL:
        return tuple(range(1, rank - 1))
    if rank == 5 and shape[-1] == FRACTAL and channels == shape[1] * FRACTAL:
        return (0, 2, 3)
    if shape[-1] == channels:
        return tuple(range(rank - 1))
    if rank > 2 and shape[1] == channels:
        return (0, *range(2, rank))
    raise RefusedTaskError(op_type, f"no axis of {shape} has {channels} channels")

"""Steps over the elements of one space that go through the host's caches together: a pass.

A pass reads its inputs once, works through its steps element by element, and writes its outputs. A
fold leaves one number for each row, the last axis of the space.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Shape = tuple[int, ...]

_CHEAP = {"add", "adds", "sub", "mul", "muls", "max", "maxs", "min", "mins"}
_CHEAP |= {"axpy", "abs", "relu", "duplicate", "select", "copy"}


@dataclass(frozen=True, slots=True)
class Work:
    """What one step computes: ``compute`` takes the sources' numbers, and ``out``.

    ``name`` is what is known of it elsewhere: equal names, equal results. ``settles`` says that a
    chip without infinities cuts the result off, ``folds`` that rows become single numbers.
    """

    name: str
    compute: Callable[..., object]
    settles: bool = True
    folds: bool = False

    @property
    def is_cheap(self) -> bool:
        """Whether doing it again takes less than to write its result and to read it."""
        return self.name in _CHEAP or " to " in self.name  # conversions


@dataclass(frozen=True, slots=True)
class Step:
    """One step: ``sources`` count the inputs of the pass first, then the results of its steps."""

    work: Work
    sources: tuple[int, ...]
    dtype: np.dtype[Any]


@dataclass(frozen=True, slots=True)
class Output:
    """Where the result of a step goes; ``shares`` is the input that lies in the same memory."""

    step: int
    array: NDArray[Any]
    shares: int | None = None


@dataclass(frozen=True)
class Pass:
    """Inputs that broadcast to ``space``, the steps in their order, and what is kept of them."""

    space: Shape
    inputs: tuple[NDArray[Any], ...]
    steps: tuple[Step, ...]
    outputs: tuple[Output, ...]
    saturates: bool

    @classmethod
    def of(
        cls,
        space: Shape,
        inputs: Sequence[NDArray[Any]],
        steps: Sequence[Step],
        outputs: Sequence[Output],
        *,
        saturates: bool,
    ) -> Pass:
        """Without the steps and inputs that no output comes from."""
        count, wanted = len(inputs), {len(inputs) + output.step for output in outputs}
        for number in reversed(range(len(steps))):
            if count + number in wanted:
                wanted.update(steps[number].sources)
        wanted.update(each.shares for each in outputs if each.shares is not None)
        places = {value: place for place, value in enumerate(sorted(wanted))}
        kept = sum(value < count for value in wanted)
        return cls(
            space,
            tuple(array for value, array in enumerate(inputs) if value in wanted),
            tuple(
                Step(step.work, tuple(places[source] for source in step.sources), step.dtype)
                for number, step in enumerate(steps)
                if count + number in wanted
            ),
            tuple(
                Output(
                    places[count + each.step] - kept,
                    each.array,
                    None if each.shares is None else places[each.shares],
                )
                for each in outputs
            ),
            saturates,
        )

    @cached_property
    def folds(self) -> bool:
        """Whether some of its steps need whole rows."""
        return any(step.work.folds for step in self.steps)

    def parts(self, count: int) -> list[Pass]:
        """The same in ``count`` passes over parts of its first long axis; a single one without any.

        Rows that fold stay whole.
        """
        axes = self.space[:-1] if self.folds else self.space
        axis = next((place for place, size in enumerate(axes) if size >= count), None)
        if axis is None:
            return [self]
        size = self.space[axis]
        cuts = [slice(size * part // count, size * (part + 1) // count) for part in range(count)]
        return [self._part(axis, cut) for cut in cuts]

    def _part(self, axis: int, cut: slice) -> Pass:
        rank = len(self.space)
        return Pass(
            (*self.space[:axis], cut.stop - cut.start, *self.space[axis + 1 :]),
            tuple(_cut(each, axis - rank + each.ndim, cut) for each in self.inputs),
            self.steps,
            tuple(replace(each, array=_cut(each.array, axis, cut)) for each in self.outputs),
            self.saturates,
        )

    def last_uses(self) -> list[int]:
        """The last step that takes each of the inputs and of the steps' results; -1 for none."""
        last = [-1] * (len(self.inputs) + len(self.steps))
        for number, step in enumerate(self.steps):
            for source in step.sources:
                last[source] = number
        return last

    def flattened(self) -> tuple[Shape, list[Shape]]:
        """The space with as few axes as all arrays allow, and the strides of each along them.

        Inputs come first, then outputs. What is repeated along an axis has stride zero there, as
        folds have along rows.
        """
        rank = len(self.space)
        strides = [_repeated(array, self.space) for array in self.inputs]
        for output in self.outputs:
            along = output.array.strides
            strides.append((*along, 0) if len(along) < rank else along)
        axes = _merged(self.space, strides, rows_apart=self.folds)
        return tuple(size for size, _ in axes), list(
            zip(*(steps for _, steps in axes), strict=True)
        )


def _cut(array: NDArray[Any], axis: int, cut: slice) -> NDArray[Any]:
    """Part of an axis, which an array that is repeated along it has no need of."""
    if axis < 0 or array.shape[axis] == 1:
        return array
    part: NDArray[Any] = array[(slice(None),) * axis + (cut,)]
    return part


def _repeated(array: NDArray[Any], space: Shape) -> Shape:
    """The strides of an array that broadcasts to a space."""
    missing = (0,) * (len(space) - array.ndim)
    pairs = zip(array.shape, array.strides, strict=True)
    return (*missing, *(0 if size == 1 else step for size, step in pairs))


def _merged(space: Shape, strides: Sequence[Shape], *, rows_apart: bool) -> list[tuple[int, Shape]]:
    """Size and every array's stride of the axes that remain; rows keep theirs if ``rows_apart``."""
    axes: list[tuple[int, Shape]] = []
    last = len(space) - 1
    for axis, size in enumerate(space):
        steps = tuple(each[axis] for each in strides)
        apart = rows_apart and axis == last
        if size == 1 and not apart:
            continue
        if (
            axes
            and not apart
            and all(before == size * step for before, step in zip(axes[-1][1], steps, strict=True))
        ):
            axes[-1] = (axes[-1][0] * size, steps)
        else:
            axes.append((size, steps))
    return axes or [(1, (0,) * len(strides))]

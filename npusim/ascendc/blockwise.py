"""A pass by NumPy: block after block, each small enough to stay in a core's cache."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from npusim.ascendc import rounding

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.passes import Pass, Shape, Step

_ELEMENTS = 1 << 17  # of a block: some arrays of them stay in a core's caches
_FEWEST = 1 << 12  # below, calling NumPy takes longer than what it computes

Index = tuple[int | slice, ...]


def run(work: Pass) -> None:
    """Compute a pass."""
    space, strides = work.flattened()
    arrays = (*work.inputs, *(output.array for output in work.outputs))
    views = [as_strided(array, space, steps) for array, steps in zip(arrays, strides, strict=True)]
    inputs, outputs = views[: len(work.inputs)], views[len(work.inputs) :]
    blocks = _Blocks(work)
    for index in _indices(space, whole_rows=work.folds):
        blocks.compute([each[index] for each in inputs], [each[index] for each in outputs])


def _indices(space: Shape, *, whole_rows: bool) -> Iterator[Index]:
    """What cuts the space into blocks: some rows, or a piece of a long one."""
    if prod(space[-2:]) < _FEWEST:
        yield ()
        return
    *outer, columns = space
    cuts: list[Index]
    if whole_rows or columns <= _ELEMENTS:
        rows, share = outer.pop() if outer else 1, max(1, _ELEMENTS // columns)
        cuts = [(slice(first, first + share), slice(None)) for first in range(0, rows, share)]
    else:
        cuts = [(slice(first, first + _ELEMENTS),) for first in range(0, columns, _ELEMENTS)]
    for place in product(*map(range, outer)):
        for cut in cuts:
            index: Index = (*place, *cut)
            yield index[-len(space) :]


class _Blocks:
    """Works through the steps of a pass for one block after the other.

    A result is computed in the output that it goes to, or in scratch memory, where it may in place
    of a source: what it writes is in the cache then. Memory is used again as soon as nobody needs
    it any more.
    """

    def __init__(self, work: Pass) -> None:
        self._work = work
        count, last = len(work.inputs), work.last_uses()
        self._direct: dict[int, int] = {}  # step -> output that it is computed in
        for place, output in enumerate(work.outputs):
            read_later = output.shares is not None and last[output.shares] > output.step
            if output.step not in self._direct and not read_later:
                self._direct[output.step] = place
        kept = {output.step for output in work.outputs}
        self._ends: dict[int, list[int]] = {}  # step -> results that nobody needs behind it
        for number in range(len(work.steps)):
            if number not in kept:
                self._ends.setdefault(max(number, last[count + number]), []).append(number)
        self._free: dict[np.dtype[Any], list[NDArray[Any]]] = {}

    def compute(self, inputs: list[NDArray[Any]], outputs: list[NDArray[Any]]) -> None:
        """Everything for one block of the inputs and outputs."""
        work, values = self._work, [*inputs]
        shape = (inputs or outputs)[0].shape
        borrowed: dict[int, NDArray[Any]] = {}
        for number, step in enumerate(work.steps):
            if number in self._direct:
                result = outputs[self._direct[number]]
            else:
                borrowed[number] = self._room(number, step, borrowed, prod(shape))
                result = borrowed[number][: prod(shape)].reshape(shape)
            target = result[..., 0] if step.work.folds else result
            step.work.compute(*(values[source] for source in step.sources), out=target)
            if work.saturates and step.work.settles:
                rounding.saturate(target)
            values.append(result)
            for ended in self._ends.get(number, ()):
                if ended in borrowed:
                    self._give_back(borrowed.pop(ended))
        for place, output in enumerate(work.outputs):
            if self._direct.get(output.step) != place:
                np.copyto(outputs[place], values[len(inputs) + output.step])
        for memory in borrowed.values():
            self._give_back(memory)

    def _room(
        self, number: int, step: Step, borrowed: dict[int, NDArray[Any]], size: int
    ) -> NDArray[Any]:
        """Memory for a step's result: that of a source which ends with it, if there is one."""
        if not step.work.folds:
            for ended in self._ends.get(number, ()):
                if ended in borrowed and borrowed[ended].dtype == step.dtype:
                    return borrowed.pop(ended)
        return self._borrow(step.dtype, size)

    def _borrow(self, dtype: np.dtype[Any], size: int) -> NDArray[Any]:
        free = self._free.setdefault(dtype, [])
        if free and free[-1].size >= size:
            return free.pop()
        return np.empty(size, dtype)

    def _give_back(self, memory: NDArray[Any]) -> None:
        self._free[memory.dtype].append(memory)

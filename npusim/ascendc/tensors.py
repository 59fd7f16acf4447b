"""Tiles in on-chip memory."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from npusim.ascendc.chains import spot_of
from npusim.ascendc.folds import in_every_turn
from npusim.ascendc.loops import LoopIndex, deepen
from npusim.values.errors import AlignmentError, KernelError

if TYPE_CHECKING:
    from npusim.ascendc.issuer import Issuer
    from npusim.ascendc.passes import Work
    from npusim.ascendc.tile_states import Tile
    from npusim.values.dtypes import DType


Cut = Callable[[NDArray[Any]], NDArray[Any]]


class Shown(Enum):
    """What a tensor shows instead of its slot's memory."""

    NOTHING = auto()
    VIEW = auto()  # memory that others may write
    COPY = auto()  # a copy of it
    ENDED = auto()  # as VIEW, but the tensor is freed


_NOTHING, _VIEW, _COPY, _ENDED = Shown  # quicker than by their class


class LocalTensor:
    """A tile in an on-chip buffer: its logical shape, and numbers where the run has any.

    Rows (the last axis) start at 32-byte boundaries when there is more than one. ``depth`` counts
    the stack axes in front of the logical ones. A tensor that a copy filled may show global
    memory: it gets memory of its own before anything is written to it, and a copy before anything
    is written there.
    """

    __slots__ = (
        "__weakref__",
        "_array",
        "_cut",
        "_phase",
        "_root",
        "_run",
        "_scope",
        "_shows",
        "buffer",
        "core",
        "depth",
        "dtype",
        "home",
        "memory",
        "part",
        "shape",
        "slot",
        "tile",
    )

    def __init__(
        self,
        core: Issuer,
        dtype: DType,
        shape: tuple[int, ...],
        buffer: str,
        slot: object,
        *,
        depth: int | None = None,
        part_of: tuple[LocalTensor, Cut] | None = None,
        memory: str = "UB",
        tile: Tile | None = None,
    ) -> None:
        self.core = core
        self.dtype = dtype
        self.shape = shape
        self.buffer = buffer
        self.slot = slot
        self.depth = core.depth if depth is None else depth
        self._root: LocalTensor | None = None
        self._cut: Cut | None = None
        self._array: NDArray[Any] | None = None
        self._shows = _NOTHING
        self._phase = core.phase
        self._run: int | None = None  # elements of the run that it is worked on as
        # Tiles of a queue have a state; scratch memory has the loop in which it was fetched.
        self.memory, self.tile, self.home = memory, tile, self.depth
        if part_of is not None:
            whole, self._cut = part_of
            self._root = whole
            self.memory, self.tile, self.home = whole.memory, whole.tile, whole.home
        if core.own_code:  # else nobody asks
            self.part: tuple[object, ...] = part_of[0].part if part_of else ()
            self._scope: int = part_of[0]._scope if part_of else core.scopes.open[-1]

    def check_read(self) -> None:
        """Refuse a tile that isn't the kernel's, and scratch memory of another iteration."""
        core = self.core
        if core.scheduling or not core.recording:
            return
        if self.tile is None:
            scopes, home = core.scopes, self.home
            here = scopes.open[home] if home < len(scopes.open) else -1
            if scopes.filled.get(self.slot) != here:
                scopes.refuse_read(self.slot, home, self.buffer)
        elif not self.tile.usable:
            self.tile.refuse("used")
        elif core.own_code:
            core.scopes.check_home(self.home, self._scope, self.buffer)

    def check_usable(self) -> None:
        """Refuse a tile that isn't the kernel's."""
        if self.tile is not None and not self.tile.usable and self.core.recording:
            self.tile.refuse("used")

    def check_write(self) -> None:
        """Refuse a tile that isn't the kernel's, and memory that all iterations share."""
        core, tile, depth = self.core, self.tile, self.depth
        scopes, opened = core.scopes, core.scopes.open
        if tile is None and self.home < len(opened):
            scopes.filled[self.slot] = opened[self.home]
        if core.scheduling or not core.recording:
            return
        if depth >= len(opened) or opened[depth] != opened[-1]:
            scopes.refuse_write(depth, self.buffer)
        if tile is not None and not tile.usable:
            tile.refuse("used")

    @property
    def whole(self) -> tuple[LocalTensor, Cut] | None:
        """What it is a part of, and how it is cut out of that."""
        return None if self._root is None or self._cut is None else (self._root, self._cut)

    @property
    def numel(self) -> int:
        """How many elements there are."""
        return prod(self.shape)

    @property
    def rows(self) -> int:
        """Rows of the last axis that an instruction goes through."""
        return 1 if self._run is not None or len(self.shape) < 2 else prod(self.shape[:-1])

    @property
    def row_elements(self) -> int:
        """Elements that an instruction goes through in each row."""
        if self._run is not None:
            return self._run
        return self.shape[-1] if self.shape else 1

    def values(self, depth: int) -> NDArray[Any]:
        """The numbers with ``depth`` stack axes, to be read only."""
        array = self.shown(depth)
        self.core.chain.before_reading(array)
        return array

    def shown(self, depth: int) -> NDArray[Any]:
        """As :meth:`values`, for a step of a chain: some of them may still have to be computed."""
        self._check_phase()
        self.check_read()
        if self.core.follower is not None:
            self.core.follower.reads(self)
        return deepen(self._numbers(), self.depth, depth)

    def target(self, depth: int, *, whole: bool = True) -> NDArray[Any]:
        """The numbers with ``depth`` stack axes, to be written.

        ``whole`` promises that all of them will be.
        """
        array = self.room(depth, whole=whole)
        self.core.chain.before_writing(array)
        return array

    def room(self, depth: int, *, whole: bool = True) -> NDArray[Any]:
        """As :meth:`target`, for a step of a chain."""
        self._check_phase()
        self.check_write()
        if self.core.follower is not None:
            self.core.follower.writes(self)
        if depth > self.depth and self.core.stack_size(self.depth, depth) > 1:
            self.core.scopes.refuse_write(self.depth, self.buffer)
        return deepen(self._writable(whole=whole), self.depth, depth)

    def total(self) -> NDArray[Any]:
        """The numbers, for the iterations of inner loops to add to."""
        self._check_phase()
        if self.core.follower is not None:
            self.core.follower.writes(self)
        array = self._writable(whole=False)
        self.core.chain.before_writing(array)
        return array

    def _writable(self, *, whole: bool) -> NDArray[Any]:
        if self._root is not None:
            self._root._own(keep=True)
        else:
            self._own(keep=not whole)
        numbers = self._numbers()
        if self.core.views.of_tiles:
            self.core.views.before_writing(numbers)
        return numbers

    def becomes(self, work: Work, *sources: LocalTensor | NDArray[Any] | np.generic) -> None:
        """Its numbers are what ``work`` makes of others, at once or with the core's chain."""
        core = self.core
        depth, chain = core.depth, core.chain
        values = [each.shown(depth) if isinstance(each, LocalTensor) else each for each in sources]
        target = self.room(depth)
        if work.folds and target.ndim == np.ndim(values[0]):
            target = target[..., 0]
        if work.folds:
            values[0] = in_every_turn(np.asarray(values[0]), target.shape)
        home = self.home if self._root is None else self._root.home
        if chain.compute(work, target, *values, home=home):
            return
        for value in values:
            chain.before_reading(np.asarray(value))
        chain.before_writing(target)
        work.compute(*values, out=target)
        if work.settles:
            core.settle(target)

    def _numbers(self) -> NDArray[Any]:
        if self._root is not None and self._cut is not None:
            return self._cut(self._root._numbers())
        if self._array is None:
            self._array = self.core.storage(self)
        return self._array

    def _own(self, *, keep: bool) -> None:
        """Make sure that writing doesn't reach the global memory that the tensor shows."""
        if self._root is not None:
            self._root._own(keep=True)
        elif self._shows is not _NOTHING:
            shown, self._array = self._array, self.core.storage(self)
            self._shows = _NOTHING
            if keep and shown is not None:
                self.core.chain.run()
                self._array[...] = shown

    def _check_phase(self) -> None:
        """Cores take turns between barriers and share the host memory of local tensors."""
        if self._phase != self.core.phase:
            raise KernelError(
                self.core.kernel_name,
                f"{self.buffer} is used after sync_all",
                "Allocate it again behind the barrier.",
            )

    def alias(self, values: NDArray[Any], *, loaded: bool = False) -> None:
        """Let the tensor show ``values`` (its own stack depth and shape).

        They are copied as soon as somebody writes to their memory (:mod:`npusim.ascendc.views`), at
        once by a part and in a reference run. ``loaded`` says that they lie in global memory.
        """
        if self._root is not None:
            self.core.chain.run()
            self.target(self.depth)[...] = values
        else:
            self.check_write()
            if self.core.follower is not None:
                self.core.follower.writes(self)
            self._array, self._shows = values, _VIEW
            if self.core.reference:
                self._take_copy(values)
            else:
                self.core.views.add(self, loaded=loaded)

    @property
    def is_view(self) -> bool:
        """Whether it shows memory that others may write."""
        return self._shows is _VIEW

    def give_way(self, written: NDArray[Any]) -> None:
        """Show a copy of what it shows if some of that is about to be ``written``."""
        shown = self._array
        if shown is None or not np.may_share_memory(shown, written):  # by their bounds
            return
        if spot_of(shown).covers(spot_of(written)):
            self._take_copy(shown)

    def _take_copy(self, shown: NDArray[Any]) -> None:
        self.core.chain.before_reading(shown)
        self._array, self._shows = shown.copy(), _COPY

    def end_view(self) -> None:
        """Nobody needs its numbers any more: it is freed."""
        root = self if self._root is None else self._root
        if root._shows is _VIEW:
            root._shows = _ENDED

    def same_place(
        self, *shape: int, dtype: DType | None = None, depth: int | None = None
    ) -> LocalTensor:
        """A tensor of another shape at the same place, whose numbers are still to be given."""
        placed = LocalTensor(
            self.core, dtype or self.dtype, shape, self.buffer, self.slot, depth=depth
        )
        placed.memory, placed.tile, placed.home = self.memory, self.tile, self.home
        return placed

    def view(self, *shape: int) -> LocalTensor:
        """The same elements under another shape, packed.

        For the scalar unit, which doesn't mind where rows start.
        """
        if prod(shape) != self.numel:
            raise KernelError(self.core.kernel_name, f"{self.shape} can't be viewed as {shape}")
        depth = self.depth
        return self._part(shape, lambda array: array.reshape(array.shape[:depth] + shape))

    def stretch(self, start: int, length: int) -> LocalTensor:
        """``length`` elements of a row from ``start`` on, wherever that is.

        For instructions with a mask of lanes, and for masks of bits that go to a register.
        """
        shape = (*self.shape[:-1], length)
        part = self._part(shape, lambda array: array[..., start : start + length])
        if self.core.own_code:
            part.part = (*self.part, "from", start)
        return part

    def element(self, index: int) -> LocalTensor:
        """One element of a row, for the scalar unit; all there is of a tile of shape ()."""
        if not self.shape:
            return self
        return self._part(self.shape[:-1], lambda array: array[..., index])

    def as_run(self, elements: int) -> LocalTensor:
        """The same numbers for instructions that take all rows, padding included, as one run."""
        run = self._part(self.shape, lambda array: array)
        run._run = elements
        return run

    def _part(self, shape: tuple[int, ...], cut: Cut, depth: int | None = None) -> LocalTensor:
        """What ``cut`` makes of the numbers, at the same place."""
        depth = self.depth if depth is None else depth
        core, place = self.core, (self.buffer, self.slot)
        return LocalTensor(core, self.dtype, shape, *place, depth=depth, part_of=(self, cut))

    def _cut_at_once(self, items: tuple[LoopIndex | int | slice, ...]) -> LocalTensor | None:
        """The part that numbers and slices select, by one cut; None where one by one is needed.

        That is where loops' indices are among them, or something is to be refused.
        """
        shape, dims = self.shape, len(self.shape)
        if len(items) > dims:
            return None
        kept: list[int] = []
        for axis, item in enumerate(items):
            size = shape[axis]
            if type(item) is slice:
                start = item.start or 0
                if item.step not in (None, 1) or not 0 <= start < max(1, size):
                    return None
                stop = size if item.stop is None else item.stop
                if stop < 0 or (
                    axis == dims - 1 and start * self.dtype.itemsize % self.core.block_bytes
                ):
                    return None
                kept.append(max(0, min(stop, size) - start))
            elif type(item) is not int or not -size <= item < size:
                return None
        index = (slice(None),) * self.depth + items
        return self._part((*kept, *shape[len(items) :]), lambda array: array[index])

    __iter__ = None  # Python would ask for one index after another until one is refused

    def __getitem__(
        self, index: LoopIndex | int | slice | tuple[LoopIndex | int | slice, ...]
    ) -> LocalTensor:
        items = index if isinstance(index, tuple) else (index,)
        if not self.core.own_code and (found := self._cut_at_once(items)) is not None:
            return found
        part = self
        axis = 0
        for item in items:
            part, kept = _take(part, axis, item)
            axis += kept
        return part


def _take(tensor: LocalTensor, axis: int, item: LoopIndex | int | slice) -> tuple[LocalTensor, int]:
    """The part that ``item`` selects on logical axis ``axis``, and how many axes it keeps."""
    _check_item(tensor, axis, item)
    before, after = tensor.shape[:axis], tensor.shape[axis + 1 :]
    depth, place = tensor.depth, tensor.depth + axis
    index = (slice(None),) * place + (item.as_slice() if isinstance(item, LoopIndex) else item,)
    if isinstance(item, LoopIndex):
        shape, depth, cut = (
            before + after,
            item.depth + 1,
            _stacking(index, place, tensor.depth, item.depth),
        )
    elif isinstance(item, slice):
        start, stop, _ = item.indices(tensor.shape[axis])
        shape, cut = (*before, max(0, stop - start), *after), _indexing(index)
    else:
        shape, cut = before + after, _indexing(index)
    part = tensor._part(shape, cut, depth)
    if tensor.core.own_code:
        kept = item.key if isinstance(item, LoopIndex) else str(item)
        part.part = (*tensor.part, axis, kept)
    return part, int(isinstance(item, slice))


def _indexing(index: tuple[slice | int, ...]) -> Cut:
    return lambda array: array[index]


def _stacking(index: tuple[slice | int, ...], place: int, depth: int, level: int) -> Cut:
    """Cut a range out of axis ``place`` and make it the stack axis of loop ``level``."""

    def cut(array: NDArray[Any]) -> NDArray[Any]:
        part = array[index]
        order = (*range(depth), place, *range(depth, place), *range(place + 1, part.ndim))
        moved = part.transpose(order)  # np.moveaxis, without its overhead
        return moved.reshape(moved.shape[:depth] + (1,) * (level - depth) + moved.shape[depth:])

    return cut


def _check_item(tensor: LocalTensor, axis: int, item: LoopIndex | int | slice) -> None:
    """Refuse what lies outside the tensor, and rows that don't start at blocks, as UB wants them.

    Only the last axis is packed, so only it can break the second rule.
    """
    if isinstance(item, LoopIndex):
        return
    size = tensor.shape[axis] if axis < len(tensor.shape) else 0
    if isinstance(item, slice):  # whose end may lie behind the last element, as in Python
        inside = item.step in (None, 1) and -size <= (item.start or 0) < max(1, size)
    else:
        inside = -size <= item < size
    if not inside:
        raise KernelError(
            tensor.core.kernel_name, f"{tensor.buffer} {list(tensor.shape)} has no part {item}"
        )
    if not isinstance(item, slice):
        return
    start = item.indices(size)[0] * tensor.dtype.itemsize
    block = tensor.core.block_bytes
    if axis == len(tensor.shape) - 1 and start % block:
        raise AlignmentError(
            tensor.core.kernel_name, f"start of a slice of {tensor.buffer}", start, block
        )

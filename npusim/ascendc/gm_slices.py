"""Tiles of global memory that copies move: where loops and scalars put them."""

from __future__ import annotations

from copy import copy
from math import gcd
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np

from npusim.ascendc.gm_numbers import Held, PlacedNumbers
from npusim.ascendc.loops import Index, LoopIndex
from npusim.ascendc.passages import Item, Key, Origin
from npusim.ascendc.reuse import EVER_NEW, Cycle
from npusim.ascendc.scalars import Scalar
from npusim.ascendc.turns import Turn
from npusim.values.arithmetic import round_up
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


# What may stand in an address: a number, a loop's index, or a number that the scalar unit has
# computed.
Place = Index | Scalar
_NONE: Final[dict[int, Any]] = {}  # of a slice's loops; what has some has a dictionary of its own


class GmSlice(PlacedNumbers):
    """A tile of global memory: a place that loop indices move, a logical shape and its strides."""

    rows_apart = singly = skips = False
    whole_blocks = 0
    raw = False  # its places are given in elements of memory
    # Loops by their depth, where some move it otherwise than evenly: with an offset for every
    # iteration, and how often one comes again; turn by turn, by elements from one to the next.
    _irregular: dict[int, NDArray[np.int64]] = _NONE
    _cycles: dict[int, Cycle] = _NONE
    _turned: dict[int, int] = _NONE
    _computed: tuple[tuple[Scalar, int], ...] = ()  # by the scalar unit, and strides
    _items: tuple[Item, ...] = ()

    def __init__(
        self,
        tensor: Held,
        places: tuple[tuple[Place, int], ...],
        shape: tuple[int, ...],
        steps: tuple[int, ...],
    ) -> None:
        self.tensor = tensor
        self.shape = shape
        self.steps = steps
        self._base = tensor.start
        # Those that move it evenly, and the elements from an iteration to the next.
        self._affine: dict[int, tuple[LoopIndex, int]] = {}
        self._strides: list[int] = []  # of everything that moves the address
        for item, stride in places:
            if type(item) is int:  # as most are
                self._base += item * stride
            else:
                self._place(item, stride)

    def __copy__(self) -> GmSlice:
        other = GmSlice.__new__(GmSlice)
        other.__dict__.update(self.__dict__)
        return other

    def rounded_up(self, block_bytes: int) -> GmSlice:
        """The same tile moved in whole blocks.

        A load brings in what lies behind the end too, and the kernel ignores it. A store overwrites
        it, so rows are stored in order, each over the padding of the one before.
        """
        rounded = copy(self)
        rounded.whole_blocks = block_bytes
        return rounded

    def of(self, tensor: Held) -> GmSlice:
        """The same tile of another tensor that lies as this one does."""
        other = copy(self)
        other.tensor = tensor
        other._base += tensor.start - self.tensor.start
        return other

    def by_rows(self, *, singly: bool = False) -> GmSlice:
        """The same tile moved row by row, where on-chip rows are padded and these aren't.

        ``singly`` each row is an instruction, though one of data_move_pad takes several.
        """
        apart = copy(self)
        apart.rows_apart, apart.singly = True, singly
        return apart

    def skipping(self) -> GmSlice:
        """The same tile, which isn't stored where the scalar unit's place lies before the buffer.

        The time is that of all stores: only data tells which there are.
        """
        skipping = copy(self)
        skipping.skips = True
        return skipping

    @property
    def key(self) -> Key:
        """Equal for slices that visit the same memory in the same iterations."""
        return (self.tensor.buffer.number, self._base, self._items, self.shape, self.steps)

    @property
    def moves(self) -> dict[int, Cycle]:
        """How each of these loops moves the address."""
        if not (self._irregular or self._computed or self._turned):
            return dict.fromkeys(self._affine, EVER_NEW)
        return {
            depth: EVER_NEW if depth in self._affine else self._cycles.get(depth, EVER_NEW)
            for depth in self.depths
        }

    def begins(self, line_bytes: int) -> tuple[Origin, tuple[int, ...]]:
        """Where what is counted from its first element begins, and how that lies.

        The second is equal where copies take as long: its buffer, and where in a line it begins.
        """
        itemsize = self.tensor.dtype.itemsize
        apart = gcd(line_bytes, *[step * itemsize for step in self._strides])
        lies = self.tensor.buffer.number, self._base * itemsize % line_bytes, apart
        return Origin(self._base, self._items, self.moves), lies

    def pattern(self, loops: Sequence[LoopIndex]) -> tuple[object, ...]:
        """As :attr:`key`, but equal in all turns of ``loops`` that move it evenly."""
        moved = {d: step for d, step in self._turned.items() if step and d < len(loops)}
        base = self._base - sum(loops[depth].first * step for depth, step in moved.items())
        places = tuple(item for item in self._items if not isinstance(item[0], Scalar))
        number = self.tensor.buffer.number
        return (number, base, tuple(moved.items()), places, self.shape, self.steps)

    def check_elements(self) -> None:
        """Raise KernelError where a tile of a strided tensor has elements that aren't its own."""
        tensor = self.tensor
        if tensor.strides is None or self._computed or not self.raw:
            return
        own = GmSlice(tensor, (), tensor.shape, tensor.strides)
        depth = 1 + max(self.depths, default=-1)
        touched = np.add.outer(self.starts(depth), self.offsets())
        if not np.isin(touched, tensor.start + own.offsets()).all():
            raise KernelError(
                "",
                f"a window of {tensor.buffer.name}, whose strides are {list(tensor.strides)}, has "
                "elements between its own",
                "Index it or take a span, which follow its strides; a window counts elements of "
                "memory.",
            )

    def check_loops(self, loops: Sequence[LoopIndex]) -> None:
        """Raise KernelError where an index moves it that is of none of the ``loops`` around it."""
        for depth, index in ((d, index) for d, (index, _) in self._affine.items()):
            around = loops[depth] if depth < len(loops) else None
            if around is None or around.range != index.range:
                _refuse_index()
        for depth, offsets in self._irregular.items():
            if depth >= len(loops) or loops[depth].last - loops[depth].first != len(offsets):
                _refuse_index()

    def check_computed(self, depth: int) -> None:
        """Raise KernelError for places that the scalar unit computed outside of the memory."""
        if not self._computed or not self.numel:
            return
        starts = self.starts(depth)
        tile, held = self.offsets(), self.tensor.buffer.nbytes // self.tensor.dtype.itemsize
        first, last = int(starts.min() + tile.min()), int(starts.max() + tile.max())
        if last >= held or (first < 0 and not self.skips):
            raise KernelError(
                "",
                f"a copy goes from element {first} to {last} of {self.tensor.buffer.name}, which "
                f"has {held}: its place comes from the scalar unit",
                "Keep places that are read from data inside the tensor before using them.",
            )

    @property
    def is_dense(self) -> bool:
        """Whether the tile has all elements between its first and its last."""
        return self._extent == self.numel

    def bursts(self) -> tuple[int, int]:
        """(elements per contiguous run, number of runs) that one iteration moves.

        Rows that whole blocks fill up to the next one are one run.
        """
        axis = len(self.shape)
        if self.whole_blocks and axis > 1 and not self.rows_apart and self.steps[-1] == 1:
            whole = round_up(self.shape[-1], self.whole_blocks // self.tensor.dtype.itemsize)
            if self.steps[-2] == whole:
                return self._runs(whole, axis - 1)
        return self.runs()

    def runs(self) -> tuple[int, int]:
        """The same of what is asked for."""
        return self._runs(1, len(self.shape))

    def _runs(self, run: int, axis: int) -> tuple[int, int]:
        """Runs of ``run`` elements behind ``axis``, put together as far as they are one."""
        shape, steps = self.shape, self.steps
        stop = len(shape) - 1 if self.rows_apart else 0
        while axis > stop and (steps[axis - 1] == run or shape[axis - 1] == 1):
            axis -= 1
            run *= shape[axis]
        runs = 1
        for before in range(axis):  # one of stride zero is loaded once, and read again on the chip
            if steps[before]:
                runs *= shape[before]
        return run, runs

    def grain_bytes(self, line_bytes: int) -> int:
        """The multiple of bytes, a divisor of ``line_bytes``, that all its runs start at."""
        steps = [s for s, size in zip(self.steps, self.shape, strict=True) if size > 1 and s != 1]
        apart = gcd(self._base, *self._strides, *steps)
        return gcd(line_bytes, apart * self.tensor.dtype.itemsize)

    def ends_tensor(self) -> bool:
        """True when all iterations take the same tile and it reaches its buffer's padded end."""
        if self.is_scattered or any(
            index.count > 1 and step for index, step in self._affine.values()
        ):
            return False
        first = self._base + sum(index.first * step for index, step in self._affine.values())
        return (first + self._extent) * self.tensor.dtype.itemsize >= self.tensor.buffer.nbytes

    def check_inside(self) -> None:
        """Raise KernelError where an iteration leaves the memory that the tensor lies in.

        Places that the scalar unit computes aren't looked at.
        """
        held = self.tensor.buffer.nbytes // self.tensor.dtype.itemsize
        first = last = self._base
        moves = [(index.count, step) for index, step in self._affine.values()]
        for count, step in (*moves, *zip(self.shape, self.steps, strict=True)):
            moved = (count - 1) * step
            first, last = first + min(0, moved), last + max(0, moved)
        for offsets in self._irregular.values():
            first, last = first + int(offsets.min()), last + int(offsets.max())
        if self.numel and not self._computed and not 0 <= first <= last < held:
            raise KernelError(
                "",
                f"a copy goes from element {first} to {last} of {self.tensor.buffer.name}, which "
                f"has {held}",
                "Give the last tile the elements that are left; core.tiles does.",
            )

    def _place(self, item: Place, stride: int) -> None:
        if isinstance(item, LoopIndex):
            self._strides.append(_unit(item) * stride)
            self._items += ((item.key, stride),)
            self._base += item.offset * stride
            step = item.scale * stride
            known = self._affine.get(item.depth)
            self._affine[item.depth] = (item, step + (known[1] if known else 0))
        elif isinstance(item, int):
            if isinstance(item, Turn):
                index = item.index
                item = Turn.of(index)
                moved = self._turned.get(index.depth, 0) + index.scale * stride
                self._turned = self._turned | {index.depth: moved}
                self._strides.append(_unit(index) * stride)
            self._base += int(item) * stride
        elif isinstance(item, Scalar):
            self._strides.append(stride)
            self._computed += ((item, stride),)
            self._items += ((item, stride),)  # by identity, and kept alive with the key
        else:
            self._strides.append(item.unit * stride)
            self._items += ((item.key, stride),)
            depth, offsets, cycle = item.depth, item.values * stride, item.cycle
            if depth in self._irregular:  # two of one loop move the address in no simple way
                offsets, cycle = offsets + self._irregular[depth], EVER_NEW
            self._irregular = self._irregular | {depth: offsets}
            self._cycles = self._cycles | {depth: cycle}


def _refuse_index() -> NoReturn:
    raise KernelError(
        "",
        "a loop's index is used outside of its loop",
        "Use it in the loop's body; collect nothing from core.loop in lists.",
    )


def _unit(index: LoopIndex) -> int:
    """The multiple that all values of an index are of, apart from a start."""
    return index.scale if index.count > 1 else 0  # in a single turn nothing moves

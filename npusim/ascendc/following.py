"""Kernels in Python, run once with every tile at its address and every byte followed.

The numbers, the flags and the checks are those of programs (:mod:`npusim.ascendc.flat`): a tile is
the bytes of its slot, a part of it the bytes that its cut leaves. What was stored is taken back.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc.flat.global_order import GlobalOrder, Runs, bytes_of
from npusim.ascendc.flat.memory import Memory
from npusim.ascendc.flat.order import Order
from npusim.ascendc.flat.station import lane_of
from npusim.ascendc.mistakes import site
from npusim.engine.program import Pipe
from npusim.values.arithmetic import round_up
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from npusim.ascendc.core import Core
    from npusim.ascendc.gm_slices import GmSlice
    from npusim.ascendc.tensors import LocalTensor
    from npusim.values.dtypes import DType

MOST_INSTRUCTIONS = 10_000  # of a launch that are followed
_BLOCK = 32  # bytes


class EnoughError(BaseException):
    """As many instructions as a run follows; no error of the kernel's."""


@dataclass(slots=True)
class Launch:
    """What the cores of a followed run have in common."""

    across: GlobalOrder = field(default_factory=GlobalOrder)
    instructions: int = 0
    _undone: list[tuple[GmSlice, NDArray[Any], int]] = field(default_factory=list)

    def keep(self, place: GmSlice, depth: int) -> None:
        """Remember what a store overwrites."""
        self._undone.append((place, place.read(depth).copy(), depth))

    def undo(self) -> None:
        """Bring back what stores have overwritten."""
        for place, values, depth in reversed(self._undone):
            place.write(values, depth)
        self._undone.clear()


class Tile:
    """The bytes of a tile, or of a part of it, in a memory of its core."""

    def __init__(self, held_in: Memory, places: NDArray[np.int64], size: int, buffer: str) -> None:
        self.held_in, self.buffer = held_in, buffer
        self._places, self._size = places.reshape(-1), size
        self.start = int(self._places.min()) if self._places.size else 0
        self.end = int(self._places.max()) + size if self._places.size else 0
        self.bytes: slice | NDArray[np.int64] = slice(self.start, self.end)
        if self.end - self.start != self._places.size * size:
            self.bytes = np.add.outer(self._places, np.arange(size))

    @property
    def blocks(self) -> slice | NDArray[np.int64]:
        """The blocks of 32 bytes that it lies in."""
        if isinstance(self.bytes, slice):
            return slice(self.start // _BLOCK, -(-self.end // _BLOCK))
        return np.unique(self.bytes // _BLOCK)

    @property
    def filled(self) -> NDArray[np.bool_]:
        """Which of its bytes have been written."""
        return self.held_in.filled[self.bytes]

    def fill(self) -> None:
        """All of its bytes have been written."""
        self.held_in.filled[self.bytes] = True

    def addresses(self) -> NDArray[np.int64]:
        """The first byte of every element."""
        return self._places

    def check_usable(self) -> None:
        """Tiles of queues tell their state themselves."""


class Follower(Order):
    """Follows the instructions of one core and the tiles that they touch."""

    def __init__(self, core: Core, launch: Launch) -> None:
        super().__init__(core.kernel_name, core.recorder)
        self._core, self._launch = core, launch
        self.block, self.lane = core.get_block_idx(), lane_of(core)
        self._memories: dict[object, Memory] = {}
        self._kinds: dict[Memory, NDArray[np.uint8]] = {}
        self._dtypes: list[tuple[DType, str]] = []
        self._pipe, self._reads = Pipe.SCALAR, list[Tile]()
        self._known_places: dict[object, NDArray[np.int64]] = {}
        self._met = 0
        self._waited = False
        core.recorder.watcher, core.follower = self, self

    def issued(self, pipe: Pipe) -> None:
        """An instruction has been given to a pipe; what is touched from here on, it touches."""
        self._check_runs()
        super().issued(pipe)
        self._pipe = pipe
        self._reads.clear()
        self._launch.instructions += 1
        if self._launch.instructions > MOST_INSTRUCTIONS:
            raise EnoughError

    def reads(self, tensor: LocalTensor) -> None:
        """The last instruction reads a tile."""
        self._check_runs()
        tile = self._tile(tensor)
        if self._pipe is Pipe.SCALAR:  # waits for the vector unit, and so for what that waits for
            self.after_waits_of_vector()
        self._check_kind(tensor, tile)
        self.check(self._pipe, [tile], [])
        self.note(self._pipe, [tile], [])
        self._reads.append(tile)

    def writes(self, tensor: LocalTensor) -> None:
        """The last instruction writes a tile."""
        self._check_runs()
        tile = self._tile(tensor)
        self.check(self._pipe, [], [tile])
        if self._pipe is Pipe.VECTOR:
            self._check_apart(tile, self._reads)
        self.note(self._pipe, [], [tile])
        self._kinds_of(tile)[tile.bytes] = self._number(tensor.dtype)

    def allocated(self, tensor: LocalTensor) -> None:
        """A slot of a queue holds nothing yet."""
        tile = self._tile(tensor)
        tile.held_in.filled[tile.bytes] = False

    def loaded(self, place: GmSlice) -> None:
        """The last instruction reads global memory."""
        runs = self._runs(place)
        buffer = place.tensor.buffer
        self._launch.across.touch(self, self._pipe, buffer, runs, writes=False)

    @contextmanager
    def storing(self, place: GmSlice, *, adds: bool) -> Iterator[None]:
        """Inside, the last instruction writes global memory, or adds to it."""
        buffer, runs = place.tensor.buffer, self._runs(place)
        self._launch.keep(place, self._core.depth)
        held = bytes_of(buffer)
        before = None if held is None else runs.content(held)
        yield
        after = None if held is None else runs.content(held)
        self._launch.across.touch(
            self, self._pipe, buffer, runs, writes=True, adds=adds, before=before, after=after
        )

    def meets(self) -> None:
        """The core comes to a barrier of all."""
        self._met = self._launch.across.arrive(self)

    def waits(self) -> None:
        """The core waits for others of its block."""
        self._waited = True

    def goes_on(self) -> None:
        """The core's code runs from here on; what it has waited for has come."""
        across = self._launch.across
        across.running = self
        if self._met:
            across.leave(self, self._met)
        if self._waited:
            across.learn_all(self)
        self._met, self._waited = 0, False

    def _check_runs(self) -> None:
        running = self._launch.across.running
        if running is not self and running is not None:
            raise KernelError(
                self.kernel,
                f"block {running.block} uses a core or a tile of block {self.block}",
                "Use the core that process is called with, and tiles of its own queues.",
            )

    def _tile(self, tensor: LocalTensor) -> Tile:
        size = tensor.dtype.itemsize
        return Tile(self._memory(tensor), self._places(tensor), size, tensor.buffer)

    def _memory(self, tensor: LocalTensor) -> Memory:
        key = tensor.slot if _address(tensor) is None else tensor.memory
        if key not in self._memories:
            self._memories[key] = Memory(self._core, tensor.memory)
        return self._memories[key]

    def _places(self, tensor: LocalTensor) -> NDArray[np.int64]:
        """The first byte of every element, with the tensor's stack axes in front."""
        if tensor.whole is not None:
            root, cut = tensor.whole
            return cut(self._places(root))
        start = _address(tensor)
        key = start, tensor.dtype, tensor.shape, tensor.memory, tensor.depth
        if key not in self._known_places:
            found = _layout(tensor) + (start or 0)
            self._known_places[key] = found.reshape((1,) * tensor.depth + tensor.shape)
        return self._known_places[key]

    def _check_kind(self, tensor: LocalTensor, tile: Tile) -> None:
        number = self._number(tensor.dtype)
        kinds = self._kinds_of(tile)[tile.bytes]
        if (kinds == number).all():
            return
        other = kinds[(kinds != 0) & (kinds != number)]
        if other.size:
            dtype, place = self._dtypes[int(other.flat[0]) - 1]
            raise KernelError(
                self.kernel,
                f"{tensor.buffer} is read as {tensor.dtype}, but was written as {dtype} ({place}): "
                "the chip would take the same bytes for other numbers",
                f"Read it as {dtype}, and convert the numbers with core.cast.",
            )

    def _number(self, dtype: DType) -> int:
        for number, (known, _) in enumerate(self._dtypes, 1):
            if known is dtype:
                return number
        self._dtypes.append((dtype, site()))
        return len(self._dtypes)

    def _kinds_of(self, tile: Tile) -> NDArray[np.uint8]:
        if tile.held_in not in self._kinds:
            self._kinds[tile.held_in] = np.zeros(tile.held_in.nbytes, np.uint8)
        return self._kinds[tile.held_in]

    def _runs(self, place: GmSlice) -> Runs:
        """The bytes of a slice in the turn that runs now."""
        size = place.tensor.dtype.itemsize
        length, _ = place.runs()
        starts = np.add.outer(place.starts(self._core.depth), place.offsets()).reshape(-1)
        return Runs(starts[::length] * size, length * size)


def _address(tensor: LocalTensor) -> int | None:
    """Where a tensor's slot begins; None for parts of scratch memory that are no slots."""
    assert isinstance(tensor.slot, tuple)
    _, address, _ = tensor.slot
    assert address is None or isinstance(address, int)
    return address


def _layout(tensor: LocalTensor) -> NDArray[np.int64]:
    """Where elements lie from a tile's first byte on: in UB, rows start at blocks."""
    found, step = np.zeros((), np.int64), tensor.dtype.itemsize
    last = len(tensor.shape) - 1
    for axis in range(last, -1, -1):
        size = tensor.shape[axis]
        found = np.add.outer(np.arange(size) * step, found)
        step *= size
        if 0 < axis == last and tensor.memory == "UB" and size > 1:
            step = round_up(step, _BLOCK)
    return found

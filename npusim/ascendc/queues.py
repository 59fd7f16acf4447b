"""TPipe, TQue and TBuf: who owns which part of an on-chip memory, and who waits for whom."""

from __future__ import annotations

from enum import StrEnum
from math import prod
from numbers import Integral
from typing import TYPE_CHECKING

from npusim.ascendc.tensors import LocalTensor
from npusim.ascendc.tile_states import State, Tile
from npusim.engine.program import Pipe
from npusim.values.arithmetic import round_up
from npusim.values.errors import BufferOverflowError, KernelError, TileStateError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npusim.ascendc.gm_slices import GmSlice
    from npusim.ascendc.intrinsics.copy import Copies
    from npusim.values.dtypes import DType


class TPosition(StrEnum):
    """Logical positions of Ascend C, each in one on-chip memory."""

    VECIN = "VECIN"
    VECOUT = "VECOUT"
    VECCALC = "VECCALC"
    A1 = "A1"
    B1 = "B1"
    A2 = "A2"
    B2 = "B2"
    CO1 = "CO1"
    C1 = "C1"
    C2 = "C2"


# Position -> (memory, producing pipe, consuming pipe).
_PLACES: dict[TPosition, tuple[str, Pipe, Pipe]] = {
    TPosition.VECIN: ("UB", Pipe.MTE2, Pipe.VECTOR),
    TPosition.VECOUT: ("UB", Pipe.VECTOR, Pipe.MTE3),
    TPosition.VECCALC: ("UB", Pipe.VECTOR, Pipe.VECTOR),
    TPosition.A1: ("L1", Pipe.MTE2, Pipe.MTE1),
    TPosition.B1: ("L1", Pipe.MTE2, Pipe.MTE1),
    TPosition.A2: ("L0A", Pipe.MTE1, Pipe.CUBE),
    TPosition.B2: ("L0B", Pipe.MTE1, Pipe.CUBE),
    TPosition.CO1: ("L0C", Pipe.CUBE, Pipe.FIXP),
    TPosition.C1: ("L1", Pipe.MTE2, Pipe.MTE1),
    TPosition.C2: ("BIAS_TABLE", Pipe.MTE1, Pipe.CUBE),
}
_ALLOCATED, _ENQUEUED, _DEQUEUED, _FREED = State  # quicker than by their class
BUFFER_NUM = 2  # slots of a queue that is filled while it is emptied, as samples call them
_FEATURE_MAP_AXES = 4  # slices of channels, rows, columns, channels: lies in L1 as in global memory


def place_of(position: TPosition) -> str:
    """The on-chip memory that a position is in."""
    return _PLACES[position][0]


class TPipe:
    """Hands out the on-chip memories of one core and refuses what doesn't fit."""

    def __init__(self, core: Copies) -> None:
        self._core = core
        self.used_bytes: dict[str, int] = {}
        self.reserved = 0  # buffers at a time, each of which costs the scalar unit some time
        self._reserved = 0  # of them since the last reset
        self.flags: list[int] = []  # of all queues
        self._queues: list[TQue] = []

    def let_go(self) -> None:
        """Forget the core and the queues: these know the pipe, and it knows them."""
        del self._core, self._queues

    def init_buffer(self, buffer: TQue | TBuf, num: int, nbytes: int) -> None:
        """Reserve ``num`` slots of ``nbytes`` bytes (rounded up to blocks).

        Raises BufferOverflowError, and KernelError for numbers that no buffer has.
        """
        core, memory = self._core, buffer.memory
        depth = buffer.depth if isinstance(buffer, TQue) else 0
        most = max(1, core.capacity_bytes(memory))
        whole = type(num) is type(nbytes) is type(depth) is int or all(
            isinstance(each, Integral) for each in (num, nbytes, depth)
        )
        if not (whole and 1 <= num <= most and nbytes >= 0 and 0 <= depth <= most):
            raise KernelError(
                core.kernel_name,
                f"init_buffer of {num} slots of {nbytes} bytes for a queue of depth {depth}",
                "Give one slot or more, of as many bytes as a tile has, and a depth of 1 or 2.",
            )
        slot = round_up(nbytes, core.block_bytes)
        buffer.start = self.reserve(memory, num * slot, buffer.name, slots=num)
        buffer.attach(core, num, slot)
        self._reserved += 1
        self.reserved = max(self.reserved, self._reserved)
        if isinstance(buffer, TQue):
            self._queues.append(buffer)
            self.flags += buffer.flags

    def count_as(self, buffers: int) -> None:
        """Take what has been reserved for so many: the kernel has them in fewer."""
        self.reserved = self._reserved = buffers

    def reserve(self, memory: str, nbytes: int, name: str, *, slots: int = 0) -> int:
        """The address of so many bytes, behind what has been reserved so far.

        Raises BufferOverflowError.
        """
        start = self.used_bytes.get(memory, 0)
        capacity = self._core.capacity_bytes(memory)
        if start + nbytes > capacity:
            told = f"{name} ({slots} x {nbytes // slots} bytes)" if slots else name
            raise BufferOverflowError(
                self._core.kernel_name, f"{memory} with buffer {told}", start + nbytes, capacity
            )
        self.used_bytes[memory] = start + nbytes
        return start

    @property
    def handed(self) -> tuple[int, ...]:
        """How many slots each queue has handed out."""
        return tuple([queue.handed for queue in self._queues])

    def go_to(self, handed: Sequence[int]) -> None:
        """Bring the queues to where they have handed out so many."""
        for queue, slots in zip(self._queues, handed, strict=True):
            queue.handed = slots

    def reset(self) -> None:
        """Give all memories back; buffers reserved so far must not be used again (Reset)."""
        self.check_freed()
        self.used_bytes.clear()
        self._reserved = 0
        self.flags = []
        self._queues.clear()

    def check_freed(self) -> None:
        """Raise TileStateError for a tile that was never freed."""
        for queue in self._queues:
            for tile in queue.under_way:
                raise tile.forgotten()


class _Buffer:
    """What a queue and a scratch buffer have in common: a name, a place and a size."""

    def __init__(self, position: TPosition, name: str) -> None:
        self.position = position
        self.memory = _PLACES[position][0]
        self.name = name
        self.start = 0  # address of its first slot
        self._core: Copies | None = None
        self._slot_bytes = 0
        self._num = 0
        self.handed = 0  # slots so far
        self._needs: dict[tuple[DType, tuple[int, ...]], int] = {}  # bytes of tensors
        self._slots: dict[object, object] = {}  # where its parts are

    def attach(self, core: Copies, num: int, slot_bytes: int) -> None:
        """Called by :meth:`TPipe.init_buffer`."""
        self._core, self._num, self._slot_bytes, self._slots = core, num, slot_bytes, {}

    @property
    def slot_bytes(self) -> int:
        """Bytes of a slot."""
        return self._slot_bytes

    @property
    def core(self) -> Copies:
        if self._core is None:
            raise TileStateError(
                "",
                f"{self.name} is used before it has memory",
                f"Write core.pipe.init_buffer({self.name}, number of tiles, bytes) first.",
            )
        return self._core

    def _need(self, core: Copies, dtype: DType, shape: tuple[int, ...]) -> int:
        """Bytes of a tensor in its memory."""
        if self.memory == "L1" and len(shape) == _FEATURE_MAP_AXES:
            return prod(shape) * dtype.itemsize
        if self.memory == "UB" or len(shape) < 2:
            return footprint_bytes(dtype, shape, core.block_bytes)
        return core.costs.fractal_bytes(dtype.itemsize, shape, result=self.memory == "L0C")

    def _tensor(
        self, dtype: DType, shape: tuple[int, ...], part: object, tile: Tile | None = None
    ) -> LocalTensor:
        core = self._core or self.core
        memory = self.memory
        # Numbers may be computed in larger tiles than those that were written down.
        if core.recording:
            need = self._needs.get((dtype, shape))
            if need is None:
                need = self._needs[dtype, shape] = self._need(core, dtype, shape)
            if need > self._slot_bytes:
                raise BufferOverflowError(
                    core.kernel_name, f"a tensor {shape} in {self.name}", need, self._slot_bytes
                )
        slot = self._slots.get(part)
        if slot is None:
            own = isinstance(part, int) and 0 <= part < self._num  # other parts lie somewhere
            address = self.start + int(part) * self._slot_bytes if own else None  # type: ignore[call-overload]
            slot = self._slots[part] = (self.name, address, part)
        tensor = LocalTensor(core, dtype, shape, self.name, slot, memory=memory, tile=tile)
        if tile is not None and core.follower is not None:
            core.follower.allocated(tensor)
        return tensor


class TQue(_Buffer):
    """A queue between two pipes.

    Its depth, or the number of slots it gets in init_buffer where that is more, is how many tiles
    may be under way at once (2 = double buffering).

    ``producer`` and ``consumer`` follow from the position (VECIN: MTE2 fills, the vector unit
    empties) and can be replaced, e.g. a VECIN queue that MTE3 empties for a plain copy.
    """

    def __init__(
        self,
        position: TPosition,
        depth: int,
        name: str = "",
        *,
        producer: Pipe | None = None,
        consumer: Pipe | None = None,
    ) -> None:
        super().__init__(position, name or str(position).lower())
        self.depth = depth
        _, fills, empties = _PLACES[position]
        self._producer = producer or fills
        self.consumer = consumer or empties
        self._free = self._filled = -1
        self.flags = self._free, self._filled
        self.under_way: list[Tile] = []  # allocated and not freed
        self._waiting: list[LocalTensor] = []  # enqueued and not dequeued
        self._taken: set[int] = set()  # slots that tiles are in
        self.tiles = depth  # how many may be under way at once

    def attach(self, core: Copies, num: int, slot_bytes: int) -> None:
        """Called by :meth:`TPipe.init_buffer`."""
        super().attach(core, num, slot_bytes)
        self.tiles = max(self.depth, num)
        self._free = core.recorder.new_flag(self.tiles, f"a free tile of queue {self.name}")
        self._filled = core.recorder.new_flag(0, f"an enqueued tile of queue {self.name}")
        self.flags = self._free, self._filled
        self.under_way, self._waiting, self._taken = [], [], set()
        if self.position is TPosition.CO1 and core.profile.paths.l0c_to_gm is None:
            self.consumer = Pipe.VECTOR  # no fixpipe: the vector unit takes results to UB

    @property
    def occupation(self) -> tuple[object, ...]:
        """How far its tiles are, and how many wait to be dequeued."""
        return (*(tile.state for tile in self.under_way), len(self._waiting), len(self._taken))

    def alloc_tensor(self, dtype: DType, *shape: int) -> LocalTensor:
        """A free slot; the producing pipe waits until there is one."""
        core = self._core or self.core
        recording = core.recording
        tile = Tile(
            core.kernel_name, self.name, core.depth, tracked=recording, told=core.users_code
        )
        if recording:
            if len(self.under_way) == self.tiles:
                self._refuse_another()
            self.under_way.append(tile)
            core.recorder.wait_flag(self._producer, self._free)
        tile.slot = self._take_slot()
        return self._tensor(dtype, shape, tile.slot, tile)

    def _take_slot(self) -> int:
        """The next slot that no tile is in: tiles may be freed in any order."""
        slots = max(self._num, 1)
        slot = (self.handed + 1) % slots
        if slot not in self._taken:
            self.handed += 1
            self._taken.add(slot)
            return slot
        behind = range(self.handed + 1, self.handed + 1 + slots)
        self.handed = next((each for each in behind if each % slots not in self._taken), behind[0])
        slot = self.handed % slots
        self._taken.add(slot)
        return slot

    def pass_by(self, tiles: int) -> None:
        """So many tiles come and go one after the other, as in a passage that is repeated."""
        if not self._taken:
            self.handed += tiles
            return
        for _ in range(tiles):
            self._taken.discard(self._take_slot())

    def enque(self, tensor: LocalTensor) -> None:
        """The producer is done with the slot."""
        core = self._core or self.core
        if core.recording:
            self._tile(tensor).step(_ALLOCATED, _ENQUEUED, "enqueued")
            core.recorder.set_flag(self._producer, self._filled)
        self._waiting.append(tensor)

    def deque(self, tensor: LocalTensor | None = None) -> LocalTensor:
        """The consumer waits until the slot is filled; the oldest enqueued one if none is given."""
        if tensor is None:
            if not self._waiting:
                raise TileStateError(
                    self.core.kernel_name,
                    f"deque of queue {self.name}, in which nothing is enqueued",
                    f"Write {self.name}.enque(tile) first, when the tile is filled.",
                )
            tensor = self._waiting[0]
        core = self._core or self.core
        if core.recording:
            self._tile(tensor).step(_ENQUEUED, _DEQUEUED, "dequeued")
            core.recorder.wait_flag(self.consumer, self._filled)
        if self._waiting and self._waiting[-1] is tensor:
            self._waiting.pop()
        else:
            self._waiting = [each for each in self._waiting if each is not tensor]
        return tensor

    def free_tensor(self, tensor: LocalTensor, by: Pipe | None = None) -> None:
        """The consumer (or ``by``, where the slot served otherwise) is done with the slot.

        A tile that one pipe alone worked on may be freed ``by`` it without having been enqueued.
        """
        core = self._core or self.core
        if core.recording:
            tile = self._tile(tensor)
            own = tile.state is _ALLOCATED and by is not None
            tile.step(_ALLOCATED if own else _DEQUEUED, _FREED, "freed")
            if tile in self.under_way:
                self.under_way.remove(tile)
            core.recorder.set_flag(by or self.consumer, self._free)
        if isinstance(tensor, LocalTensor):
            tensor.end_view()
            if tensor.tile is not None:
                self._taken.discard(tensor.tile.slot)

    def _tile(self, tensor: LocalTensor) -> Tile:
        """The tile that a tensor lies in; refuses those of other queues."""
        tile = tensor.tile
        if tile is None or tile.queue != self.name:
            raise TileStateError(
                self.core.kernel_name,
                f"{tensor.buffer} is no tile of queue {self.name}",
                "Give a queue back what its own alloc_tensor returned.",
            )
        if self._core is not None and tile.depth < self._core.depth:
            self._refuse_repeating(tile)
        return tile

    def _refuse_another(self) -> None:
        held = ", ".join(map(str, self.under_way))
        raise TileStateError(
            self.core.kernel_name,
            f"queue {self.name} has {self.tiles} tiles and all of them are in use ({held})",
            f"Free one with {self.name}.free_tensor(tile) before the next alloc_tensor, or give "
            "the queue more of them in init_buffer.",
        )

    def _refuse_repeating(self, tile: Tile) -> None:
        """A step that a loop repeats is one step too many for a tile from outside of it."""
        times = self.core.repeats_since(tile.depth)
        if times > 1:
            raise TileStateError(
                self.core.kernel_name,
                f"a tile of queue {self.name}, allocated once (at {tile.allocated}), is enqueued, "
                f"dequeued or freed in each of {times} iterations of a loop",
                "Allocate it in the loop too, or do this behind the loop.",
            )

    def copy_in(self, source: GmSlice, shape: tuple[int, ...] | None = None) -> LocalTensor:
        """The usual way in: a slot, filled (as ``shape`` if given), handed to the consumer."""
        tensor = self.alloc_tensor(source.tensor.dtype, *(source.shape if shape is None else shape))
        self.core.copy_runs(tensor, source)
        self.enque(tensor)
        return self.deque(tensor)

    def copy_out(self, target: GmSlice, tensor: LocalTensor) -> None:
        """The usual way out: the consumer waits for the tile, stores it and frees the slot."""
        self.enque(tensor)
        self.core.copy_runs(target, self.deque(tensor))
        self.free_tensor(tensor)


class TQueBind(TQue):
    """A queue whose tiles are loaded, worked on in place and stored from the same slot."""

    def __init__(self, depth: int, name: str) -> None:
        super().__init__(TPosition.VECIN, depth, name)
        self._done = -1

    def attach(self, core: Copies, num: int, slot_bytes: int) -> None:
        """Called by :meth:`TPipe.init_buffer`."""
        super().attach(core, num, slot_bytes)
        self._done = core.recorder.new_flag(0, f"a finished tile of queue {self.name}")

    def copy_out(self, target: GmSlice, tensor: LocalTensor) -> None:
        """The vector unit is done with the tile.

        MTE3 stores it, and only then MTE2 may refill the slot.
        """
        if self.core.recording:
            self.core.recorder.set_flag(Pipe.VECTOR, self._done)
            self.core.recorder.wait_flag(Pipe.MTE3, self._done)
        self.core.copy_runs(target, tensor)
        self.free_tensor(tensor, by=Pipe.MTE3)


class TBuf(_Buffer):
    """Scratch memory that one pipe uses for itself; no waiting."""

    def __init__(self, name: str, position: TPosition = TPosition.VECCALC) -> None:
        super().__init__(position, name)

    def get(self, dtype: DType, *shape: int, part: object = 0) -> LocalTensor:
        """The buffer as a tensor, or one of several parts of it that don't overlap."""
        return self._tensor(dtype, shape, part)


def footprint_bytes(dtype: DType, shape: tuple[int, ...], block_bytes: int) -> int:
    """On-chip bytes of a tensor: rows start at block boundaries when there is more than one."""
    if len(shape) < 2:
        return round_up(prod(shape) * dtype.itemsize, block_bytes)
    row = round_up(shape[-1] * dtype.itemsize, block_bytes)
    return prod(shape[:-1]) * row

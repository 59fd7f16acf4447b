"""TPipe, TQue and TBuf: who owns which part of an on-chip memory, and who waits for whom."""

from __future__ import annotations

from enum import StrEnum
from math import prod
from typing import TYPE_CHECKING

from npusim.ascendc.tensors import LocalTensor
from npusim.engine.program import Pipe
from npusim.values.arithmetic import round_up
from npusim.values.errors import BufferOverflowError

if TYPE_CHECKING:
    from npusim.ascendc.gm import GmSlice
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


class TPipe:
    """Hands out the on-chip memories of one core and refuses what doesn't fit."""

    def __init__(self, core: Copies) -> None:
        self._core = core
        self.used_bytes: dict[str, int] = {}

    def init_buffer(self, buffer: TQue | TBuf, num: int, nbytes: int) -> None:
        """Reserve ``num`` slots of ``nbytes`` bytes (rounded up to blocks).

        Raises BufferOverflowError.
        """
        memory = _PLACES[buffer.position][0]
        block = self._core.block_bytes
        slot = round_up(nbytes, block)
        used = self.used_bytes.get(memory, 0) + num * slot
        capacity = self._core.capacity_bytes(memory)
        if used > capacity:
            raise BufferOverflowError(
                self._core.kernel_name,
                f"{memory} with buffer {buffer.name} ({num} x {slot} bytes)",
                used,
                capacity,
            )
        self.used_bytes[memory] = used
        buffer.attach(self._core, num, slot)

    def reset(self) -> None:
        """Give all memories back; buffers reserved so far must not be used again (Reset)."""
        self.used_bytes.clear()


class _Buffer:
    """What a queue and a scratch buffer have in common: a name, a place and a size."""

    def __init__(self, position: TPosition, name: str) -> None:
        self.position = position
        self.name = name
        self._core: Copies | None = None
        self._slot_bytes = 0
        self._num = 0
        self._next = 0

    def attach(self, core: Copies, num: int, slot_bytes: int) -> None:
        """Called by :meth:`TPipe.init_buffer`."""
        self._core, self._num, self._slot_bytes = core, num, slot_bytes

    @property
    def core(self) -> Copies:
        if self._core is None:
            raise BufferOverflowError("?", f"{self.name} used before init_buffer", 0, 0)
        return self._core

    def _tensor(self, dtype: DType, shape: tuple[int, ...], part: object) -> LocalTensor:
        core = self.core
        memory = _PLACES[self.position][0]
        if memory == "UB" or len(shape) < 2:
            need = footprint_bytes(dtype, shape, core.block_bytes)
        else:
            need = core.costs.fractal_bytes(dtype.itemsize, shape, result=memory == "L0C")
        # Numbers may be computed in larger tiles than those that were written down.
        if need > self._slot_bytes and core.recording:
            raise BufferOverflowError(
                core.kernel_name, f"a tensor {shape} in {self.name}", need, self._slot_bytes
            )
        return LocalTensor(core, dtype, shape, self.name, (self.name, part), memory=memory)


class TQue(_Buffer):
    """A queue between two pipes.

    Its depth is how many tiles may be under way at once (2 = double buffering).

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
        self._consumer = consumer or empties
        self._free = self._filled = -1

    def attach(self, core: Copies, num: int, slot_bytes: int) -> None:
        super().attach(core, num, slot_bytes)
        self._free, self._filled = core.recorder.new_flag(self.depth), core.recorder.new_flag()
        if self.position is TPosition.CO1 and core.profile.paths.l0c_to_gm is None:
            self._consumer = Pipe.VECTOR  # no fixpipe: the vector unit takes results to UB

    def alloc_tensor(self, dtype: DType, *shape: int) -> LocalTensor:
        """A free slot; the producing pipe waits until there is one."""
        if self.core.recording:
            self.core.recorder.wait_flag(self._producer, self._free)
        self._next += 1
        return self._tensor(dtype, shape, self._next % max(self._num, 1))

    def enque(self, tensor: LocalTensor) -> None:  # noqa: ARG002 - as in Ascend C
        """The producer is done with the slot."""
        if self.core.recording:
            self.core.recorder.set_flag(self._producer, self._filled)

    def deque(self, tensor: LocalTensor) -> LocalTensor:
        """The consumer waits until the slot is filled."""
        if self.core.recording:
            self.core.recorder.wait_flag(self._consumer, self._filled)
        return tensor

    def free_tensor(
        self,
        tensor: LocalTensor,  # noqa: ARG002 - as in Ascend C
        by: Pipe | None = None,
    ) -> None:
        """The consumer (or ``by``, where the slot served otherwise) is done with the slot."""
        if self.core.recording:
            self.core.recorder.set_flag(by or self._consumer, self._free)

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
        super().attach(core, num, slot_bytes)
        self._done = core.recorder.new_flag()

    def copy_out(self, target: GmSlice, tensor: LocalTensor) -> None:
        """The vector unit is done with the tile.

        MTE3 stores it, and only then MTE2 may refill the slot.
        """
        recorder = self.core.recorder
        if self.core.recording:
            recorder.set_flag(Pipe.VECTOR, self._done)
            recorder.wait_flag(Pipe.MTE3, self._done)
        self.core.copy_runs(target, tensor)
        if self.core.recording:
            recorder.set_flag(Pipe.MTE3, self._free)


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

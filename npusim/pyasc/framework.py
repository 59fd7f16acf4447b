"""Queues, scratch memory, flags and what a kernel asks about its core."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npusim.ascendc.flat.queues import PlacedQue
from npusim.ascendc.flat.station import Station
from npusim.ascendc.mistakes import site
from npusim.ascendc.queues import TBuf as Scratch
from npusim.pyasc.enums import pipes_of
from npusim.pyasc.tensors import LocalTensor, position_of
from npusim.pyasc.values import DataType, Int
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from enum import IntEnum


class TQueBind:
    """A queue between two pipes."""

    def __init__(self, src: Any = None, dst: Any = None, depth: int = 0, mask: int = 0) -> None:
        position = position_of(src if dst is None or dst.name != "VECOUT" else dst)
        self._src = src
        self.inner = PlacedQue(position, int(depth), f"{src.name} ({site()})")

    def alloc_tensor(self, dtype: DataType) -> LocalTensor:
        """A free slot; the producing pipe waits until there is one."""
        return self._shown(self.inner.alloc_tensor(dtype.inner))

    def enque(self, tensor: LocalTensor) -> None:
        """The producer is done with the slot."""
        self.inner.enque(tensor.inner)

    def deque(self, dtype: DataType, *positions: object) -> LocalTensor:
        """The oldest slot that was enqueued; the consumer waits until it is filled."""
        found: Any = self.inner.deque()
        return self._shown(found.cast(dtype.inner))

    def free_tensor(self, tensor: LocalTensor) -> None:
        """The consumer is done with the slot.

        A slot that didn't pass through the queue is freed by the same pipe.
        """
        self.inner.release(tensor.inner)

    def has_tensor_in_que(self) -> bool:
        return bool(self.inner._waiting)

    def get_tensor_count_in_que(self) -> Int:
        return Int(len(self.inner._waiting))

    def has_idle_buffer(self) -> bool:
        return len(self.inner.under_way) < self.inner.tiles

    def free_all_event(self) -> None:
        """Events end with their tiles."""

    def _shown(self, inner: Any) -> LocalTensor:
        tensor = LocalTensor(DataType.of(inner.dtype), inner=inner)
        tensor._position = self._src
        return tensor


class TQue(TQueBind):
    """A queue at one logical position."""

    def __init__(self, pos: Any, depth: int = 1, mask: int = 0) -> None:
        super().__init__(pos, None, depth)


class TBuf:
    """Scratch memory."""

    def __init__(self, pos: Any) -> None:
        self._pos = pos
        self.inner = Scratch(f"buffer ({site()})", position_of(pos))

    def get(self, dtype: DataType, len: int | None = None, shape: Any = None) -> LocalTensor:
        """The buffer as a tensor, or its first elements."""
        size = dtype.inner.itemsize
        nbytes = self.inner._slot_bytes if len is None else int(len) * size
        return self.get_with_offset(nbytes // size, 0, dtype)

    def alloc_tensor(self, dtype: DataType) -> LocalTensor:
        """The buffer as a tensor."""
        return self.get(dtype)

    def free_tensor(self, tensor: LocalTensor) -> None:
        """Scratch memory has no states."""

    def get_with_offset(self, size: int, buf_offset: int, dtype: DataType) -> LocalTensor:
        """``size`` elements from byte ``buf_offset`` on."""
        station = Station.here()
        nbytes = int(size) * dtype.inner.itemsize
        core = self.inner.core
        if int(buf_offset) + nbytes > self.inner._slot_bytes:
            raise KernelError(
                core.kernel_name,
                f"{self.inner.name} has {self.inner._slot_bytes} bytes, not "
                f"{int(buf_offset) + nbytes}",
                "Make it larger in init_buffer.",
            )
        start = self.inner.start + int(buf_offset)
        place = station.place(self.inner.position, dtype.inner, start, nbytes, self.inner.name)
        tensor = LocalTensor(dtype, inner=place)
        tensor._position = self._pos
        return tensor


class TPipe:
    """Hands out the memories of a core, and its events."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}
        Station.here().pipe = self

    def init_buffer(
        self, que: Any = None, num: int = 1, len: int | None = None, *, buf: Any = None
    ) -> None:
        """``num`` slots of ``len`` bytes for a queue; for a buffer ``num`` is its bytes."""
        pipe = Station.here().core.pipe
        buffer = buf if que is None else que
        if isinstance(buffer, TBuf):
            pipe.init_buffer(buffer.inner, 1, int(num if len is None else len))
        else:
            pipe.init_buffer(buffer.inner, int(num), int(len or 0))

    def init(self) -> None:
        """A pipe is ready when it is made."""

    def reset(self) -> None:
        """Give all memories back, when everything issued so far is done."""
        station = Station.here()
        station.pipe_barrier()
        station.core.pipe.reset()

    destroy = reset

    def alloc_event_id(self, event: Any) -> Int:
        """An event of a pair of pipes that nobody else holds."""
        number = self._next.get(event.name, 0)
        self._next[event.name] = number + 1
        return Int(number)

    def release_event_id(self, id: int, event: Any) -> None:
        """Give an event back."""
        self._next[event.name] = max(0, self._next.get(event.name, 0) - 1)

    def fetch_event_id(self, event: Any) -> Int:
        """An event of a pair of pipes, without holding it."""
        return Int(self._next.get(event.name, 0))


def get_tpipe_ptr() -> TPipe:
    """The pipe that the kernel made."""
    found = Station.here().pipe
    if not isinstance(found, TPipe):
        raise KernelError("", "there is no TPipe yet", "Make one with asc.TPipe() first.")
    return found


def set_flag(event: IntEnum, event_id: int = 0) -> None:
    """The first pipe of an event sets it when it has done what it was given."""
    Station.here().set_flag(*pipes_of(event), int(event_id))


def wait_flag(event: IntEnum, event_id: int = 0) -> None:
    """The second pipe of an event waits for it."""
    Station.here().wait_flag(*pipes_of(event), int(event_id))


def pipe_barrier(pipe: IntEnum) -> None:
    """All pipes wait for each other; a single one works in order anyway."""
    if pipe.name == "PIPE_ALL":
        Station.here().pipe_barrier()


def sync_all(*workspaces: object, **named: object) -> None:
    """Wait for all cores."""
    Station.here().sync_all()


def get_block_idx() -> Int:
    """The number of the block; that of the vector core in a kernel on cube and vector cores."""
    core = Station.here().core
    block, unit = core.get_block_idx(), core.unit
    if unit.sub_block is None:
        return Int(block)
    return Int(block * get_sub_block_num() + unit.sub_block)


def get_block_num() -> Int:
    """The blocks of the launch."""
    return Int(Station.here().core.get_block_num())


def get_sub_block_idx() -> Int:
    """Which of the vector cores of its block this is."""
    return Int(Station.here().core.get_sub_block_idx())


def get_sub_block_num() -> Int:
    """The vector cores of a block."""
    units = Station.here().core.cluster.units
    return Int(max(1, sum(unit.kind == "vector" for unit in units)))


def get_task_ratio() -> Int:
    """Vector cores of a block for each cube core."""
    return get_sub_block_num()


def ascend_is_aic() -> bool:
    """Whether this is a cube core."""
    return Station.here().core.unit.kind == "cube"


def ascend_is_aiv() -> bool:
    """Whether this is a vector core."""
    return Station.here().core.unit.kind == "vector"


def set_atomic_add(dtype: DataType | None = None) -> None:
    """Stores to global memory add from here on."""
    Station.here().set_atomic_add()


def set_atomic_none() -> None:
    """Stores to global memory overwrite again."""
    Station.here().set_atomic_none()


class LocalMemAllocator:
    """Hands out addresses of one memory, one behind the other."""

    def __init__(self, hard: Any = None) -> None:
        self._next = 0

    def get_cur_addr(self) -> Int:
        return Int(self._next)

    def alloc(self, pos: Any, data_type: DataType, tile_size: int) -> LocalTensor:
        """A tensor of ``tile_size`` elements."""
        tensor = LocalTensor(data_type, pos, self._next, int(tile_size))
        block = Station.here().core.block_bytes
        self._next = -(-tensor.inner.limit // block) * block
        return tensor


def init_soc_state() -> None:
    """Every core starts in its initial state."""


def data_cache_clean_and_invalid(*what: object, **named: object) -> None:
    """The scalar unit's cache is coherent here."""

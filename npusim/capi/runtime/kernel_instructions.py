"""Instructions of kernels in C++: each is a call that a core of the simulator plays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from npusim.ascendc import CmpMode, RoundMode
from npusim.ascendc.flat import compute, copies
from npusim.ascendc.flat.copies import Address
from npusim.ascendc.flat.memory import Place
from npusim.ascendc.flat.queues import PlacedQue
from npusim.ascendc.flat.spans import Count, Repeats
from npusim.ascendc.flat.station import Station
from npusim.ascendc.folds import LARGEST, SMALLEST, SUM
from npusim.ascendc.mistakes import on_behalf
from npusim.ascendc.queues import TBuf
from npusim.pyasc import enums
from npusim.pyasc.tensors import position_of
from npusim.values.dtypes import UINT8, from_acl
from npusim.values.errors import KernelError, NpusimError

if TYPE_CHECKING:
    from npusim.capi.runtime.session import Session

# Vector instructions: the core's intrinsic, and whether it goes on from what its target holds.
_VECTOR = {
    "Add": ("add", False), "Sub": ("sub", False), "Mul": ("mul", False), "Div": ("div", False),
    "Max": ("max", False), "Min": ("min", False), "And": ("bitwise_and", False),
    "Or": ("bitwise_or", False), "AddRelu": ("add_relu", False),
    "FusedMulAdd": ("fused_mul_add", True), "FusedMulAddRelu": ("fused_mul_add_relu", True),
    "MulAddDst": ("mul_add_dst", True), "Abs": ("abs", False), "Exp": ("exp", False),
    "Ln": ("ln", False), "Sqrt": ("sqrt", False), "Rsqrt": ("rsqrt", False),
    "Reciprocal": ("reciprocal", False), "Relu": ("relu", False), "Not": ("bitwise_not", False),
    "Adds": ("adds", False), "Muls": ("muls", False), "Maxs": ("maxs", False),
    "Mins": ("mins", False), "LeakyRelu": ("leaky_relu", False), "Axpy": ("axpy", True),
    "ShiftLeft": ("shift_left", False), "ShiftRight": ("shift_right", False),
    "Duplicate": ("duplicate", False),
}  # fmt: skip
_FOLDS = {"ReduceSum": SUM, "ReduceMax": LARGEST, "ReduceMin": SMALLEST}


class _Call:
    """What a kernel in C++ calls, as the flat language takes it."""

    def __init__(self, session: Session, call: Any) -> None:
        self._session, self.raw = session, call
        self.name: str = session.ffi.string(call.name).decode()
        self.here = Station.here()
        self.numbers = [int(call.integer[index]) for index in range(call.integers)]
        self.reals = [float(call.real[index]) for index in range(call.reals)]

    @property
    def objects(self) -> list[Any]:
        """The core's objects by their handles."""
        found: list[Any] = self.here.program.objects
        return found

    def operand(self, index: int) -> Place | Address:
        """A tensor that it is called with."""
        given = self.raw.operand[index]
        dtype = from_acl(given.dtype)
        if given.kind == 1:
            whole: Place = self.objects[given.handle]
            limit = min(whole.limit, whole.start + given.limit)
            return replace(whole, dtype=dtype, start=whole.start + given.start, limit=limit)
        block, offset = self._session.memory.find(given.start, 0, f"{self.name}: the address")
        memory = self.here.shared.memory_of(block)
        limit = min(block.size, given.limit - block.address)
        return Address(memory, dtype, offset, limit)

    def place(self, index: int) -> Place:
        """A tensor in on-chip memory that it is called with."""
        found = self.operand(index)
        if isinstance(found, Address):
            raise KernelError("", f"{self.name} takes tensors in on-chip memory")
        return found

    def places(self) -> list[Place]:
        """All of its tensors."""
        return [self.place(index) for index in range(self.raw.operands)]

    def span(self) -> Count | Repeats:
        """What of its tensors it covers: 0 and a count, or 1, repeats, a mask, and strides."""
        form, count, *more = self.numbers
        if not form:
            return Count(count)
        words, *rest = more
        mask = rest[0] if words == 1 else tuple(rest[:words])
        steps = rest[words:]
        return Repeats(mask, count, tuple(zip(steps[::2], steps[1::2], strict=True)))

    def scalar(self, number: float, place: Place) -> float:
        """A number of a call in the type of a tensor."""
        return number if place.dtype.is_float else int(number)


def play(session: Session, call: Any) -> int:
    """The entry of every instruction: 0, or 1 where the kernel must end; its error is kept."""
    try:
        state = Station.here().program
    except NpusimError as error:
        session.say(str(error))
        return 1
    folder = PurePath(session.ffi.string(call.file).decode())
    place = f"{'/'.join(folder.parts[-2:])}:{call.line}"
    try:
        with on_behalf(place):
            told = _Call(session, call)
            _HANDLERS.get(told.name, _vector)(told)
    except NpusimError as error:
        problem = error.problem if isinstance(error, KernelError) else error.message
        kernel = Station.here().core.kernel_name
        state.failure = KernelError(kernel, problem, error.remedy, site=place)
        return 1
    return 0


def _vector(call: _Call) -> None:
    name, updates = _VECTOR[call.name]
    dst, *sources = call.places()
    numbers = [call.scalar(each, dst) for each in call.reals]
    work = _intrinsic(name)
    compute.vector(work, call.span(), dst, sources, *numbers, updates=updates)


def _intrinsic(name: str) -> Callable[[Any], Callable[..., object]]:
    def of(core: Any) -> Callable[..., object]:
        found: Callable[..., object] = getattr(core, name)
        return found

    return of


def _cast(call: _Call) -> None:
    dst, src = call.places()
    mode = RoundMode(enums.RoundMode(int(call.reals[0])).name)
    compute.vector(_intrinsic("cast"), call.span(), dst, [src], mode)


def _compare(call: _Call) -> None:
    dst, src, *other = call.places()
    mode, count = call.numbers
    second = other[0] if other else call.scalar(call.reals[0], src)
    compare = CmpMode(enums.CMPMODE(mode).name.lower())
    compute.compare(dst, src, second, compare, count)


def _select(call: _Call) -> None:
    dst, mask, src, *other = call.places()
    second = other[0] if other else call.scalar(call.reals[0], src)
    compute.select(dst, mask, src, second, call.numbers[0])


def _reduce(call: _Call) -> None:
    dst, src = call.places()
    compute.reduce(_FOLDS[call.name], dst, src, call.numbers[0])


def _copy(call: _Call) -> None:
    copies.copy(call.operand(0), call.operand(1), call.numbers[0])


def _copy_blocks(call: _Call) -> None:
    copies.copy_blocks(call.operand(0), call.operand(1), *call.numbers)


def _copy_pad(call: _Call) -> None:
    *runs, pads, left, right = call.numbers
    around: dict[str, Any] = {"left": left, "right": right, "fill": call.reals[0]} if pads else {}
    copies.copy_pad(call.operand(0), call.operand(1), *runs, **around)


def _local_tensor(call: _Call) -> None:
    position, address, length = call.numbers
    told = enums.TPosition(position)
    dtype = from_acl(call.raw.operand[0].dtype)
    nbytes = length * dtype.itemsize
    name = f"the tensor at {told.name} {address}"
    place = call.here.place(position_of(told), dtype, address, nbytes, name)
    call.raw.whole = call.here.program.add(place)


def _init_queue(call: _Call) -> None:
    position, depth, slots, nbytes = call.numbers
    told = enums.TPosition(position)
    queue = PlacedQue(position_of(told), depth, f"{told.name} of {call.raw.line}")
    call.here.core.pipe.init_buffer(queue, slots, nbytes)
    call.raw.whole = call.here.program.add(queue)


def _init_buf(call: _Call) -> None:
    position, _, _, nbytes = call.numbers
    where = position_of(enums.TPosition(position))
    buffer = TBuf(f"buffer of {call.raw.line}", where)
    call.here.core.pipe.init_buffer(buffer, 1, nbytes)
    size = buffer.slot_bytes
    place = call.here.place(where, UINT8, buffer.start, size, buffer.name)
    call.raw.whole = call.here.program.add(place)


def _queue(call: _Call) -> PlacedQue:
    handle = call.numbers[0]
    if handle < 0:
        raise KernelError("", "a queue is used before it has memory", "Call InitBuffer first.")
    found: PlacedQue = call.objects[handle]
    return found


def _alloc(call: _Call) -> None:
    _handed(call, _queue(call).alloc_tensor(from_acl(call.raw.operand[0].dtype)))


def _deque(call: _Call) -> None:
    _handed(call, _queue(call).deque())


def _handed(call: _Call, place: Any) -> None:
    call.raw.whole = call.here.program.add(place)
    call.raw.answer = place.limit - place.start


def _enque(call: _Call) -> None:
    _queue(call).enque(call.place(0))


def _free(call: _Call) -> None:
    _queue(call).release(call.place(0))


def _get_value(call: _Call) -> None:
    source, index = call.operand(0), call.numbers[0]
    if isinstance(source, Place):
        call.raw.answer = float(compute.get_value(source, index))
        return
    element = source.at(index).runs(1, 1, 0)
    call.here.core.load_scalar(element)
    call.raw.answer = float(element.read(0).item())


def _set_value(call: _Call) -> None:
    target, index, number = call.operand(0), call.numbers[0], call.reals[0]
    if isinstance(target, Place):
        compute.set_value(target, index, call.scalar(number, target))
        return
    element = target.at(index).runs(1, 1, 0)
    call.here.core.emit_scalar("st_gm", stores=1, detail=target.memory.name)
    element.read(0)[...] = number


def _flag(call: _Call) -> None:
    event, number = call.numbers
    pipes = enums.pipes_of(enums.HardEvent(event))
    here = call.here
    (here.set_flag if call.name == "SetFlag" else here.wait_flag)(*pipes, number)


def _barrier(call: _Call) -> None:
    if enums.PipeID(call.numbers[0]).name == "PIPE_ALL":
        call.here.pipe_barrier()


def _block_idx(call: _Call) -> None:
    core = call.here.core
    vectors = sum(unit.kind == "vector" for unit in core.cluster.units)
    block, sub_block = core.get_block_idx(), core.unit.sub_block
    call.raw.whole = block if sub_block is None else block * vectors + sub_block


def _block_num(call: _Call) -> None:
    call.raw.whole = call.here.core.get_block_num()


def _sub_block_idx(call: _Call) -> None:
    call.raw.whole = call.here.core.get_sub_block_idx()


def _reset(call: _Call) -> None:
    call.here.pipe_barrier()
    call.here.core.pipe.reset()


_HANDLERS: dict[str, Callable[[_Call], None]] = {
    "Cast": _cast,
    "Compare": _compare,
    "Select": _select,
    "ReduceSum": _reduce,
    "ReduceMax": _reduce,
    "ReduceMin": _reduce,
    "DataCopy": _copy,
    "DataCopyBlocks": _copy_blocks,
    "DataCopyPad": _copy_pad,
    "LocalTensor": _local_tensor,
    "InitQueue": _init_queue,
    "InitBuf": _init_buf,
    "AllocTensor": _alloc,
    "DeQue": _deque,
    "EnQue": _enque,
    "FreeTensor": _free,
    "GetValue": _get_value,
    "SetValue": _set_value,
    "SetFlag": _flag,
    "WaitFlag": _flag,
    "PipeBarrier": _barrier,
    "GetBlockIdx": _block_idx,
    "GetBlockNum": _block_num,
    "GetSubBlockIdx": _sub_block_idx,
    "SetAtomicAdd": lambda call: call.here.core.set_atomic_add(),
    "SetAtomicNone": lambda call: call.here.core.set_atomic_none(),
    "SyncAll": lambda call: call.here.wait(call.here.core.sync_all()),
    "Reset": _reset,
}

"""The memory behind the buffers of a call: its numbers, and whether a call before had it in use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from npusim.operators.contract import TensorArg
from npusim.values.host import require_bytes
from npusim.values.locks import lock

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc import GlobalTensor, GmBuffer, Kernel
    from npusim.engine import L2State
    from npusim.runtime.call import Executor

_FEWEST = 64  # places of which a stream keeps track before it looks which it can forget
_LARGE_BYTES, _MOST_KEPT_BYTES = 1 << 20, 64 << 20  # of results between tasks


class Places:
    """Which memory the calls of a stream have used, by the buffer that stood for it.

    Arrays are one place when they begin at the same element of the same allocation and are equally
    long; without data, passing the same TensorSpec object again means the same tensor.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[int, ...], tuple[ref[Any], int]] = {}
        self._room = _FEWEST

    def recognise(self, executor: Executor, l2: L2State) -> None:
        """Give buffers of memory that ``l2`` may hold the number that it knows them by.

        Call it when the arguments have their memory. Several arguments of one call that share their
        memory stay apart, as they are for the kernels.
        """
        if len(self._known) > self._room:
            self._forget_evicted(l2)
        uses: dict[tuple[int, ...], int] = {}
        for name, buffer in executor.chain.arguments.items():
            owner, place = _place(executor.call.tensor(name), buffer)
            uses[place] = use = uses.get(place, 0) + 1
            key = (*place, use)
            known = self._known.get(key)
            if known is not None and known[0]() is owner:
                buffer.number = known[1]
            else:
                self._known[key] = ref(owner), buffer.number

    def _forget_evicted(self, l2: L2State) -> None:
        self._known = {
            key: (owner, number)
            for key, (owner, number) in self._known.items()
            if owner() is not None and l2.resident_bytes(number)
        }
        self._room = max(_FEWEST, 2 * len(self._known))


def _place(argument: TensorArg, buffer: GmBuffer) -> tuple[Any, tuple[int, ...]]:
    """Who owns the memory of an argument, and what tells it from other memory."""
    data = buffer.data
    if data is None:
        return argument.spec, (id(argument.spec),)
    owner: Any = data
    while type(base := getattr(owner, "base", None)).__weakrefoffset__:
        owner = base
    return owner, (id(owner), data.ctypes.data, data.nbytes)


def bind(executor: Executor) -> dict[str, NDArray[Any]]:
    """Give the arguments' buffers their memory; outputs that the caller left out are allocated."""
    call, chain = executor.call, executor.chain
    outputs: dict[str, NDArray[Any]] = {}
    for parameter in call.contract.parameters:
        argument = call.arguments.get(parameter.name)
        if not isinstance(argument, TensorArg):
            continue
        data = argument.data
        if data is None:
            require_bytes(argument.spec.storage_bytes, f"{parameter.name}: {argument.spec}")
            flat = np.zeros(
                argument.spec.storage_bytes // argument.spec.dtype.itemsize,
                argument.spec.dtype.numpy,
            )
            data = flat if argument.spec.rank == 0 else _strided(flat, argument)
        if parameter.name in chain.arguments:
            chain.arguments[parameter.name].data = storage_of(data, argument)
        if parameter.io == "out" or parameter.is_changed:
            outputs[parameter.name] = data.reshape(argument.spec.stored)
    return outputs


def _strided(flat: NDArray[Any], argument: TensorArg) -> NDArray[Any]:
    spec = argument.spec
    if spec.stored != spec.shape:
        return flat[spec.offset :].reshape(spec.stored)
    steps = tuple(step * flat.itemsize for step in spec.strides)
    return np.lib.stride_tricks.as_strided(flat[spec.offset :], spec.shape, steps)


def storage_of(data: NDArray[Any], argument: TensorArg) -> NDArray[Any]:
    """The flat memory behind an array, from its first element to its last."""
    if data.flags.c_contiguous:
        return data.reshape(-1)
    count = argument.spec.storage_bytes // argument.spec.dtype.itemsize - argument.spec.offset
    return np.lib.stride_tricks.as_strided(data, (count,), (data.itemsize,))


def allocate_results(kernel: Kernel) -> None:
    """Allocate what a kernel writes, or reads unset, and nobody has allocated yet."""
    for tensor in (*kernel.writes, *kernel.scratch, *kernel.unset):
        if tensor.buffer.data is None:
            tensor.buffer.data = _new(tensor)


def _new(tensor: GlobalTensor) -> NDArray[Any]:
    held = np.dtype(np.float32) if tensor.buffer.wide else np.dtype(tensor.dtype.numpy)
    count = tensor.buffer.nbytes // tensor.dtype.itemsize
    require_bytes(count * held.itemsize, f"a buffer of {count:,} numbers")
    return _kept.empty(count, held)


class KeptMemory:
    """Memory of results between tasks, for later calls once nobody looks at it any more.

    The system clears each page of new memory, which takes longer than most kernels' work on it.
    """

    def __init__(self) -> None:
        self._entering = lock()
        self._known: list[tuple[memoryview, ref[Any]]] = []  # and who got it last; newest at end

    def empty(self, count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        """An array with whatever numbers."""
        nbytes = count * dtype.itemsize
        if not _LARGE_BYTES <= nbytes <= _MOST_KEPT_BYTES:
            return np.empty(count, dtype)
        with self._entering:
            free = (
                room
                for room, user in self._known
                if user() is None and nbytes <= room.nbytes < 2 * nbytes
            )
            room = next(free, None) or np.empty(nbytes, np.uint8).data
            found = np.frombuffer(room, np.uint8, nbytes)  # all views of it keep it alive
            others = [each for each in self._known if each[0] is not room]
            self._known = [*others, (room, ref(found))]
            while sum(room.nbytes for room, _ in self._known) > _MOST_KEPT_BYTES:
                del self._known[0]
            return found.view(dtype)


_kept = KeptMemory()

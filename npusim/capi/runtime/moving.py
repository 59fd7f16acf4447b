"""Functions that allocate, free, copy and fill memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.capi.runtime.memory import AddressError
from npusim.capi.runtime.refusals import Refusal, task_fault
from npusim.capi.runtime.tables import Functions, need
from npusim.values.host import require_bytes
from npusim.values.status import AclError

if TYPE_CHECKING:
    from npusim.capi.runtime.session import Session

MOVING = Functions()

_INVALID = AclError.ACL_ERROR_RT_PARAM_INVALID
_POLICIES = range(8)
_BANDWIDTH_FLAGS = 0x1100
_HOST_TO_HOST, _HOST_TO_DEVICE, _DEVICE_TO_HOST, _DEVICE_TO_DEVICE, _DEFAULT = range(5)
# For each kind of copy whether dst and src are device memory.
_SIDES = {
    _HOST_TO_HOST: (False, False),
    _HOST_TO_DEVICE: (True, False),
    _DEVICE_TO_HOST: (False, True),
    _DEVICE_TO_DEVICE: (True, True),
}


@MOVING.entry("aclrtMalloc", "aclrtMallocAlign32", "aclrtMallocCached")
def malloc(session: Session, pointer: Any, size: int, policy: int) -> None:
    """Device memory of `size` bytes, zeros at first; 0 bytes are 100000."""
    need(devPtr=pointer)
    device = session.current_device()
    if policy & ~_BANDWIDTH_FLAGS not in _POLICIES:
        raise Refusal(AclError.ACL_ERROR_INVALID_PARAM, f"there is no memory policy {policy}")
    _require_bytes(size)
    pointer[0] = session.memory.allocate(size, device)


@MOVING.entry("aclrtFree")
def free(session: Session, pointer: int) -> None:
    """Gives device memory back; what isn't the start of a block is 107000.

    It waits for nobody (hicann/runtime, docs/api_docs/aclrtFree.md), and most work is done by then:
    programs that free a workspace before they synchronise get their results, and are told where
    calls and copies still use it. A block that a reset of its device took may be freed after it, as
    destructors do.
    """
    need(devPtr=pointer)
    if session.memory.forget_reset(pointer):
        return
    waiting = [each for each in session.streams_of(session.current_device()) if not each.is_idle]
    with session.memory.leaving(pointer):
        for stream in waiting:
            stream.run_until(None)
    session.memory.free(pointer)


@MOVING.entry("aclrtFreeWithDevSync")
def free_when_done(session: Session, pointer: int) -> None:
    """As aclrtFree, when everything that was launched on the device has ended; raises its fault."""
    for stream in session.streams_of(session.current_device()):
        stream.synchronize()
    free(session, pointer)


@MOVING.entry("aclrtMallocHost")
def malloc_host(session: Session, pointer: Any, size: int) -> None:
    """Host memory of `size` bytes."""
    need(hostPtr=pointer)
    session.current_device()
    _require_bytes(size)
    require_bytes(size, "host memory")
    block = session.ffi.new("char[]", size)
    address = int(session.ffi.cast("uintptr_t", block))
    session.host_blocks[address] = block
    pointer[0] = address


@MOVING.entry("aclrtFreeHost")
def free_host(session: Session, pointer: int) -> None:
    """Gives host memory back; what aclrtMallocHost hasn't given is 107000."""
    need(hostPtr=pointer)
    if session.host_blocks.pop(pointer, None) is None:
        raise Refusal(
            _INVALID,
            f"{pointer:#x} is no host memory of aclrtMallocHost, or was freed before",
            "Free each address that aclrtMallocHost gave, once.",
        )


@MOVING.entry("aclrtMemcpy")
def memcpy(session: Session, target: int, room: int, source: int, count: int, kind: int) -> None:
    """Copies at once, whatever waits in streams; 107000 for what doesn't fit or isn't there."""
    session.current_device()
    _copy(session, target, room, source, count, kind)()


@MOVING.entry("aclrtMemcpyAsync")
def memcpy_async(
    session: Session, target: int, room: int, source: int, count: int, kind: int, stream: int
) -> None:
    """Copies when the stream comes to it; that takes no simulated time."""
    queue = session.stream(stream)
    _submit(session, queue, _copy(session, target, room, source, count, kind))


@MOVING.entry("aclrtMemset")
def memset(session: Session, target: int, room: int, value: int, count: int) -> None:
    """Fills device memory at once."""
    session.current_device()
    _fill(session, target, room, value, count)()


@MOVING.entry("aclrtMemsetAsync")
def memset_async(
    session: Session, target: int, room: int, value: int, count: int, stream: int
) -> None:
    """Fills device memory when the stream comes to it; that takes no simulated time."""
    queue = session.stream(stream)
    _submit(session, queue, _fill(session, target, room, value, count))


@MOVING.entry("aclrtGetMemInfo")
def memory_info(session: Session, attribute: int, free_bytes: Any, total_bytes: Any) -> None:
    """Free and total memory of the current device; all kinds of memory are one here."""
    del attribute
    need(free=free_bytes, total=total_bytes)
    free_bytes[0] = session.memory.free_bytes(session.current_device())
    total_bytes[0] = session.memory.capacity_bytes


def _copy(
    session: Session, target: int, room: int, source: int, count: int, kind: int
) -> Callable[[], None]:
    """The copy, judged now and made when it is called."""
    need(dst=target, src=source)
    _require_room(room, count)
    memory, host = session.memory, session.host
    if kind == _DEFAULT:
        sides = memory.owns(target), memory.owns(source)
    elif kind in _SIDES:
        sides = _SIDES[kind]
        _require_sides(session, sides, target, source, kind)
    else:
        raise Refusal(AclError.ACL_ERROR_INVALID_PARAM, f"there is no kind of copy {kind}")
    into_device, from_device = sides
    for is_device, address, name in ((into_device, target, "dst"), (from_device, source, "src")):
        if is_device:
            memory.find(address, count, name)

    def copy() -> None:
        if from_device:
            block, offset = memory.find(source, count, "src")
            content = block.content[offset : offset + count]
            if not into_device:
                return host.write(target, content, "dst")
        elif into_device:
            block, offset = memory.find(target, count, "dst")
            block.version += 1
            return host.read(source, block.content[offset : offset + count], "src")
        else:
            content = np.empty(count, np.uint8)
            host.read(source, content, "src")
            return host.write(target, content, "dst")
        block, offset = memory.find(target, count, "dst")
        block.version += 1
        block.content[offset : offset + count] = content
        return None

    return copy


def _fill(session: Session, target: int, room: int, value: int, count: int) -> Callable[[], None]:
    need(devPtr=target)
    _require_room(room, count)
    session.memory.find(target, count, "devPtr")

    def fill() -> None:
        block, offset = session.memory.find(target, count, "devPtr")
        block.version += 1
        block.content[offset : offset + count] = value & 0xFF

    return fill


def _submit(session: Session, queue: Any, move: Callable[[], None]) -> None:
    def run(start_us: float) -> float:
        del start_us
        try:
            move()
        except AddressError as problem:
            raise task_fault(problem, session.npu.profile) from None
        return 0.0

    queue.submit(run)


def _require_bytes(size: int) -> None:
    if size == 0:
        raise Refusal(
            AclError.ACL_ERROR_INVALID_PARAM,
            "0 bytes can't be allocated",
            "Skip the allocation for an empty tensor.",
        )


def _require_room(room: int, count: int) -> None:
    if count == 0:
        raise Refusal(_INVALID, "the count is 0", "Skip what moves nothing.")
    if room < count:
        raise Refusal(
            _INVALID,
            f"destMax is {room} bytes, less than the count of {count}",
            "Pass the size of the destination as destMax.",
        )


def _require_sides(
    session: Session, sides: tuple[bool, bool], target: int, source: int, kind: int
) -> None:
    for is_device, address, name in zip(sides, (target, source), ("dst", "src"), strict=True):
        if session.memory.owns(address) and not is_device:
            raise Refusal(
                _INVALID,
                f"{name} {address:#x} is device memory, but copies of kind {kind} want the host's",
                "Exchange the arguments, or use another aclrtMemcpyKind.",
            )

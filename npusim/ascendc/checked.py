"""The first launch of somebody's own kernel: run once more beforehand, with every byte followed."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from npusim.ascendc import host_threads, observer
from npusim.ascendc.block import Block, units_of
from npusim.ascendc.costs import InstructionCosts
from npusim.ascendc.mistakes import is_own_code, is_shipped, told
from npusim.values.locks import lock

if TYPE_CHECKING:
    from collections.abc import Hashable

    from npusim.ascendc.kernel import Kernel
    from npusim.hardware.profile import Profile

_PLAIN = (bool, int, float, str, bytes, type(None))
_known: WeakKeyDictionary[type[Kernel], set[Hashable]] = WeakKeyDictionary()
_lock = lock()


def check_once(kernel: Kernel, profile: Profile) -> None:
    """Follow a kernel byte by byte if it is a user's and has not been, with tensors like these.

    What it stores is taken back. Raises KernelError for what the chip would compute otherwise.
    """
    if kernel.literal or not is_own_code(type(kernel)) or observer.current() is not None:
        return
    key = _key(kernel, profile)
    with _lock:
        if key in _known.get(type(kernel), ()):
            return
    check(kernel, profile)
    with _lock:
        _known.setdefault(type(kernel), set()).add(key)


def check(kernel: Kernel, profile: Profile) -> None:
    """Follow a kernel byte by byte, as far as :data:`MOST_INSTRUCTIONS`."""
    from npusim.ascendc.following import EnoughError, Follower, Launch  # most launches need none

    launch, costs, own = Launch(), InstructionCosts(profile), copy(kernel)
    blocks = range(kernel.block_dim)
    with told(kernel.op_type, shipped=is_shipped(type(kernel))):
        storage = {unit: {} for unit in units_of(own, profile)}  # type: ignore[var-annotated]
        running = {
            block: Block(own, costs, block, storage, numerics=True, recording=True, reference=True)
            for block in blocks
        }
        for core in (core for block in running.values() for core in block.cores):
            Follower(core, launch)
        try:
            host_threads.run(own, running, [blocks], numerics=True)
        except EnoughError:
            pass
        finally:
            launch.undo()
            for core in (core for block in running.values() for core in block.cores):
                core.follower = None
                core.let_go()


def _key(kernel: Kernel, profile: Profile) -> Hashable:
    tensors = [
        (each.shape, each.steps, each.dtype.name, each.buffer.nbytes)
        for each in (*kernel.reads, *kernel.writes)
    ]
    held = dict(vars(kernel))
    held |= held.pop("_attributes", {})
    plain = sorted((name, repr(each)) for name, each in held.items() if isinstance(each, _PLAIN))
    return (profile.name, tuple(tensors), tuple(plain))

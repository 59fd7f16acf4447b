"""What L2 holds when a task starts.

Nothing, its inputs, or what the task before it in a graph left there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from npusim.dialect import GlobalTensor
    from npusim.engine import L2State
    from npusim.hardware import Profile

MODES = ("cold", "warm", "chain")


def prime(
    cache: L2State,
    inputs: Sequence[GlobalTensor],
    mode: str,
    profile: Profile,
    stale: Collection[GlobalTensor] = (),
) -> None:
    """Bring ``cache`` into the state of ``mode``.

    cold: empty. warm: the inputs have just been used, as in repeated runs. chain: the task runs in
    a graph, where some other task has produced the inputs a while ago; the share of L2 that still
    holds them is a fitted constant. ``stale`` operands were last used in the step before, and so
    were flat tensors: networks have parameters, their gradients and states as one dimension, and
    what works on them streams through all of them in turn, so its results push out modified bytes.
    """
    memory = profile.memory
    long_ago = {
        tensor.buffer.number
        for tensor in inputs
        if mode == "chain" and (tensor in stale or len(tensor.shape) == 1)
    }
    streams = sum(tensor.nbytes for tensor in inputs if tensor.buffer.number in long_ago)
    chained = memory.l2_write_back_share if mode == "chain" else 0.0
    cache.write_back_share = 1.0 if 2 * streams > sum(t.nbytes for t in inputs) else chained
    cache.reuse_fraction = memory.l2_reuse_fraction
    share = {"cold": 0.0, "warm": 1.0, "chain": memory.l2_chain_share}[mode]
    room = share * memory.l2_bytes
    for tensor in inputs:
        buffer = tensor.buffer
        kept = min(room, buffer.nbytes)
        if buffer.number in long_ago:
            continue
        if kept > 0 and cache.resident_bytes(buffer.number) < kept:
            cache.touch(buffer.number, kept)
        room -= kept

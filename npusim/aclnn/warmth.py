"""What L2 holds when a task starts.

Nothing, its inputs, or what the task before it in a graph left there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npusim.dialect import GmBuffer
    from npusim.engine import L2State
    from npusim.hardware import Profile

MODES = ("cold", "warm", "chain")


def prime(cache: L2State, inputs: Sequence[GmBuffer], mode: str, profile: Profile) -> None:
    """Bring ``cache`` into the state of ``mode``.

    cold: empty. warm: the inputs have just been used, as in repeated runs. chain: the task runs in
    a graph, where some other task has produced the inputs a while ago; the share of L2 that still
    holds them is a fitted constant.
    """
    cache.write_back_share = profile.memory.l2_write_back_share if mode == "chain" else 0.0
    cache.reuse_fraction = profile.memory.l2_reuse_fraction
    share = {"cold": 0.0, "warm": 1.0, "chain": profile.memory.l2_chain_share}[mode]
    room = share * profile.memory.l2_bytes
    for buffer in inputs:
        kept = min(room, buffer.nbytes)
        if kept > 0 and cache.resident_bytes(buffer.number) < kept:
            cache.touch(buffer.number, kept)
        room -= kept

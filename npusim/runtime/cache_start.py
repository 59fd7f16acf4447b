"""What L2 holds when a task starts.

Nothing, its inputs, or what the task before it in a graph left there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from npusim.engine import L2State
from npusim.values.dtypes import FLOAT
from npusim.values.formats import Format

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor, Kernel
    from npusim.engine import Code
    from npusim.hardware import Profile

MODES = ("cold", "warm", "in_graph")

LAYERS = 4
"""How often a step runs a task, at least, that it is taken to run in every layer."""


def empty_cache(profile: Profile, *, reuse_fraction: float = 1.0) -> L2State:
    """The L2 of a chip that has run nothing."""
    kernels = profile.launch.code_kernels
    return L2State(profile.memory.l2_bytes, reuse_fraction=reuse_fraction, code_kernels=kernels)


def new_cache(
    profile: Profile,
    inputs: Sequence[GlobalTensor] = (),
    mode: str = "cold",
    kernels: Iterable[Kernel] = (),
) -> L2State:
    """The L2 of a chip as a call of :data:`MODES` that runs ``kernels`` finds it.

    See :func:`prime`.
    """
    cache, run = empty_cache(profile), tuple(kernels)
    cold = [tensor for kernel in run for tensor in kernel.cold]
    made = [tensor for kernel in run for tensor in kernel.writes]
    prime(cache, inputs, mode, profile, cold, made)
    return cache


def lost_code(profile: Profile, times: int) -> float:
    """The share of a task's code that cores have lost in a step that runs it so many times.

    The time of one is that of all but the first, whose code is still there in part.
    """
    return profile.launch.code_lost_share if times >= LAYERS else 1.0


def hold_code(
    cache: L2State, kernels: Iterable[Kernel], mode: str, others: Code | None = None
) -> None:
    """Bring the instruction caches into the state in which repeated kernels find them.

    In a loop (``warm``; ``flushed`` or ``cleared`` where L2 isn't) all cores have run them just
    before. In a graph they have run others since: products too are kernels of many codes, one for
    each shape or way of cutting. ``others`` is where code is that isn't in the cores.
    """
    cache.others = others or cache.others
    for kernel in kernels:
        if mode in ("warm", "loop", "flushed", "cleared"):
            cache.keep_code(kernel.code)


def prime(
    cache: L2State,
    inputs: Sequence[GlobalTensor],
    mode: str,
    profile: Profile,
    cold: Collection[GlobalTensor] = (),
    made: Collection[GlobalTensor] = (),
) -> None:
    """Bring ``cache`` into the state of ``mode``, for a task that has ``made`` results.

    cold: empty. warm: the inputs have just been used, as in repeated runs. in_graph: the task runs
    in a graph, where other tasks have produced the inputs, some just before, some long ago; the
    share of them that was used lately, and the share of L2 that still holds it, are constants of
    the chip; the nearer one of them comes to ``l2_stream_bytes``, the less of it has stayed.
    ``cold`` operands were last used in the step before, such as the weights of products, and so
    were flat tensors: networks have parameters, their gradients and states as one dimension, and
    what works on them streams through all of them in turn.

    In a graph, results push modified bytes out as far as the task streams: not at all where its
    inputs are still there, all the time where it works on what is long gone.
    """
    memory = profile.memory
    long_ago: set[int] = set()
    if mode == "in_graph":
        known = [*cold, *(tensor for tensor in inputs if len(tensor.shape) == 1)]
        known += _master_weights(inputs, made)
        long_ago = {tensor.buffer.number for tensor in known}
    share = {"cold": 0.0, "warm": 1.0, "in_graph": memory.l2_in_graph_share}[mode]
    lately = memory.l2_recent_share if mode == "in_graph" else 1.0
    recent = [tensor for tensor in inputs if tensor.buffer.number not in long_ago]
    room = share * memory.l2_bytes
    if mode == "in_graph" and recent and memory.l2_stream_bytes is not None:
        largest = max(tensor.nbytes for tensor in recent)
        room = min(room, max(0.0, memory.l2_stream_bytes - largest))
    found = _fill(cache, recent, room, lately)
    asked = sum(tensor.nbytes for tensor in inputs)
    streamed = sum(tensor.nbytes for tensor in inputs if tensor.buffer.number in long_ago)
    cache.reuse_fraction = memory.l2_reuse_fraction
    if 2 * streamed > asked:
        cache.write_back_share = 1.0
    elif mode == "in_graph":
        streaming = 1.0 - found / asked if asked else 1.0
        cache.write_back_share = streaming * memory.l2_write_back_share
    else:
        cache.write_back_share = 0.0


def _master_weights(
    inputs: Sequence[GlobalTensor], made: Collection[GlobalTensor]
) -> Sequence[GlobalTensor]:
    """The weights of a convolution in float32, which the step before has used last.

    They come in a format of their own, ahead of their gradients. What is passed on as it is, alone
    or beside less, is a gradient that has just been made: weights are rounded, or updated.
    """
    weights = [
        tensor for tensor in inputs if tensor.format is Format.FRACTAL_Z and tensor.dtype is FLOAT
    ]
    if weights and all(each.dtype is FLOAT and each.numel == weights[0].numel for each in made):
        largest = [tensor for tensor in inputs if tensor.numel >= weights[0].numel]
        weights = weights if len(largest) > 1 or not made else []
    return weights[:1]


def _fill(cache: L2State, tensors: Sequence[GlobalTensor], room: float, part: float) -> float:
    """Put a part of ``tensors`` into the cache, within ``room``; returns their bytes there."""
    found = 0.0
    for tensor in tensors:
        buffer = tensor.buffer
        kept = min(room, part * buffer.nbytes)
        if kept > 0 and cache.resident_bytes(buffer.number) < kept:
            cache.touch(buffer.number, kept)
        room -= kept
        found += min(kept, tensor.nbytes)
    return found

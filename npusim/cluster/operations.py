"""Collective operations as steps: one algorithm within a server, another between servers.

What a call's `nbytes` are, as HCCL counts: of the tensor that is reduced or broadcast, of what one
rank gives (AllGather) or gets (ReduceScatter), of all that one rank gives (AlltoAll), of the
message (Send/Recv).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from npusim.cluster import algorithms
from npusim.cluster.moves import Move, Steps, together

Exchange = Callable[..., Steps]

_EXCHANGES: dict[str, Exchange] = {
    "mesh": algorithms.mesh,
    "ring": algorithms.ring,
    "nhr": algorithms.nhr,
    "pairwise": algorithms.pairwise,
}
_LEAST_NHR = 4  # with fewer ranks a ring has no more steps, and HCCL prefers it


def whole_bytes(operation: str, ranks: int, nbytes: float) -> float:
    """Bytes of the whole that the ranks share: what all of them hold after AllGather."""
    return nbytes * ranks if operation in ("allgather", "reducescatter") else nbytes


def steps_of(operation: str, algorithm: str, ranks: int, server: int, nbytes: float) -> Steps:
    """The steps of an operation on ranks 0, 1 ...; `server` ranks are in one server.

    Several full servers work in two levels; anything else is one group.
    """
    every = range(ranks)
    if operation == "sendrecv":
        return ((Move(0, ranks - 1, nbytes),),)
    whole = whole_bytes(operation, ranks, nbytes)
    if operation == "alltoall":
        exchange = algorithms.pairwise if algorithm in ("ring", "nhr") else _EXCHANGES[algorithm]
        return exchange(every, whole / ranks)
    if ranks > server and ranks % server == 0:
        return _two_levels(operation, algorithm, ranks, server, whole)
    return _one_level(operation, algorithm, every, whole)


def _one_level(operation: str, algorithm: str, ranks: Sequence[int], whole: float) -> Steps:
    if algorithm == "doubling":
        return algorithms.doubling(ranks, whole)
    if algorithm == "one_shot":
        return algorithms.mesh(ranks, whole, reduces=True)
    exchange, part = _EXCHANGES[algorithm], whole / len(ranks)
    if operation == "allgather":
        return exchange(ranks, part)
    if operation == "reducescatter":
        return exchange(ranks, part, reduces=True)
    if operation == "broadcast":
        return (_scatter(ranks, part), *exchange(ranks, part))
    return (*exchange(ranks, part, reduces=True), *exchange(ranks, part))


def _two_levels(operation: str, algorithm: str, ranks: int, server: int, whole: float) -> Steps:
    servers = ranks // server
    inner = algorithm if algorithm in ("mesh", "ring", "nhr") else "mesh"
    outer = "nhr" if servers >= _LEAST_NHR else "ring"
    boxes = [range(first, first + server) for first in range(0, ranks, server)]
    planes = [range(place, ranks, server) for place in range(server)]

    def inside(nbytes: float, *, reduces: bool = False) -> Steps:
        exchange = _EXCHANGES[inner]
        return together([exchange(box, nbytes / server, reduces=reduces) for box in boxes])

    def between(nbytes: float, *, reduces: bool = False) -> Steps:
        exchange = _EXCHANGES[outer]
        return together([exchange(plane, nbytes / servers, reduces=reduces) for plane in planes])

    share = whole / server  # what a rank and its likes in other servers take care of
    if operation == "allgather":
        return (*between(share), *inside(whole))
    if operation == "reducescatter":
        return (*inside(whole, reduces=True), *between(share, reduces=True))
    if operation == "broadcast":
        return (_scatter(range(server), share), *between(share), *inside(whole))
    inner_first = inside(whole, reduces=True)
    return (*inner_first, *between(share, reduces=True), *between(share), *inside(whole))


def _scatter(ranks: Sequence[int], part: float) -> tuple[Move, ...]:
    return tuple(Move(ranks[0], rank, part) for rank in ranks[1:])

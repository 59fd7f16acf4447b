"""HCCL's algorithms for one group of ranks: who sends how much to whom in every step.

``part`` is what each rank holds of the whole: 1/p of it for p ranks. The names are HCCL's
(coll_algo_intro of hicann/hccl).
"""

from __future__ import annotations

from collections.abc import Sequence

from npusim.cluster.moves import Move, Step, Steps

Ranks = Sequence[int]


def mesh(ranks: Ranks, part: float, *, reduces: bool = False) -> Steps:
    """Every rank sends a part to every other one at once."""
    step = tuple(Move(a, b, part, reduces) for a in ranks for b in ranks if a != b)
    return (step,)


def ring(ranks: Ranks, part: float, *, reduces: bool = False) -> Steps:
    """Every rank sends a part to the next one, p - 1 times."""
    follower = (*ranks[1:], ranks[0])
    step = tuple(Move(a, b, part, reduces) for a, b in zip(ranks, follower, strict=True))
    return (step,) * (len(ranks) - 1)


def nhr(ranks: Ranks, part: float, *, reduces: bool = False) -> Steps:
    """Doubling distances for any number of ranks: twice the parts in every step, the rest at last.

    As ReduceScatter it goes the other way, from the largest step to the smallest.
    """
    count, distance, steps = len(ranks), 1, list[Step]()
    while distance < count:
        nbytes = min(distance, count - distance) * part
        steps.append(
            tuple(
                Move(rank, ranks[(place + distance) % count], nbytes, reduces)
                for place, rank in enumerate(ranks)
            )
        )
        distance *= 2
    return tuple(reversed(steps)) if reduces else tuple(steps)


def pairwise(ranks: Ranks, part: float, *, reduces: bool = False) -> Steps:
    """In step k every rank sends to the k-th one after it: AlltoAll where links are shared."""
    count = len(ranks)
    return tuple(
        tuple(
            Move(rank, ranks[(place + distance) % count], part, reduces)
            for place, rank in enumerate(ranks)
        )
        for distance in range(1, count)
    )


def doubling(ranks: Ranks, whole: float) -> Steps:
    """AllReduce of small tensors: partners at doubling distances exchange all they have.

    For a power of two; with other numbers the ranks beyond it hand in first and get back last.
    """
    count = 1 << (len(ranks).bit_length() - 1)
    paired = list(zip(ranks[count:], ranks, strict=False))
    steps = [tuple(Move(extra, rank, whole, True) for extra, rank in paired)]
    distance = 1
    while distance < count:
        steps.append(
            tuple(
                Move(rank, ranks[place ^ distance], whole, True)
                for place, rank in enumerate(ranks[:count])
            )
        )
        distance *= 2
    steps.append(tuple(Move(rank, extra, whole) for extra, rank in paired))
    return tuple(step for step in steps if step)

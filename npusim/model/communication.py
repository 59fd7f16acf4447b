"""The collectives in a profile: which one a row is, how much it moves, what it should take.

HCCL's rows are called ``hcom_allReduce__097_4_1`` (operation, a number for the group, two counters)
and rarely say how much they move and never between how many cards.
"""

from __future__ import annotations

import re
from math import prod
from typing import TYPE_CHECKING, Final

from npusim.cluster import collective
from npusim.values.display import latency, significant
from npusim.values.dtypes import dtype
from npusim.values.errors import NpusimError
from npusim.values.language import say

if TYPE_CHECKING:
    from npusim.hardware import Profile
    from npusim.model.kernel_csv import Kernel, Tensors

_OPERATIONS: Final = (
    ("allreduce", "allreduce"),
    ("allgather", "allgather"),
    ("reducescatter", "reducescatter"),
    ("alltoall", "alltoall"),
    ("broadcast", "broadcast"),
    ("send", "sendrecv"),
    ("recv", "sendrecv"),
    ("receive", "sendrecv"),
)
"""Words in HCCL's names, and what `npusim collective` calls the operation."""
_CARDS: Final = (2, 8)
_OF_RESULT: Final = ("reducescatter",)  # HCCL counts what a rank gets


def operation_of(name: str) -> str:
    """What `npusim collective` calls an operation of HCCL; empty for what it doesn't have."""
    plain = re.sub(r"[^a-z]", "", name.lower())
    return next((operation for word, operation in _OPERATIONS if word in plain), "")


def no_operator(name: str) -> str:
    """What to say of a row of HCCL where operators are judged or timed."""
    operation = operation_of(name)
    if not operation:
        return say("a task of HCCL, which moves data between cards: no operator to judge")
    return say(
        "a collective of HCCL ({operation}), no operator: whether the "
        "cards are linked the file doesn't say; `npusim collective "
        "{operation}` says how long it takes on a product"
    ).format(operation=operation)


def expected(kernel: Kernel, profile: Profile) -> str:
    """What a collective should take, in a sentence, or what to ask for it."""
    operation = operation_of(kernel.op)
    if not operation:
        return ""
    nbytes = message_bytes(operation, kernel.tensors)
    ask = f"npusim collective {operation} -s {profile.name} --cards N --bytes"
    if not nbytes:
        return say(
            "the file doesn't say how much it moves: `{ask} SIZE` says what that takes"
        ).format(ask=ask)
    try:
        low_us, high_us = sorted(
            collective(operation, profile.name, cards=cards, nbytes=nbytes).duration_us
            for cards in _CARDS
        )
    except NpusimError:
        return ""
    return say(
        "its {nbytes} MB take {low_us} to {high_us} on {cards} to "
        "{most_cards} cards (`{ask} {message_bytes}`); beyond that it waits "
        "for another card"
    ).format(
        nbytes=significant(nbytes / 1e6),
        low_us=latency(low_us),
        high_us=latency(high_us),
        cards=_CARDS[0],
        most_cards=_CARDS[1],
        ask=ask,
        message_bytes=nbytes,
    )


def message_bytes(operation: str, tensors: Tensors) -> int:
    """The bytes of a collective as HCCL counts them, 0 where the row doesn't tell."""
    shapes, dtypes = tensors.input_shapes, tensors.input_dtypes
    if operation in _OF_RESULT and tensors.output_shapes:
        shapes, dtypes = tensors.output_shapes, tensors.output_dtypes
    total = 0
    for shape, kind in zip(shapes, dtypes, strict=False):
        sizes = [part.strip() for part in shape.split(",")]
        try:
            if all(part.isdecimal() for part in sizes):
                total += prod(map(int, sizes)) * dtype(kind.strip()).itemsize
        except NpusimError:
            return 0
    return total

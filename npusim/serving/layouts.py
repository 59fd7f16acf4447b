"""The layouts that a model can have on a product: what a search goes through."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from npusim.hardware.interconnect import interconnect_of
from npusim.llm import Layout
from npusim.llm.layout import copies_of_keys, shares_keys

if TYPE_CHECKING:
    from npusim.capacity.boards import Board
    from npusim.llm.architecture import Architecture

_MOST_TP: Final = 32
_MOST_RANKS: Final = 256
_STAGES: Final = (2, 4, 8)


def layouts_of(
    model: Architecture, server_ranks: int, tensor_parallel: Sequence[int] | None
) -> Iterator[Layout]:
    """Every layout of powers of two: smaller ones first.

    Ranks of tensor parallelism share a server. Experts are cut like layers, or dealt over up to
    256 ranks, which share them; more ranks of a dense model are replicas. Pipelines are of whole
    servers, for what doesn't fit in one. Ranks share the rows of norms, which is never slower.
    Keys that several ranks have they all keep, or each keeps a part.
    """
    for layout in _with_whole_keys(model, server_ranks, tensor_parallel):
        yield layout
        times = copies_of_keys(model, layout.tp) if shares_keys(model) else 1
        if times > 1:
            yield replace(layout, dcp=times)


def _with_whole_keys(
    model: Architecture, server_ranks: int, tensor_parallel: Sequence[int] | None
) -> Iterator[Layout]:
    widths = [
        tp
        for tp in tensor_parallel or _powers(min(_MOST_TP, server_ranks))
        if tp <= server_ranks and model.heads % tp == 0
    ]
    yield from (Layout(tp, sp=tp > 1) for tp in widths)
    if (experts := model.experts) is not None:
        for ranks in _powers(_MOST_RANKS):
            if ranks > 1 and experts.count % ranks == 0:
                yield from (
                    Layout(tp, 1, ranks // tp, ranks, sp=tp > 1) for tp in widths if ranks % tp == 0
                )
    if server_ranks in widths:
        yield from (Layout(server_ranks, pp, sp=True) for pp in _STAGES if pp <= model.layers)


def server_ranks(board: Board) -> int:
    """Ranks of a server of a product; of a bare chip those of the servers that it is sold in."""
    if board.cards_per_server is None:
        return interconnect_of(board.soc).server_ranks
    return board.cards_per_server * board.devices_per_card


def _powers(most: int) -> list[int]:
    return [1 << number for number in range(most.bit_length()) if 1 << number <= most]

"""`npusim collective`: how long does an AllReduce, AllGather ... take on so many cards."""

from __future__ import annotations

from typing import Annotated

import typer

from npusim.cli import output
from npusim.cli.options import AsJson, Links, Socs

Operation = Annotated[
    str,
    typer.Argument(
        metavar="OPERATION",
        help="allreduce, allgather, reducescatter, alltoall, broadcast or sendrecv.",
    ),
]
Ranks = Annotated[int, typer.Option("--cards", help="Ranks: chips, or dies of Atlas A3.")]
Size = Annotated[
    str,
    typer.Option(
        "--bytes",
        metavar="SIZE",
        help="As HCCL counts: of the tensor; for allgather what a rank gives, for "
        "reducescatter what it gets. 4096, 64KB, 1MiB.",
    ),
]
InGraph = Annotated[
    bool, typer.Option("--in-graph", help="Inside a network, where ranks wait for each other.")
]


def collective(
    operation: Operation,
    soc: Socs = None,
    cards: Ranks = 8,
    size: Size = "1MiB",
    interconnect: Links = None,
    in_graph: InGraph = False,
    as_json: AsJson = False,
) -> None:
    """How long does a collective take? Time, band, HCCL's algorithm, bandwidth.

    Example: npusim collective allreduce -s 910b3 --cards 8 --bytes 1MiB
    """
    from npusim.cli.chips import every_chip, named, names
    from npusim.cli.sizes import nbytes_in
    from npusim.cluster import collective as estimated
    from npusim.reporting.cluster import collectives_json, collectives_page

    asked = names(soc, lambda: [chip.name for chip in every_chip()])
    for each in asked:
        named(each)
    results = [
        estimated(
            operation, each, cards=cards, nbytes=nbytes_in(size),
            interconnect=interconnect, in_graph=in_graph,
        )
        for each in asked
    ]  # fmt: skip
    if as_json:
        answers = collectives_json(asked, results)
        output.emit_json({**answers[0], "answers": answers})
    else:
        output.emit(*collectives_page(asked, results))

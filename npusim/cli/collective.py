"""`npusim collective`: how long does an AllReduce, AllGather ... take on so many cards."""

from __future__ import annotations

from typing import Annotated

import typer

from npusim.cli import output
from npusim.cli.options import AsJson, Socs


def collective(
    operation: Annotated[
        str,
        typer.Argument(
            metavar="OPERATION",
            help="allreduce, allgather, reducescatter, alltoall, broadcast or sendrecv.",
        ),
    ],
    soc: Socs = None,
    cards: Annotated[int, typer.Option("--cards", help="Ranks: chips, or dies of Atlas A3.")] = 8,
    size: Annotated[
        str,
        typer.Option(
            "--bytes",
            metavar="SIZE",
            help="As HCCL counts: of the tensor; for allgather what a rank gives, for "
            "reducescatter what it gets. 4096, 64KB, 1MiB.",
        ),
    ] = "1MiB",
    interconnect: Annotated[
        str | None,
        typer.Option("--interconnect", metavar="NAME", help="Other links than the product's."),
    ] = None,
    in_graph: Annotated[
        bool, typer.Option("--in-graph", help="Inside a network, where ranks wait for each other.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """How long does a collective take? Time, band, HCCL's algorithm, bandwidth.

    Example: npusim collective allreduce -s 910b3 --cards 8 --bytes 1MiB
    """
    from npusim.cli.chips import names
    from npusim.cli.sizes import nbytes_in
    from npusim.cluster import collective as estimated
    from npusim.reporting.cluster import collectives_page
    from npusim.reporting.renderers.jsonout import fields

    def every() -> list[str]:
        from npusim.cli.chips import every_chip

        return [chip.name for chip in every_chip()]

    asked = names(soc, every)
    results = [
        estimated(
            operation, each, cards=cards, nbytes=nbytes_in(size),
            interconnect=interconnect, in_graph=in_graph,
        )
        for each in asked
    ]  # fmt: skip
    if as_json:
        answers = [
            {
                "soc": each,
                **fields(
                    found,
                    "operation interconnect ranks nbytes algorithm engine steps duration_us "
                    "band_us band_basis closed_form_us algbw_gbps",
                ),
            }
            for each, found in zip(asked, results, strict=True)
        ]
        output.emit_json({**answers[0], "answers": answers})
        return
    output.emit(*collectives_page(asked, results))

"""Collectives: what HCCL chooses, the time and the bandwidth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from npusim.cluster.collectives import MEANING
from npusim.reporting.document import Facts, Page, Section, Verdict
from npusim.reporting.renderers.jsonout import fields
from npusim.reporting.spelling import latency
from npusim.values.language import say

if TYPE_CHECKING:
    from npusim.cluster import Collective


def collectives_page(socs: Sequence[str], results: Sequence[Collective]) -> Iterator[Page]:
    """A page for each chip."""
    for soc, found in zip(socs, results, strict=True):
        facts = Facts(
            [
                ("time", latency(found.duration_us, found.band_us)),
                ("band", found.band_basis),
                ("bytes", f"{found.nbytes} {MEANING[found.operation]}"),
                (
                    "algorithm",
                    say("{algorithm}, {steps} steps, by {engine}").format(
                        algorithm=found.algorithm, steps=found.steps, engine=found.engine
                    ),
                ),
                ("algorithm bandwidth", f"{found.algbw_gbps:.3g} GB/s"),
                ("links", found.interconnect),
            ]
        )
        title = say("{operation} on {ranks} x {soc}").format(
            operation=found.operation, ranks=found.ranks, soc=soc
        )
        verdict = Verdict(latency(found.duration_us))
        yield Page(title, verdicts=[verdict], sections=[Section("", [facts])])


def collectives_json(socs: Sequence[str], results: Sequence[Collective]) -> list[dict[str, Any]]:
    """The same as data."""
    told = (
        "operation interconnect ranks nbytes algorithm engine steps duration_us band_us "
        "band_basis closed_form_us algbw_gbps"
    )
    return [{"soc": soc, **fields(found, told)} for soc, found in zip(socs, results, strict=True)]

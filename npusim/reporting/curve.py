"""The rate of a model over its batches, for every chip, as tables and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from npusim.reporting.document import Page, Section, Table
from npusim.reporting.model import memory_word, runs_word
from npusim.reporting.spelling import latency, percent, significant
from npusim.values.language import say

if TYPE_CHECKING:
    from npusim.model.curve import Curve


def curve_page(found: Sequence[Curve]) -> Page:
    """A table for each chip, and its best batch."""
    name = found[0].results[0].step.name
    sections = [Section("", [_table(curve)]) for curve in found]
    return Page(
        say("{name}, batch by batch").format(name=name),
        facts=list(_facts(found)),
        sections=sections,
    )


def best_words(curve: Curve) -> str:
    """`16: 2,454 items/s in 6.5 ms`, or that no batch keeps the limit."""
    best = curve.best
    if best is None:
        return "none keeps the limit"
    rate = significant(best.items_per_s or 0.0)
    return say("{batch}: {rate} items/s in {duration_us}").format(
        batch=best.step.batch, rate=rate, duration_us=latency(best.duration_us)
    )


def curve_json(found: Iterable[Curve]) -> list[dict[str, Any]]:
    """The best batch of each chip."""
    return [
        {
            "soc": curve.results[0].soc,
            "within_us": curve.within_us,
            "batch": None if curve.best is None else curve.best.step.batch,
        }
        for curve in found
    ]


def _facts(found: Sequence[Curve]) -> Iterable[tuple[str, str]]:
    if found[0].within_us is not None:
        yield "latency limit", latency(found[0].within_us)
    for curve in found:
        yield say("best batch on {soc}").format(soc=curve.results[0].soc), best_words(curve)


def _table(curve: Curve) -> Table:
    rows = [
        (
            str(each.step.batch),
            latency(each.duration_us, each.band_us),
            "" if each.items_per_s is None else significant(each.items_per_s),
            memory_word(each.memory),
            percent(each.simulated_share),
            "best" if each is curve.best else runs_word(each),
        )
        for each in curve.results
    ]
    columns = ("batch", "latency (80 % band)", "items/s", "memory", "simulated", "")
    return Table(columns, rows, columns[:5], curve.results[0].soc)

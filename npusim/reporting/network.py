"""The page of a model: rate and latency on every product, and where the time goes on one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import npusim
from npusim.reporting.call.figures import products_figure
from npusim.reporting.document import (
    Block,
    Code,
    Page,
    Section,
    Table,
    Tone,
    Verdict,
    bullets,
    cautions,
)
from npusim.reporting.model import (
    assumption_lines,
    class_table,
    dtype_lines,
    headline,
    memory_word,
    not_simulated_lines,
    operator_table,
    runs_word,
    step_facts,
    step_title,
)
from npusim.reporting.network_figures import (
    layers_figure,
    layers_roofline,
    longest,
    memory_figure,
)
from npusim.reporting.spelling import latency, percent, significant
from npusim.values.language import say

if TYPE_CHECKING:
    from npusim.model.results import StepResult

_TOP = 15


def network_page(results: Sequence[StepResult], command: str = "") -> Page:
    """One model on one or more chips; the fastest is looked at."""
    running = [each for each in results if each.runs] or list(results)
    focus = min(running, key=lambda each: each.duration_us)
    refusals = [f"{each.soc}: {line}" for each in results for line in dtype_lines(each)]
    return Page(
        title=say("{step_title}: how fast, on which product").format(step_title=step_title(focus)),
        verdicts=[
            Verdict(headline(focus), _tone(focus)),
            *(
                Verdict(headline(each), _tone(each))
                for each in results
                if each is not focus and not each.runs_unchanged
            ),
            *cautions(each.soc for each in results),
        ],
        # How much memory was counted stands below, where there is room for it.
        facts=[
            *([(say("on"), focus.soc)] if len(results) > 1 else []),
            *{**dict(step_facts(focus)), "memory": memory_word(focus.memory)}.items(),
        ],
        sections=[
            Section("Products side by side", list(_products(results, focus))),
            Section(say("Where the time goes on {soc}").format(soc=focus.soc), list(_time(focus))),
            _memory(focus),
            Section("What was fused", list(_fused(focus))),
            *bullets("Refusals", refusals),
            *bullets("Not simulated", list(not_simulated_lines(focus))),
            *bullets("Assumptions", list(assumption_lines(focus))),
            *([Section("Do it again", [Code(command)])] if command else []),
        ],
        footer=say("Made by npusim {version}. Times are estimates with their 80 % bands.").format(
            version=npusim.__version__
        ),
    )


def _tone(result: StepResult) -> Tone:
    return "good" if result.runs_unchanged else "changed" if result.runs else "bad"


def _products(results: Sequence[StepResult], focus: StepResult) -> Iterator[Block]:
    if len(results) > 1:
        yield products_figure(results)
    rows = [
        (
            each.soc,
            runs_word(each),
            latency(each.duration_us, each.band_us),
            "" if each.items_per_s is None else significant(each.items_per_s),
            memory_word(each.memory),
            percent(each.simulated_share),
        )
        for each in results
    ]
    columns = ("SoC", "runs", "latency (80 % band)", "items/s", "memory", "simulated")
    yield Table(columns, rows, columns[2:], chosen=list(results).index(focus))


def _time(focus: StepResult) -> Iterator[Block]:
    yield layers_figure(focus)
    yield class_table("By operator class", focus.classes)
    yield operator_table(focus.operators[:_TOP], len(focus.operators))
    roofline = layers_roofline(focus)
    if roofline is not None:
        yield roofline
    rows = [
        (", ".join(each.item.layers), each.item.op, latency(each.total_us), each.timing.bound)
        for each in longest(focus, _TOP)
        if each.item.layers
    ]
    if rows:
        columns = ("layer", "task", "time", "bound by")
        yield Table(columns, rows, ("time",), "Longest layers", ("layer",))


def _memory(focus: StepResult) -> Section:
    """What memory holds; over time only where the file tells how long tensors live."""
    needs = [("needs", memory_word(focus.memory)), ("basis", focus.memory.basis)]
    table = Table(("memory", "value"), needs)
    figure = memory_figure(focus)
    if figure is None:
        return Section("Memory", [table])
    return Section("Memory over time", [figure, table])


def _fused(focus: StepResult) -> Iterator[Block]:
    yield from (
        block for section in bullets("passes", focus.step.notes) for block in section.blocks
    )
    together: dict[str, int] = {}
    for each in focus.items:
        if len(each.item.layers) > 1:
            together[each.item.op] = together.get(each.item.op, 0) + each.item.count
    rows = [(op, str(times)) for op, times in sorted(together.items(), key=lambda pair: -pair[1])]
    if rows:
        yield Table((say("one task of several nodes"), "times"), rows, ("times",))
    else:
        yield Table((say("one task of several nodes"), "times"), [("none", "0")], ("times",))

"""Pages of language models' steps, and of requests served: products side by side, then each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import npusim
from npusim.reporting.document import Code, Figure, Page, Section, Table, Verdict
from npusim.reporting.llm import step_page
from npusim.reporting.serving import serve_page
from npusim.values.drawing import INK, SERIES, axes_of, colours_of, draw, name_rows
from npusim.values.language import say

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from npusim.llm import LlmStep
    from npusim.serving import Deployment
    from npusim.serving.results import Served

    Answered = tuple[Deployment, Served] | tuple[Deployment, Served, Deployment]

_OPERATORS: Final = 12
_QUANTILES: Final = ("mean", "p50", "p90", "p99")


def steps_page(found: Sequence[LlmStep], top: int, command: str = "") -> Page:
    """A step on each of these products, the fastest that runs first."""
    ranked = sorted(found, key=lambda each: (not each.runs, each.step_ms))
    pages = {each.soc: step_page(each, top) for each in ranked}
    columns = ("SoC", "step in ms", "80 % band", "tokens/s", "fits", "runs")
    rows = [
        (
            each.soc,
            f"{each.step_ms:.2f}",
            f"{each.band_ms[0]:.2f}..{each.band_ms[1]:.2f}",
            f"{each.tok_s:.0f}",
            "yes" if each.memory.fits else "no",
            "yes" if each.runs else "no",
        )
        for each in ranked
    ]
    figures = [_parts_figure(ranked), _operators_figure(ranked[0])]
    title = say("{phase} of {model}: how long does a step take?").format(
        phase=ranked[0].batch.phase, model=ranked[0].model.name
    )
    return _together(title, pages, Table(columns, rows, columns[1:4]), figures, command)


def served_page(found: Sequence[Answered], command: str = "") -> Page:
    """Requests served by each of these products, the one with the most tokens a second first."""
    ranked = sorted(found, key=lambda each: -each[1].output_tok_s)
    pages = {each[0].chip.name: serve_page(*each) for each in ranked}
    served = {each[0].chip.name: each[1] for each in ranked}
    columns = ("SoC", "tokens/s", "requests/s", "TTFT p90 in ms", "TPOT p90 in ms", "goodput")
    rows = [
        (soc, *(f"{number:.1f}" for number in (
            each.output_tok_s, each.req_s, each.ttft_ms.p90, each.tpot_ms.p90, each.goodput_req_s
        )))
        for soc, each in served.items()
    ]  # fmt: skip
    title = say("{model}: how fast are requests answered?").format(model=ranked[0][0].model.name)
    table = Table(columns, rows, columns[1:])
    return _together(title, pages, table, [_latencies_figure(served)], command)


def _together(
    title: str, pages: Mapping[str, Page], table: Table, figures: Sequence[Figure], command: str
) -> Page:
    """The pages of products as one; what each says of itself stands under its name."""
    several = len(pages) > 1
    verdicts = [
        Verdict(f"{soc}: {each.text}" if several else each.text, each.tone, each.why)
        for soc, page in pages.items()
        for each in page.verdicts
    ]
    own = [
        replace(section, title=f"{soc}: {say(section.title)}" if several else section.title)
        for soc, page in pages.items()
        for section in page.sections
    ]
    first = next(iter(pages.values()))
    return Page(
        title if several else first.title,
        "" if several else first.subtitle,
        verdicts=verdicts,
        sections=[
            Section("Products side by side" if several else "Pictures",
                    [*([table] if several else []), *figures]),
            *own,
            *([Section("Do it again", [Code(command)])] if command else []),
        ],
        footer=say("Made by npusim {version}. Times are estimates with their 80 % bands.").format(
            version=npusim.__version__
        ),
    )  # fmt: skip


def _parts_figure(ranked: Sequence[LlmStep]) -> Figure:
    """Compute, communication and host of a step on each product, with its band."""
    parts = ("compute", "communication", "host")

    def paint(drawing: Drawing) -> None:
        axes = axes_of(drawing, say("ms a step, with its 80 % band"))
        ends = [0.0] * len(ranked)
        for number, part in enumerate(parts):
            widths = [getattr(each, f"{part}_ms") for each in ranked]
            axes.barh(range(len(ranked)), widths, left=ends, color=SERIES[number], height=0.6,
                      label=part)  # fmt: skip
            ends = [end + width for end, width in zip(ends, widths, strict=True)]
        for row, each in enumerate(ranked):
            low, high = each.band_ms
            axes.errorbar([each.step_ms], [row], xerr=[[max(0.0, each.step_ms - low)],
                          [max(0.0, high - each.step_ms)]], fmt="none", ecolor=INK, capsize=3,
                          lw=1)  # fmt: skip
        name_rows(axes, [each.soc for each in ranked])
        axes.set_xlim(left=0)
        drawing.legend(loc="outside lower center", ncols=3)

    drawn = draw("parts", paint, height_inches=1.5 + 0.32 * len(ranked))
    caption = say("What the step waits for: its kernels, other cards, the host.")
    return Figure(drawn, "Where a step goes", caption)


def _operators_figure(found: LlmStep) -> Figure:
    """The operators that take longest, all their calls together."""
    times: dict[str, float] = {}
    for each in found.device.operators:
        times[each.op] = times.get(each.op, 0.0) + each.total_us / 1e3
    shown = sorted(times, key=lambda name: -times[name])[:_OPERATORS]

    def paint(drawing: Drawing) -> None:
        axes = axes_of(drawing, say("ms a step"))
        axes.barh(range(len(shown)), [times[name] for name in shown], color=SERIES[0], height=0.6)
        name_rows(axes, shown)
        axes.set_xlim(left=0)

    drawn = draw("operators", paint, height_inches=1.0 + 0.26 * len(shown))
    caption = say("All calls of an operator together, on one card.")
    return Figure(drawn, say("Operators on {soc}").format(soc=found.soc), caption)


def _latencies_figure(served: Mapping[str, Served]) -> Figure:
    """Mean and quantiles of TTFT and TPOT, a bar for each product."""
    colours = colours_of(served)
    thick = 0.8 / len(served)

    def paint(drawing: Drawing) -> None:
        pairs = zip(drawing.subplots(1, 2), ("ttft_ms", "tpot_ms"), strict=True)
        for axes, name in pairs:
            for number, (soc, each) in enumerate(served.items()):
                places = [at + (number - (len(served) - 1) / 2) * thick for at in range(4)]
                heights = [getattr(getattr(each, name), word) for word in _QUANTILES]
                axes.bar(places, heights, width=thick * 0.9, color=colours[soc], label=soc)
            axes.set_xticks(range(4), _QUANTILES)
            axes.grid(visible=False, axis="x")
            axes.set_ylabel(say("{latency} in ms").format(latency=name[:4].upper()))
        handles, labels = axes.get_legend_handles_labels()
        drawing.legend(handles, labels, loc="outside lower center", ncols=3)

    drawn = draw("latencies", paint, height_inches=3.2, width_inches=9.0)
    caption = say("TTFT is the time to a request's first token, TPOT that of each further one.")
    return Figure(drawn, "Latency of requests", caption, wide=True)

"""The figures of a capacity plan: latency, cards over load, time by class, utilisation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from npusim.capacity import CONFIDENCE
from npusim.capacity.units import US_PER_MS
from npusim.reporting.document import Figure, Table
from npusim.reporting.plan.verdicts import quantile_name
from npusim.reporting.spelling import latency, percent, significant
from npusim.values.drawing import (
    MARK,
    SERIES,
    axes_of,
    draw,
    in_plain_decades,
    name_rows,
)
from npusim.values.language import say

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from npusim.capacity import FleetRun, PlanResult, ProductResult

_DRAWN = 5  # products in a figure: more curves can't be told apart
_DASHES = ("-", "--", ":", "-.")  # models of a product
_POINTS = 200  # of a distribution: what a screen can show
_CLASSES_SHOWN = 7


def drawn(result: PlanResult) -> Sequence[ProductResult]:
    """The products that figures show: the first that meet the objective, or else the first."""
    return (result.meeting or result.products)[:_DRAWN]


def _colour(result: PlanResult, product: str) -> str:
    """The colour of a product, the same in every figure of the page."""
    names = [each.board.name for each in drawn(result)]
    return SERIES[names.index(product) % len(SERIES)]


def latency_figure(result: PlanResult) -> Figure | None:
    """How many requests take longer than so many ms, at the peak, for every product that meets."""
    runs = [(each.board.name, each.at_peak.run) for each in drawn(result) if each.at_peak]
    if not runs:
        return None
    objective = result.plan.objective

    def paint(drawing: Drawing) -> None:
        axes = axes_of(drawing, "latency in ms", say("share of requests that take longer"))
        for name, run in runs:
            latencies_ms, above = _survival(run)
            axes.plot(latencies_ms, above, color=_colour(result, name), label=name)
        axes.axvline(objective.limit_ms, color=MARK, ls="--", lw=1.2)
        axes.axhline(1 - objective.quantile, color=MARK, ls=":", lw=1.2)
        axes.set(yscale="log", xlim=(0, None), ylim=((1 - objective.quantile) / 20, 1.2))
        _legend(drawing, len(runs))

    caption = say(
        "At the peak with all installed cards. The limit is "
        "{limit_ms:g} ms (dashed) for {quantile} of the requests "
        "(dotted): a curve that passes below and left of their "
        "crossing meets it."
    ).format(limit_ms=objective.limit_ms, quantile=percent(objective.quantile))
    return Figure(draw("latency", paint, height_inches=3.2), "Latency against the limit", caption)


def _survival(run: FleetRun) -> tuple[list[float], list[float]]:
    """Latencies in ms, and the share of requests that take longer."""
    latencies = np.sort(run.latencies_us()) / US_PER_MS
    count = len(latencies)
    # As many points in the tail as in the body: the objective is about the tail.
    ranks = np.unique(
        np.concatenate(
            (np.linspace(0, count - 1, _POINTS), count - np.geomspace(count, 1, _POINTS))
        ).astype(int)
    )
    above = 1 - (ranks + 1) / count
    keep = above > 0
    return list(latencies[ranks][keep]), list(above[keep])


def by_cards_figure(result: PlanResult) -> Figure | None:
    """The quantile at the peak over working cards: one fewer and one more included."""
    known = [each for each in drawn(result) if each.by_cards]
    if not known:
        return None
    objective = result.plan.objective

    def paint(drawing: Drawing) -> None:
        from matplotlib.ticker import MaxNLocator

        axes = axes_of(drawing, "working cards", "latency in ms")
        for each in known:
            points = [(one.cards, one.latency_us) for one in each.by_cards if one.latency_us]
            means = [value.mean / US_PER_MS for _, value in points]
            reach = [[(value.mean - value.lo) / US_PER_MS for _, value in points],
                     [(value.hi - value.mean) / US_PER_MS for _, value in points]]  # fmt: skip
            axes.errorbar([cards for cards, _ in points], means, yerr=reach, fmt="o-", ms=4,
                          capsize=3, color=_colour(result, each.board.name),
                          label=each.board.name)  # fmt: skip
        axes.axhline(objective.limit_ms, color=MARK, ls="--", lw=1.2)
        axes.set_yscale("log")
        in_plain_decades(axes.yaxis)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        _legend(drawing, len(known))

    rows = [
        (
            each.board.name,
            str(one.cards),
            "can't keep up"
            if one.latency_us is None
            else latency(one.latency_us.mean, (one.latency_us.lo, one.latency_us.hi)),
            percent(one.utilisation),
            {True: "yes", False: "no", None: "undecided"}[one.holds],
            f"{one.requests:,}",
        )
        for each in known
        for one in each.by_cards
    ]
    quantile = say("{quantile_name} at the peak").format(
        quantile_name=quantile_name(objective.quantile)
    )
    numbers = ("working cards", quantile, "busy", "requests simulated")
    columns = ("product", "working cards", quantile, "busy", "enough", "requests simulated")
    caption = say(
        "At the peak without spare cards; the bars are {confidence} "
        "intervals, the dashed line is the limit. The other bound is "
        "the devices' busy share, at most {target_utilisation}."
    ).format(
        confidence=percent(CONFIDENCE), target_utilisation=percent(objective.target_utilisation)
    )
    table = Table(columns, rows, numbers, say("Latency over cards, one fewer and one more"))
    painted = draw("by-cards", paint, height_inches=3.2)
    return Figure(painted, "Latency against cards", caption, table=table)


def cards_figure(result: PlanResult) -> Figure | None:
    """Installed cards over load, for every product that meets the objective."""
    known = [each for each in drawn(result) if each.cards_by_load]
    if not known:
        return None

    def paint(drawing: Drawing) -> None:
        from matplotlib.ticker import MaxNLocator

        axes = axes_of(drawing, "requests/s", "cards")
        for each in known:
            points = [(rate, cards) for rate, cards in each.cards_by_load if cards is not None]
            rates, cards = zip(*points, strict=True) if points else ((), ())
            colour = _colour(result, each.board.name)
            axes.plot(rates, cards, "o-", ms=4, color=colour, label=each.board.name)
        axes.axvline(result.peak_per_s, color=MARK, ls="--", lw=1.2)
        axes.set(xlim=(0, None), ylim=(0, None))
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        _legend(drawing, len(known))

    caption = say(
        "Cards to install at other loads, spare ones included, by "
        "short runs (a card too many where they don't decide); the "
        "dashed line is the peak."
    )
    painted = draw("cards", paint, height_inches=3.2)
    return Figure(painted, "Cards against load", caption, table=_cards_table(known))


def _cards_table(known: Sequence[ProductResult]) -> Table:
    """The cards to install, a line for each load."""
    names = [each.board.name for each in known]
    rows = [
        (
            significant(rate),
            *(
                "-" if (cards := each.cards_by_load[index][1]) is None else str(cards)
                for each in known
            ),
        )
        for index, (rate, _) in enumerate(known[0].cards_by_load)
    ]
    return Table(("requests/s", *names), rows, ("requests/s", *names), "Cards over load")


def utilisation_figure(result: PlanResult) -> Figure | None:
    """The busy share of the cards over one run at the peak."""
    runs = [(each.board.name, each.at_peak.run) for each in drawn(result) if each.at_peak]
    if not runs:
        return None

    def paint(drawing: Drawing) -> None:
        axes = axes_of(drawing, "seconds", say("busy share of the cards"))
        for name, run in runs:
            course = run.utilisation_over_time()
            colour = _colour(result, name)
            edges = [edge - course.edges_s[0] for edge in course.edges_s]
            axes.stairs(course.values, edges, baseline=None, color=colour, label=name, lw=1.4)
        target = result.plan.objective.target_utilisation
        axes.axhline(target, color=MARK, ls="--", lw=1.2)
        axes.set(ylim=(0, 1.05), xlim=(0, None))
        _legend(drawing, len(runs))

    caption = say(
        "One simulated run at the peak with all installed cards; the "
        "dashed line is the target without the spare ones."
    )
    return Figure(draw("utilisation", paint, height_inches=3.2), "Utilisation over time", caption)


def curves_figure(result: PlanResult) -> Figure | None:
    """Latency of a batch over its size with its band, for every chip and model."""
    curves = {
        say("{model} on {soc}").format(model=model.name, soc=each.board.soc): (
            model,
            each.board.name,
            _DASHES[place % len(_DASHES)],
        )
        for each in reversed(drawn(result))
        for place, model in enumerate(each.models)
    }
    if not curves:
        return None

    def paint(drawing: Drawing) -> None:
        axes = axes_of(drawing, "items in a batch", "ms for the batch")
        for name, (model, product, dashes) in reversed(curves.items()):
            colour = _colour(result, product)
            points = model.curve.points
            batches = [point.batch for point in points]
            times_ms = [point.latency_us / US_PER_MS for point in points]
            axes.plot(batches, times_ms, "o", ls=dashes, ms=4, color=colour, label=name)
            low, high = (
                [getattr(point, end) / US_PER_MS for point in points] for end in ("lo_us", "hi_us")
            )
            axes.fill_between(batches, low, high, color=colour, alpha=0.2, lw=0)
        axes.axhline(result.plan.objective.limit_ms, color=MARK, ls="--", lw=1.2)
        axes.set(ylim=(0, None))
        _legend(drawing, len(curves))

    return Figure(
        draw("curves", paint, height_inches=3.2),
        "Latency of a batch",
        say("One chip; the shade is the 80 % band of the estimate, the dashed line the limit."),
    )


def classes_figure(steps: Mapping[str, Mapping[str, float]]) -> Figure | None:
    """Time by class of operator, a bar for every step (its name -> class -> microseconds)."""
    if not steps:
        return None
    totals: dict[str, float] = {}
    for classes in steps.values():
        for name, time_us in classes.items():
            totals[name] = totals.get(name, 0.0) + time_us
    ranked = sorted(totals, key=lambda name: (-totals[name], name))
    shown = ranked if len(ranked) <= _CLASSES_SHOWN + 1 else ranked[:_CLASSES_SHOWN]
    rest = [name for name in ranked if name not in shown]

    def paint(drawing: Drawing) -> None:
        axes = axes_of(drawing, "ms for one step")
        ends = [0.0] * len(steps)
        for number, name in enumerate((*shown, *(["others"] if rest else []))):
            members = rest if name == "others" and rest else [name]
            widths = [
                sum(classes.get(member, 0.0) for member in members) / US_PER_MS
                for classes in steps.values()
            ]
            colour = SERIES[number % len(SERIES)]
            axes.barh(range(len(steps)), widths, left=ends, color=colour, height=0.6, label=name)
            ends = [end + width for end, width in zip(ends, widths, strict=True)]
        name_rows(axes, list(steps))
        drawing.legend(loc="outside lower center", ncols=4)

    longest = max(steps, key=lambda name: sum(steps[name].values()))
    total = significant(sum(steps[longest].values()) / US_PER_MS)
    caption = say("The largest batch on every chip; the longest is {total} ms ({longest}).").format(
        total=total, longest=longest
    )
    painted = draw("classes", paint, height_inches=1.9 + 0.4 * len(steps), width_inches=9.0)
    shares = [
        (step, name, percent(time_us / sum(classes.values())))
        for step, classes in steps.items()
        for name, time_us in classes.items()
    ]
    table = Table(("step", "operator class", "share"), shares, ("share",), "Where the time goes")
    return Figure(painted, say("Time by class of operator"), caption, wide=True, table=table)


def _legend(drawing: Drawing, entries: int) -> None:
    if entries > 0:
        # Below the axes: with many products it would cover the curve that matters.
        drawing.legend(loc="outside lower center", ncols=2)

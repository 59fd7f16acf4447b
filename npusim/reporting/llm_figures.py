"""The figures of a language model's plan: latency against load, Pareto, memory over time."""

from __future__ import annotations

from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from npusim.reporting.csvfile import csv_text
from npusim.reporting.document import Figure, Table
from npusim.reporting.spelling import size
from npusim.serving.results import nearest_name
from npusim.values.drawing import INK, MARK, SERIES, draw, in_plain_decades
from npusim.values.language import ngettext, say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

    from npusim.serving.options import Option
    from npusim.serving.planning import LlmPlanResult

_GIB: Final = 2**30


def load_figure(found: LlmPlanResult, shown: Sequence[Option]) -> Figure:
    """TTFT and TPOT over the load of the planned cards, for the best option of each product."""
    limits, asked = found.plan.objective, found.plan.llm.requests_per_s
    quantile = found.plan.objective.quantile
    colours, name = _colours(found.options), nearest_name(quantile)

    def paint(drawing: Drawing) -> None:
        above, below = drawing.subplots(2, 1, sharex=True)
        for each in shown:
            working = max(1, each.working_replicas)
            loads = [rate * working for rate, _ in each.tried]
            colour = colours[each.candidate.product]
            for axes, latencies in (
                (above, [served.ttft_ms.nearest(quantile) for _, served in each.tried]),
                (below, [served.tpot_ms.nearest(quantile) for _, served in each.tried]),
            ):
                axes.plot(loads, latencies, "o-", ms=4, color=colour, label=_name(each))
        _limits(above, say("TTFT {name} in ms").format(name=name), limits.ttft_ms, asked)
        _limits(below, say("TPOT {name} in ms").format(name=name), limits.tpot_ms, asked)
        above.set_yscale("log")
        in_plain_decades(above.yaxis)  # requests that wait for each other take many times as long
        below.set(ylim=(0, None), xlim=(0, None), xlabel="requests/s of the planned cards")
        handles, labels = above.get_legend_handles_labels()
        drawing.legend(handles, labels, loc="outside lower center", ncols=1)

    caption = say(
        "With the planned cards, without spare ones. Dashed lines are "
        "the limits, the dotted one is the load asked for; every point "
        "is a simulated run."
    )
    drawn = draw("load", paint, height_inches=4.4 + 0.2 * len(shown))
    return Figure(drawn, "Latency against load", caption)


def pareto_figure(found: LlmPlanResult) -> Figure:
    """Tokens a second of a card over TPOT: every option at every rate that was tried."""
    caption = say(
        "Every layout, precision and batch limit at every rate that "
        "was simulated; nothing that was tried lies above and left of "
        "the line. The dashed line is the limit."
    )
    drawn = draw("pareto", partial(_front_drawn, found), height_inches=_front_inches(found))
    return Figure(drawn, say("Tokens of a card against TPOT"), caption)


def front_file(found: LlmPlanResult, kind: str) -> bytes:
    """The same figure as an ``svg`` or ``png`` file, or its points as ``csv``, the front marked."""
    if kind != "csv":
        figure = pareto_figure(found)
        return figure.drawing.file(figure.label, kind)
    best = set(front([place for each in places_of(found.options).values() for place in each]))
    columns = (
        "product", "dtype", "layout", "max_sequences", "requests_per_s", "ttft_p90_ms",
        "tpot_p90_ms", "tokens_per_s_of_a_card", "on_front",
    )  # fmt: skip
    rows = []
    for each in found.options:
        like = each.candidate
        for rate, served in each.tried:
            place = (served.tpot_ms.p90, each.per_card(served))
            words = (like.product, like.dtype, like.where, like.max_sequences)
            rows.append((*words, rate, served.ttft_ms.p90, *place, int(place in best)))
    return csv_text(columns, rows).encode()


def _front_inches(found: LlmPlanResult) -> float:
    return 3.4 + 0.2 * len(places_of(found.options))


def _front_drawn(found: LlmPlanResult, drawing: Drawing) -> None:
    places, colours = places_of(found.options), _colours(found.options)
    best = front([place for each in places.values() for place in each])
    axes = drawing.add_subplot()
    for product, points in places.items():
        across, up = zip(*points, strict=True)
        axes.plot(across, up, "o", ms=4, color=colours[product], label=product)
    if best:
        axes.step(*zip(*best, strict=True), where="post", color=INK, lw=1, label="best known")
        _name_corners(axes, found, best)
    axes.axvline(found.plan.objective.tpot_ms, color=MARK, ls="--", lw=1.2)
    axes.set(xlabel="TPOT p90 in ms", ylabel="tokens/s of a card", ylim=(0, None))
    drawing.legend(loc="outside lower center", ncols=1)


def _name_corners(axes: Axes, found: LlmPlanResult, best: Sequence[tuple[float, float]]) -> None:
    """Layout and dtype where the line begins to be another's, as far as they can be read."""
    names = {
        (
            served.tpot_ms.p90,
            each.per_card(served),
        ): f"{each.candidate.dtype} {each.candidate.where}"
        for each in found.options
        for _, served in each.tried
    }
    (left, right), top = (
        (best[0][0], max(found.plan.objective.tpot_ms, best[-1][0])), best[-1][1] or 1.0
    )  # fmt: skip
    taken: list[tuple[float, float]] = []
    last = ""
    for place in reversed(best):  # the cheapest first: where there is no room, dearer ones lack
        name = names[place]
        at = ((place[0] - left) / (right - left or 1.0), place[1] / top)
        near = any(abs(at[0] - x) < 0.5 and abs(at[1] - y) < 0.1 for x, y in taken)
        if name == last or near:
            continue
        taken.append(at)
        last = name
        beside = (
            {"ha": "right", "xytext": (-5, 3)} if at[0] > 0.3 else {"ha": "left", "xytext": (5, 5)}
        )
        axes.annotate(name, place, textcoords="offset points", fontsize=8, **beside)


def _colours(options: Sequence[Option]) -> dict[str, str]:
    """The colour of each product, the same in every figure of a page."""
    products = dict.fromkeys(each.candidate.product for each in options)
    return {name: SERIES[number % len(SERIES)] for number, name in enumerate(products)}


def places_of(options: Sequence[Option]) -> Mapping[str, list[tuple[float, float]]]:
    """TPOT in ms and tokens/s of a card at every rate that was tried, by product."""
    places: dict[str, list[tuple[float, float]]] = {}
    for each in options:
        for _, served in each.tried:
            point = (served.tpot_ms.p90, each.per_card(served))
            places.setdefault(each.candidate.product, []).append(point)
    return places


def front(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points that no other one beats: less across and more up."""
    best: list[tuple[float, float]] = []
    for across, up in sorted(points, key=lambda point: (point[0], -point[1])):
        if not best or up > best[-1][1]:
            best.append((across, up))
    return best


def memory_figure(found: LlmPlanResult) -> Figure | None:
    """What a rank of the chosen option keeps over time, at the rate that a replica answers."""
    memory, course, chosen = found.memory, found.course, found.chosen
    if memory is None or course is None or chosen is None:
        return None
    fixed = (
        ("weights", memory.weights_bytes),
        ("activations, buffers", memory.activation_bytes + memory.buffer_bytes),
    )
    cache = [tokens * memory.kv_bytes_per_token / _GIB for tokens in course.tokens]

    def paint(drawing: Drawing) -> None:
        axes = drawing.add_subplot()
        ends = [0.0, *accumulate(nbytes / _GIB for _, nbytes in fixed)]
        for number, (name, _) in enumerate(fixed):
            low, high = ends[number : number + 2]
            axes.fill_between(course.times_s, low, high, color=SERIES[number + 1], lw=0, label=name)
        tops = [ends[-1] + each for each in cache]
        axes.fill_between(course.times_s, ends[-1], tops, color=SERIES[0], lw=0, label="cache")
        axes.axhline(memory.usable_bytes / _GIB, color=MARK, ls="--", lw=1.2)
        axes.set(xlabel="seconds", ylabel="GiB of a rank", xlim=(0, course.times_s[-1]))
        axes.set_ylim(0, memory.usable_bytes / _GIB * 1.05)
        drawing.legend(loc="outside lower center", ncols=3)

    most = max(course.tokens)
    caption = say(
        "One run at {rate_per_s:.3g} requests/s: sequences between "
        "their first token and their last hold up to {most:,.0f} of "
        "{kv_tokens:,} tokens that the cache has room for. The dashed "
        "line is what the engine may use."
    ).format(rate_per_s=chosen.rate_per_s, most=most, kv_tokens=memory.kv_tokens)
    drawn = draw("memory", paint, height_inches=2.8, width_inches=9.0)
    sizes = [*fixed, ("cache", round(most * memory.kv_bytes_per_token))]
    rows = [(name, size(nbytes)) for name, nbytes in (*sizes, ("usable", memory.usable_bytes))]
    table = Table(("memory of a rank", "at most"), rows, ("at most",))
    return Figure(drawn, say("Memory and cache over time"), caption, wide=True, table=table)


def _limits(axes: Axes, name: str, limit_ms: float, asked_per_s: float) -> None:
    axes.axhline(limit_ms, color=MARK, ls="--", lw=1.2)
    axes.axvline(asked_per_s, color=MARK, ls=":", lw=1.2)
    axes.set_ylabel(name)


def _name(each: Option) -> str:
    cards = ngettext("{count} card", "{count} cards", each.cards).format(count=each.cards)
    return f"{say(each.candidate.product)}: {cards}, {each.candidate.where}"

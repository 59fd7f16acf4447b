"""Two results that were kept as JSON, side by side: what changed, how much, and why.

Calls, models and steps of language models have times whose parts tell why (`against`); requests
served, plans and sweeps have numbers by name. All are the numbers below.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import npusim
from npusim.reporting.against import Estimates, against, change_in_words, estimates_of
from npusim.reporting.document import Code, Figure, Page, Section, Table, Toned, Verdict
from npusim.reporting.spelling import count, latency, significant
from npusim.values.drawing import SERIES, axes_of, draw, name_rows
from npusim.values.errors import FileError
from npusim.values.language import say

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from npusim.reporting.document import Block, Tone

_SAME: Final = 0.005
_DRAWN: Final = 24  # bars
_REMEDY: Final = (
    "Keep two of the same verb: `npusim estimate ... --json > OLD.json`, and so `model`, "
    "`llm step`, `llm serve`, `plan`; or the .jsonl files of two sweeps."
)


@dataclass(frozen=True)
class Quantity:
    """A number of a result by its name; `band` is its 80 % band, `more` whether more is better."""

    name: str
    unit: str
    value: float
    band: tuple[float, float] | None = None
    more: bool = False

    @property
    def spelled(self) -> str:
        """With its unit and band."""
        if self.unit == "us":
            return latency(self.value, self.band)
        return f"{significant(self.value)} {self.unit}".strip()


@dataclass(frozen=True)
class Result:
    """What a file says: of which kind, and its numbers."""

    file: str
    kind: str
    quantities: Mapping[str, Quantity]
    estimates: Estimates | None = None
    told: Any = None


@dataclass(frozen=True)
class Change:
    """One number before and now."""

    before: Quantity
    now: Quantity

    @property
    def ratio(self) -> float | None:
        """Now over before; None where that was nothing."""
        return self.now.value / self.before.value if self.before.value else None

    @property
    def beyond_band(self) -> bool | None:
        """Whether each lies outside of the other's band; None where they have none."""
        old, new = self.before.band, self.now.band
        if old is None or new is None:
            return None
        return not (old[0] <= self.now.value <= old[1] or new[0] <= self.before.value <= new[1])

    @property
    def tone(self) -> Tone:
        """Better, worse, or neither as long as the bands don't tell them apart."""
        larger = max(abs(self.before.value), abs(self.now.value))
        if abs(self.now.value - self.before.value) <= _SAME * larger or self.beyond_band is False:
            return "open"
        return "good" if (self.now.value > self.before.value) is self.now.more else "bad"


@dataclass(frozen=True)
class Comparison:
    """Two results of one kind."""

    before: Result
    now: Result

    @cached_property
    def changes(self) -> Sequence[Change]:
        """What both have, in the order of the first."""
        there = self.now.quantities
        return [
            Change(each, there[name])
            for name, each in self.before.quantities.items()
            if name in there
        ]

    def alone(self, first: Result, second: Result) -> list[str]:
        """Names of numbers that only the first has."""
        return [name for name in first.quantities if name not in second.quantities]


def read_result(told: Any, file: Path) -> Result:
    """What decoded JSON says, or the rows of a sweep; FileError for anything else."""
    rows = {} if not isinstance(told, dict) else told
    answers = rows.get("answers")
    first = answers[0] if isinstance(answers, list) and answers else None
    kinds = (
        ("sweep", _of_sweep, told if isinstance(told, list) else None),
        ("llm serve", _of_served, answers if "ttft_ms" in (first or ()) else None),
        ("plan", _of_plan, rows.get("products")),
        ("plan", _of_options, rows.get("options")),
    )
    for kind, numbers, found in kinds:
        if not isinstance(found, list):
            continue
        try:
            return _result(file, kind, numbers(found))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise FileError(
                file,
                say("isn't what npusim prints: {error!r} lacks").format(error=str(error)),
                _REMEDY,
            ) from None
    return _of_times(told, file)


def _of_times(told: Any, file: Path) -> Result:
    """What estimate, model or llm step print."""
    try:
        found = estimates_of(told, str(file))
    except FileError as error:
        raise FileError(file, error.problem, _REMEDY) from None
    quantities = [
        Quantity(
            each.soc if each.batch is None else f"{each.soc}, batch {each.batch}",
            "us", each.duration_us, each.band_us if any(each.band_us) else None,
        )
        for each in found.told.answers
        if each.duration_us is not None
    ]  # fmt: skip
    if not quantities:
        raise FileError(file, say("has no time: all of its answers are refusals"), _REMEDY)
    kind = "model" if found.is_model else "estimate"
    named = {each.name: each for each in quantities}
    return Result(file.name, kind, named, found, told)


def _result(file: Path, kind: str, quantities: Iterator[Quantity]) -> Result:
    named = {each.name: each for each in quantities}
    if not named:
        raise FileError(file, say("has no numbers to compare"), _REMEDY)
    return Result(file.name, kind, named)


def _of_sweep(rows: Sequence[Mapping[str, Any]]) -> Iterator[Quantity]:
    for row in rows:
        if row["status"] == "ok":
            axes = " ".join(f"{name}={value}" for name, value in row["axes"].items())
            band = tuple(row["band_us"])
            yield Quantity(
                f"{row['op']} {row['soc']} {axes}".strip(), "us", row["duration_us"], band
            )


def _of_served(answers: Sequence[Mapping[str, Any]]) -> Iterator[Quantity]:
    for each in answers:
        soc = each["soc"]
        for name, unit in (("output_tok_s", "tokens/s"), ("req_s", "requests/s"),
                           ("goodput_req_s", "requests/s")):  # fmt: skip
            said = {
                "output_tok_s": "output tokens",
                "req_s": "requests",
                "goodput_req_s": "goodput",
            }
            yield Quantity(f"{soc}: {said[name]}", unit, float(each[name]), more=True)
        for latency_name in ("ttft_ms", "tpot_ms", "end_to_end_ms"):
            spelled = latency_name.removesuffix("_ms").replace("_", " ")
            spelled = spelled if " " in spelled else spelled.upper()
            for statistic in ("mean", "p90", "p99"):
                value = float(each[latency_name][statistic])
                yield Quantity(f"{soc}: {spelled} {statistic}", "ms", value)


def _of_plan(products: Sequence[Mapping[str, Any]]) -> Iterator[Quantity]:
    for each in products:
        if (cards := each["cards"]) is not None:
            yield Quantity(f"{each['product']}: cards", "", float(cards["installed"]))
        if each.get("card_requests_per_s"):
            name = f"{each['product']}: requests of a card"
            yield Quantity(name, "requests/s", float(each["card_requests_per_s"]), more=True)


def _of_options(options: Sequence[Mapping[str, Any]]) -> Iterator[Quantity]:
    for each in options:
        where = f"{each['product']} {each['dtype']} {each['layout']} x{each['max_sequences']}"
        if each.get("meets") and each.get("cards"):
            yield Quantity(f"{where}: cards", "", float(each["cards"]))
        if each.get("tpot_ms") is not None:
            yield Quantity(f"{where}: TPOT p90", "ms", float(each["tpot_ms"]))


def compared(before: Result, now: Result) -> Comparison:
    """Both, if they are of one kind and have a number in common; else FileError."""
    found = Comparison(before, now)
    if before.kind != now.kind:
        problem = say("is of `npusim {kind}`, {other} is of `npusim {other_kind}`").format(
            kind=now.kind, other=before.file, other_kind=before.kind
        )
        raise FileError(now.file, problem, _REMEDY)
    if not found.changes:
        names = [", ".join(list(each.quantities)[:3]) for each in (now, before)]
        problem = say("has {names}, {other} has {other_names}: nothing in common").format(
            names=names[0], other=before.file, other_names=names[1]
        )
        raise FileError(now.file, problem, say("Ask both of the same chips and shapes."))
    return found


def comparison_json(found: Comparison) -> dict[str, Any]:
    """The same as data."""
    return {
        "before": found.before.file,
        "now": found.now.file,
        "kind": found.now.kind,
        "changes": [
            {
                "name": each.now.name, "unit": each.now.unit, "before": each.before.value,
                "now": each.now.value, "ratio": each.ratio, "beyond_band": each.beyond_band,
                "more_is_better": each.now.more,
            }
            for each in found.changes
        ],
        "only_before": found.alone(found.before, found.now),
        "only_now": found.alone(found.now, found.before),
    }  # fmt: skip


def compared_page(found: Comparison, command: str = "") -> Page:
    """What changed in one line, the changes as a figure and as a table, and why."""
    name, is_long = f"{found.before.file}, {found.now.file}", len(found.changes) > _DRAWN
    columns = ("what", found.before.file, found.now.file, "change", "larger than the band")
    if found.before.file == found.now.file:
        columns = ("what", "before", "now", "change", "larger than the band")
    rows = [_row(each) for each in found.changes]
    table = Table(columns, rows, columns[1:4], wide=("what",), sortable=is_long)
    lone = [
        say("only in {file}: {names}").format(file=side, names=_few(names))
        for side, names in (
            (found.before.file, found.alone(found.before, found.now)),
            (found.now.file, found.alone(found.now, found.before)),
        )
        if names
    ]
    page = Page(
        say("{name}: what changed").format(name=name),
        verdicts=[_verdict(found)],
        sections=[
            Section("pictures", [_changes_figure(found)], detail=True),
            Section("changes", [table]),
            *(
                [Section("not in both", [Table(("",), [(each,) for each in lone], wide=("",))])]
                if lone
                else []
            ),
        ],
        footer=say("Made by npusim {version}. Times are estimates with their 80 % bands.").format(
            version=npusim.__version__
        ),
    )
    again = [Section("do it again", [Code(command)], detail=True)] if command else []
    if found.before.estimates is None or found.now.told is None:
        return Page(page.title, "", page.verdicts, (), [*page.sections, *again], page.footer)
    told = against(Page(""), found.before.estimates, found.now.told)
    return Page(
        page.title,
        "",
        told.verdicts,
        (),
        [*page.sections[:1], *told.sections, *again],
        page.footer,
    )


def _few(names: Sequence[str]) -> str:
    more = say(" and {more} more").format(more=len(names) - 8) if len(names) > 8 else ""
    return ", ".join(names[:8]) + more


def _row(each: Change) -> tuple[str, ...]:
    beyond = {True: "yes", False: "no", None: ""}[each.beyond_band]
    change = Toned(change_in_words(each.before.value, each.now.value), each.tone)
    return (each.now.name, each.before.spelled, each.now.spelled, change, beyond)


def _verdict(found: Comparison) -> Verdict:
    """How many numbers got better or worse, the middle of the changes, and the largest."""
    tones = [each.tone for each in found.changes]
    better, worse = tones.count("good"), tones.count("bad")
    if not better and not worse:
        text = say("{changes} numbers: none changed beyond its band.")
        return Verdict(text.format(changes=count(len(tones))), "open")
    ratios = [each.ratio for each in found.changes if each.ratio is not None]
    largest = max(found.changes, key=lambda each: abs(_share(each)))
    text = say(
        "{better} of {changes} numbers are better, {worse} worse; half changed by {median} or "
        "more, {name} most: {change}."
    ).format(
        better=count(better),
        changes=count(len(tones)),
        worse=count(worse),
        median=f"{significant(100 * median(abs(each - 1) for each in ratios), 2)} %",
        name=largest.now.name,
        change=change_in_words(largest.before.value, largest.now.value),
    )
    return Verdict(text, "good" if not worse else "bad" if not better else "changed")


def _share(each: Change) -> float:
    return 0.0 if each.ratio is None else each.ratio - 1


def _changes_figure(found: Comparison) -> Block:
    """The largest changes in percent."""
    shown = sorted(found.changes, key=lambda each: -abs(_share(each)))[:_DRAWN]

    def paint(drawing: Drawing) -> None:
        axes = axes_of(drawing, say("change in %"))
        inks = {"good": SERIES[2], "bad": SERIES[1], "open": SERIES[7]}
        for tone, label in (("good", "better"), ("bad", "worse"), ("open", "within the band")):
            rows = [row for row, each in enumerate(shown) if each.tone == tone]
            shares = [100 * _share(shown[row]) for row in rows]
            if rows:
                axes.barh(rows, shares, color=inks[tone], height=0.6, label=label)
        name_rows(axes, [each.now.name for each in shown])
        axes.axvline(0.0, color=SERIES[7], lw=0.8)
        drawing.legend(loc="outside lower center", ncols=3)

    drawn = draw("changes", paint, height_inches=1.4 + 0.26 * len(shown), width_inches=9.0)
    caption = say("{now} against {before}; the largest changes first.").format(
        now=found.now.file, before=found.before.file
    )
    return Figure(drawn, "What changed", caption, wide=True)

"""Measured against simulated: a page, tables, rows as CSV, and figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from textwrap import shorten
from typing import TYPE_CHECKING

import npusim
from npusim.reporting.csvfile import csv_text
from npusim.reporting.document import Code, Page, Section, Table, Verdict
from npusim.reporting.document import Figure as Drawn
from npusim.reporting.spelling import count, latency
from npusim.values.drawing import INK, draw
from npusim.values.language import say

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from npusim.validation.asking import Validation
    from npusim.validation.replay import Prediction
    from npusim.validation.statistics import Accuracy, StepAccuracy

    Panel = Callable[[Axes, Sequence[Prediction]], None]

_NAME_WIDTH = 60  # letters of a workload's name that a table shows

ROW_COLUMNS = (
    "line",
    "chip",
    "op",
    "family",
    "measured_us",
    "simulated_us",
    "band_low_us",
    "band_high_us",
    "error",
    "roofline_us",
    "bound",
    "reason",
    "busy",
)


def accuracy_table(title: str, groups: Mapping[str, Accuracy]) -> Table:
    """One line per group: rows, errors, rank, share inside the band, the roofline's error."""
    numbers = ("rows", "modelled", "median", "p90", "bias", "rank corr.", "in band", "roofline")
    rows = [
        (
            name,
            str(each.rows),
            str(each.modelled),
            _percent(each.median_abs_error),
            _percent(each.p90_abs_error),
            _percent(each.bias, signed=True),
            "" if each.rank_correlation is None else f"{each.rank_correlation:.3f}",
            _percent(each.in_band),
            _percent(each.roofline_median_abs_error),
        )
        for name, each in groups.items()
    ]
    return Table(("", *numbers), rows, numbers, title)


def step_table(groups: Mapping[str, StepAccuracy]) -> Table:
    """One line per workload: its time, how much of it is modelled, errors weighted by time."""
    numbers = ("rows", "measured us", "modelled", "error of sum", "sum of errors")
    rows = [
        (
            shorten(name, _NAME_WIDTH, placeholder=" ..."),
            str(each.rows),
            f"{each.measured_us:.0f}",
            _percent(each.modelled_ratio),
            _percent(each.error, signed=True),
            _percent(each.absolute_error),
        )
        for name, each in groups.items()
    ]
    return Table(("", *numbers), rows, numbers, "by workload, weighted by time")


def rows_csv(predictions: Sequence[Prediction]) -> str:
    """Every row with its prediction, or the reason why there is none.

    ``busy`` has the shares of the longest kernel's time that its pipes worked.
    """
    return csv_text(ROW_COLUMNS, map(_row_cells, predictions))


def _row_cells(each: Prediction) -> tuple[object, ...]:
    low, high = each.band_us or (None, None)
    row = each.row
    numbers = row.duration_us, each.simulated_us, low, high, each.error, each.roofline_us
    named = row.line, row.chip, row.op, row.family
    busy = " ".join(f"{pipe}={_number(share)}" for pipe, share in each.pipes.items())
    return (*named, *map(_number, numbers), each.bound, each.reason, busy)


def worst_rows(predictions: Sequence[Prediction], count: int) -> list[Prediction]:
    """The modelled rows that are furthest off, by the ratio of simulated to measured."""
    modelled = [each for each in predictions if each.simulated_us is not None]
    return sorted(modelled, key=_ratio, reverse=True)[:count]


def figure(
    predictions: Sequence[Prediction],
    panels: Sequence[Panel],
    size: tuple[float, float] = (11, 5),
) -> Figure:
    """Panels (:func:`scatter`, :func:`errors`) side by side; ``size`` is in inches."""
    from matplotlib.figure import Figure

    drawing = Figure(figsize=size, layout="constrained")
    for axes, paint in zip(drawing.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        paint(axes, predictions)
    return drawing


def scatter(axes: Axes, predictions: Sequence[Prediction]) -> None:
    """Measured against simulated time, both logarithmic."""
    for chip, members in _by_chip(predictions).items():
        measured = [each.row.duration_us for each in members]
        axes.loglog(measured, [each.simulated_us for each in members], ".", ms=3, label=chip)
    times = [each.row.duration_us for each in predictions if each.simulated_us is not None]
    if times:
        ends = [min(times), max(times)]
        axes.loglog(ends, ends, color=INK, lw=0.8)
        axes.legend(fontsize=8, markerscale=3)
    axes.set(xlabel="measured, us", ylabel="simulated, us")


def errors(axes: Axes, predictions: Sequence[Prediction]) -> None:
    """Error against measured time."""
    for chip, members in _by_chip(predictions).items():
        measured = [each.row.duration_us for each in members]
        percents = [100 * (each.error or 0.0) for each in members]
        axes.semilogx(measured, percents, ".", ms=3, label=chip)
    axes.axhline(0.0, color=INK, lw=0.8)
    axes.set(xlabel="measured, us", ylabel="error, %", ylim=(-100, 200))


def _by_chip(predictions: Sequence[Prediction]) -> dict[str, list[Prediction]]:
    modelled = [each for each in predictions if each.simulated_us is not None]
    chips = sorted({each.row.chip for each in modelled})
    return {chip: [each for each in modelled if each.row.chip == chip] for chip in chips}


def validation_page(found: Validation, worst: int, source: str, command: str = "") -> Page:
    """How far off the simulator is on these rows: in all, by chip, family and workload."""
    overall, steps = found.overall, found.by_workload
    groups: list[tuple[str, Mapping[str, Accuracy]]] = [("all rows", {"overall": overall})]
    groups += [("what came later", {"later": found.later})] if found.later else []
    groups += [("by chip", found.by_chip), ("by family", found.by_family)]
    tables = [accuracy_table(title, each) for title, each in groups]
    tables += [step_table(steps)] if steps else []
    pictures = [each(found.predictions) for each in (scatter_figure, errors_figure)]
    sections = [
        Section("pictures", pictures if overall.modelled else [], detail=True),
        Section("accuracy", tables),
        Section("worst rows", [_worst_table(found.predictions, worst)] if overall.modelled else []),
        Section("not modelled", [_reasons(found.not_modelled)] if found.not_modelled else []),
        Section("do it again", [Code(command)] if command else [], detail=True),
    ]
    return Page(
        say("{source}: measured against simulated").format(source=source),
        verdicts=[_verdict(overall)],
        sections=[each for each in sections if each.blocks],
        footer=say("Made by npusim {version}. Errors are shares of the measured time.").format(
            version=npusim.__version__
        ),
    )


def _verdict(overall: Accuracy) -> Verdict:
    rows = say("{modelled} of {rows} rows are modelled").format(
        modelled=count(overall.modelled), rows=count(overall.rows)
    )
    if not overall.modelled:
        return Verdict(f"{rows}.", "bad")
    return Verdict(
        say(
            "{rows}: half of them within {median} of what was measured, nine of ten within {p90}; "
            "{in_band} lie in their 80 % band."
        ).format(
            rows=rows,
            median=_percent(overall.median_abs_error),
            p90=_percent(overall.p90_abs_error),
            in_band=_percent(overall.in_band),
        ),
        "good",
        say("A roofline is off by {roofline} in half of them.").format(
            roofline=_percent(overall.roofline_median_abs_error)
        ),
    )


def _worst_table(predictions: Sequence[Prediction], most: int) -> Table:
    rows = [
        (
            str(each.row.line),
            each.row.chip,
            each.row.op,
            latency(each.row.duration_us),
            latency(each.simulated_us or 0.0),
            each.bound,
        )
        for each in worst_rows(predictions, most)
    ]
    columns = ("line", "chip", "operator", "measured", "simulated", "bound by")
    return Table(columns, rows, ("line", "measured", "simulated"))


def _reasons(reasons: Mapping[str, int]) -> Table:
    rows = [(why, count(number)) for why, number in reasons.items()]
    return Table(("reason", "rows"), rows, ("rows",), wide=("reason",))


def scatter_figure(predictions: Sequence[Prediction]) -> Drawn:
    """Measured against simulated time."""
    caption = say("Each point is a row; on the line both are the same.")
    return _page_figure("scatter", scatter, predictions, "Measured against simulated", caption)


def errors_figure(predictions: Sequence[Prediction]) -> Drawn:
    """Error against measured time."""
    caption = say("Above the line the simulator says too long. Beyond 200 % isn't shown.")
    return _page_figure("errors", errors, predictions, "Error over measured time", caption)


def _page_figure(
    name: str, panel: Panel, predictions: Sequence[Prediction], title: str, caption: str
) -> Drawn:
    def paint(drawing: Figure) -> None:
        panel(drawing.add_subplot(), predictions)

    return Drawn(draw(name, paint, height_inches=4.0), title, caption)


def figure_file(predictions: Sequence[Prediction], kind: str) -> bytes:
    """Both figures side by side as an ``svg`` or ``png`` file, the same bytes for the same rows."""

    def paint(drawing: Figure) -> None:
        for axes, panel in zip(drawing.subplots(1, 2), (scatter, errors), strict=True):
            panel(axes, predictions)

    drawing = draw("validation", paint, height_inches=5.0, width_inches=11.0)
    return drawing.file("Measured against simulated", kind)


def _ratio(prediction: Prediction) -> float:
    simulated = prediction.simulated_us or 0.0
    ratio = simulated / prediction.row.duration_us
    return max(ratio, 1 / ratio) if ratio > 0 else float("inf")


def _percent(value: float | None, *, signed: bool = False) -> str:
    if value is None:
        return ""
    return f"{100 * value:+.0f} %" if signed else f"{100 * value:.0f} %"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"

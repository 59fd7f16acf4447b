"""Measured against simulated: tables, rows as CSV, and figures."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure
    from rich.table import Table

    from npusim.validation.replay import Prediction
    from npusim.validation.statistics import Accuracy

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
)


def accuracy_table(title: str, groups: Mapping[str, Accuracy]) -> Table:
    """One line per group: rows, errors, rank, share inside the band, the roofline's error."""
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=None, header_style="bold")
    table.add_column("")
    for name in ("rows", "modelled", "median", "p90", "bias", "rank", "in band", "roofline"):
        table.add_column(name, justify="right")
    for name, each in groups.items():
        table.add_row(
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
    return table


def rows_csv(predictions: Sequence[Prediction]) -> str:
    """Every row with its prediction or the reason why there is none."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(ROW_COLUMNS)
    for each in predictions:
        low, high = each.band_us or (None, None)
        row = each.row
        writer.writerow(
            [
                row.line,
                row.chip,
                row.op,
                row.family,
                _number(row.duration_us),
                _number(each.simulated_us),
                _number(low),
                _number(high),
                _number(each.error),
                _number(each.roofline_us),
                each.bound,
                each.reason,
            ]
        )
    return text.getvalue()


def worst_rows(predictions: Sequence[Prediction], count: int) -> list[Prediction]:
    """The modelled rows that are furthest off, by the ratio of simulated to measured."""
    modelled = [each for each in predictions if each.simulated_us is not None]
    return sorted(modelled, key=_ratio, reverse=True)[:count]


def figure(predictions: Sequence[Prediction]) -> Figure:
    """Measured against simulated (log-log), and error by size."""
    from matplotlib.figure import Figure

    modelled = [each for each in predictions if each.simulated_us is not None]
    chips = sorted({each.row.chip for each in modelled})
    drawing = Figure(figsize=(11, 5), layout="constrained")
    left, right = drawing.subplots(1, 2)
    for chip in chips:
        members = [each for each in modelled if each.row.chip == chip]
        measured = [each.row.duration_us for each in members]
        left.loglog(measured, [each.simulated_us for each in members], ".", ms=3, label=chip)
        right.semilogx(measured, [100 * (each.error or 0.0) for each in members], ".", ms=3)
    if modelled:
        ends = [min(e.row.duration_us for e in modelled), max(e.row.duration_us for e in modelled)]
        left.loglog(ends, ends, "k-", lw=0.8)
        right.axhline(0.0, color="k", lw=0.8)
        left.legend(fontsize=8)
    left.set(xlabel="measured, us", ylabel="simulated, us")
    right.set(xlabel="measured, us", ylabel="error, %", ylim=(-100, 200))
    return drawing


def figure_svg(predictions: Sequence[Prediction]) -> str:
    """The figure as SVG text, the same bytes for the same rows."""
    import matplotlib as mpl

    text = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "npusim"}):
        figure(predictions).savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()


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

"""How results show themselves: times in digits that they are worth, data frames, notebooks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any

from npusim.values.errors import UsageError
from npusim.values.language import say

MILLISECONDS_FROM_US = 1000.0
"""From which on a time is read in milliseconds."""


def significant(value: float, digits: int = 3) -> str:
    """`value` rounded to `digits` significant digits, without an exponent: 1234.5 -> 1,230."""
    if not math.isfinite(value):
        return str(value)
    if value == 0:
        return "0"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    rounded = round(value, decimals)
    # 999.6 becomes 1000 in the line above, and then has one digit fewer behind the point
    decimals = digits - 1 - math.floor(math.log10(abs(rounded)))
    return f"{rounded:,.{max(decimals, 0)}f}"


def latency(duration_us: float, band_us: tuple[float, float] | None = None) -> str:
    """`123 us (105..150)`: a duration and its band without idle digits; from 1,000 us on in ms."""
    scale, unit = (1e3, "ms") if duration_us >= MILLISECONDS_FROM_US else (1.0, "us")
    text = f"{significant(duration_us / scale)} {unit}"
    if band_us is None:
        return text
    low, high = (significant(each / scale) for each in band_us)
    return f"{text} ({low}..{high})"


def part_of(part_us: float, whole_us: float) -> str:
    """`578 of 810 ms`: a part of a time in the unit of the whole, where that leaves it digits."""
    in_ms = whole_us >= MILLISECONDS_FROM_US
    if in_ms and part_us < MILLISECONDS_FROM_US:
        return f"{latency(part_us)} of {latency(whole_us)}"
    part = latency(part_us).rpartition(" ")[0]
    return f"{part} of {latency(whole_us)}"


def frame(rows: Iterable[Mapping[str, Any]]) -> Any:
    """Rows as a pandas DataFrame; UsageError where pandas, which isn't ours, isn't installed."""
    try:
        pandas = import_module("pandas")
    except ImportError:
        raise UsageError(say("a data frame needs pandas"), say("pip install pandas")) from None
    return pandas.DataFrame(list(rows))


def notebook_html(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], most: int = 20
) -> str:
    """A title with a table below, of at most `most` rows, as a notebook shows it."""
    listed = list(rows)
    parts = [f"<b>{_escaped(title)}</b><table><thead>{_row('th', columns)}</thead><tbody>"]
    parts += [_row("td", row) for row in listed[:most]]
    parts.append("</tbody></table>")
    if len(listed) > most:
        parts.append(f"<i>{len(listed) - most:,} more rows</i>")
    return "".join(parts)


class Tabular:
    """A result that is rows, each with the same keys: a DataFrame, and a table in a notebook."""

    def to_frame(self) -> Any:
        """The rows in their order as a pandas DataFrame.

        Raises UsageError where pandas isn't installed.
        """
        return frame(self._rows())

    def _repr_html_(self) -> str:
        rows = self._rows()
        return notebook_html(repr(self)[1:-1], list(rows[0]) if rows else (),
                             [list(row.values()) for row in rows])  # fmt: skip

    def _rows(self) -> Sequence[Mapping[str, Any]]:
        raise NotImplementedError


def _row(tag: str, cells: Iterable[object]) -> str:
    return f"<tr>{''.join(f'<{tag}>{_escaped(cell)}</{tag}>' for cell in cells)}</tr>"


def _escaped(text: object) -> str:
    from html import escape  # which few results are shown with

    return escape(str(text))

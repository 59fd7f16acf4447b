"""How results show themselves in Python: data frames, and a small table in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any

from npusim.values.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def frame(rows: Iterable[Mapping[str, Any]]) -> Any:
    """Rows as a pandas DataFrame; UsageError where pandas, which isn't ours, isn't installed."""
    try:
        pandas = import_module("pandas")
    except ImportError:
        raise UsageError("a data frame needs pandas", "pip install pandas") from None
    return pandas.DataFrame(list(rows))


def notebook_html(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], most: int = 20
) -> str:
    """A title with a table below, of at most `most` rows, as a notebook shows it."""
    listed = list(rows)
    parts = [f"<b>{escape(title)}</b><table><thead>{_row('th', columns)}</thead><tbody>"]
    parts += [_row("td", row) for row in listed[:most]]
    parts.append("</tbody></table>")
    if len(listed) > most:
        parts.append(f"<i>{len(listed) - most:,} more rows</i>")
    return "".join(parts)


def drawn(name: str, *arguments: Any, ax: Axes | None = None) -> Axes:
    """What `npusim.reporting.plots` draws, by the name of its function, as matplotlib's axes.

    Results stand below the room that draws them, so it is looked up where it is used, as the
    plotting backend of pandas is.
    """
    axes: Axes = getattr(import_module("npusim.reporting.plots"), name)(*arguments, ax=ax)
    return axes


def _row(tag: str, cells: Iterable[object]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(str(cell))}</{tag}>' for cell in cells)}</tr>"

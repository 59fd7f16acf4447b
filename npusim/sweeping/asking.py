"""Sweeps from Python: a specification in, the row of every point out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npusim.reporting.sweep import flat_rows, statuses
from npusim.reporting.sweep_figures import figure
from npusim.sweeping.executors import local_crew
from npusim.sweeping.points import expand
from npusim.sweeping.results import ResultFile, read_rows
from npusim.sweeping.running import run
from npusim.sweeping.spec import read_spec, spec_of
from npusim.values.display import frame, notebook_html
from npusim.values.takes import FLAG, LISTENER, PATH, TEXT, WHOLE, each, maybe, path_or, takes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from npusim.sweeping.points import Sweep
    from npusim.sweeping.working import Answered


@dataclass(frozen=True, eq=False)
class SweepResult:
    """The rows of a sweep in the order of its points; `axes` are the variables that were swept.

    A row has the keys of a line in the file of results: ``op``, ``soc``, ``axes``, ``status``
    (``ok``, ``rejected``, ``unknown`` or ``error``), ``duration_us``, ``band_us``, ``bound`` ...
    """

    rows: tuple[Mapping[str, Any], ...]
    axes: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def to_frame(self) -> Any:
        """A row for each point and a column for each variable, as a pandas DataFrame.

        The columns are those of ``npusim sweep --csv``. Raises UsageError without pandas.
        """
        return frame(flat_rows(self.rows, self.axes))

    def plot(self, x: str = "", y: str = "") -> NDArray[np.object_]:
        """Latency in us over a variable, or a heat map over two: matplotlib's axes in an array.

        A row of it for each operator, a column for each product, as ``npusim sweep --plot`` draws.
        """
        from matplotlib import pyplot as plt
        from numpy import array

        drawing = figure(self.rows, self.axes, x=x, y=y, new=plt.figure)
        return array(drawing.get_axes(), dtype=object)

    def __repr__(self) -> str:
        counts = ", ".join(f"{many} {word}" for word, many in statuses(self.rows).items() if many)
        return f"<SweepResult of {len(self.rows):,} points over {', '.join(self.axes)}: {counts}>"

    def _repr_html_(self) -> str:
        columns = ("op", "soc", *self.axes, "status", "duration_us", "bound")
        cells = ([{**row, **row["axes"]}.get(name, "") for name in columns] for row in self.rows)
        return notebook_html(repr(self)[1:-1], columns, cells)


@takes(
    question=path_or(Mapping), products=each(TEXT), l2=maybe(TEXT), exact=maybe(FLAG),
    workers=WHOLE, path=maybe(PATH), resume=FLAG, force=FLAG, progress=maybe(LISTENER),
)  # fmt: skip
def sweep(
    question: str | PathLike[str] | Mapping[str, Any],
    *,
    products: Sequence[str] = (),
    l2: str | None = None,
    exact: bool | None = None,
    workers: int = 1,
    path: str | PathLike[str] | None = None,
    resume: bool = False,
    force: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> SweepResult:
    """Many shapes, dtypes, attributes and products: ``npusim.sweep("sweep.yaml")``.

    `question` is a file or what such a file says; `products`, `l2` and `exact` replace its own.
    `workers` are processes, 0 for one per core: more than one asks for a ``__main__`` guard in
    scripts. With `path` every answer is written there at once, and `resume` continues such a file.
    `progress` hears how many of how many points are answered. Raises FileError for a wrong
    specification, OutputExistsError for a `path` that exists.
    """
    named = isinstance(question, Mapping)
    spec = spec_of(question, "the sweep") if isinstance(question, Mapping) else read_spec(question)
    file = "the sweep" if named else str(question)
    wanted = expand(spec, file, products=products, l2=l2, exact=exact)
    rows: list[dict[str, Any]] = []
    with ExitStack() as stack:
        results = None
        if path is not None:
            results = stack.enter_context(ResultFile(path, resume=resume, force=force))
            if resume:
                rows = list(read_rows(path))
        known = {row["key"] for row in rows}
        todo = [point for point in wanted.points if point.key not in known]
        crew = local_crew(workers, len(todo))
        stack.callback(lambda: crew.close(at_once=len(rows) < len(wanted.points)))

        def take(answered: Answered) -> None:
            if results is not None:
                results.append(answered.line)
            rows.append(json.loads(answered.line))
            if progress is not None:
                progress(len(rows), len(wanted.points))

        run(todo, wanted.chips, crew, take)
        if results is not None:
            results.put_in_order(point.key for point in wanted.points)
    return SweepResult(tuple(rows_of(wanted, rows)), wanted.axes, wanted.notes)


def rows_of(wanted: Sweep, rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of these points in their order; there may be others of an earlier sweep."""
    order = {point.key: point for point in wanted.points}
    found = [row for row in rows if row["key"] in order]
    for row in found:
        point = order[row["key"]]
        row |= {"index": point.index, "axes": dict(point.axes), "soc": point.soc}
    return sorted(found, key=lambda row: row["index"])


def answered_rows(wanted: Sweep, path: str | PathLike[str]) -> list[dict[str, Any]]:
    """The same from a file of results."""
    return rows_of(wanted, read_rows(Path(path)))

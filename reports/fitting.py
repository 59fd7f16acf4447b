"""Constants fitted to the rows of measured tables, every chip counting the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import mean
from typing import TYPE_CHECKING

from npusim.engine import Memo
from npusim.hardware import load_profile
from npusim.validation.fitting import Constant, Fit, capped_error, descend, value_of, with_values
from npusim.validation.replay import simulate_task, start_of
from npusim.values.errors import NpusimError

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from npusim.validation.table import MeasuredRow


def simulations(
    rows: Iterable[MeasuredRow], values: Mapping[str, float], l2: str
) -> Iterator[tuple[MeasuredRow, float]]:
    """Every row that can be modelled with its time in microseconds under changed constants."""
    memo = Memo()
    for row in rows:
        if row.task is None:
            continue
        profile = with_values(load_profile(row.soc), values)
        try:
            yield (
                row,
                simulate_task(
                    profile,
                    row.task,
                    start_of(row, l2),
                    memo,
                    streams=row.streams,
                    amid=row.amid,
                ).duration_us,
            )
        except NpusimError:
            continue


def losses(
    rows: Sequence[MeasuredRow], values: Mapping[str, float], l2: str
) -> list[tuple[str, float]]:
    """Chip and capped absolute log ratio of every row that can be modelled."""
    return [
        (row.soc, capped_error(simulated, row.duration_us))
        for row, simulated in simulations(rows, values, l2)
    ]


def fit(
    rows: Sequence[MeasuredRow],
    constants: Sequence[Constant],
    published: Mapping[str, float] | None = None,
    *,
    l2: str = "in_graph",
    weight: float = 0.002,
    pool: Executor | None = None,
    progress: Callable[[str], None] | None = None,
) -> Fit:
    """Fit ``constants`` to ``rows`` of one microarchitecture.

    The search starts at the ``published`` values and is pulled towards them, by default those of
    the chip of the first row; a constant that is 0 there stays so. ``weight`` prices a spread of
    distance.
    """
    sample = load_profile(rows[0].soc)
    known = {each.key: value_of(sample, each.key) for each in constants} | dict(published or {})

    def loss(trial: Mapping[str, float]) -> float:
        parts = _in_parallel(rows, trial, l2, pool)
        return sum(map(mean, parts.values())) / len(parts)

    return descend(constants, known, loss, rows=len(rows), weight=weight, progress=progress)


def _in_parallel(
    rows: Sequence[MeasuredRow], values: Mapping[str, float], l2: str, pool: Executor | None
) -> dict[str, list[float]]:
    """The losses of every chip's rows."""
    if pool is None:
        shares = [losses(rows, values, l2)]
    else:
        parts = 4
        futures = [pool.submit(losses, rows[start::parts], values, l2) for start in range(parts)]
        shares = [future.result() for future in futures]
    found: dict[str, list[float]] = {}
    for soc, loss in (pair for share in shares for pair in share):
        found.setdefault(soc, []).append(loss)
    return found

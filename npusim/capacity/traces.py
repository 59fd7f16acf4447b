"""Readers of open request traces in the Azure LLM and BurstGPT column formats.

Azure (github.com/Azure/AzurePublicDataset, LLM inference 2023, 2024 and multimodal 2025):
``TIMESTAMP,ContextTokens,GeneratedTokens`` with wall-clock stamps of up to seven decimals, with or
without a time zone.  BurstGPT (github.com/HPMLL/BurstGPT): ``Timestamp,[Session ID,Elapsed time,]
Model,Request tokens,Response tokens,Total tokens,Log Type`` with stamps in seconds; a response of
0 tokens is a request that failed.  Columns are found by name, more of them do no harm, and a name
that ends in ``.gz`` is read through gzip.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from npusim.reading.tables import Table, table_in
from npusim.values.errors import FileError
from npusim.values.language import say

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Progress = Callable[[int, float], None]
    """Called with the rows read so far and the share of the file's bytes that this was."""

PROGRESS_ROWS = 50_000


@dataclass(frozen=True)
class TraceFormat:
    """One trace format: its columns as spelled in the header line, and how its stamps read."""

    name: str
    stamp: str
    input_tokens: str
    output_tokens: str
    stamp_reader: Callable[[], Callable[[str], float]]
    stamp_form: str
    zero_output_is_failure: bool


class TraceRow(NamedTuple):
    """One request: seconds after the first row, and its token counts."""

    offset_s: float
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, eq=False)
class Trace:
    """A whole trace as arrays, ascending in time.

    `resolution_s` is 1 where all stamps are whole seconds, else 0.  `failed` counts the requests
    without output tokens in a format where that means failure.
    """

    name: str
    format: str
    arrival_s: NDArray[np.float64]
    input_tokens: NDArray[np.int32]
    output_tokens: NDArray[np.int32]
    failed: int
    resolution_s: float

    def __len__(self) -> int:
        return len(self.arrival_s)

    @property
    def span_s(self) -> float:
        """Seconds from the first request to the last."""
        return float(self.arrival_s[-1] - self.arrival_s[0])


_CLOCK = re.compile(
    r"(\d{4}-\d\d-\d\d)[ T]([01]\d|2[0-3]):([0-5]\d):([0-5]\d)(?:\.(\d{1,9}))?"
    r"(Z|([+-])(\d\d):([0-5]\d))?",
    re.ASCII,
)
_SECOND = len("2023-11-16 18:15:46")
_EPOCH_S = date(2020, 1, 1).toordinal() * 86400
"""Subtracted from wall clocks: a double holds seven decimals of the seconds since then."""


class _Clock:
    """Reads wall-clock stamps as seconds; remembers the last second, which many rows share."""

    def __init__(self) -> None:
        self._second = ""
        self._zone = ""
        self._second_s = 0

    def __call__(self, text: str) -> float:
        rest = text[_SECOND:]
        if text[:_SECOND] == self._second and rest[:1] == "." and rest.endswith(self._zone):
            fraction = rest[1 : len(rest) - len(self._zone)]
            if fraction.isdecimal() and len(fraction) <= 9:
                return self._second_s + int(fraction) / 10.0 ** len(fraction)
        return self._read(text.strip())

    def _read(self, text: str) -> float:
        match = _CLOCK.fullmatch(text)
        if match is None:
            raise ValueError
        day, hours, minutes, seconds, fraction, zone, sign, zone_hours, zone_minutes = (
            match.groups()
        )
        days_s = date.fromisoformat(day).toordinal() * 86400 - _EPOCH_S
        second_s = days_s + int(hours) * 3600 + int(minutes) * 60 + int(seconds)
        if sign:
            ahead_s = int(zone_hours) * 3600 + int(zone_minutes) * 60
            second_s -= ahead_s if sign == "+" else -ahead_s
        self._second, self._zone, self._second_s = text[:_SECOND], zone or "", second_s
        return second_s + (int(fraction) / 10.0 ** len(fraction) if fraction else 0.0)


def _seconds(text: str) -> float:
    value = float(text)
    if not math.isfinite(value) or value < 0:
        raise ValueError
    return value


def _count(text: str) -> int:
    if not text.isdecimal():
        text = text.strip()
    if text.isdecimal() and len(text) <= 9:
        return int(text)
    raise ValueError


AZURE = TraceFormat(
    "Azure LLM", "TIMESTAMP", "ContextTokens", "GeneratedTokens",
    _Clock, "a time such as 2023-11-16 18:15:46.6805900", zero_output_is_failure=False,
)  # fmt: skip
BURSTGPT = TraceFormat(
    "BurstGPT", "Timestamp", "Request tokens", "Response tokens",
    lambda: _seconds, "seconds, 0 or more", zero_output_is_failure=True,
)  # fmt: skip
FORMATS = (AZURE, BURSTGPT)


def read_trace(
    path: str | PathLike[str],
    *,
    drop_failed: bool = False,
    max_rows: int | None = None,
    progress: Progress | None = None,
) -> Trace:
    """Read a trace into arrays, 16 bytes a row; rows that are out of order get sorted.

    Failed requests were load too and stay, unless `drop_failed`.  `FileError` names file and line
    of the first malformed row, and a trace without rows.
    """
    arrival_s, input_tokens, output_tokens = array("d"), array("i"), array("i")
    failed = 0
    with table_in(path) as table:
        layout = _Layout.of(path, table)
        marks_failure = layout.format.zero_output_is_failure
        for row in _rows(path, table, layout, progress):
            if marks_failure and not row.output_tokens:
                failed += 1
                if drop_failed:
                    continue
            arrival_s.append(row.offset_s)
            input_tokens.append(row.input_tokens)
            output_tokens.append(row.output_tokens)
            if max_rows is not None and len(arrival_s) >= max_rows:
                break
    if not arrival_s:
        remedy = say("Every row failed; keep them with drop_failed: false.") if failed else ""
        raise FileError(path, say("the trace has no requests"), remedy)
    times = np.frombuffer(arrival_s)
    order = np.argsort(times, kind="stable") if (np.diff(times) < 0).any() else slice(None)
    return Trace(
        Path(path).name,
        layout.format.name,
        times[order],
        np.frombuffer(input_tokens, np.int32)[order],
        np.frombuffer(output_tokens, np.int32)[order],
        failed,
        resolution_s=1.0 if (times == np.floor(times)).all() else 0.0,
    )


def iter_trace(path: str | PathLike[str], progress: Progress | None = None) -> Iterator[TraceRow]:
    """Yield the rows of a trace in file order with constant memory; errors as `read_trace`."""
    with table_in(path) as table:
        yield from _rows(path, table, _Layout.of(path, table), progress)


@dataclass(frozen=True)
class _Layout:
    """Which columns of this file are which, and how many a row has."""

    format: TraceFormat
    stamp: int
    input_tokens: int
    output_tokens: int
    width: int

    @classmethod
    def of(cls, path: str | PathLike[str], table: Table) -> _Layout:
        header = [name.strip() for name in table.header]
        for known in FORMATS:
            columns = (known.stamp, known.input_tokens, known.output_tokens)
            if all(column in header for column in columns):
                stamp, inputs, outputs = map(header.index, columns)
                return cls(known, stamp, inputs, outputs, len(header))
        if not header:
            raise FileError(path, say("the trace is empty"))
        expected = " or ".join(
            f"{f.stamp},{f.input_tokens},{f.output_tokens} ({f.name})" for f in FORMATS
        )
        raise FileError(
            path,
            say("line 1: no trace header: {header}").format(header=",".join(header)[:80]),
            say("Expected columns {expected}.").format(expected=expected),
        )

    def malformed(self, path: str | PathLike[str], line: int, fields: list[str]) -> FileError:
        """What is wrong with a row: its number of fields, or the first field that can't be read."""
        known = self.format
        if len(fields) != self.width:
            return FileError(
                path,
                say("line {line}: {count} fields instead of {width}").format(
                    line=line, count=len(fields), width=self.width
                ),
            )
        whole = say("a whole number, 0 or more")
        for column, name, read, form in (
            (self.stamp, known.stamp, known.stamp_reader(), known.stamp_form),
            (self.input_tokens, known.input_tokens, _count, whole),
            (self.output_tokens, known.output_tokens, _count, whole),
        ):
            try:
                read(fields[column])
            except ValueError:
                problem = say("line {line}: {name} is {fields!r}").format(
                    line=line, name=name, fields=fields[column]
                )
                return FileError(path, problem, say("Expected {form}.").format(form=say(form)))
        return FileError(path, say("line {line} can't be read").format(line=line))


def _rows(
    path: str | PathLike[str], table: Table, layout: _Layout, progress: Progress | None
) -> Iterator[TraceRow]:
    read_stamp = layout.format.stamp_reader()
    stamp, inputs, outputs = layout.stamp, layout.input_tokens, layout.output_tokens
    first_s: float | None = None
    rows = 0
    for line, fields in table:
        try:
            at_s = read_stamp(fields[stamp])
            tokens_in, tokens_out = _count(fields[inputs]), _count(fields[outputs])
        except ValueError:
            raise layout.malformed(path, line, fields) from None
        if len(fields) != layout.width:
            raise layout.malformed(path, line, fields)
        if first_s is None:
            first_s = at_s
        rows += 1
        if progress is not None and rows % PROGRESS_ROWS == 0:
            progress(rows, table.lines.share())
        yield TraceRow(at_s - first_s, tokens_in, tokens_out)
    if progress is not None:
        progress(rows, 1.0)

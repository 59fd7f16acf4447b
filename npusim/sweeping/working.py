"""What a worker process does: it answers a chunk of points with finished lines of JSON."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import npusim
from npusim.engine import Memo, process_memo
from npusim.hardware.naming import load_profile
from npusim.hardware.profile import Profile
from npusim.reporting.renderers import jsonout
from npusim.runtime.device import Device
from npusim.sweeping.points import Point, content_hash
from npusim.values.errors import (
    AclnnError,
    NotModelledError,
    NpusimError,
    RejectedError,
    UsageError,
)
from npusim.values.locks import lock

if TYPE_CHECKING:
    from npusim.runtime.results import Result

OK: Final = "ok"
REJECTED: Final = "rejected"
UNKNOWN: Final = "unknown"
ERROR: Final = "error"

# A Dask worker runs several tasks at once in threads, which gains nothing here: it is all Python.
_one_at_a_time: Final = lock()
# Whether a chunk is under way, and who may say so or act on it.
_under_way: Final[set[str]] = set()
_changing: Final = lock()
_HANDING_OVER_S: Final = 2.0
# Operators and chips that this process has seen a refusal of.
_rejected: Final[set[tuple[str, str]]] = set()


@dataclass(frozen=True)
class Chunk:
    """Points to answer one after the other, and their chips by hash.

    A chip that the package brings along is given by its name, a user's own as a whole profile:
    the worker may run on another machine.
    """

    version: str
    chips: Mapping[str, str | Profile]
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Answered:
    """A point's key, how it went, and its line in the file of results."""

    key: str
    status: str
    line: bytes


@dataclass(frozen=True)
class Report:
    """What became of a chunk, and how long it took."""

    answers: tuple[Answered, ...]
    seconds: float


def work(chunk: Chunk) -> Report:
    """Answer every point of a chunk; a point that fails is an answer too.

    Raises RejectedError where this process runs another npusim than the one that asks.
    """
    with _one_at_a_time, _busy("a chunk"):
        start = time.perf_counter()
        _refuse_other_version(chunk.version)
        answers: dict[int, Answered] = {}
        for place, point in sorted(enumerate(chunk.points), key=_is_likely_rejected):
            answers[place] = found = answer(point, _chip(point, chunk), process_memo())
            if found.status == REJECTED:
                _rejected.add((point.op, point.chip))
        process_memo().flush()  # a worker may end without further notice
        in_order = tuple(answers[place] for place in range(len(chunk.points)))
        return Report(in_order, time.perf_counter() - start)


@contextmanager
def _busy(what: str) -> Iterator[None]:
    with _changing:
        _under_way.add(what)
    try:
        yield
    finally:
        with _changing:
            _under_way.clear()


def end_process() -> None:
    """End this process in the middle of a chunk, the next one if there is none.

    Not while it hands over a report: whoever has read half of that waits for the rest. Nobody may
    be there to read or to give it another chunk, so there is an end to that, too.
    """
    deadline = time.monotonic() + _HANDING_OVER_S
    while time.monotonic() < deadline:
        with _changing:
            if _under_way:
                os._exit(1)
        time.sleep(0.01)
    os._exit(1)


def _is_likely_rejected(numbered: tuple[int, Point]) -> bool:
    """Such points come last: what ran on other chips by then is a remedy that is known."""
    _, point = numbered
    return (point.op, point.chip) in _rejected


def answer(point: Point, chip: Profile, memo: Memo | None = None) -> Answered:
    """Simulate one point; whatever goes wrong becomes its row."""
    if point.problem:
        return failed(point, "ArgumentError", point.problem, wrong_usage=True)
    device = Device(chip, exact=point.exact, l2=point.l2, memo=memo)
    assume = point.assume or None
    try:
        result = device.estimate(point.op, assume=assume, **point.arguments)
    except NotModelledError as problem:
        return _line(point, UNKNOWN, None, _said(problem))
    except AclnnError as rejection:
        return _line(point, REJECTED, rejection.code, _said(rejection))
    except RejectedError as rejection:
        return _line(point, REJECTED, None, _said(rejection), kind=type(rejection).__name__)
    except NpusimError as problem:
        usage = isinstance(problem, UsageError)
        return failed(point, type(problem).__name__, _said(problem), wrong_usage=usage)
    except Exception as problem:  # noqa: BLE001 - the other points must not suffer from it
        return failed(point, type(problem).__name__, f"internal error: {problem}")
    return _line(point, OK, 0, "", answered=_described(result))


def failed(point: Point, kind: str, message: str, *, wrong_usage: bool = False) -> Answered:
    """The row of a point that has no answer at all, because it is asked wrongly or otherwise."""
    told = {"wrong_usage": True} if wrong_usage else {}
    return _line(point, ERROR, None, message, kind=kind, answered=told)


def _line(
    point: Point,
    status: str,
    code: int | None,
    message: str,
    *,
    kind: str = "",
    answered: Mapping[str, Any] | None = None,
) -> Answered:
    row = jsonout.fields(point, "key index op soc axes arguments")
    row |= {"status": status, "code": code}
    if message:
        row["error"] = f"{kind}: {message}" if kind else message
    text = json.dumps(jsonout.plain({**row, **(answered or {})}), allow_nan=False)
    return Answered(point.key, status, text.encode() + b"\n")


def _described(result: Result) -> dict[str, Any]:
    longest = max(result.tasks, key=lambda task: task.duration_us, default=None)
    return {
        **jsonout.fields(result, "duration_us band_us cycles bound pipes"),
        "block_dim": longest.block_dim if longest else 0,
        "tasks": [jsonout.fields(task, "name block_dim duration_us") for task in result.tasks],
        "bytes_read": sum(task.bytes_read for task in result.tasks),
        "bytes_written": sum(task.bytes_written for task in result.tasks),
        "hbm_bytes": sum(task.hbm_bytes for task in result.tasks),
        **jsonout.fields(result, "jumped_ratio assumptions"),
    }


def _said(problem: NpusimError) -> str:
    """The message and what to do about it, on one line."""
    return " ".join(str(problem).split())


def _chip(point: Point, chunk: Chunk) -> Profile:
    given = chunk.chips[point.chip]
    if isinstance(given, Profile):
        return given
    return _built_in(given, point.chip)


@cache
def _built_in(name: str, wanted: str) -> Profile:
    profile = load_profile(name)
    if content_hash(profile) != wanted:
        raise RejectedError(
            f"a worker's profile of {name} isn't that of this process",
            "Install the same npusim on every worker.",
        )
    return profile


def _refuse_other_version(version: str) -> None:
    if version != npusim.__version__:
        raise RejectedError(
            f"a worker runs npusim {npusim.__version__}, this process {version}",
            "Install the same npusim on every worker.",
        )

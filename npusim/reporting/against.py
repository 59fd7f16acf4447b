"""A page against what was estimated before: what got faster or slower, and why.

Both sides are what ``--json`` prints, so that a file and the answers of now are read by one reader.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import BaseModel, Field, ValidationError, model_validator

from npusim.reading.files import read_text
from npusim.reading.markup import json_value
from npusim.reporting.document import Block, Section, Table, Text, Toned, Verdict
from npusim.reporting.spelling import latency, significant
from npusim.values.errors import ArgumentError, FileError
from npusim.values.language import say

if TYPE_CHECKING:
    from npusim.reporting.document import Page, Tone

_REMEDY: Final = "Keep one with `npusim estimate ... --json > OLD.json`, or `npusim model ...`."
_SHOWN: Final = 15  # rows of a table of changes
_UNSEEN: Final = 0.05  # percent
_SAME: Final = 0.005  # a change below it is none in three digits

_Microseconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Task(BaseModel):
    name: str = Field(description="kernel")
    duration_us: _Microseconds = Field(description="time, microseconds")
    launch_us: _Microseconds | None = Field(
        None, description="part of it that is the launch; none in files of older versions"
    )
    pipes: dict[str, _Microseconds] = Field({}, description="pipe -> microseconds that it is busy")


class _Operator(BaseModel):
    op: str = Field(description="operator")
    tensors: str = Field(description="its tensors")
    total_us: _Microseconds = Field(description="time of all its calls, microseconds")


class _Answer(BaseModel):
    @model_validator(mode="before")
    @classmethod
    def _from_step(cls, told: Any) -> Any:
        """A step of a language model, which says its time in ms, as any other model."""
        if isinstance(told, dict) and isinstance(told.get("step_ms"), int | float):
            band_us = [1e3 * each for each in told.get("band_ms", ())]
            return {**told, "duration_us": 1e3 * told["step_ms"], "band_us": band_us, "batch": None}
        return told

    soc: str = Field(description="chip")
    batch: int | None = Field(None, description="batch of a model")
    duration_us: _Microseconds | None = Field(None, description="time, microseconds")
    band_us: tuple[_Microseconds, _Microseconds] = Field(
        (0.0, 0.0), description="its band, microseconds"
    )
    tasks: list[dict[str, Any]] = Field([], description="kernels of a call")
    operators: list[_Operator] | None = Field(None, description="operators of a model")

    @cached_property
    def parts(self) -> Mapping[str, _Task]:
        """Tasks of a call, or operators of a model, by names that are each one's own."""
        if self.operators is not None:
            found = [
                _Task(name=f"{each.op} {each.tensors}".strip(), duration_us=each.total_us)
                for each in self.operators
            ]
        else:
            found = [_Task.model_validate(each) for each in self.tasks]
        seen: Counter[str] = Counter()
        named = {}
        for each in found:
            seen[each.name] += 1
            times = seen[each.name]
            named[each.name if times == 1 else f"{each.name} ({times})"] = each
        return named


class _Told(BaseModel):
    op: str | None = Field(None, description="operator of a call")
    arguments: dict[str, Any] | None = Field(
        None,
        description="arguments of a call; none where nobody says them, as of results in Python",
    )
    answers: Annotated[list[_Answer], Field(min_length=1)] = Field(
        description="one for each chip and batch"
    )


@dataclass(frozen=True)
class Estimates:
    """What one ``--json`` of a call or a model says."""

    name: str
    told: _Told

    @property
    def is_model(self) -> bool:
        """Whether the answers are of a model, with operators instead of tasks."""
        return any(each.operators is not None for each in self.told.answers)


def estimates_of(told: Any, name: str = "now") -> Estimates:
    """What `told`, decoded JSON, says; FileError where it isn't of `estimate` or `model`."""
    try:
        found = _Told.model_validate(told)
        for each in found.answers:
            _ = each.parts
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the whole"
        wrong = first["msg"].partition(" or instance of")[0]
        problem = say("isn't what estimate or model print with --json: {place}: {wrong}").format(
            place=place, wrong=wrong
        )
        raise FileError(name, problem, _REMEDY) from None
    return Estimates(Path(name).name, found)


def read_estimates(path: Path, *, of_model: bool) -> Estimates:
    """What a file says that ``--json`` was printed to; FileError for any other.

    `of_model` says whether it has to be one of `model` or one of `estimate`.
    """
    return comparable(
        estimates_of(json_value(read_text(path, _REMEDY), path), str(path)), path, of_model=of_model
    )


def comparable(found: Estimates, path: Path, *, of_model: bool) -> Estimates:
    """The same, if they have a time and are of the same kind as the page; else FileError."""
    if not _timed(found):
        raise FileError(path, say("has no time: all of its answers are refusals"), _REMEDY)
    if found.is_model != of_model:
        kinds = ("of a model", "of a call") if found.is_model else ("of a call", "of a model")
        raise FileError(
            path,
            say("is {kinds}, and the page is {expected}").format(kinds=kinds[0], expected=kinds[1]),
            _REMEDY,
        )
    return found


def against(page: Page, before: Estimates, told: Mapping[str, Any]) -> Page:
    """The page with a section, its first, on what changed since `before`.

    `told` is what ``--json`` prints of the answers on the page. The first chip that has a time on
    both sides is looked at in detail, fastest first. Raises ArgumentError where there is none.
    """
    now = estimates_of(told)
    title = say("Against {before}").format(before=before.name)
    if not _timed(now):
        section = Section(title, [Text(each) for each in _differences(before, now)])
        return replace(page, sections=[section, *page.sections])
    pairs = list(_pairs(before, now))
    if not pairs:
        old, new = (", ".join(each.soc for each in _timed(side)) for side in (before, now))
        raise ArgumentError(
            say("{before} has times of {old}, the page has of {new}").format(
                before=before.name, old=old, new=new
            ),
            say("Ask for a chip that both have with -s."),
        )
    pair = min(pairs, key=lambda each: each.now_us)
    section = Section(title, list(_blocks(before, now, pairs, pair)))
    return replace(
        page,
        verdicts=[*page.verdicts, Verdict(f"{title}: {pair.sentence}", pair.tone)],
        sections=[section, *page.sections],
    )


@dataclass(frozen=True)
class _Pair:
    """One chip before and now."""

    before: _Answer
    now: _Answer

    @property
    def before_us(self) -> float:
        return self.before.duration_us or 0.0

    @property
    def now_us(self) -> float:
        return self.now.duration_us or 0.0

    @property
    def beyond_band(self) -> bool:
        """Whether each of the times lies outside of the other's band."""
        return not (
            _within(self.now_us, self.before.band_us) or _within(self.before_us, self.now.band_us)
        )

    @property
    def same(self) -> bool:
        return abs(self.now_us - self.before_us) <= _SAME * max(self.before_us, self.now_us)

    @property
    def tone(self) -> Tone:
        """Neither good nor bad as long as the bands don't tell the times apart."""
        if self.same or not self.beyond_band:
            return "open"
        return "good" if self.now_us < self.before_us else "bad"

    @property
    def sentence(self) -> str:
        """What changed and why, in one sentence."""
        if self.same:
            return say("as fast as before on {soc}.").format(soc=self.now.soc)
        faster = self.now_us < self.before_us
        slow, fast = max(self.now_us, self.before_us), min(self.now_us, self.before_us)
        times = significant(slow / fast, 3 if slow < 1.1 * fast else 2) if fast else "many"
        how = say("{times} times as {value} on {soc}").format(
            times=times, value="fast" if faster else "long", soc=self.now.soc
        )
        return f"{how}: {self._cause(-1 if faster else 1)}."

    def _cause(self, sign: int) -> str:
        """What changed most in the direction in which the whole did."""
        works: dict[str, float] = {}
        for (_, pipe), (old, new) in self.pipe_times.items():
            works[pipe] = works.get(pipe, 0.0) + new - old
        less = "less" if sign < 0 else "more"
        causes = [
            (
                change,
                say("the {unit} pipe works {change} {less}").format(
                    unit=_unit(pipe), change=latency(abs(change)), less=less
                ),
            )
            for pipe, change in works.items()
        ]
        for name, (before, now) in self.part_times.items():
            if before is None or now is None:
                verb = "there is no longer" if now is None else "there is newly"
                change = (now or 0.0) - (before or 0.0)
                causes.append(
                    (
                        change,
                        say("{verb} {name} with its {change}").format(
                            verb=verb, name=name, change=latency(abs(change))
                        ),
                    )
                )
            elif not works:
                causes.append(
                    (
                        now - before,
                        say("{name} takes {now} {less}").format(
                            name=name, now=latency(abs(now - before)), less=less
                        ),
                    )
                )
        change, cause = max(causes, key=lambda each: each[0] * sign, default=(0.0, ""))
        if change * sign <= 0:
            return say("launches and waits changed, not the work of pipes")
        return cause

    @cached_property
    def part_times(self) -> Mapping[str, tuple[float | None, float | None]]:
        """Microseconds before and now of tasks or operators; None where there is none."""
        old, new = self.before.parts, self.now.parts
        return {
            name: (
                old[name].duration_us if name in old else None,
                new[name].duration_us if name in new else None,
            )
            for name in dict.fromkeys([*old, *new])
        }

    @cached_property
    def pipe_times(self) -> Mapping[tuple[str, ...], tuple[float, float]]:
        """Microseconds before and now that pipes work, in tasks that there are on both sides."""
        times: dict[tuple[str, ...], tuple[float, float]] = {}
        for name, now in self.now.parts.items():
            if (before := self.before.parts.get(name)) is None:
                continue
            launch = now.launch_us or 0.0
            for pipe in dict.fromkeys([*before.pipes, *now.pipes]):
                times[name, pipe] = (_busy(before, pipe, launch), _busy(now, pipe, launch))
        return times


def _busy(task: _Task, pipe: str, launch_us: float) -> float:
    """Busy shares are of the time after the launch, by default the other side's."""
    launch = launch_us if task.launch_us is None else task.launch_us
    return task.pipes.get(pipe, 0.0) * max(task.duration_us - launch, 0.0)


def _unit(pipe: str) -> str:
    return pipe.lower() if pipe in {"VECTOR", "CUBE", "SCALAR"} else pipe


def _within(time: float, band: tuple[float, float]) -> bool:
    return band[0] <= time <= band[1]


def _timed(side: Estimates) -> list[_Answer]:
    return [each for each in side.told.answers if each.duration_us is not None]


def _pairs(before: Estimates, now: Estimates) -> Iterator[_Pair]:
    """Chips with a time on both sides; of several batches the one on the page."""
    for new in _timed(now):
        alike = [old for old in _timed(before) if (old.soc, old.batch) == (new.soc, new.batch)]
        if alike:
            yield _Pair(alike[0], new)


def _blocks(
    before: Estimates, now: Estimates, pairs: Sequence[_Pair], pair: _Pair
) -> Iterator[Block]:
    yield Text(f"{pair.sentence[:1].upper()}{pair.sentence[1:]}")
    yield from map(Text, _differences(before, now))
    columns = ("SoC", "before (80 % band)", "now (80 % band)", "change", "larger than the band")
    rows = [
        (
            each.now.soc,
            latency(each.before_us, each.before.band_us),
            latency(each.now_us, each.now.band_us),
            Toned(change_in_words(each.before_us, each.now_us), each.tone),
            "yes" if each.beyond_band else "no",
        )
        for each in pairs
    ]
    caption = say(
        "A change is larger than the band where each time lies outside of the other's band"
    )
    yield Table(columns, rows, columns[1:4], caption)
    what = "operator" if now.is_model else "task"
    yield from _changes((what,), {(name,): times for name, times in pair.part_times.items()})
    yield from _changes(("task", "pipe"), pair.pipe_times)


def _differences(before: Estimates, now: Estimates) -> Iterator[str]:
    """What else isn't as it was: the call, and which chips have an answer."""
    old, new = before.told, now.told
    if old.op != new.op:
        yield say("{before} is of {op}, the page is of {page_op}.").format(
            before=before.name, op=old.op, page_op=new.op
        )
    if old.arguments is not None and new.arguments is not None:
        names = dict.fromkeys([*old.arguments, *new.arguments])
        other = [name for name in names if old.arguments.get(name) != new.arguments.get(name)]
        if other:
            yield say("Other arguments than before: {other}.").format(other=", ".join(other))
    socs = [[each.soc for each in _timed(side)] for side in (before, now)]
    for where, here, there in (
        (say("in {before}").format(before=before.name), *socs),
        ("now", *reversed(socs)),
    ):
        lone = [soc for soc in dict.fromkeys(here) if soc not in there]
        if lone:
            yield say("With a time only {where}: {lone}.").format(where=where, lone=", ".join(lone))


def _changes(
    columns: tuple[str, ...],
    times: Mapping[tuple[str, ...], tuple[float | None, float | None]]
    | Mapping[tuple[str, ...], tuple[float, float]],
) -> Iterator[Table]:
    """The largest changes first; none where nothing changed."""
    changed = [
        (abs((now or 0.0) - (before or 0.0)), key, before, now)
        for key, (before, now) in times.items()
        if before != now
    ]
    changed.sort(key=lambda each: (-each[0], each[1]))
    if not changed:
        return
    rows = [
        (
            *key,
            "" if before is None else latency(before),
            "" if now is None else latency(now),
            "new"
            if before is None
            else "no longer there"
            if now is None
            else change_in_words(before, now),
        )
        for _, key, before, now in changed[:_SHOWN]
    ]
    total = (
        say(": the first {shown} of {changed}").format(shown=_SHOWN, changed=len(changed))
        if len(changed) > _SHOWN
        else ""
    )
    worked = (
        say("Time that pipes work, on average of their cores")
        if "pipe" in columns
        else say("Time by {columns}").format(columns=columns[0])
    )
    numbers = ("before", "now", "change")
    caption = f"{worked}{total}"
    yield Table((*columns, *numbers), rows, numbers, caption, columns[:1])


def change_in_words(before: float, now: float) -> str:
    """`-12 %`, signed; of nothing there is no share."""
    if before <= 0:
        return "" if now <= 0 else "new"
    share = (now - before) / before * 100
    if abs(share) < _UNSEEN:
        return "0 %"
    return f"{'+' if share > 0 else ''}{significant(share, 2)} %"

"""Putting one question to one or more chips, and presenting what they answer."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from npusim.cli import output
from npusim.values.errors import AclnnError, ArgumentError, RejectedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from npusim.hardware.profile import Profile
    from npusim.operators.contract import Contract
    from npusim.report.answers import Answer
    from npusim.runtime.device import Device
    from npusim.runtime.results import Result

ALL = "all"


@dataclass(frozen=True)
class Chip:
    """A chip that was asked for: its profile, and the name or path that it was loaded by."""

    profile: Profile
    address: str
    exact: bool = False
    l2: str = "cold"

    @property
    def name(self) -> str:
        """The SoC name, e.g. Ascend910B3."""
        return self.profile.name

    def device(self) -> Device:
        """The simulated device of this chip."""
        from npusim.runtime.device import Device

        return Device(self.profile, exact=self.exact, l2=self.l2)


def chips(wanted: Sequence[str] | None, *, exact: bool = False, l2: str = "cold") -> list[Chip]:
    """The chips that the -s options name, each once; notes about a name go to standard error.

    `exact` and `l2` are how their devices will play.

    Raises UsageError when none is named, UnknownNameError for a name nobody knows.
    """
    if not wanted:
        raise UsageError(
            "which chip? no -s/--soc-version is given",
            "Add e.g. -s Ascend910B3, or -s all to compare; `npusim profiles` lists them.",
        )
    found: dict[str, Chip] = {}
    for text in (part.strip() for word in wanted for part in word.split(",")):
        for chip in every_chip() if text.lower() == ALL else [_chip(text)]:
            found.setdefault(chip.address, replace(chip, exact=exact, l2=l2))
    return list(found.values())


def one_chip(wanted: Sequence[str] | None, why: str) -> Chip:
    """The chip that the -s options name; ArgumentError, which says `why`, if they name several."""
    found = chips(wanted)
    if len(found) != 1:
        raise ArgumentError(why, "Name exactly one chip.")
    return found[0]


def every_chip() -> list[Chip]:
    """All built-in chips, by generation and then by name."""
    from npusim.hardware.families import FAMILIES
    from npusim.hardware.loading import load_profile, profile_names

    every = [Chip(load_profile(name), name) for name in profile_names()]
    return sorted(every, key=lambda chip: (FAMILIES.index(chip.profile.family), chip.name))


def chip_per_family(families: Iterable[str]) -> list[Chip]:
    """For each of the families that we have a chip of, the one that its products are taken for."""
    from npusim.hardware.products import product_lines

    known: dict[str, str] = {}
    for line in product_lines():
        known.setdefault(line.family, line.soc)
    return [_chip(known[family]) for family in families if family in known]


def _chip(text: str) -> Chip:
    from npusim.hardware.loading import load_profile
    from npusim.hardware.naming import resolve_soc

    if Path(text).suffix.lower() in (".yaml", ".yml"):
        return Chip(load_profile(text), text)
    resolution = resolve_soc(text)
    if resolution.note:
        output.note(resolution.note)
    return Chip(load_profile(resolution.name), resolution.name)


def contract_of(name: str) -> Contract:
    """The contract of an operator, by its name with or without `aclnn`."""
    from npusim.operators.registry import operator

    return operator(name)


def call_of(name: str, words: Sequence[str]) -> Contract:
    """The contract of a call, which may be of a standard operator: lists are as long as given."""
    from npusim.operators.standard import resolve

    given = (word.partition("=") for word in words)
    return resolve(name, {each.strip(): text.strip() for each, _, text in given})


def ask(chip: Chip, question: Callable[[Device], Result]) -> Answer:
    """The answer of one chip; a rejection is an answer, wrong usage is not."""
    from npusim.report.answers import Answer
    from npusim.values.status import SUCCESS

    line = chip.profile.product_line
    try:
        res = question(chip.device())
    except AclnnError as rejection:
        return Answer(chip.name, line, status=rejection.status)
    except RejectedError as problem:
        return Answer(chip.name, line, error=problem)
    return Answer(chip.name, line, status=SUCCESS, result=res)


@contextmanager
def progress_over(asked: Sequence[Chip]) -> Iterator[Callable[[Chip], None]]:
    """A function that says which chip is being simulated; silent for a single one."""

    def say(chip: Chip) -> None:
        if len(asked) > 1:
            output.progress(f"{chip.name} ({asked.index(chip) + 1}/{len(asked)})")

    try:
        yield say
    finally:
        output.progress("")


def ask_all(asked: Sequence[Chip], question: Callable[[Device], Result]) -> list[Answer]:
    """The answers of all chips, in order."""
    answers = []
    with progress_over(asked) as say:
        for chip in asked:
            say(chip)
            answers.append(ask(chip, question))
    return answers


def document(
    contract: Contract, arguments: dict[str, Any], answers: Sequence[Answer]
) -> dict[str, Any]:
    """The question and its answers as one JSON object, the same for one chip and for many."""
    return {
        "op": contract.name,
        "arguments": {name: describe(value) for name, value in arguments.items()},
        "answers": [answer.as_json() for answer in answers],
    }


def describe(value: Any) -> Any:
    """An argument without its data: tensors as dtype, shape and format."""
    from npusim.report import jsonout
    from npusim.values.tensors import TensorSpec

    if isinstance(value, TensorSpec):
        return jsonout.spec(value)
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return jsonout.spec(TensorSpec.of(value))
    return value


def refuse_if_rejected(answer: Answer) -> None:
    """Raise what a single chip has refused, so that it becomes an error message."""
    if answer.error is not None:
        raise answer.error
    if answer.status is not None and not answer.status.ok:
        raise AclnnError(answer.status)


def finish(answers: Sequence[Answer]) -> None:
    """Exit 1 unless at least one of the chips says yes."""
    if not any(answer.ok for answer in answers):
        raise typer.Exit(1)

"""The chips that -s names: with profiles to simulate on, or as columns of the catalogue."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from npusim.cli import output
from npusim.values.errors import ArgumentError, UnknownNameError, UsageError
from npusim.values.language import say
from npusim.values.spelling import is_profile_path, names_in

if TYPE_CHECKING:
    from pathlib import Path

    from npusim.catalogue.families import Place
    from npusim.hardware.profile import Profile
    from npusim.model.step import Step
    from npusim.runtime.device import Device


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
    found: dict[str, Chip] = {}
    for name in names(wanted, _every_name):
        chip = _chip(name)
        found.setdefault(chip.address, replace(chip, exact=exact, l2=l2))
    return list(found.values())


def one_chip(wanted: Sequence[str] | None, why: str) -> Chip:
    """The chip that the -s options name; ArgumentError, which says `why`, if they name several."""
    found = chips(wanted)
    if len(found) != 1:
        raise ArgumentError(why, say("Name exactly one chip."))
    return found[0]


def measured_on(wanted: Sequence[str] | None, file: Path, step: str, device_id: str) -> Chip:
    """The chip that a profile was measured on: the one that -s names, or that the file tells.

    Raises UsageError when neither names one, ArgumentError when -s names several.
    """
    if wanted:
        return one_chip(wanted, say("a file is measured on one chip"))
    from npusim.model.profile_table import read_profile

    profiled = read_profile(file, step, device_id).profiled
    told = () if profiled is None else profiled.chip.fitting
    if profiled is None or len(told) != 1:
        remedy = say("Add e.g. -s Ascend910B3; `npusim profiles` lists them.")
        if profiled is not None and profiled.chip.is_told:
            found = profiled.chip
            remedy = say("The file is of a chip with {in_words}. {remedy}").format(
                in_words=found.in_words, remedy=found.remedy()
            )
        raise UsageError(say("which chip? no -s/--soc-version is given"), remedy)
    output.note(
        say("the file is of {told}: {in_words}").format(
            told=told[0], in_words=profiled.chip.in_words
        )
    )
    return one_chip(told, say("a file is measured on one chip"))


def doubts(step: Step, profile: Profile, option: str = "-s") -> None:
    """Say on standard error which rows of a profile are left out, and whether it is of this chip.

    `option` is the one that names the chip.
    """
    from npusim.model.profile_table import what_it_lacks
    from npusim.reporting.profiled import doubt

    lines = () if step.profiled is None else step.profiled.skipped_lines
    for text in what_it_lacks(lines, level_0=False):
        output.note(text)
    if text := doubt(step, profile, option):
        output.note(say("warning: {text}").format(text=text))


def places(wanted: Sequence[str] | None) -> list[Place]:
    """The columns of the catalogue that -s names, each once; `all` is every product family."""
    from npusim.catalogue.families import Place, place_of
    from npusim.hardware.families import FAMILIES
    from npusim.hardware.naming import load_profile

    found: dict[Place, None] = {}
    for name in names(wanted, lambda: FAMILIES):
        if is_profile_path(name):
            profile = load_profile(name)
            found[Place(profile.family, profile.name, profile=profile)] = None
            continue
        place = place_of(name)
        if place.note:
            output.note(place.note)
        found[place] = None
    return list(found)


def chips_or_places(wanted: Sequence[str] | None) -> list[Chip | Place]:
    """The chips that -s names; a product that can't be simulated is a column of the catalogue."""
    from npusim.catalogue.families import place_of

    found: dict[str, Chip | Place] = {}
    for name in names(wanted, _every_name):
        try:
            chip = _chip(name)
            found.setdefault(chip.address, chip)
        except UnknownNameError:
            found.setdefault(name, place_of(name))
    return list(found.values())


def names(
    wanted: Sequence[str] | None, every: Callable[[], Iterable[str]], what: str = "chip"
) -> list[str]:
    """The names of the -s options, what `every` gives for `all`; UsageError when there are none."""
    if not wanted:
        raise UsageError(
            say("which {what}? no -s/--soc-version is given").format(what=what),
            say("Add e.g. -s Ascend910B3, or -s all to compare; `npusim profiles` lists them."),
        )
    return names_in(wanted, every)


def every_chip() -> list[Chip]:
    """All built-in chips, by generation and then by name."""
    from npusim.hardware.families import FAMILIES
    from npusim.hardware.loading import profile_names
    from npusim.hardware.naming import load_profile

    every = [Chip(load_profile(name), name) for name in profile_names()]
    return sorted(every, key=lambda chip: (FAMILIES.index(chip.profile.family), chip.name))


def _every_name() -> list[str]:
    return [chip.address for chip in every_chip()]


def chip_per_family(families: Iterable[str]) -> list[Chip]:
    """For each of the families that we have a chip of, the one that its products are taken for."""
    from npusim.hardware.products import product_lines

    known: dict[str, str] = {}
    for line in product_lines():
        known.setdefault(line.family, line.soc)
    return [_chip(known[family]) for family in families if family in known]


@contextmanager
def progress_over(asked: Sequence[Chip]) -> Iterator[Callable[[Chip], None]]:
    """A function that says which chip is being simulated; silent for a single one."""

    def tell(chip: Chip) -> None:
        if len(asked) > 1:
            output.progress(f"{chip.name} ({asked.index(chip) + 1}/{len(asked)})")

    try:
        yield tell
    finally:
        output.progress("")


def named(text: str) -> str:
    """The chip that a name stands for; a note says what the reader should know about it."""
    from npusim.hardware.naming import resolve_soc

    resolution = resolve_soc(text)
    if resolution.note:
        output.note(resolution.note)
    return resolution.name


def _chip(text: str) -> Chip:
    from npusim.hardware.naming import load_profile

    if is_profile_path(text):
        return Chip(load_profile(text), text)
    name = named(text)
    return Chip(load_profile(name), name)

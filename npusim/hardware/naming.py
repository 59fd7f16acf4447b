"""From what people call a chip (``910b3``, ``Atlas 300I Duo``, a Chinese name) to its SoC name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, lru_cache
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING

from npusim.hardware.families import plural
from npusim.hardware.loading import (
    add_profiles,
    profile_in,
    profile_named,
    profile_names,
    remove_profiles,
)
from npusim.hardware.products import Product, ProductLine, product_lines, products
from npusim.reading.files import kind_of
from npusim.values.errors import UnknownNameError, expect
from npusim.values.language import say
from npusim.values.takes import PATH, takes

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile

_PREFIX = "ascend"
_UNTIMED = ("310B", "950")  # families that the catalogue knows and no profile is of
_FIRST_GENERATION = "Ascend910B"


@dataclass(frozen=True, slots=True)
class Resolution:
    """The SoC name, and what the reader should know about how we got there (may be empty)."""

    name: str
    note: str = ""


def resolve_soc(text: str) -> Resolution:
    """The SoC that `text` names: SoC name in any case and with or without ``Ascend``, or a product.

    Products are known by their English and Chinese names and nicknames; a product line stands for
    one chip of it, and the note says which.  Raises UnknownNameError with near misses.
    """
    expect(text, str, say("the name of a chip"))
    key = _key(text)
    for spelling in (key, _PREFIX + key):
        if name := _chips().get(spelling):
            return Resolution(name, _note_910b() if name == _FIRST_GENERATION else _beside(name))
    if item := _sold().get(key):
        return Resolution(item.soc, _note(item))
    if found := _nicknames().get(key):
        alias, name = found
        return Resolution(name, say("{alias} is {name}.").format(alias=alias, name=name))
    for family in _UNTIMED:
        if key.removeprefix(_PREFIX).startswith(family.casefold()):
            remedy = say(
                "{plural} can't be timed, npusim has no profile of them; what runs there says "
                "`npusim check`."
            ).format(plural=plural(family))
            raise UnknownNameError("chip or product", text, (), remedy)
    raise UnknownNameError(
        "chip or product",
        text.replace("昇腾", "Ascend"),
        _spellings(key),
        say("`npusim profiles` lists what there is."),
    )


def caution_of(soc: str) -> str:
    """What to say beside an answer about this chip where readers may take it for another one."""
    return f"{soc}: {_note_910b()}" if soc == _FIRST_GENERATION else ""


def _note_910b() -> str:
    return say(
        "910B without a digit is the first generation (30 cores, Atlas training); "
        "if you mean Atlas A2, ask for 910B1, 910B2, 910B3 or 910B4 (-s 910B3)."
    )


@takes(name_or_path=PATH)
def load_profile(name_or_path: str | PathLike[str]) -> Profile:
    """The profile of a chip: a built-in one in any accepted spelling, or your file (``*.yaml``).

    Raises UnknownNameError for a name that we don't know, FileError for a file that can't be read,
    and ProfileError for one with wrong keys.
    """
    text = fspath(name_or_path)
    if not isinstance(name_or_path, str) or text.endswith((".yaml", ".yml")):
        return profile_in(Path(text))
    return _known(text)


@takes(path=PATH)
def register_profile(path: str | PathLike[str]) -> None:
    """Give the chip in a YAML file, or all those in a folder, the names of their files.

    Raises FileError for a name that is taken, and what `load_profile` raises for a wrong file.
    """
    add_profiles(_place(path))
    _forget()


@takes(path=PATH)
def unregister_profile(path: str | PathLike[str]) -> None:
    """Take a registered file or folder out again; raises UsageError where it isn't registered."""
    remove_profiles(_place(path))
    _forget()


def _place(path: str | PathLike[str]) -> Path:
    kind_of(path)  # refuses what is no path
    return Path(path).resolve()


def _forget() -> None:
    for names in (_chips, _nicknames, _known):
        names.cache_clear()


@lru_cache(maxsize=256)
def _known(text: str) -> Profile:
    return profile_named(resolve_soc(text).name)


def _key(text: str) -> str:
    """What tells names apart: ``Atlas-300I  Duo`` and ``atlas 300i duo`` are the same.

    So are ``昇腾910B3`` and ``Ascend 910B3``, with the maker in front or not.
    """
    word = re.sub(r"[\W_]+", "", text.casefold()).removeprefix("华为").removeprefix("huawei")
    return word.replace("昇腾", _PREFIX, 1)


@cache
def _chips() -> dict[str, str]:
    return {_key(name): name for name in profile_names()}


@cache
def _sold() -> dict[str, Product | ProductLine]:
    found: dict[str, Product | ProductLine] = {}
    for item in _named():
        families = (item.family,) if isinstance(item, ProductLine) else ()
        for name in (*item.names, *families):
            found.setdefault(_key(name), item)
    return found


@cache
def _nicknames() -> dict[str, tuple[str, str]]:
    """The aliases in the profiles; asked last, because every profile must be read for them."""
    found: dict[str, tuple[str, str]] = {}
    for name in profile_names():
        for alias in profile_named(name).aliases:
            found.setdefault(_key(alias), (alias, name))
    return found


def _beside(name: str) -> str:
    """What tells a chip from those that its boards are sold with under the same name."""
    others = [each for each in profile_names() if each.startswith(f"{name}-")]
    if not others:
        return ""
    told = [
        say("{name} has {capacity_bytes:.0f} GiB at {hbm_nominal_gbps:g} GB/s").format(
            name=each.name,
            capacity_bytes=each.memory.capacity_bytes / 2**30,
            hbm_nominal_gbps=each.memory.hbm_nominal_gbps,
        )
        for each in map(profile_named, (name, *others))
    ]
    return say("{told}. Boards of both are called {name}.").format(
        told="; ".join(told), name=name.removeprefix("Ascend")
    )


def _spellings(key: str) -> list[str]:
    """What may have been meant; chips are spelled as the reader began, with or without Ascend."""
    chips = profile_names()
    if not key.startswith(_PREFIX):
        chips = [name[len(_PREFIX) :] for name in chips]
    return [*chips, *(name for item in _named() for name in item.names)]


def _named() -> tuple[Product | ProductLine, ...]:
    return (*products(), *product_lines())


def _note(item: Product | ProductLine) -> str:
    if isinstance(item, ProductLine):
        note = say("{name_en} are several chips; {soc} is taken for them.").format(
            name_en=item.name_en, soc=item.soc
        )
    else:
        chips = item.chips_per_card * item.cards_per_server
        note = (
            say("{name_en}: one {soc} of up to {chips}.").format(
                name_en=item.name_en, soc=item.soc, chips=chips
            )
            if chips > 1
            else ""
        )
    return f"{note} {item.notes}".strip()

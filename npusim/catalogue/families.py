"""Which column of the catalogue a chip or product belongs to.

The columns are the product families of the operator pages. A chip's name says it without loading
its profile, which matters twice: a check stays quick, and chips that we can't simulate have a
column too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING

from npusim.hardware.families import FAMILIES
from npusim.values.errors import UnknownNameError

if TYPE_CHECKING:
    from npusim.hardware.profile import Profile

# Chip names, lower case and without "Ascend". Source: Ascend/pytorch
# torch_npu/csrc/core/npu/NpuVariables.h (the chips) and the product table of the aclnn pages.
_CHIPS = {
    "910": r"910(premium|pro)?[ab]?",
    "A2": r"910b(1|2c?|3|4(-1)?)",
    "310P": r"310p\d?",
    "A3": r"910_?93.*|910c",
    "310B": r"310b\d?",
    "950": r"950.*|910_?95.*",
}


_MISTAKABLE = "Ascend910B"  # the first generation, which many take for A2: that deserves a note


@dataclass(frozen=True, slots=True)
class Place:
    """Where something is to run: a family and, when one was named, the chip.

    `note` is what the reader should know about how a name was understood, `profile` a chip of the
    user's own.
    """

    family: str
    soc: str = ""
    note: str = field(default="", compare=False)
    profile: Profile | None = field(default=None, compare=False, repr=False)

    @property
    def name(self) -> str:
        """The chip, or else the family."""
        return self.soc or self.family


def family_of(product: str) -> str:
    """The family that `product` names, e.g. ``310P``; see `place_of`."""
    return place_of(product).family


def place_of(product: str) -> Place:
    """What `product` names: a family (``310P``), a chip (``910b3``) or an Atlas product.

    ``910B`` without a digit is the first generation, as for `npusim.hardware.naming.resolve_soc`,
    which knows the products and their nicknames. Raises UnknownNameError with near misses.
    """
    found = _by_name(product)
    if found and found.soc != _MISTAKABLE:
        return found
    from npusim.hardware.naming import load_profile, resolve_soc

    try:
        chip = resolve_soc(product)
    except UnknownNameError as error:
        names = [*FAMILIES, *error.candidates]
        remedy = "`npusim profiles` lists the chips and products."
        raise UnknownNameError("chip or product", error.got, names, remedy) from None
    found = _by_name(chip.name) or Place(load_profile(chip.name).family, chip.name)
    return replace(found, note=chip.note)


@cache
def _by_name(text: str) -> Place | None:
    wanted = text.strip().lower().removeprefix("华为").removeprefix("huawei").lstrip()
    chip = wanted.replace("昇腾", "ascend", 1).removeprefix("ascend").lstrip("-_ ")
    for family in FAMILIES:
        if wanted == family.lower():
            return Place(family)
        if re.fullmatch(_CHIPS[family], chip):
            spelled = chip.upper().replace("PRO", "Pro").replace("PREMIUM", "Premium")
            return Place(family, f"Ascend{spelled}")
    return None

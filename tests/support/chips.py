"""The chips that tests run on, by product family, and the dtypes that families compute in."""

from __future__ import annotations

from npusim.hardware import load_profile, profile_names
from npusim.hardware.families import BF16_FAMILIES

FAMILY = {name: load_profile(name).family for name in profile_names()}
CHIPS = list(FAMILY)
A2 = [name for name, family in FAMILY.items() if family in BF16_FAMILIES]  # and later ones
TRAINING = [name for name, family in FAMILY.items() if family == "910"]
INFERENCE = [name for name, family in FAMILY.items() if family == "310P"]
ONE_OF_EACH = ["Ascend910A", "Ascend910B3", "Ascend310P3"]


def kinds(chip: str) -> list[str]:
    """The floating dtypes that a chip's operators take."""
    return ["float32", "float16", *(["bfloat16"] if chip in A2 else [])]

"""What operators of one or two tensors give for NaN, infinities, signed zeros and extremes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from npusim.operators import registry
from npusim.reporting.document import Section, Table
from npusim.runtime.device import Device
from npusim.values.errors import NpusimError
from npusim.values.language import say

if TYPE_CHECKING:
    import numpy as np

    from npusim.hardware.profile import Profile

    Array = np.ndarray[tuple[int, ...], np.dtype[np.float32]]

# One of each kind, in float32: a subnormal number, one whose square overflows, one beyond int32.
UNARY = ("nan", "inf", "-inf", "-0", "1e-40", "3e38", "-3e38", "3e9")
BINARY = (("nan", "nan"), ("nan", "1"), ("inf", "inf"), ("inf", "-inf"), ("1", "0"), ("0", "0"))
_FOLDERS = ("activation", "elementwise")  # element by element, so that one call asks all numbers


def special_values(op: str, profile: Profile) -> dict[str, str] | None:
    """Each kind of number (or pair) and what comes out; None for operators of another shape.

    They are the numbers of a run in float32, attributes as they are by default.
    """
    import numpy as np

    standard = registry.prototype(op)
    if standard is None:
        return None
    definition, spelled = standard
    slots = spelled.inputs
    elementwise = definition.package.rpartition(".")[2] in _FOLDERS
    if not elementwise or len(slots) not in (1, 2) or any(slot.many for slot in slots):
        return None
    asked = [(number,) for number in UNARY] if len(slots) == 1 else list(BINARY)
    columns = np.array(asked, np.float32).T
    arguments = {slot.name: column.copy() for slot, column in zip(slots, columns, strict=True)}
    try:
        outputs = Device(profile).run(op, **arguments).outputs
    except NpusimError:  # gradients take more, masks another dtype
        return None
    (found,) = outputs.values() if outputs and len(outputs) == 1 else (None,)
    if found is None or found.shape != columns[0].shape:
        return None
    return {", ".join(words): _spelled(number) for words, number in zip(asked, found, strict=True)}


def special_section(op: str, profiles: Iterable[Profile]) -> list[Section]:
    """A row per chip, chips that agree together; empty for operators of another shape."""
    rows: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for profile in profiles:
        found = special_values(op, profile)
        if found is not None:
            rows.setdefault(tuple(found.items()), []).append(profile.name)
    if not rows:
        return []
    words = [word for word, _ in next(iter(rows))]
    lines = [(", ".join(chips), *(said for _, said in row)) for row, chips in rows.items()]
    caption = say("numbers that aren't ordinary (float32)")
    return [Section("", [Table(("chip", *words), lines, tuple(words), caption, ("chip",))])]


def _spelled(number: np.generic) -> str:
    """As few digits as tell numbers apart; truth values as words."""
    value = number.item()
    return str(value).lower() if isinstance(value, bool) else f"{value:.6g}"

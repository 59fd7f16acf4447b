"""A legal call in words, changes of it, and the code that a device gives to each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from npusim import Device
from npusim.cli.arguments import read_assignments
from npusim.operators.resolve import resolve
from npusim.values.spelling import with_nulls

A2, TRAINING, INFERENCE = "Ascend910B3", "Ascend910A", "Ascend310P3"
NULL, REFUSED, TILING, NO_KERNEL = 161001, 161002, 561002, 561003

# An interface, its call, and changes with their codes: 0 is taken, None isn't known.
Case = tuple[str, str, Mapping[str, int | None]]


def code(soc: str, name: str, words: Mapping[str, str]) -> int | None:
    """The code of a call; None where only a device knows."""
    listed = [f"{key}={value}" for key, value in words.items()]
    arguments = read_assignments(resolve(name, with_nulls(dict(words))), listed)
    return Device(soc).check(name, **arguments).code


def read(text: str) -> dict[str, str]:
    """Words as parameters and values."""
    return dict(word.split("=", 1) for word in text.split())


def changed(cases: Iterable[Case]) -> list[tuple[str, dict[str, str], str, int | None]]:
    """Every call as it is, which is taken, and with each of its changes."""
    return [
        (name, {**read(call), **read(change)}, change, wanted)
        for name, call, changes in cases
        for change, wanted in {"": 0, **changes}.items()
    ]

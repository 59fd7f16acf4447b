"""Values that say the same have one digest, in any process, and others have others."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npusim
from npusim.values.contents import digest_of

WORDS = "set({'one', 'two', 'three', 'four'}), 'x', (1, 2.0, None, b'x', True)"
TOLD = f"from npusim.values.contents import digest_of; print(digest_of(({WORDS})))"


class Colour(IntEnum):
    RED = 1


class Size(IntEnum):
    SMALL = 1


@dataclass(frozen=True)
class Pair:
    one: object
    two: object


def adder(step: int) -> Any:
    return lambda number: number + step


def test_equal_values_have_one_digest() -> None:
    for make in (
        lambda: (1, [2.0, "x"], {"a": None}),
        lambda: adder(3),
        lambda: partial(adder, step=2),
        lambda: Pair(np.float32(1), np.arange(3)),
        lambda: Pair(Pair(1, 2), Pair(1, 2)),
        lambda: {Colour.RED, "red", 7},
    ):
        assert digest_of(make()) == digest_of(make())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0), (1, True), ("1", 1), ((1, 2), [1, 2]), (("a,", "b"), ("a", ",b")),
        (((1,), 2), ((1, 2),)), (Colour.RED, Size.SMALL), (Colour.RED, 1), (0.0, -0.0),
        (adder(1), adder(2)), (lambda x: x + 1, lambda x: x - 1), (np.float32(1), np.float64(1)),
        (np.zeros(2), np.zeros(3)), (Pair(1, None), Pair(None, 1)), ({"a": 1}, {"b": 1}),
    ],
)  # fmt: skip
def test_other_values_have_others(one: object, other: object) -> None:
    assert digest_of(one) != digest_of(other)


def test_it_is_the_same_in_any_process() -> None:
    found = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        environment["PYTHONPATH"] = str(Path(npusim.__file__).parents[1])
        command = [sys.executable, "-P", "-c", TOLD]
        found.add(subprocess.check_output(command, env=environment, text=True))
    assert len(found) == 1


def named_alike() -> type:
    return type("Alike", (), {"__module__": "npusim.somewhere"})


def test_what_says_nothing_by_itself_is_refused() -> None:
    first = named_alike()
    assert digest_of(first) == digest_of(first)
    held: list[object] = []
    held.append(held)
    for nothing in (object(), named_alike(), np.zeros(100_000), held):
        with pytest.raises(TypeError):
            digest_of(nothing)

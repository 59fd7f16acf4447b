"""Calls of any operator by its parameters, with optional ones left out or filled."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

from fuzz import odd

_Dice = random.Random
_CALLS = 40  # of a case: a process of its own for each would take longer than they do
_KINDS = ("FLOAT16", "FLOAT", "BFLOAT16", "INT32", "INT64", "INT8", "BOOL")
_SIZES = (1, 2, 3, 4, 16, 64, 0)
_RANKS = (0, 1, 2, 2, 3, 4)
_LISTS = ([0], [1], [-1], [0, 1], [], [True])
_NUMBERS = (0, 1, -1, 2, 64)


@cache
def names() -> tuple[str, ...]:
    """Every operator and interface."""
    from npusim.operators.registry import operators, standard_names

    return (*operators(), *standard_names())


def contract(name: str) -> Any:
    """What a name takes; None where nobody can tell."""
    from npusim.operators.oracle import contract_of
    from npusim.values.errors import NpusimError

    try:
        return contract_of(name, {})
    except NpusimError:
        return None


def optional_arguments(dice: _Dice, made: Any) -> None:
    """Some calls on a chip, each with most of what may be left out left out."""
    chip, state = odd.chip(dice), dice.getrandbits(64)
    made.shown = f"optional arguments on {chip} {state}"
    made.call = lambda: _answers(chip, _Dice(state))


def _answers(chip: str, dice: _Dice) -> list[object]:
    from npusim import Device, NpusimError

    device, found = Device(chip), list[object]()
    for _ in range(_CALLS):
        name = dice.choice(names())
        given = _given(dice, contract(name))
        try:
            found.append(device.check(name, **given))
        except NpusimError as refusal:
            found.append(str(refusal))
        except Exception as problem:
            problem.add_note(f"{name} of {given!r:.900} on {chip}")
            raise
    return found


def _given(dice: _Dice, wanted: Any) -> dict[str, Any]:
    """Arguments by their kinds alone: tensors mostly of one shape and dtype."""
    from npusim import TensorSpec

    shape = tuple(dice.choice(_SIZES) for _ in range(dice.choice(_RANKS)))
    kind, given = dice.choice(_KINDS), dict[str, Any]()
    for each in wanted.parameters if wanted else ():
        if (each.optional or each.io == "out") and dice.random() < 0.9:
            continue
        if each.kind == "tensor":
            own = shape if dice.random() < 0.8 else shape[:1]
            given[each.name] = TensorSpec(own, kind if dice.random() < 0.7 else dice.choice(_KINDS))
        elif each.kind.endswith("_array"):
            given[each.name] = dice.choice(_LISTS)
        elif each.kind == "bool":
            given[each.name] = dice.random() < 0.5
        else:
            given[each.name] = "none" if each.kind == "text" else dice.choice(_NUMBERS)
    return given

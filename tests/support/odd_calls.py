"""Calls of every operator, legal as the small tasks of `task_cases`, then bent out of shape."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from npusim import load_profile
from npusim.operators.registry import op_types, prototype, standard_names
from npusim.operators.resolve import resolve
from npusim.values.errors import ArgumentError
from support.row_cases import stood_for
from support.task_cases import Pick, case_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from npusim.hardware import Profile

CHIPS = ("Ascend910A", "Ascend310P3", "Ascend910B3", "Ascend910_9391")
KINDS = (np.float32, np.float16, np.int32, np.int64, np.bool_, np.uint8, np.int8, np.float64)
SHAPES = (
    (),
    (0,),
    (1,),
    (2,),
    (16,),
    (3, 5),
    (4, 0),
    (4, 4),
    (2, 3, 5),
    (1, 2, 3, 4, 16),
    (1,) * 9,
)
NUMBERS = (0, 1, -1, 2, 3, -2, 5, -9, 9, 64, 2**31, -(2**63))
REALS = (0.0, 1.0, -1.0, 0.5, 1e-5, float("inf"), float("nan"), 1e30)
MOST_ELEMENTS = 1 << 16

# What the small tasks of the kernels leave to their outputs.
_USUAL = {"reduction": 0, "numClasses": 5, "dtype": "FLOAT", "other": 2.0, "reduce": 0}

Arguments = dict[str, Any]


class Odd(NamedTuple):
    """A call with arrays on a chip."""

    chip: str
    op: str
    arguments: Arguments


class Chosen(Pick):
    """Picks by a seeded generator."""

    def __init__(self, random: Random, profile: Profile) -> None:
        self.profile = profile
        self._chooser = random
        self._random = np.random.default_rng(random.randrange(2**32))

    def of(self, *choices: Any) -> Any:
        return self._chooser.choice(choices)


def calls(seed: int, count: int) -> Iterator[Odd]:
    """Calls of all names of an operator type in turn, most of them with a fault or two."""
    known = ((name, prototype(name)) for name in standard_names())
    drawn = set(op_types()) - stood_for()
    names = [name for name, found in known if found is not None and found[0].name in drawn]
    start = Random(seed).randrange(len(names))  # noqa: S311 - calls, no secrets
    for number in range(count):
        random = Random(f"{seed} {number}")  # noqa: S311 - as above
        name, chip = names[(start + number) % len(names)], random.choice(CHIPS)
        arguments = legal(random, name, chip)
        for _ in range(random.choice((0, 1, 1, 1, 2))):
            bend(random, name, arguments)
        yield Odd(chip, name, arguments)


def legal(random: Random, name: str, chip: str) -> Arguments:
    """A call as networks make it: the operator's small task by the parameters of the name."""
    known = prototype(name)
    assert known is not None
    operator, spelled = known
    task = case_of(operator.name)(Chosen(random, load_profile(chip)), operator.name)
    given = list(task.inputs)
    arguments: Arguments = {}
    slots = spelled.inputs if spelled.is_known else ()
    for slot in slots:
        if slot.many:
            share = len(given) // sum(each.many for each in slots)
            arguments |= {f"{slot.name}{place}": given[place] for place in range(share)}
            given = given[share:]
        elif given:
            arguments[slot.name] = given.pop(0)
    arguments.pop("-", None)
    if not spelled.is_known:
        arguments = {f"x{place}": each for place, each in enumerate(given) if each is not None}
    for attribute in spelled.attributes:
        value = task.attributes.get(attribute.target, _USUAL.get(attribute.name))
        if value is not None:
            listed = list(value) if isinstance(value, list | tuple) else [value]
            arguments[attribute.name] = listed if attribute.kind == "ints" else listed[0]
    if random.random() < 0.5 or not spelled.is_known:
        names = [slot.name for slot in spelled.outputs if not slot.many]
        names = names if spelled.is_known else [f"y{n}" for n in range(len(task.outputs))]
        fresh = [each for each in names if each not in arguments]
        arguments |= dict(zip(fresh, task.outputs, strict=False))
    return arguments


def bend(random: Random, name: str, arguments: Arguments) -> None:
    """Change, drop or add one argument; a call that has no parameters any more is bent enough."""
    try:
        kinds = {each.name: each.kind for each in resolve(name, arguments).parameters}
    except ArgumentError:
        return
    if not kinds:
        return
    which = random.choice(tuple(kinds))
    way = random.random()
    if way < 0.1:
        arguments.pop(which, None)
    elif way < 0.2:
        arguments[which] = None
    elif kinds[which] == "tensor":
        arguments[which] = _bent(random, arguments)(arguments.get(which))
    else:
        arguments[which] = _value(random, kinds[which], arguments.get(which))


def _bent(random: Random, arguments: Arguments) -> Any:
    def other_shape(array: Any) -> Any:
        return _filled(random, random.choice(SHAPES), getattr(array, "dtype", np.float32))

    def other_size(array: Any) -> Any:
        if array is None or not array.ndim:
            return other_shape(array)
        shape = list(array.shape)
        shape[random.randrange(len(shape))] += random.choice((-1, 1, 7))
        return _filled(random, tuple(max(0, size) for size in shape), array.dtype)

    def other_rank(array: Any) -> Any:
        if array is None:
            return other_shape(array)
        return array.reshape(random.choice(((-1,), (1, *array.shape), (*array.shape, 1))))

    def other_kind(array: Any) -> Any:
        kind = random.choice(KINDS)
        return _filled(random, () if array is None else array.shape, kind)

    def as_another(array: Any) -> Any:
        others = [each for each in arguments.values() if isinstance(each, np.ndarray)]
        return random.choice(others) if others else other_shape(array)

    return random.choice((other_shape, other_size, other_size, other_rank, other_kind, as_another))


def _filled(random: Random, shape: tuple[int, ...], kind: Any) -> Any:
    numbers = np.random.default_rng(random.randrange(2**32)).integers(0, 3, shape)
    return np.asarray(numbers).astype(kind)


def _value(random: Random, kind: str, value: Any) -> Any:
    if kind in ("int64", "text"):
        return random.choice(NUMBERS if kind == "int64" else ("FLOAT16", "none", "tanh", "0", ""))
    if kind in ("double", "float"):
        return random.choice(REALS)
    if kind == "bool":
        return random.random() < 0.5
    entries = list(value) if isinstance(value, list | tuple) else [0]
    return random.choice(
        (
            [],
            [random.choice(NUMBERS)],
            [*entries, random.choice(NUMBERS)],
            [*entries, *entries],
            [random.choice(NUMBERS) for _ in entries],
            entries[:-1],
        )
    )

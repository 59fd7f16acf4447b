"""A row of the references: how a call of an aclnn interface is made, and what must come out.

A row makes its arguments from a :class:`Draw`, which hypothesis feeds: shapes of all ranks, with
axes of one and of no element, the dtypes that the interface's page lists, and arrays that aren't
contiguous. The reference takes the same arguments in the order of the header, tensors in float64,
int64 or as truth values, and returns the results in theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from npusim.capi.declarations import arguments_of
from npusim.catalogue.facts import catalogue
from npusim.operators.registry import has_contract, operator, prototype
from npusim.values.dtypes import dtype

Array = np.ndarray[Any, Any]
Fill = Callable[[np.random.Generator, tuple[int, ...]], Array]

NUMPY = {
    "FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE", "INT8", "INT16", "INT32", "INT64", "UINT8", "BOOL",
}  # fmt: skip
SIZES = (1, 2, 3, 5, 7, 16, 33, 0)
MOST_ELEMENTS = 2048


def real(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Around zero."""
    return rng.uniform(-3, 3, shape)


def positive(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Above zero."""
    return rng.uniform(0.5, 4, shape)


def above_one(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Above one."""
    return rng.uniform(1.1, 4, shape)


def small(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Between minus one and one."""
    return rng.uniform(-0.9, 0.9, shape)


def share(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Between nought and one."""
    return rng.uniform(0.05, 0.95, shape)


def coarse(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Few different numbers, so that comparisons meet equal ones."""
    return rng.integers(-2, 3, shape).astype(np.float64)


def nonzero(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Of both signs, away from zero also as whole numbers."""
    return rng.choice([-1, 1], shape) * rng.uniform(0.6, 4, shape)


def distinct(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Each number once, in no order; small enough for every dtype where the tensor is."""
    return rng.permutation(prod(shape)).reshape(shape) - prod(shape) // 2


def odd(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Infinities and what is no number among the others."""
    return rng.choice([0.0, -1.5, 2.5, np.inf, -np.inf, np.nan], shape)


class Torch:
    """PyTorch, imported by those who ask for something of it; their test skips without it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(pytest.importorskip("torch", reason="PyTorch isn't installed"), name)


torch: Any = Torch()


@cache
def dtypes_of(api: str, parameter: str, family: str) -> tuple[str, ...]:
    """What the page lists for a parameter, as far as NumPy has it; nothing where it doesn't."""
    page = catalogue().page(api, family)
    for each in page.parameters if page else ():
        if each.name.lower() == parameter.lower() and each.checked:
            return tuple(kind for kind in each.checked if kind in NUMPY)
    return ()


@dataclass
class Draw:
    """What a row chooses from; tensors of one call have one dtype where their pages allow."""

    draw: Callable[[Any], Any]
    api: str
    family: str
    renamed: Mapping[str, str] = field(default_factory=dict)
    kind: str = ""  # the dtype of the tensors so far

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.draw(st.integers(0, 2**32 - 1)))

    def one_of(self, *options: Any) -> Any:
        """One of several."""
        return self.draw(st.sampled_from(options))

    def whole(self, low: int, high: int) -> int:
        """A whole number, both ends included."""
        return int(self.draw(st.integers(low, high)))

    def shape(self, low: int = 0, high: int = 8, sizes: Sequence[int] = SIZES) -> tuple[int, ...]:
        """Sizes of some axes; few elements, however many axes."""
        drawn = self.draw(st.lists(st.sampled_from(sizes), min_size=low, max_size=high))
        return bounded(drawn)

    def sized(self, low: int = 1, high: int = 8) -> tuple[int, ...]:
        """A shape of at least an axis and an element."""
        return self.shape(low, high, SIZES[:-1])

    def dtype(self, parameter: str, among: Sequence[str] = ()) -> str:
        """A dtype that the page lists for the parameter; by and by that of the tensors before."""
        parameter = self.renamed.get(parameter, parameter)
        listed = dtypes_of(self.api, parameter, self.family)
        listed = tuple(each for each in listed if not among or each in among) or listed
        listed = listed or ((self.kind,) if self.kind else ("FLOAT", "FLOAT16"))
        if not self.kind or self.kind not in listed:
            self.kind = self.one_of(*listed)
        return self.kind

    def tensor(
        self,
        parameter: str,
        shape: Sequence[int],
        fill: Fill = real,
        *,
        kind: str = "",
        among: Sequence[str] = (),
    ) -> Array:
        """An array for a parameter, every other one of them not contiguous."""
        kind = kind or self.dtype(parameter, among)
        values = np.asarray(fill(self.rng, tuple(shape)))
        if fill is nonzero and kind == "BOOL":
            values = np.abs(values)
        return self.laid_out(as_dtype(values, kind))

    def laid_out(self, values: Array) -> Array:
        """The same numbers: as they are, every second of a wider tensor, or transposed."""
        if not values.ndim:
            return values
        way = self.one_of("whole", "whole", "strided", "transposed")
        if way == "strided":
            wide = np.zeros((*values.shape[:-1], 2 * values.shape[-1]), values.dtype)
            wide[..., ::2] = values
            return wide[..., ::2]
        return np.ascontiguousarray(values.T).T if way == "transposed" else values

    def axis(self, rank: int) -> int:
        """An axis, perhaps counted from behind."""
        return self.whole(-max(rank, 1), max(rank, 1) - 1)

    def axes(self, rank: int, *, some: bool = False) -> list[int]:
        """Several axes, perhaps none."""
        chosen = [axis for axis in range(rank) if self.draw(st.booleans())]
        chosen = chosen or ([self.whole(0, rank - 1)] if some and rank else [])
        return [axis - rank if self.draw(st.booleans()) else axis for axis in chosen]


Make = Callable[[Draw], Mapping[str, Any]]


@dataclass(frozen=True)
class Row:
    """An interface, how its arguments are made, and its reference.

    ``make`` returns all arguments but results, in the order in which the reference takes them.
    ``loose`` is how many times the usual error may come out, ``given`` that results are always
    named, ``promoting`` the numbers that take part in the promotion of dtypes; results are
    ``natural`` where they have the dtype that the inputs have together. ``changed`` is what is
    changed in place, ``raw`` that the reference
    takes the tensors as they are, ``off`` how far whole numbers may be from the reference's.
    """

    api: str
    make: Make
    reference: Callable[..., Any]
    loose: float = 1
    given: bool = False
    promoting: tuple[str, ...] = ()
    natural: bool = True
    changed: str = ""
    raw: bool = False
    off: int = 0

    def in_place(self, api: str) -> Row:
        """The same that changes its first tensor, which has the shape of the result."""
        known, own = prototype(api), prototype(self.api)
        assert known is not None
        inside = {slot.name for slot in known[1].outputs}
        changed = next(slot.name for slot in known[1].inputs if slot.name in inside)
        first = own[1].inputs[0].name if own else "self"

        def make(d: Draw) -> Mapping[str, Any]:
            d.renamed = {first: changed}
            return {changed if name == first else name: each for name, each in self.make(d).items()}

        return replace(self, api=api, make=make, changed=changed)


def as_dtype(values: Any, kind: str) -> Array:
    """Numbers in a dtype by its name on the pages: whole ones rounded, counts without sign."""
    numpy = dtype(kind).numpy
    if kind == "BOOL":
        return np.asarray(np.asarray(values) > 0)
    if "INT" in kind:
        values = np.rint(np.nan_to_num(values, posinf=9, neginf=-9))
    if kind.startswith("UINT"):
        values = np.abs(values)
    return np.asarray(np.asarray(values).astype(numpy))


def bounded(sizes: Sequence[int]) -> tuple[int, ...]:
    """The sizes, the last of them one where there would be too many elements."""
    found: list[int] = []
    for size in sizes:
        found.append(size if prod(max(1, each) for each in (*found, size)) <= MOST_ELEMENTS else 1)
    return tuple(found)


def exact(value: Any) -> Any:
    """A tensor for the reference: float64, int64 or truth values; anything else as it is."""
    if isinstance(value, list | tuple):
        return [exact(each) for each in value]
    if not isinstance(value, np.ndarray) or value.dtype == np.bool_:
        return value
    return value.astype(np.int64 if value.dtype.kind in "iu" else np.float64)


@cache
def names_of(api: str) -> tuple[str, ...]:
    """The parameters as the header has them, outputs among them."""
    return tuple(name for _, name in arguments_of(api))


@cache
def outputs_of(api: str) -> tuple[str, ...]:
    """The outputs by name."""
    if has_contract(api):
        return tuple(each.name for each in operator(api).parameters if each.io == "out")
    known = prototype(api)
    assert known is not None
    return tuple(slot.name for slot in known[1].outputs)

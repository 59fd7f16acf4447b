"""Which dtypes of a call go together, where a page lists the combinations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from npusim.operators.checks import each_tensor, invalid
from npusim.values.dtypes import (
    BOOL,
    COMPLEX32,
    COMPLEX64,
    FLOAT,
    FLOAT16,
    INT64,
    DType,
    dtype,
    from_acl,
)
from npusim.values.promotion import castable, promote
from npusim.values.spelling import guessed

if TYPE_CHECKING:
    from npusim.operators.contract import Call, Check, Finding
    from npusim.values.tensors import TensorSpec

_NULL = "-"
_KINDS = ("bool", "int", "float", "complex")  # of numbers, each above those before it
_PARTS = {COMPLEX32: FLOAT16, COMPLEX64: FLOAT}
_OF_NUMBERS = {bool: BOOL, int: INT64, float: FLOAT, complex: COMPLEX64}


def together(*names: str, rows: Mapping[str, Sequence[str]]) -> Check:
    """161002 for tensors whose dtypes are no row of the product family's table.

    A row has a word for each of `names`: dtypes with ``/`` between them, ``-`` for a null pointer,
    ``*`` for anything. A family without a table isn't asked, nor a result that is left out.
    """
    tables = {
        family: [[frozenset(word.split("/")) for word in row.split()] for row in listed]
        for family, listed in rows.items()
    }

    def test(call: Call) -> Finding:
        table = tables.get(call.profile.family)
        if table is None:
            return None
        outputs = {each.name for each in call.contract.outputs}
        given = {name: spec.dtype.name for name, spec in call.given(*names)}
        found = [
            given.get(name, "*" if name in outputs and not call.is_null(name) else _NULL)
            for name in names
        ]
        wrong = [
            [place for place, got in enumerate(found) if not _allowed(got, row[place])]
            for row in table
        ]
        best = min(range(len(table)), key=lambda row: len(wrong[row]))
        if not wrong[best]:
            return None
        listed = ", ".join(f"{names[n]} {_said(found[n])}" for n in range(len(names)))
        needs = ", ".join(f"{names[n]} {_listed(table[best][n])}" for n in wrong[best])
        return f"The dtypes {listed} don't go together on {call.profile.name}: {needs} would.", ""

    return invalid(f"the dtypes of {', '.join(names)} don't go together", test)


def _allowed(got: str, wanted: frozenset[str]) -> bool:
    return "*" in wanted or got == "*" or got in wanted


def _said(got: str) -> str:
    return {_NULL: "null", "*": "left out"}.get(got, got)


def _listed(wanted: frozenset[str]) -> str:
    return " or ".join(sorted(map(_said, wanted)))


def joint(call: Call, names: Sequence[str], numbers: Sequence[str] = ()) -> DType | None:
    """The dtype that tensors and numbers have together, None for dtypes that don't combine."""
    kinds = dict.fromkeys(spec.dtype for _, spec in call.given(*names))
    found = promote(*kinds) if kinds else BOOL
    for own in map(_of_number, map(call.arguments.get, numbers)):
        if own is not None and found is not None and _rank(own) > _rank(found):
            found = own
    return found


def _of_number(value: object) -> DType | None:
    return _OF_NUMBERS.get(type(value))


def storable(
    inputs: Sequence[str], outputs: Sequence[str], numbers: Sequence[str] = (),
    *, floating: bool = False,
) -> Check:  # fmt: skip
    """161002 for dtypes that don't combine, or a result that an output can't hold.

    Results, in place too, are in the dtype that tensors and numbers have together, FLOAT instead
    of whole ones where the operator is ``floating``. Source: hicann/opbase
    include/nnopbase/opdev/data_type_utils.h (CanCast), which the host code of the interfaces asks.
    """

    def test(call: Call) -> Finding:
        kind = joint(call, inputs, numbers)
        if kind is None:
            given = ", ".join(f"{name} {spec.dtype.dt}" for name, spec in call.given(*inputs))
            return f"The dtypes of {given} have no common type.", "", {}
        if floating and _rank(kind) < _KINDS.index("float"):
            kind = FLOAT
        for name, spec in call.given(*outputs):
            if not castable(kind, spec.dtype):
                return (
                    f"Result type {kind.dt} can't be cast to the desired output type "
                    f"{spec.dtype.dt} of {name}."
                )
        return None

    title = f"{', '.join(inputs) or ', '.join(numbers)} have no common dtype"
    return invalid(f"{title}, or {', '.join(outputs)} can't hold it" if outputs else title, test)


def convertible(number: str, names: Sequence[str], numbers: Sequence[str] = ()) -> Check:
    """161002 for a number that the dtype of tensors and other numbers together can't hold."""

    def test(call: Call) -> Finding:
        own = _of_number(call.arguments.get(number))
        kind = joint(call, names, numbers)
        if own is None or kind is None or castable(own, kind):
            return None
        value = call.arguments[number]
        return f"{number} {value} can't be cast to {kind.dt}, which the operands have together."

    return invalid(f"{number} can't be cast to the dtype of the operands", test)


def as_told(attribute: str, *outputs: str) -> Check:
    """161002 for an output in another dtype than the attribute says."""

    def objection(call: Call, name: str, spec: TensorSpec) -> Finding:
        wanted = told(call, attribute)
        if wanted is None or spec.dtype is wanted:
            return None
        return f"{name} has dtype {spec.dtype.dt}, {attribute} says {wanted.dt}."

    return each_tensor(f"{', '.join(outputs)} isn't in {attribute}", outputs, objection)


def through(attribute: str, x: str, y: str) -> Check:
    """161002 for a dtype that an operand can't be cast to, or that can't be cast to a result's."""

    def test(call: Call) -> Finding:
        kind = told(call, attribute)
        if kind is None:
            return None
        for name, spec in call.given(x):
            if not castable(spec.dtype, kind):
                return f"{name} {spec.dtype.dt} can't be cast to {attribute} {kind.dt}."
        for name, spec in call.given(y):
            if not castable(kind, spec.dtype):
                return f"{attribute} {kind.dt} can't be cast to {name} {spec.dtype.dt}."
        return None

    return invalid(f"{x} can't be cast to {attribute}, or {attribute} to {y}", test)


def told_in(attribute: str, *kinds: DType) -> Check:
    """161002 for a dtype that is none of these."""

    def test(call: Call) -> Finding:
        found = told(call, attribute)
        if found is None or found in kinds:
            return None
        return f"{attribute} should be {' or '.join(each.dt for each in kinds)}, not {found.dt}."

    return invalid(f"{attribute} isn't {' or '.join(each.name for each in kinds)}", test)


def told(call: Call, attribute: str) -> DType | None:
    """The dtype that an attribute says, by its number or by its name."""
    value = guessed(call.arguments.get(attribute))
    if value is None:
        return None
    return from_acl(value) if isinstance(value, int) else dtype(str(value))


def complex_of_something(x: str, *results: str) -> Check:
    """161002 for a complex result of no elements."""

    def objection(call: Call, name: str, spec: TensorSpec) -> Finding:
        if spec.dtype.category != "complex" or not call.spec(x).is_empty:
            return None
        return f"{name} can't be {spec.dtype.dt} where {x} has no elements."

    return each_tensor(f"{', '.join(results)} is complex, and {x} empty", results, objection)


def not_all(kind: DType, *names: str) -> Check:
    """161002 for operands, tensors or numbers, that are all of one dtype."""

    def test(call: Call) -> Finding:
        values = [call.arguments.get(name) for name in names]
        kinds = {getattr(each, "spec", each) for each in values if each is not None}
        kinds = {getattr(each, "dtype", _of_number(each)) for each in kinds}
        return f"{' and '.join(names)} can't all be {kind.dt}." if kinds == {kind} else None

    return invalid(f"{' and '.join(names)} are {kind.dt}", test)


def complex_with(number: str, x: str) -> Check:
    """161002 for a complex number and a tensor of real ones."""

    def test(call: Call) -> Finding:
        for name, spec in call.given(x):
            if isinstance(call.arguments.get(number), complex) and spec.dtype.category != "complex":
                return f"{number} is complex, but {name} is {spec.dtype.dt}."
        return None

    return invalid(f"{number} is complex, but {x} isn't", test)


def _rank(kind: DType) -> int:
    return _KINDS.index("int" if kind.category == "uint" else kind.category)


def real_alike(x: str, y: str) -> Check:
    """161002 for a result in another dtype than its operand's, or than the parts of a complex."""

    def test(call: Call) -> Finding:
        (_, given), *results = call.given(x, y)
        for name, spec in results:
            if spec.dtype is not _PARTS.get(given.dtype, given.dtype):
                found = f"{x} {given.dtype.dt} and {name} {spec.dtype.dt}"
                return f"Expected both tensors to have same dtype, but found {found}."
        return None

    return invalid(f"{y} hasn't the dtype of the parts of {x}", test)

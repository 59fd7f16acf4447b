"""Which dtypes of a call go together, where a page lists the combinations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from npusim.operators.checks import invalid
from npusim.values.dtypes import BOOL, COMPLEX64, FLOAT, INT64, DType
from npusim.values.promotion import castable, promote

if TYPE_CHECKING:
    from npusim.operators.contract import Call, Check, Finding

_NULL = "-"
_KINDS = ("bool", "int", "float", "complex")  # of numbers, each above those before it
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


def storable(
    inputs: Sequence[str], outputs: Sequence[str], numbers: Sequence[str] = (),
    *, floating: bool = False,
) -> Check:  # fmt: skip
    """161002 for results in a dtype that an output, or what is changed in place, can't hold.

    They are in the dtype that tensors and numbers have together, FLOAT instead of whole ones where
    the operator is ``floating``. Source: hicann/opbase include/nnopbase/opdev/data_type_utils.h
    (CanCast), which the host code of the interfaces asks.
    """

    def test(call: Call) -> Finding:
        kind = promote(*dict.fromkeys(spec.dtype for _, spec in call.given(*inputs)))
        if kind is None:
            return None  # the dtypes say so
        for value in map(call.arguments.get, numbers):
            own = _OF_NUMBERS.get(type(value))
            if own is not None and _rank(own) > _rank(kind):
                kind = own
        if floating and _rank(kind) < _KINDS.index("float"):
            kind = FLOAT
        for name, spec in call.given(*outputs):
            if not castable(kind, spec.dtype):
                return (
                    f"Result type {kind.dt} can't be cast to the desired output type "
                    f"{spec.dtype.dt} of {name}."
                )
        return None

    return invalid(f"{', '.join(outputs)} can't hold the dtype of the result", test)


def _rank(kind: DType) -> int:
    return _KINDS.index("int" if kind.category == "uint" else kind.category)


def real_alike(x: str, y: str) -> Check:
    """161002 for a result of real numbers in another dtype than theirs."""

    def test(call: Call) -> Finding:
        (_, given), *results = call.given(x, y)
        for name, spec in results:
            if given.dtype.category != "complex" and spec.dtype is not given.dtype:
                found = f"{x} {given.dtype.dt} and {name} {spec.dtype.dt}"
                return f"Expected both tensors to have same dtype, but found {found}."
        return None

    return invalid(f"{y} hasn't the dtype of real {x}", test)

"""What the pages of normalisations ask of what they normalise, and of means and spreads of rows."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from npusim.operators.checks import invalid, sizes
from npusim.operators.shape_checks import entries
from npusim.values.status import StatusCode

if TYPE_CHECKING:
    from npusim.operators.contract import Call, Check, Finding

_LEAST_BYTES = 32  # of a row on Atlas inference products


def ones_behind(x: str, line: str, *rows: str) -> Check:
    """161002 for a number of each row that hasn't x's axes, with ones for those of a line.

    ``line`` is a tensor as large as a row, or an attribute that lists the row's axes.
    """

    def test(call: Call) -> Finding:
        whole = call.spec(x).shape
        told = entries(call, line)
        kept = len(told) if told is not None else None
        for _, spec in call.given(line) if told is None else ():
            kept = spec.rank
        if kept is None:
            return None
        wanted = (*whole[: len(whole) - kept], *(1,) * kept)
        for name, spec in call.given(*rows):
            if spec.shape != wanted:
                return f"{name} should be {sizes(wanted)}, but has sizes {sizes(spec.shape)}."
        return None

    return invalid(f"{', '.join(rows)} haven't the axes of {x}", test)


def rows_of(line: str, x: str) -> Check:
    """161002 for a line that isn't as long as the last axes of a tensor."""

    def test(call: Call) -> Finding:
        whole = call.spec(x)
        for name, spec in call.given(line):
            shape = spec.shape
            while len(shape) > 1 and shape[0] == 1:
                shape = shape[1:]
            if not shape or whole.shape[-len(shape) :] != shape or not spec.numel:
                return f"{name} {sizes(spec.shape)} isn't a row of {x} {sizes(whole.shape)}."
        return None

    return invalid(f"{line} isn't a row of {x}", test)


def rows_fill(*names: str) -> Check:
    """161002 for rows of less than 32 bytes."""

    def test(call: Call) -> Finding:
        for name, spec in call.given(*names):
            if spec.rank and spec.shape[-1] * spec.dtype.itemsize < _LEAST_BYTES:
                return f"Rows of {name} {sizes(spec.shape)} should have {_LEAST_BYTES} bytes."
        return None

    return invalid(f"rows of {', '.join(names)} have less than {_LEAST_BYTES} bytes", test)


def not_empty(*names: str) -> Check:
    """161002 for a tensor without elements."""

    def test(call: Call) -> Finding:
        empty = [name for name, spec in call.given(*names) if spec.is_empty]
        return f"{empty[0]} should have elements." if empty else None

    return invalid(f"{', '.join(names)} has no elements", test)


def sizes_as_told(x: str) -> Check:
    """161002 for N, C and HxW that aren't the sizes of x."""

    def test(call: Call) -> Finding:
        shape = call.spec(x).shape
        if len(shape) < 2:
            return f"{x} {sizes(shape)} should have two axes or more."
        wanted = {"N": shape[0], "C": shape[1], "HxW": prod(shape[2:])}
        for name, size in wanted.items():
            told = call.integer(name) if call.is_given(name) else size
            if told != size:
                return f"{name} should be {size} for {x} {sizes(shape)}, but is {told}."
        return None

    return invalid(f"N, C and HxW aren't the sizes of {x}", test)


def positive(attribute: str) -> Check:
    """161002 for a number that isn't above zero."""

    def test(call: Call) -> Finding:
        value = call.arguments.get(attribute)
        if isinstance(value, int | float) and not value > 0:
            return f"{attribute} should be above 0, but is {value}."
        return None

    return invalid(f"{attribute} isn't above 0", test)


def given_with(name: str, other: str) -> Check:
    """161001 for a null pointer where another result is asked for."""

    def test(call: Call) -> Finding:
        if call.is_null(name) and call.is_given(other):
            return f"{name} should be given with {other}.", f"Give {name}, or leave {other} out."
        return None

    check = invalid(f"{name} is null and {other} isn't", test)
    return check._replace(code=StatusCode.ACLNN_ERR_PARAM_NULLPTR)


def one_kind_or_wide(x: str, *lines: str) -> Check:
    """161002 for gains and shifts of different dtypes, neither x's nor FLOAT."""

    def test(call: Call) -> Finding:
        own = call.spec(x).dtype
        kinds = {name: spec.dtype for name, spec in call.given(*lines)}
        for name, kind in kinds.items():
            if kind.name not in (own.name, "FLOAT"):
                return f"{name} should be {own.dt} as {x}, or DT_FLOAT, but is {kind.dt}."
        if len(set(kinds.values())) > 1:
            listed = ", ".join(f"{name} {kind.dt}" for name, kind in kinds.items())
            return f"{listed} should have the same dtype."
        return None

    return invalid(f"{', '.join(lines)} have other dtypes than {x}", test)


def wide_enough(x: str, *rows: str) -> Check:
    """161002 for means and spreads of different dtypes, or of fewer bits than x."""

    def test(call: Call) -> Finding:
        own = call.spec(x).dtype
        kinds = {name: spec.dtype for name, spec in call.given(*rows)}
        narrow = [name for name, kind in kinds.items() if kind.bits < own.bits]
        if narrow or len(set(kinds.values())) > 1:
            listed = ", ".join(f"{name} {kind.dt}" for name, kind in kinds.items())
            return f"{listed} should have one dtype, as wide as {x} {own.dt} or wider."
        return None

    return invalid(f"{', '.join(rows)} are narrower than {x}", test)


def mode_of_halves(attribute: str, mode: int, *names: str) -> Check:
    """161002 for a mode that takes FLOAT16 alone."""

    def test(call: Call) -> Finding:
        if call.arguments.get(attribute) != mode:
            return None
        for name, spec in call.given(*names):
            if spec.dtype.name != "FLOAT16":
                return f"{name} should be DT_FLOAT16 with {attribute} {mode}, not {spec.dtype.dt}."
        return None

    return invalid(f"{attribute} {mode} with another dtype than FLOAT16", test)

"""Checks that hold for some calls only, as rows of a table: which product, attribute or tensor.

A row is a constructor of checks with its arguments, as in `Operator.checks`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from npusim.operators.checks import unless
from npusim.values.formats import Format

if TYPE_CHECKING:
    from npusim.operators.contract import Check
    from npusim.values.status import StatusCode

Row = tuple[Any, ...]


def on(families: Sequence[str], row: Row) -> Check:
    """The check of a row, on these product families."""
    return unless(lambda call: call.profile.family not in families, _built(row))


def when(attribute: str, values: Sequence[object], row: Row) -> Check:
    """The check of a row, where an attribute is given and has one of these values."""
    return unless(lambda call: call.arguments.get(attribute) not in values, _built(row))


def when_given(name: str, row: Row) -> Check:
    """The check of a row, where an argument is there."""
    return unless(lambda call: not call.is_given(name), _built(row))


def when_in(name: str, kinds: Sequence[str], row: Row) -> Check:
    """The check of a row, where a tensor is there in one of these dtypes."""

    def excused(call: Any) -> bool:
        return all(spec.dtype.name not in kinds for _, spec in call.given(name))

    return unless(excused, _built(row))


def in_fractals(name: str, row: Row) -> Check:
    """The check of a row, where a tensor lies in FRACTAL_NZ."""

    def excused(call: Any) -> bool:
        return all(spec.format is not Format.FRACTAL_NZ for _, spec in call.given(name))

    return unless(excused, _built(row))


def coded(code: StatusCode, row: Row) -> Check:
    """The check of a row, with the code that another part of CANN gives than the host code."""
    return _built(row)._replace(code=code)


def unsure(row: Row) -> Check:
    """The check of a row, where nobody says what a device does with what it objects to."""
    return _built(row)._replace(code=None)


def _built(row: Row) -> Check:
    build, *words = row
    options = words.pop() if words and isinstance(words[-1], dict) else {}
    check: Check = build(*words, **options)
    return check

"""Standard operators by name: what they are called, and how their parameters reach the kernels.

One row of ``standard.csv`` is an operator type as profilers name it, or an aclnn call that amounts
to one. ``inputs`` and ``outputs`` are names of tensors in the kernel's order: ``?`` marks optional
ones, ``*`` lists, which callers spell ``x0``, ``x1`` ...; an output called as an input is that
tensor changed in place; behind ``*`` of an output stands what tells the list's length. Attributes
are ``name:kind``, ``?`` if they can be left out, ``@`` in front of what the kernel calls them,
``-`` for those that decide nothing here, ``~`` in front of the only value that is modelled.
Sources: operator prototypes of CANN 8.1.RC1 and operator definitions of hicann/ops-math and
hicann/ops-nn; headers of the aclnn interfaces.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Literal, cast

from npusim.operators.registry import op_types
from npusim.values.errors import FileError

if TYPE_CHECKING:
    from collections.abc import Mapping

AttributeKind = Literal["int", "float", "bool", "ints", "text"]

_PREFIX = "aclnn"
_ATTRIBUTE = re.compile(r"(\w+):(\w+)(\?)?(?:([@~-])(\S*))?")


@dataclass(frozen=True, slots=True)
class Slot:
    """A tensor, or a list of them; ``length`` names what tells how many an output list has."""

    name: str
    optional: bool = False
    many: bool = False
    length: str = ""


@dataclass(frozen=True, slots=True)
class Attribute:
    """A parameter that is no tensor; ``target`` is what the kernel knows it by, if it does."""

    name: str
    kind: AttributeKind
    optional: bool
    target: str
    only: str = ""


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of a standard operator. ``named`` is false where no prototype is known."""

    name: str
    op_type: str
    inputs: tuple[Slot, ...] = ()
    outputs: tuple[Slot, ...] = ()
    attributes: tuple[Attribute, ...] = ()
    named: bool = True


def standard_names() -> tuple[str, ...]:
    """Every name that :func:`signature_of` knows: aclnn calls and operator types, sorted."""
    return tuple(sorted({*_rows(), *op_types()}))


def signature_of(name: str) -> Signature | None:
    """The signature of a standard operator.

    By its exact name, or in any case and with or without ``aclnn``; None for an unknown one.
    """
    wanted = name.strip()
    rows = _rows()
    if wanted in rows:
        return rows[wanted]
    if wanted in op_types():
        return Signature(wanted, wanted, named=False)
    found = _spellings().get(wanted.lower())
    return None if found is None else signature_of(found)


@cache
def _spellings() -> Mapping[str, str]:
    """Lower-case spellings of all names; an operator type goes before an aclnn call."""
    names = sorted(standard_names(), key=lambda name: not name.startswith(_PREFIX))
    spelled = {name.lower().removeprefix(_PREFIX): name for name in names}
    return spelled | {name.lower(): name for name in names}


@cache
def _rows() -> Mapping[str, Signature]:
    text = files("npusim.operators").joinpath("standard.csv").read_text(encoding="utf-8")
    return {row["name"]: _signature(row) for row in csv.DictReader(text.splitlines())}


def _signature(row: Mapping[str, str]) -> Signature:
    return Signature(
        row["name"],
        row["op_type"],
        tuple(map(_slot, row["inputs"].split())),
        tuple(map(_slot, row["outputs"].split())),
        tuple(map(_attribute, row["attributes"].split())),
    )


def _slot(text: str) -> Slot:
    name, many, length = text.rstrip("?").partition("*")
    return Slot(name, text.endswith("?"), bool(many), length)


def _attribute(text: str) -> Attribute:
    found = _ATTRIBUTE.fullmatch(text)
    if found is None:
        raise FileError("npusim/operators/standard.csv", f"{text} is no attribute")
    name, kind, optional, mark, rest = found.groups()
    target = {"@": rest, "-": "", "~": ""}.get(mark or "", name)
    only = rest if mark == "~" else ""
    return Attribute(name, cast("AttributeKind", kind), bool(optional), target, only)

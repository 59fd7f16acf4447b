"""What a project's host code says of its operators, as its library tells it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from npusim.values.dtypes import DType, from_acl

OPTIONAL, REQUIRED = 1, 2

# The products by the names that AddConfig takes.
# Source: public documentation of Ascend C operator projects (AddConfig).
_FAMILIES = {
    "ascend910": "910", "ascend910b": "A2", "ascend910_93": "A3", "ascend310p": "310P",
    "ascend310b": "310B", "ascend910_95": "950", "ascend950": "950",
}  # fmt: skip


@dataclass(frozen=True)
class Tensor:
    """An input or output; ``dtypes`` are those of each combination that the kernel is made for."""

    name: str
    optional: bool
    valued: bool
    dtypes: tuple[DType, ...]


@dataclass(frozen=True)
class Parameter:
    """An attribute and what it is where a call leaves it out; None without a default."""

    name: str
    kind: str
    required: bool
    default: Any


@dataclass(frozen=True)
class Described:
    """An operator by its place in the library, as its OpDef describes it."""

    place: int
    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    attributes: tuple[Parameter, ...]
    families: tuple[str, ...]
    has_tiling: bool
    infers: bool

    @property
    def combinations(self) -> tuple[tuple[DType, ...], ...]:
        """The dtypes of inputs and outputs together, each combination once."""
        tensors = (*self.inputs, *self.outputs)
        return tuple(dict.fromkeys(zip(*(each.dtypes for each in tensors), strict=True)))


def described(place: int, told: Mapping[str, Any]) -> Described:
    """An operator from what its library tells. Raises ValueError for what isn't simulated."""
    inputs, outputs = (tuple(map(_tensor, told[io])) for io in ("inputs", "outputs"))
    if not outputs:
        raise ValueError("it has no output; one that works in place names its input again")
    counts = {len(each.dtypes) for each in (*inputs, *outputs)}
    if len(counts) != 1 or not counts.pop():
        raise ValueError("its inputs and outputs list different numbers of dtypes")
    return Described(
        place,
        told["name"],
        inputs,
        outputs,
        tuple(map(_parameter, told["attributes"])),
        tuple(dict.fromkeys(_FAMILIES[each] for each in told["socs"] if each in _FAMILIES)),
        bool(told["tiling"]),
        bool(told["infer_shape"]),
    )


def _tensor(told: Mapping[str, Any]) -> Tensor:
    if told["option"] not in (OPTIONAL, REQUIRED):
        raise ValueError(f"{told['name']} is a list of tensors (DYNAMIC), which isn't simulated")
    dtypes = tuple(from_acl(each) for each in told["dtypes"])
    return Tensor(told["name"], told["option"] == OPTIONAL, bool(told["valued"]), dtypes)


def _parameter(told: Mapping[str, Any]) -> Parameter:
    values = {"text": told["text"], "ints": tuple(told["list"]), "floats": ()}
    number = told["number"]
    plain = {"int": int(number), "bool": bool(number), "float": float(number)}
    default = (values | plain)[told["kind"]] if told["has_default"] else None
    return Parameter(told["name"], told["kind"], bool(told["required"]), default)

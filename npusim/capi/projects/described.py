"""What a project's host code says of its operators, as its library tells it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from npusim.values.dtypes import DType, from_acl, is_acl
from npusim.values.errors import UsageError

OPTIONAL, REQUIRED, DYNAMIC = 1, 2, 3

# The products by the names that AddConfig takes.
# Source: public documentation of Ascend C operator projects (AddConfig).
_FAMILIES = {
    "ascend910": "910", "ascend910b": "A2", "ascend910_93": "A3", "ascend310p": "310P",
    "ascend310b": "310B", "ascend910_95": "950", "ascend950": "950",
}  # fmt: skip


# Those whose kernels can be compiled here.
COMPILED = ("910", "A2", "A3", "310P", "310B")


def require_products(names: Sequence[str]) -> None:
    """Raises UsageError for a name that AddConfig doesn't take."""
    for name in names:
        if _FAMILIES.get(name) not in COMPILED:
            known = ", ".join(each for each, family in _FAMILIES.items() if family in COMPILED)
            raise UsageError(f"AddConfig takes no product {name} here", f"Products are {known}.")


@dataclass(frozen=True)
class Tensor:
    """An input or output; ``dtypes`` are those of each combination that the kernel is made for."""

    name: str
    optional: bool
    valued: bool
    dtypes: tuple[DType, ...]
    many: bool = False


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
    combined: Mapping[str, tuple[tuple[DType, ...], ...]]
    has_tiling: bool
    infers: bool

    @property
    def families(self) -> tuple[str, ...]:
        """The products that it is for."""
        return tuple(self.combined)

    @property
    def combinations(self) -> tuple[tuple[DType, ...], ...]:
        """The dtypes of inputs and outputs together, each combination once."""
        return tuple(dict.fromkeys(each for of in self.combined.values() for each in of))

    @property
    def results(self) -> tuple[Tensor, ...]:
        """What comes out: an operator without outputs changes its inputs."""
        return self.outputs or tuple(each for each in self.inputs if not each.optional)

    @property
    def lists(self) -> tuple[int, ...]:
        """The places of parameters that are lists of tensors."""
        tensors = (*self.inputs, *self.outputs)
        return tuple(place for place, each in enumerate(tensors) if each.many)


def described(place: int, told: Mapping[str, Any], added: Sequence[str] = ()) -> Described:
    """An operator from what its library tells, and the products that are ``added`` to its own.

    Raises ValueError for what isn't simulated.
    """
    inputs, outputs = (tuple(map(_tensor, told[io])) for io in ("inputs", "outputs"))
    if not inputs and not outputs:
        raise ValueError("it has neither inputs nor outputs")
    combined = {
        _FAMILIES[soc["name"]]: _combinations(told, soc)
        for soc in (*told["socs"], *({"name": name, "inputs": (), "outputs": ()} for name in added))
        if _FAMILIES.get(soc["name"]) in COMPILED
    }
    return Described(
        place,
        told["name"],
        inputs,
        outputs,
        tuple(map(_parameter, told["attributes"])),
        combined,
        bool(told["tiling"]),
        bool(told["infer_shape"]),
    )


def _combinations(told: Mapping[str, Any], soc: Mapping[str, Any]) -> tuple[tuple[DType, ...], ...]:
    """The dtypes of inputs and outputs together on a product, which may have lists of its own."""
    listed: list[Sequence[int]] = []
    named: dict[str, Sequence[int]] = {}
    for io in ("inputs", "outputs"):
        own = {each["name"]: each for each in soc[io]}
        for each in told[io]:
            one = own.get(each["name"], each)
            listed.append(one["dtypes"] or named.get(one["follows"], ()))
            named[each["name"]] = listed[-1]
    counts = {len(each) for each in listed}
    if len(counts) != 1 or not counts.pop():
        raise ValueError("its inputs and outputs list different numbers of dtypes")
    rows = dict.fromkeys(zip(*listed, strict=True))
    return tuple(tuple(map(from_acl, row)) for row in rows if all(map(is_acl, row)))


def _tensor(told: Mapping[str, Any]) -> Tensor:
    if told["option"] not in (OPTIONAL, REQUIRED, DYNAMIC):
        raise ValueError(f"{told['name']} is neither required nor optional nor a list (DYNAMIC)")
    dtypes = tuple(from_acl(each) for each in told["dtypes"] if is_acl(each))
    is_list = told["option"] == DYNAMIC
    return Tensor(told["name"], told["option"] == OPTIONAL, bool(told["valued"]), dtypes, is_list)


def _parameter(told: Mapping[str, Any]) -> Parameter:
    values = {"text": told["text"], "ints": tuple(told["list"]), "floats": ()}
    number = told["number"]
    plain = {"int": int(number), "bool": bool(number), "float": float(number)}
    default = (values | plain)[told["kind"]] if told["has_default"] else None
    return Parameter(told["name"], told["kind"], bool(told["required"]), default)

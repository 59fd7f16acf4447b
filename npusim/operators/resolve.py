"""The contract of a name: the one of its page, or one made from the operator's definition.

A definition without a page tells parameters and the checks of shapes and attributes, and perhaps
dtypes; else the catalogue has them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from npusim.operators.call_parameters import lengths_of
from npusim.operators.contract import Contract
from npusim.operators.definition import Aclnn, Attribute, Operator, Slot
from npusim.operators.registry import (
    caches,
    definition,
    has_contract,
    has_kernel,
    operator,
    operators,
    prototype,
    ruled,
    standard_names,
)
from npusim.values.errors import UnknownNameError, expect
from npusim.values.spelling import is_tensor

if TYPE_CHECKING:
    from npusim.operators.definition import Prototype
    from npusim.operators.standard import StandardCall

_RESULT = re.compile(r"(out|y)\d*")  # what outputs are called where no prototype is known


def resolve(name: str, arguments: Mapping[str, object]) -> Contract:
    """The contract that a call by ``name`` is judged and planned by.

    An operator's own contract, or one made for a standard operator and these arguments (values, or
    the text of values). Raises UnknownNameError with near misses.
    """
    expect(name, str, "the operator's name")
    found = _named(name)
    if isinstance(found, Contract):
        return found
    known, called = found
    if not called.is_known:
        return _guessed(known, arguments).made()
    return _made(name, tuple(lengths_of(known, called, arguments).items()))


@lru_cache(maxsize=4096)
def _named(name: str) -> Contract | tuple[Operator, Prototype]:
    """The contract of a page, or an operator and the parameters that a name stands for."""
    exact = name.strip()  # MatMul isn't aclnnMatmul
    if not has_contract(f"aclnn{exact}") and has_kernel(exact):
        return prototype(name) or ruled(name) or (definition(name),) * 2
    try:
        return operator(name)
    except UnknownNameError as unknown:
        if (found := prototype(name) or ruled(name)) is not None:
            return found
        candidates = (*operators(), *standard_names())
        raise UnknownNameError("operator", name, candidates, unknown.remedy) from None


@lru_cache(maxsize=1024)
def _made(name: str, lengths: tuple[tuple[str, int], ...]) -> Contract:
    """The contract of a name that isn't a page's, for lists of so many tensors."""
    from npusim.operators.standard import StandardCall  # brings kernels that others have no need of

    known, called = cast("tuple[Operator, Prototype]", _named(name))
    parameters = (called.inputs, called.outputs, called.attributes)
    interface = called if isinstance(called, Aclnn) else None
    return StandardCall(known, called.name, *parameters, dict(lengths), interface).made()


caches.extend((_named, _made))


def standard_families() -> dict[str, tuple[str, ...]]:
    """The names of all standard operators by the family whose kernels they run, both sorted."""
    found: dict[str, list[str]] = {}
    for name in standard_names():
        known = prototype(name)
        if known is not None:
            found.setdefault(known[0].band_class, []).append(name)
    return {family: tuple(names) for family, names in sorted(found.items())}


def _guessed(known: Operator, arguments: Mapping[str, object]) -> StandardCall:
    """The parameters of an operator without a prototype: tensors in the order of the call."""
    from npusim.operators.standard import StandardCall

    tensors = [name for name, value in arguments.items() if _is_tensor(value)]
    outputs = tuple(Slot(name) for name in tensors if _RESULT.fullmatch(name))
    inputs = tuple(Slot(name) for name in tensors if not _RESULT.fullmatch(name))
    attributes = tuple(
        Attribute(name, "text", target=name) for name in arguments if name not in tensors
    )
    return StandardCall(known, known.name, inputs, outputs or (Slot("y"),), attributes)


def _is_tensor(value: object) -> bool:
    if isinstance(value, str):
        return is_tensor(value) or value.lower().endswith(".npy")
    return value is None or hasattr(value, "shape") or hasattr(value, "spec")

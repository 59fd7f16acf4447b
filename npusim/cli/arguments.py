"""Reading NAME=VALUE words and files of arrays into the arguments of an operator."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npusim.operators.arguments import itemized, parameter_of
from npusim.values.errors import ArgumentError
from npusim.values.host import require_bytes
from npusim.values.language import say
from npusim.values.spelling import is_tensor, value_of, wanted_of

if TYPE_CHECKING:
    import numpy as np

    from npusim.operators.contract import Contract, Parameter
    from npusim.values.tensors import TensorSpec


def read_assignments(contract: Contract, words: Iterable[str]) -> dict[str, Any]:
    """The arguments that the NAME=VALUE words give, by parameter name.

    Raises UnknownNameError for a parameter that the operator doesn't have, ArgumentError for a
    value that isn't of the parameter's kind, a word without `=`, or a name given twice.
    """
    arguments: dict[str, Any] = {}
    for word in words:
        given, equals, told = word.partition("=")
        if not equals:
            names = ", ".join(parameter.name for parameter in contract.parameters)
            raise ArgumentError(
                say("{word!r} is not NAME=VALUE").format(word=word),
                say("Parameters: {names}.").format(names=names),
            )
        for name, text in itemized(contract, {given.strip(): told.strip()}):
            parameter = parameter_of(contract, name)
            if parameter.name in arguments:
                raise ArgumentError(
                    say("{parameter} is given twice").format(parameter=parameter.name),
                    say("Give each parameter once."),
                )
            arguments[parameter.name] = _value(parameter, text)
    return arguments


def _value(parameter: Parameter, text: str) -> Any:
    if parameter.kind == "tensor" and text.lower().endswith(".npy") and not is_tensor(text):
        from npusim.reporting.arrays import read_npy

        return read_npy(Path(text))
    return value_of(parameter.name, parameter.kind, text)


def from_archive(contract: Contract, arrays: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, Any]:
    """The arguments in an .npz: arrays for tensors, scalars and vectors for the attributes."""
    arguments: dict[str, Any] = {}
    for name, array in arrays.items():
        parameter = parameter_of(contract, name)
        if parameter.kind == "tensor":
            arguments[parameter.name] = array
        elif parameter.kind.endswith("_array"):
            arguments[parameter.name] = array.ravel().tolist()
        elif array.size == 1:
            arguments[parameter.name] = array.ravel()[0].item()
        else:
            raise ArgumentError(
                say("{name} has {size} values, expected one {wanted_of}").format(
                    name=name, size=array.size, wanted_of=wanted_of(parameter.kind)
                )
            )
    return arguments


def random_tensor(name: str, spec: TensorSpec, seed: int) -> np.ndarray[Any, Any]:
    """Numbers for a tensor that is given by its shape: normal for floats, 0..9 for integers.

    They depend on the seed and the parameter's name, so another parameter changes nothing here.
    """
    import numpy as np

    kind = spec.dtype.numpy
    if kind is None:
        raise ArgumentError(
            say("{name}: NumPy has no {dtype}, so there are no numbers to draw").format(
                name=name, dtype=spec.dtype
            )
        )
    drawn = 4 if spec.dtype.category == "float" else 8  # bytes of a number before it is converted
    require_bytes(spec.numel * (drawn + spec.dtype.itemsize), f"{name}={spec}")
    generator = np.random.default_rng([seed, zlib.crc32(name.encode())])
    if spec.dtype.category == "float":
        return generator.standard_normal(spec.shape, dtype=np.float32).astype(kind)
    if spec.dtype.category == "bool":
        return generator.integers(0, 2, spec.shape).astype(kind)
    return generator.integers(0, 10, spec.shape).astype(kind)

"""Turning what a caller passes (arrays, descriptions, numbers, None) into bound arguments."""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from types import MappingProxyType
from typing import Any

from npusim.operators.contract import Argument, Call, Contract, Parameter, TensorArg
from npusim.values.errors import ArgumentError, NpusimError, UnknownNameError, brief
from npusim.values.formats import Format
from npusim.values.language import say
from npusim.values.layouts import blocks_of
from npusim.values.spelling import tensors_in
from npusim.values.tensors import TensorSpec, parse_tensor

_INT64_RANGE = range(-(2**63), 2**63)
_LISTED = 4  # tensors of a list whose names are told


def bind(
    contract: Contract, arguments: Mapping[str, object], *, require_data: bool
) -> dict[str, Argument]:
    """The arguments of a call, by the parameter's name and in the parameters' order.

    None is a null pointer, for the checks to judge; an omitted optional input is one too. An
    omitted output stays absent until `complete` describes it. With `require_data` every tensor
    input must be an array, and what results are stored into can't be read-only. Raises
    UnknownNameError for a parameter that the operator doesn't have, ArgumentError for a missing one
    or a value of the wrong kind.
    """
    given = _by_parameter(contract, arguments)
    bound: dict[str, Argument] = {}
    for parameter in contract.parameters:
        name = parameter.name
        if name in given:
            bound[name] = _read(contract, parameter, given[name])
        elif parameter.default is not None:
            bound[name] = parameter.default
        elif parameter.io == "in" and parameter.optional:
            bound[name] = None
        elif parameter.io == "in":
            raise ArgumentError(f"{contract.name}: {name} is missing", _wanted(parameter))
        if require_data and parameter.io == "in":
            _require_data(contract, name, bound[name])
    if require_data:
        require_writable(contract, bound)
    return bound


def require_writable(contract: Contract, bound: Mapping[str, Argument]) -> None:
    """ArgumentError where results would be stored into a read-only array."""
    for parameter in contract.parameters:
        name = parameter.name
        argument = bound.get(name) if parameter.io == "out" or parameter.is_changed else None
        given = argument.data if isinstance(argument, TensorArg) else None
        if given is not None and not given.flags.writeable:
            raise ArgumentError(
                f"{contract.name}: {name} is a read-only array, and results are stored into it",
                f"Give one that can be written to: {name}=array.copy().",
            )


def parameter_of(contract: Contract, name: str) -> Parameter:
    """The parameter called `name`, in any case; UnknownNameError with near misses."""
    for parameter in contract.parameters:
        if name.lower() in (spelling.lower() for spelling in (parameter.name, *parameter.aliases)):
            return parameter
    names = [parameter.name for parameter in contract.parameters]
    remedy = f"`npusim ops show {contract.name}` explains them."
    raise UnknownNameError(
        say("parameter of {name}").format(name=contract.name), name, names, remedy
    )


def complete(call: Call) -> Call:
    """The call with its omitted outputs described; for calls that passed the checks."""
    inferred = call.contract.infer_outputs(call)
    missing = {
        name: TensorArg(spec) for name, spec in inferred.items() if name not in call.arguments
    }
    return Call(call.contract, call.profile, MappingProxyType({**call.arguments, **missing}))


def itemized(contract: Contract, arguments: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Arguments with lists of tensors taken apart: tensors=[a, b] are tensors0=a and tensors1=b."""
    names = {parameter.name for parameter in contract.parameters}
    for name, value in arguments.items():
        items = tensors_in(value) if name not in names and f"{name}0" in names else None
        if items is not None:
            yield from ((f"{name}{place}", item) for place, item in enumerate(items))
        else:
            yield name, value


def _shortened(names: Sequence[str]) -> list[str]:
    """Names, of which those of a long list are told by the first and the last."""
    found: list[str] = []
    for _, group in groupby(names, lambda name: name.rstrip("0123456789")):
        alike = list(group)
        found += alike if len(alike) <= _LISTED else [f"{alike[0]} to {alike[-1]}"]
    return found


def _by_parameter(contract: Contract, arguments: Mapping[str, object]) -> dict[str, object]:
    spellings = {
        spelling: parameter.name
        for parameter in contract.parameters
        for spelling in (parameter.name, *parameter.aliases)
    }
    given: dict[str, object] = {}
    for spelling, value in itemized(contract, arguments):
        if spelling not in spellings:
            names = [parameter.name for parameter in contract.parameters]
            remedy = f"Parameters: {', '.join(_shortened(names))}."
            raise UnknownNameError(
                say("parameter of {name}").format(name=contract.name), spelling, names, remedy
            )
        name = spellings[spelling]
        if name in given:
            raise ArgumentError(f"{contract.name}: {name} is given twice", f"Drop {spelling}.")
        given[name] = value
    return given


def _read(contract: Contract, parameter: Parameter, value: object) -> Argument:
    if value is None:
        if parameter.is_pointer or (parameter.kind == "text" and parameter.optional):
            return None
        problem = f"{contract.name}: {parameter.name} is a plain {parameter.kind}, it can't be null"
        raise ArgumentError(problem, _wanted(parameter))
    try:
        found = _READERS[parameter.kind](value)
        return _in_blocks(found) if parameter.formats[0] is Format.FRACTAL_NZ else found
    except NpusimError as error:
        problem = f"{contract.name}: {parameter.name}: {error.message}"
        raise ArgumentError(problem, error.remedy) from None
    except (TypeError, ValueError):
        problem = f"{contract.name}: {parameter.name} can't be {_shown(value)}"
        raise ArgumentError(problem, _wanted(parameter)) from None


def _in_blocks(argument: Argument) -> Argument:
    """A tensor of no stated format as an interface wants it that takes blocks alone (FRACTAL_NZ).

    The numbers of an array of matrices are put into blocks.
    """
    if not isinstance(argument, TensorArg) or argument.spec.format is not Format.UNDEFINED:
        return argument
    spec = TensorSpec(argument.spec.shape, argument.spec.dtype, Format.FRACTAL_NZ)
    if argument.data is None or spec.stored == spec.shape:
        return TensorArg(spec, argument.data)
    return TensorArg(spec, blocks_of(argument.data, spec.stored))


def _require_data(contract: Contract, name: str, argument: Argument) -> None:
    if isinstance(argument, TensorArg) and argument.data is None:
        raise ArgumentError(
            f"{contract.name}: {name} has a shape but no data",
            "Give an array, or ask for an estimate, which needs no data.",
        )


def tensor_of(value: object) -> TensorArg:
    """A tensor as given: an array, a TensorSpec or its spelling. TypeError for anything else."""
    import numpy as np

    if isinstance(value, TensorArg):
        return value
    if isinstance(value, TensorSpec):
        return TensorArg(value.addressable())
    if isinstance(value, str):
        return TensorArg(parse_tensor(value))
    if isinstance(value, np.ma.MaskedArray):
        raise ArgumentError(
            "a masked array is no tensor: a device has no mask",
            "Give array.filled(NUMBER), or array.data for what is below the mask.",
        )
    if isinstance(value, np.generic):
        value = np.asarray(value)
    if not isinstance(value, np.ndarray):
        raise TypeError
    return TensorArg(TensorSpec.of(value), value)


def _integer(value: object) -> int:
    if isinstance(value, bool) or _is_numpy_bool(value):
        raise TypeError
    number = operator.index(value)  # type: ignore[arg-type]
    if number not in _INT64_RANGE:
        raise ArgumentError(f"{number} doesn't fit into 64 bits", "Give a smaller number.")
    return number


def _boolean(value: object) -> bool:
    if isinstance(value, bool) or _is_numpy_bool(value):
        return bool(value)
    raise TypeError


def _is_numpy_bool(value: object) -> bool:
    import numpy as np

    return isinstance(value, np.bool_)


def _double(value: object) -> float:
    # An array of one element would pass as a number, with a warning from NumPy.
    dimensions = getattr(value, "ndim", None)
    if isinstance(value, str | bytes | bool) or _is_numpy_bool(value) or dimensions:
        raise TypeError
    return float(value)  # type: ignore[arg-type]


def _float(value: object) -> float:
    """Rounds to the 32 bits that the C parameter has, so that limits are tested on what arrives."""
    number = _double(value)
    try:
        return float(struct.unpack("f", struct.pack("f", number))[0])
    except OverflowError:
        return math.copysign(math.inf, number)


def _scalar(value: object) -> bool | float | complex:
    """A number of the kind that it is, which decides what dtype it is computed in."""
    import numpy as np

    if isinstance(value, np.generic | np.ndarray) and value.ndim == 0:
        value = value.item()
    if not isinstance(value, bool | int | float | complex):
        raise TypeError
    return value


def _sequence_of(read: Callable[[object], Any]) -> Callable[[object], tuple[Any, ...]]:
    def read_sequence(value: object) -> tuple[Any, ...]:
        import numpy as np

        if isinstance(value, np.ndarray):
            value = value.tolist()
        if not isinstance(value, list | tuple | range):
            raise TypeError
        return tuple(read(entry) for entry in value)

    return read_sequence


def _text(value: object) -> str:
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, list | tuple) and all(isinstance(e, str | int | float) for e in value):
        return ",".join(map(str, value))
    raise TypeError


_READERS: dict[str, Callable[[object], Argument]] = {
    "tensor": tensor_of,
    "int_array": _sequence_of(_integer),
    "bool_array": _sequence_of(_boolean),
    "int64": _integer,
    "float": _float,
    "double": _double,
    "bool": _boolean,
    "text": _text,
    "float_array": _sequence_of(_double),
    "scalar": _scalar,
}
_WANTED = {
    "tensor": "Give a NumPy array or a TensorSpec (text such as 'bf16[2,64]' will do); "
    "None is a null pointer.",
    "int_array": "Give a list of whole numbers, e.g. [1, 3, 6, 7]; None is a null pointer.",
    "bool_array": "Give a list of True and False; None is a null pointer.",
    "int64": "Give a whole number.",
    "float": "Give a number.",
    "double": "Give a number.",
    "bool": "Give True or False.",
    "text": "Give a word.",
    "float_array": "Give a list of numbers, e.g. [0.5, 2.0]; None is a null pointer.",
    "scalar": "Give a number, e.g. 2, 0.5 or True; None is a null pointer.",
}


def _wanted(parameter: Parameter) -> str:
    return _WANTED[parameter.kind]


def _shown(value: object) -> str:
    kind = type(value).__name__
    return brief(value) if isinstance(value, str | int | float | bool) else f"of type {kind}"

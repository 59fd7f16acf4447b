"""Reading NAME=VALUE words into the arguments of an operator."""

from __future__ import annotations

import re
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npusim.values.errors import ArgumentError, UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import numpy as np

    from npusim.operators.contract import Contract, Parameter
    from npusim.values.tensors import TensorSpec

NULL_WORDS = ("null", "none", "nullptr")
TRUE_WORDS = ("true", "yes", "1")
FALSE_WORDS = ("false", "no", "0")

_LOOKS_LIKE_TENSOR = re.compile(r"\s*[\w.:]+\s*\[.*\]\s*(:\s*\w+\s*)?")
_TENSOR_HELP = "Write DTYPE[SIZES] such as bf16[2,64,4096], the path of an .npy file, or null."


def read_assignments(contract: Contract, words: Iterable[str]) -> dict[str, Any]:
    """The arguments that the NAME=VALUE words give, by parameter name.

    Raises UnknownNameError for a parameter that the operator doesn't have, ArgumentError for a
    value that isn't of the parameter's kind, a word without `=`, or a name given twice.
    """
    arguments: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals:
            raise ArgumentError(f"{word!r} is not NAME=VALUE", f"Parameters: {_names(contract)}.")
        parameter = parameter_of(contract, name.strip())
        if parameter.name in arguments:
            raise ArgumentError(f"{parameter.name} is given twice", "Give each parameter once.")
        arguments[parameter.name] = read_value(parameter, text.strip())
    return arguments


def parameter_of(contract: Contract, name: str) -> Parameter:
    """The parameter called `name`; upper and lower case don't matter."""
    for parameter in contract.parameters:
        if name.lower() in (spelling.lower() for spelling in (parameter.name, *parameter.aliases)):
            return parameter
    names = [parameter.name for parameter in contract.parameters]
    remedy = f"npusim ops show {contract.name} explains them."
    raise UnknownNameError(f"parameter of {contract.name}", name, names, remedy)


def read_value(parameter: Parameter, text: str) -> Any:
    """The value that `text` stands for in this parameter; None for a null pointer."""
    if text.lower() in NULL_WORDS:
        return None
    try:
        return _READERS[parameter.kind](text)
    except ValueError:
        wanted = _WANTED[parameter.kind]
        raise ArgumentError(
            f"{parameter.name}={text} is not {wanted}", _EXAMPLES[parameter.kind]
        ) from None


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
                f"{name} has {array.size} values, expected one {_WANTED[parameter.kind]}"
            )
    return arguments


def random_tensor(name: str, spec: TensorSpec, seed: int) -> np.ndarray[Any, Any]:
    """Numbers for a tensor that is given by its shape: normal for floats, 0..9 for integers.

    They depend on the seed and the parameter's name, so another parameter changes nothing here.
    """
    import numpy as np

    kind = spec.dtype.numpy
    if kind is None:
        raise ArgumentError(f"{name}: NumPy has no {spec.dtype}, so there are no numbers to draw")
    generator = np.random.default_rng([seed, zlib.crc32(name.encode())])
    if spec.dtype.category == "float":
        return generator.standard_normal(spec.shape, dtype=np.float32).astype(kind)
    if spec.dtype.category == "bool":
        return generator.integers(0, 2, spec.shape).astype(kind)
    return generator.integers(0, 10, spec.shape).astype(kind)


def _tensor(text: str) -> Any:
    from npusim.values.tensors import parse_tensor

    if _LOOKS_LIKE_TENSOR.fullmatch(text):
        return parse_tensor(text)
    if text.lower().endswith(".npy"):
        from npusim.report.arrays import read_npy

        return read_npy(Path(text))
    raise ValueError(text)


def _boolean(text: str) -> bool:
    word = text.lower()
    if word in TRUE_WORDS:
        return True
    if word in FALSE_WORDS:
        return False
    raise ValueError(text)


def _list_of(read: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    def read_list(text: str) -> list[Any]:
        inner = text[1:-1] if text.startswith("[") and text.endswith("]") else text
        return [read(part.strip()) for part in inner.split(",")] if inner.strip() else []

    return read_list


_READERS: dict[str, Callable[[str], Any]] = {
    "tensor": _tensor,
    "int_array": _list_of(int),
    "bool_array": _list_of(_boolean),
    "int64": int,
    "float": float,
    "double": float,
    "bool": _boolean,
    "text": str,
}
_WANTED = {
    "tensor": "a tensor",
    "int_array": "a list of whole numbers",
    "bool_array": "a list of booleans",
    "int64": "a whole number",
    "float": "a number",
    "double": "a number",
    "bool": "a boolean",
    "text": "a word",
}
_EXAMPLES = {
    "tensor": _TENSOR_HELP,
    "int_array": "Write 1,2,3 or [1,2,3].",
    "bool_array": "Write true,false,true or [true,false,true].",
    "int64": "Write digits, e.g. 32.",
    "float": "Write a number such as 0.5, inf or nan.",
    "double": "Write a number such as 0.5, inf or nan.",
    "bool": "Write true or false.",
    "text": "Write a word.",
}


def _names(contract: Contract) -> str:
    return ", ".join(parameter.name for parameter in contract.parameters)

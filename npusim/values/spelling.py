"""How people spell names and values on the command line and in files.

A tensor is ``bf16[2,64,4096]`` or ``fp16[2,3,8,8]:NCHW``, a list ``1,2,3`` or ``[1,2,3]``, a null
pointer ``null``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from npusim.values.errors import ArgumentError
from npusim.values.formats import Format
from npusim.values.language import say
from npusim.values.tensors import parse_tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from npusim.values.tensors import TensorSpec

ALL: Final = "all"
_NULL: Final = ("null", "none", "nullptr")
_TRUTH: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_BETWEEN: Final = re.compile(r"\s*,\s*(?![^\[\]]*\])")  # commas that aren't in brackets
_TENSOR: Final = re.compile(r"\s*[\w.:]+\s*\[.*\]\s*(:\s*\w+\s*)?")


def visible(text: str) -> str:
    """The text with its control characters written out, so that a terminal only shows them.

    Line ends and tabs stay; marks that turn the direction of writing are written out too.
    """
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


def names_in(words: Iterable[str], every: Callable[[], Iterable[str]]) -> list[str]:
    """The names that the words list, each once; `all` among them stands for what `every` gives."""
    parts = (part.strip() for word in words for part in word.split(","))
    found: dict[str, None] = {}
    for part in parts:
        found.update(dict.fromkeys(every() if part.lower() == ALL else [part]))
    return list(found)


def is_profile_path(name: str) -> bool:
    """Whether the name of a chip is the path of a user's profile."""
    return name.lower().endswith((".yaml", ".yml"))


def is_null(value: object) -> bool:
    """Whether a value stands for a null pointer: None, or a word for it."""
    return value is None or (isinstance(value, str) and value.strip().lower() in _NULL)


def with_nulls(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values, with None for the words that stand for a null pointer."""
    return {str(name): None if is_null(value) else value for name, value in values.items()}


def is_tensor(text: str) -> bool:
    """Whether a text is meant to be a tensor, ``DTYPE[...]``, right or wrong."""
    return _TENSOR.fullmatch(text) is not None


def tensors_in(value: object) -> list[object] | None:
    """A list of tensors, as its items or spelled `fp16[2,3],fp16[4,3]`; None for anything else.

    One alone is a list in brackets, `[fp16[2,3]]`.
    """
    if isinstance(value, list | tuple):
        return list(value)
    if not isinstance(value, str) or not value.strip():
        return None
    text = value.strip()
    if text.startswith("[") and text.endswith("]"):
        return list(_BETWEEN.split(text[1:-1]))
    items = _BETWEEN.split(text)
    return list(items) if len(items) > 1 else None


def tensor_text(tensor: TensorSpec) -> str:
    """A contiguous tensor as `parse_tensor` reads it."""
    text = f"{tensor.dtype.name}[{','.join(map(str, tensor.shape))}]"
    return text if tensor.format is Format.UNDEFINED else f"{text}:{tensor.format.name}"


def value_of(name: str, kind: str, value: object) -> Any:
    """The value of a parameter of this `kind` (of `operators.contract`), None for a null pointer.

    Text is read, in lists too; anything else is given back as it is. Raises ArgumentError for text
    that isn't of the kind.
    """
    if value is None or (kind != "text" and is_null(value)):
        return None
    if isinstance(value, list | tuple) and kind.endswith("_array"):
        return [value_of(name, _ENTRIES[kind], each) for each in value]
    if not isinstance(value, str):
        return value
    read, wanted, example = _READERS[kind]
    try:
        return read(value.strip())
    except ValueError:
        raise ArgumentError(
            say("{name}={value} is not {wanted}").format(
                name=name, value=value, wanted=say(wanted)
            ),
            say(example),
        ) from None


def wanted_of(kind: str) -> str:
    """What a parameter of this kind takes, in words."""
    return _READERS[kind][1]


def guessed(value: object) -> object:
    """What text stands for whose kind nobody knows: a number, a truth value, a list, or itself."""
    if not isinstance(value, str):
        return value
    words = value.strip("[]()").split(",")
    if len(words) > 1 or value[:1] in ("[", "("):
        return [guessed(word) for word in words if word.strip()]
    for convert in (int, float):
        try:
            return convert(value)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(value.lower(), value)


def _tensor(text: str) -> TensorSpec:
    if not is_tensor(text):
        raise ValueError(text)
    return parse_tensor(text)


def _boolean(text: str) -> bool:
    if text.lower() not in _TRUTH:
        raise ValueError(text)
    return _TRUTH[text.lower()]


def _scalar(text: str) -> object:
    found = guessed(text)
    if not isinstance(found, bool | int | float):
        raise ValueError(text)
    return found


def _list_of(read: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    def read_list(text: str) -> list[Any]:
        inner = text[1:-1] if text.startswith("[") and text.endswith("]") else text
        return [read(part.strip()) for part in inner.split(",")] if inner.strip() else []

    return read_list


_NUMBER = (float, "a number", "Write a number such as 0.5, inf or nan.")
_READERS: Final[dict[str, tuple[Callable[[str], Any], str, str]]] = {
    "tensor": (
        _tensor,
        "a tensor",
        "Write DTYPE[SIZES] such as bf16[2,64,4096], the path of an .npy file, or null.",
    ),
    "int_array": (_list_of(int), "a list of whole numbers", "Write 1,2,3 or [1,2,3]."),
    "bool_array": (
        _list_of(_boolean),
        "a list of booleans",
        "Write true,false,true or [true,false,true].",
    ),
    "int64": (int, "a whole number", "Write digits, e.g. 32."),
    "float": _NUMBER,
    "double": _NUMBER,
    "bool": (_boolean, "a boolean", "Write true or false."),
    "text": (str, "a word", "Write a word."),
    "float_array": (_list_of(float), "a list of numbers", "Write 0.5,2 or [0.5,2]."),
    "scalar": (_scalar, "a number", "Write a number such as 2, 0.5 or true."),
}
_ENTRIES: Final = {"int_array": "int64", "bool_array": "bool", "float_array": "float"}

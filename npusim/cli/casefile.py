"""Case files: calls with their inputs and, if known, the outputs they must give.

A file is one case or `{"cases": [case, ...]}`; a case is::

    {"op": "aclnnX", "name": "...", "attrs": {"N": 2, ...},
     "inputs":  {"gradOut": {"dtype": "float32", "shape": [2, 3], "data": [...]}, "gamma": null},
     "outputs": {"gradInput": {...}}, "tolerance": {"rtol": 1e-4, "atol": 1e-5}, "status": 0}

`data` is row major; "inf", "-inf" and "nan" are strings; null is a null pointer.  `outputs`,
`tolerance` and `status` may be left out.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npusim.reading.files import read_text
from npusim.reading.markup import json_value
from npusim.values.errors import DTypeError, FileError
from npusim.values.language import say

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """One call: attributes and inputs by parameter name, expected outputs, and the tolerance."""

    op: str
    name: str
    attributes: Mapping[str, Any]
    inputs: Mapping[str, Array | None]
    outputs: Mapping[str, Array]
    rtol: float
    atol: float
    status: int

    @property
    def arguments(self) -> dict[str, Any]:
        """What to pass to Device.run; an output is given by its dtype and shape."""
        from npusim.values.tensors import TensorSpec

        outputs = {name: TensorSpec.of(array) for name, array in self.outputs.items()}
        return {**self.inputs, **self.attributes, **outputs}


def read_cases(path: str | Path) -> list[Case]:
    """All cases of a file, in order; FileError says which case and which key is wrong."""
    content = _read_json(Path(path))
    listed = content.get("cases", [content])
    if not isinstance(listed, list) or not listed:
        raise FileError(path, say("cases is not a list of cases"))
    default_op = content.get("op")
    return [_case(_Place(path, f"cases[{i}]"), raw, default_op) for i, raw in enumerate(listed)]


@dataclass(frozen=True)
class _Place:
    """Where in which file we are reading, for the messages."""

    path: str | Path
    key: str

    def __truediv__(self, key: str) -> _Place:
        return _Place(self.path, f"{self.key}.{key}")

    def wrong(self, problem: str, remedy: str = "") -> FileError:
        return FileError(self.path, f"{self.key}: {problem}", remedy)


def _read_json(path: Path) -> dict[str, Any]:
    content = json_value(read_text(path), path)
    if not isinstance(content, dict):
        raise FileError(
            path, say("is not a JSON object"), say("A case file is {op, attrs, inputs, outputs}.")
        )
    return content


def _case(place: _Place, raw: object, default_op: object) -> Case:
    if not isinstance(raw, dict):
        raise place.wrong("is not an object")
    op = raw.get("op", default_op)
    if not isinstance(op, str):
        raise (place / "op").wrong("is missing", say('Name the operator: "op": "aclnnX".'))
    inputs = _mapping(place, raw, "inputs")
    outputs = _mapping(place, raw, "outputs")
    tolerance = _mapping(place, raw, "tolerance")
    attributes = _mapping(place, raw, "attrs")
    return Case(
        op=op,
        name=str(raw.get("name", "")) or place.key,
        attributes={name: _number(value) for name, value in attributes.items()},
        inputs={
            name: None if item is None else _array(place / f"inputs.{name}", item)
            for name, item in inputs.items()
        },
        outputs={
            name: _array(place / f"outputs.{name}", item)
            for name, item in outputs.items()
            if item is not None
        },
        rtol=_tolerance(place, tolerance, "rtol"),
        atol=_tolerance(place, tolerance, "atol"),
        status=_status(place, raw.get("status", 0)),
    )


def _mapping(place: _Place, raw: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = raw.get(key, {})
    if not isinstance(value, dict):
        raise (place / key).wrong("is not an object")
    return value


def _tolerance(place: _Place, tolerance: Mapping[str, Any], key: str) -> float:
    value = tolerance.get(key, 0.0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise (place / f"tolerance.{key}").wrong(
            say("{value!r} is not a number of at least 0").format(value=value)
        )
    return float(value)


def _status(place: _Place, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise (place / "status").wrong(say("{value!r} is not a return code").format(value=value))
    return value


def _number(value: Any) -> Any:
    """An attribute, with "inf", "-inf" and "nan" turned into the numbers they stand for."""
    return float(value) if isinstance(value, str) and value in ("inf", "-inf", "nan") else value


def _array(place: _Place, raw: object) -> Array:
    import numpy as np

    from npusim.values.dtypes import dtype

    if not isinstance(raw, dict) or not {"dtype", "shape", "data"} <= set(raw):
        raise place.wrong(say("is not {dtype, shape, data}"))
    shape = raw["shape"]
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        raise (place / "shape").wrong(say("{shape!r} is not a list of sizes").format(shape=shape))
    try:
        kind = dtype(raw["dtype"])
    except DTypeError as problem:
        raise (place / "dtype").wrong(problem.message, problem.remedy) from problem
    if kind.numpy is None:
        raise (place / "dtype").wrong(say("NumPy has no {kind}").format(kind=kind))
    read = float if kind.is_float else operator.index  # an integer tensor takes no fractions
    try:
        values = [read(_number(value)) for value in _flatten(raw["data"])]
        wide = np.array(values, dtype=np.float64 if kind.is_float else np.int64)
        array: Array = wide.astype(kind.numpy).reshape(shape)
    except (TypeError, ValueError, OverflowError) as problem:
        described = f"{raw['dtype']}[{','.join(map(str, shape))}]"
        raise (place / "data").wrong(
            say("doesn't fit {described}: {problem}").format(described=described, problem=problem)
        ) from problem
    return array


def _flatten(data: Any) -> Iterator[Any]:
    """The numbers of a list of numbers or of lists, row by row."""
    if isinstance(data, list):
        for item in data:
            yield from _flatten(item)
    else:
        yield data

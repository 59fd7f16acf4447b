"""Results as JSON that every parser reads: no NaN literals, no types that only Python knows.

A number that isn't finite becomes the string "nan", "inf" or "-inf", the spelling that case files
use too.  Keys keep their order, so the same result gives the same bytes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from enum import Enum
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from npusim.runtime.results import Result
    from npusim.runtime.timeline import TaskResult
    from npusim.values.errors import NpusimError
    from npusim.values.status import Status
    from npusim.values.tensors import TensorSpec

# Larger tensors belong into an .npz; the JSON then gives their extent only.
MAX_ELEMENTS = 4096


def dumps(value: object) -> str:
    """`value` as indented JSON, in ASCII, so that no terminal or pipe can spoil it."""
    return json.dumps(plain(value), indent=2, allow_nan=False)


def plain(value: object) -> Any:
    """`value` with nothing in it but what JSON knows."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else repr(float(value))
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):  # NumPy scalars and arrays
        return plain(value.tolist())
    return str(value)


def fields(of: object, names: str) -> dict[str, Any]:
    """Attributes of an object by name; ``key=attribute.path`` where the key is another."""
    pairs = (word.partition("=") for word in names.split())
    return {key: attrgetter(path or key)(of) for key, _, path in pairs}


def status(answer: Status) -> dict[str, Any]:
    """A status: code (null where unknown), verdict, the reason and the remedy, the rules asked."""
    code = None if answer.code is None else int(answer.code)
    more = fields(answer, "rules_checked rules_source") if answer.ok else {}
    return {"code": code, **fields(answer, "name ok verdict message remedy"), **more}


def error(problem: NpusimError) -> dict[str, Any]:
    """An error: its kind, its exit code, what it says of a call, the message and the remedy."""
    verdict = getattr(problem, "verdict", None)
    return {
        "kind": type(problem).__name__,
        "exit_code": problem.exit_code,
        "code": getattr(problem, "code", None),
        "verdict": None if verdict is None else str(verdict),
        **fields(problem, "message remedy"),
    }


def result(res: Result) -> dict[str, Any]:
    """The time of a call and what it is made of; outputs are left to `array`."""
    low_us, high_us = res.band_us
    return {
        "duration_us": res.duration_us,
        "band_us": [low_us, high_us],
        **fields(res, "band_basis cycles bound pipes workspace_size"),
        "tasks": [task(item) for item in res.tasks],
        "assumptions": list(res.assumptions),
    }


def task(item: TaskResult) -> dict[str, Any]:
    """One device task of a call."""
    return fields(
        item,
        "name block_dim start_us duration_us launch_us cycles bound pipes bytes_read bytes_written",
    )


def array(data: np.ndarray[Any, Any]) -> dict[str, Any]:
    """A tensor with its data when it is small, in the spelling of case files."""
    described: dict[str, Any] = {"dtype": str(data.dtype), "shape": list(data.shape)}
    if data.size <= MAX_ELEMENTS:
        # bfloat16 and the like have no JSON of their own; their float value is exact
        flat = data.ravel()
        described["data"] = [
            plain(v) for v in (flat.astype(float) if flat.dtype.kind == "V" else flat)
        ]
    else:
        described["data"] = None
        described["note"] = f"more than {MAX_ELEMENTS} elements: write them with -o FILE.npz"
    return described


def spec(tensor: TensorSpec) -> dict[str, Any]:
    """A tensor without data."""
    told = tensor.format.name
    storage = None if told == "UNDEFINED" else told  # left to the operator's page
    return {"dtype": tensor.dtype.name, "shape": list(tensor.shape), "format": storage}

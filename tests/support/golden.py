"""Golden cases as arrays, and the worked tiling examples."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from npusim.values.dtypes import dtype
from support.paths import DATA

GOLDEN = DATA / "golden"

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class GoldenCase:
    """One call with the outputs that two independent float64 formulas agree on."""

    op: str
    name: str
    arguments: dict[str, Any]
    outputs: dict[str, Array]
    rtol: float
    atol: float

    @property
    def dtypes(self) -> set[str]:
        """The dtypes of the tensors, spelled as operator pages do."""
        given = (value for value in self.arguments.values() if isinstance(value, np.ndarray))
        return {dtype(array.dtype).name for array in (*given, *self.outputs.values())}


def numeric_cases(op: str) -> list[GoldenCase]:
    """The numeric cases of an operator."""
    text = (GOLDEN / f"{op}.json").read_text(encoding="utf-8")
    return [_case(raw) for raw in json.loads(text)["cases"]]


def tiling_examples(op_type: str) -> list[dict[str, Any]]:
    """The worked tiling arithmetic of a kernel: soc, shape and tiling of each example."""
    text = (GOLDEN / "tiling_examples.json").read_text(encoding="utf-8")
    return [raw for raw in json.loads(text)["examples"] if raw["api"] == op_type]


def _case(raw: dict[str, Any]) -> GoldenCase:
    inputs = {name: None if t is None else _array(t) for name, t in raw["inputs"].items()}
    outputs = {name: _array(t) for name, t in raw["outputs"].items()}
    tolerance = raw["tolerance"]
    arguments = {**inputs, **raw["attrs"]}
    return GoldenCase(
        raw["op"], raw["name"], arguments, outputs, tolerance["rtol"], tolerance["atol"]
    )


def _array(tensor: dict[str, Any]) -> Array:
    kind = dtype(tensor["dtype"]).numpy
    assert kind is not None
    values = np.array(tensor["data"], dtype=kind if kind.kind in "iu" else np.float64)
    with np.errstate(over="ignore"):  # some cases are about what doesn't fit into half types
        return values.astype(kind).reshape(tensor["shape"])

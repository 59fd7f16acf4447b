"""Small tasks of the norms of sums and of the quantising norms; and types that one stands for."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.operators.registry import builder, op_types
from npusim.schedules.streamed import Streamed

if TYPE_CHECKING:
    from collections.abc import Callable

# Operands, lines and results of each: T a tile of rows, t one in int8, C a column of float32.
NORMS = {
    "AddLayerNorm": ("TT", 3, "TCCT"),
    "DeepNorm": ("TT", 2, "CCT"),
    "GemmaRmsNorm": ("T", 1, "TC"),
    "AddRmsNormCast": ("TT", 1, "WTCT"),
    "LayerNormQuant": ("T", 4, "t"),
    "AddLayerNormQuant": ("TT", 7, "ttTTCC"),
    "RmsNormQuant": ("T", 4, "t"),
    "RmsNormDynamicQuant": ("T", 3, "tC"),
    "AddRmsNormDynamicQuantV2": ("TT", 4, "ttTCC"),
    "AddRmsNormQuantV2": ("TT", 6, "ttTT"),
}
_ATTRIBUTES = {
    "AddLayerNormQuant": {"dynamic": True},
    "LayerNormQuant": {"quant_mode": 0},
}

# Their functions are NumPy's, and their kernels those of one schedule, whatever they compute.
_MODULES = ("npusim.ops.random.streams", "npusim.ops.indexing.decided")
STANDING_FOR_ALL = ("MaskedScatter", "LogitGrad")

# What a kernel class under another operator type has for itself.
_OF_A_NAME = {"op_type", "__doc__", "__module__", "__abstractmethods__", "_abc_impl"}


@cache
def stood_for() -> frozenset[str]:
    """Types whose schedule another one's task tries."""

    def has_one(op_type: str) -> bool:
        make: Any = builder(op_type)
        return isinstance(getattr(make, "__self__", None), Streamed) or make.__module__ in _MODULES

    return frozenset(filter(has_one, op_types())).difference(STANDING_FOR_ALL)


@cache
def with_a_kernel_of_their_own() -> tuple[str, ...]:
    """The first type of each kernel class; and all that functions make, which may ask for the type.

    Classes that differ by their type alone are one, on the same chips: the others are this kernel
    under more names.
    """
    from support.task_cases import chips_of  # which imports this module

    found: dict[object, str] = {}
    for op_type in op_types():
        if op_type in stood_for():
            continue
        made: Any = getattr(builder(op_type), "__self__", None)
        while isinstance(made, type) and vars(made).keys() <= _OF_A_NAME:
            made = made.__base__
        kernel = made if isinstance(made, type) else op_type
        found.setdefault((kernel, chips_of(op_type)), op_type)
    return tuple(found.values())


def norm(pick: Any, op_type: str, task: Callable[..., Any]) -> Any:
    """Rows with lines of gains, shifts and scales."""
    operands, lines, results = NORMS[op_type]
    rows, columns, kind = pick.shape(1, 2, 600), pick.size(), pick.half()
    shape = (*rows, columns)
    inputs = [pick.numbers(*shape, kind=kind) for _ in operands]
    inputs += [pick.positive(columns, kind=kind) for _ in range(lines)]
    kinds = {"T": kind, "t": np.int8, "W": np.float32}
    outputs = [
        np.zeros(rows, np.float32) if each == "C" else np.zeros(shape, kinds[each])
        for each in results
    ]
    return task(inputs, outputs, _ATTRIBUTES.get(op_type, {}))


def streamed(pick: Any, op_type: str, task: Callable[..., Any]) -> Any:
    """Elements that a mask chooses, or two operands."""
    shape = pick.shape()
    x, y = pick.numbers(*shape), pick.positive(*shape)
    if op_type == "MaskedScatter":
        return task([x, x > 0, y], [np.zeros_like(x)])
    return task([y, x], [np.zeros_like(x)], {"eps": 0.1})

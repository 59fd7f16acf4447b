"""Elementwise operators as the AI CPU computes them, on dtypes that no AI core takes."""

from __future__ import annotations

import numpy as np

AI_CPU = {
    "Abs": np.abs,
    "Add": np.add,
    "Ceil": np.ceil,
    "Cos": np.cos,
    "Div": np.true_divide,
    "Equal": np.equal,
    "Exp": np.exp,
    "Floor": np.floor,
    "Greater": np.greater,
    "GreaterEqual": np.greater_equal,
    "Less": np.less,
    "LessEqual": np.less_equal,
    "Log": np.log,
    "Log1p": np.log1p,
    "LogicalAnd": np.logical_and,
    "LogicalNot": np.logical_not,
    "LogicalOr": np.logical_or,
    "Maximum": np.maximum,
    "Minimum": np.minimum,
    "Mul": np.multiply,
    "Neg": np.negative,
    "NotEqual": np.not_equal,
    "Pow": np.power,
    "RealDiv": np.true_divide,
    "Reciprocal": np.reciprocal,
    "Round": np.rint,
    "Rsqrt": lambda x: 1 / np.sqrt(x),
    "Select": np.where,
    "SelectV2": np.where,
    "Sign": np.sign,
    "Sin": np.sin,
    "Sqrt": np.sqrt,
    "Square": np.square,
    "Sub": np.subtract,
}

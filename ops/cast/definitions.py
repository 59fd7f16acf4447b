"""Conversion between dtypes."""

from npusim.operators.definition import Aclnn, Operator, family, text, whole
from npusim.operators.results import converted

OPERATORS = family(
    "cast",
    Operator(
        "Cast",
        "x -> y",
        "kernel",
        (whole("dst_type?"),),
        Aclnn("aclnnCast", attributes=(text("dtype", "dst_type"),)),
        infer=converted,
    ),
)

"""Conversion between dtypes."""

from npusim.operators.checks import same_shape
from npusim.operators.definition import Aclnn, Operator, family, text, whole
from npusim.operators.results import converted

# fmt: off
OPERATORS = family(
    "cast",
    fused=".elementwise.fusion:fused_kernel",
    kernel=(
        Operator("Cast", "x -> y", (whole("dst_type?"),),
            Aclnn("aclnnCast", attributes=(text("dtype", "dst_type"),)), infer=converted,
            checks=((same_shape, "x", "y"),)),
    ),
)

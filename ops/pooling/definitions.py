"""Pooling: the largest element or the mean of windows, and the gradients."""

from npusim.operators.checks import attribute_at_least, length_is, rank_is
from npusim.operators.definition import Operator, family, flag, ints, text

_WINDOWS = (ints("ksize?"), ints("strides?"), ints("pads?"), flag("ceil_mode?", None),
    text("data_format?"))  # fmt: skip
_FOUR = tuple((length_is, 4, name) for name in ("ksize", "strides", "pads"))
_MEANS = (*_WINDOWS, flag("exclusive?"))

# fmt: off
OPERATORS = family(
    "pooling",
    checks={"sliding": (
        (rank_is, 5, "x"), (rank_is, 5, "y"), *_FOUR,
        (attribute_at_least, "ksize", 1), (attribute_at_least, "strides", 1),
        (attribute_at_least, "pads", 0))},
    adaptive=(
        Operator("AdaptiveAvgPool3d", kernel="adaptive_avg_pool_3d"),
        Operator("AdaptiveAvgPool3D", kernel="adaptive_avg_pool_3d"),
    ),
    max_argmax=(
        Operator("MaxPoolWithArgmax", also=("MaxPoolWithArgmaxV1",)),
    ),
    sliding=(
        Operator("MaxPool", "x -> y", _WINDOWS, also=("MaxPoolV2",)),
        Operator("MaxPoolV3", "x -> y", _WINDOWS),
        Operator("AvgPool", "x -> y", _MEANS),
        Operator("AvgPoolV2", "x -> y", _MEANS),
    ),
    max_argmax_grad=(
        Operator("MaxPoolGradWithArgmax", also=("MaxPoolGradWithArgmaxV1",)),
    ),
)

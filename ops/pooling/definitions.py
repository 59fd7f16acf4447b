"""Pooling: the largest element or the mean of windows, and the gradients."""

from npusim.operators.definition import Operator, family

# fmt: off
OPERATORS = family(
    "pooling",
    adaptive=(
        Operator("AdaptiveAvgPool3d", kernel="adaptive_avg_pool_3d"),
        Operator("AdaptiveAvgPool3D", kernel="adaptive_avg_pool_3d"),
    ),
    max_argmax=(
        Operator("MaxPoolWithArgmax", also=("MaxPoolWithArgmaxV1",)),
    ),
    max_argmax_grad=(
        Operator("MaxPoolGradWithArgmax", also=("MaxPoolGradWithArgmaxV1",)),
    ),
)

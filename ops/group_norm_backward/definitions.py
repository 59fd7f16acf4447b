"""aclnnGroupNormBackward: the gradients of group normalisation."""

from npusim.operators.definition import Operator, Page, family

# fmt: off
OPERATORS = family(
    "group_norm_backward",
    Page("aclnnGroupNormBackward", "contract:CONTRACT", ("native_group_norm_backward",)),
    kernel=(Operator("GroupNormGrad"),),
)

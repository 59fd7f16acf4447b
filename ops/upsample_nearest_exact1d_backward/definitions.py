"""aclnnUpsampleNearestExact1dBackward: the gradient of 1-D nearest-exact upsampling."""

from npusim.operators.definition import Operator, Page, family

# fmt: off
OPERATORS = family(
    "upsample_nearest_exact1d_backward",
    Page("aclnnUpsampleNearestExact1dBackward", "contract:CONTRACT",
        ("_upsample_nearest_exact1d_backward",)),
    kernel=(Operator("UpsampleNearestExact2dGrad"),),
)

"""aclnnBinaryCrossEntropyBackward: the gradient of the binary cross entropy."""

from npusim.operators.checks import same_dtype
from npusim.operators.definition import Operator, Page, family
from npusim.operators.results import like
from npusim.operators.shape_checks import broadcast

# fmt: off
OPERATORS = family(
    "binary_cross_entropy_backward",
    Page("aclnnBinaryCrossEntropyBackward", "contract:CONTRACT",
        ("binary_cross_entropy_backward",)),
    kernel=(Operator("BinaryCrossEntropyGrad", "x y grad_output weight? -> output", infer=like,
        checks=((same_dtype, "<", ">"), (broadcast, ">", "<"))),),
)

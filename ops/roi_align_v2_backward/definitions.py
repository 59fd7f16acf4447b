"""aclnnRoiAlignV2Backward: the gradient of RoI align."""

from npusim.operators.definition import Operator, Page, family

# fmt: off
OPERATORS = family(
    "roi_align_v2_backward",
    Page("aclnnRoiAlignV2Backward", "contract:CONTRACT", ("roi_align_backward",)),
    kernel=(Operator("ROIAlignGrad"),),
)

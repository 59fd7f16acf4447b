"""aclnnRoiAlignV2Backward: the gradient of RoI align."""

from npusim.operators.definition import Operator, Page, family

OPERATORS = family(
    "roi_align_v2_backward",
    Page("aclnnRoiAlignV2Backward", "contract:CONTRACT", ("roi_align_backward",)),
    Operator("ROIAlignGrad", kernel="kernel"),
)

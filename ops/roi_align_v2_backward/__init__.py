"""aclnnRoiAlignV2Backward: the gradient of RoI align."""

PROVIDES = {
    "aclnnRoiAlignV2Backward": "contract:CONTRACT",
}
ALIASES = {
    "roi_align_backward": "aclnnRoiAlignV2Backward",
}

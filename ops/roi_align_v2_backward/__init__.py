"""aclnnRoiAlignV2Backward: the gradient of RoI align."""

PROVIDES = {
    "aclnnRoiAlignV2Backward": "contract:CONTRACT",
    "ROIAlignGrad": "kernel:ROIAlignGrad",
}
ALIASES = {
    "roi_align_backward": "aclnnRoiAlignV2Backward",
}

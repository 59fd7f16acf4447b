"""RoI align: bins of boxes filled with the mean of samples between four pixels."""

from npusim.operators.checks import same_dtype
from npusim.operators.definition import Composed, Operator, family, flag, real, text, whole
from npusim.ops.roi_align.checks import bins_of_boxes, samples_are

# fmt: off
OPERATORS = family(
    "roi_align",
    kernel=(Operator("ROIAlign", kernel="roi_align"),),
    host=(
        Composed("aclnnRoiAlign", "self rois batchIndices -> out",
            (text("mode"), whole("outputHeight", "high"), whole("outputWidth", "wide"),
             whole("samplingRatio", "samples"), real("spatialScale", "scale")), "of_images",
            checks=((same_dtype, "self", "rois", "out"),
                (bins_of_boxes, "self", "rois", "out", "outputHeight", "outputWidth",
                    "batchIndices"),
                (samples_are, "samplingRatio", "spatialScale", {"least": 0.0, "mode": "mode"}))),
        Composed("aclnnRoiAlignV2", "self boxes -> out",
            (whole("pooledHeight", "high"), whole("pooledWidth", "wide"),
             real("spatialScale", "scale"), whole("samplingRatio", "samples"), flag("aligned")),
            "pooled", checks=((same_dtype, "self", "boxes", "out"),
                (bins_of_boxes, "self", "boxes", "out", "pooledHeight", "pooledWidth"),
                (samples_are, "samplingRatio", "spatialScale"))),
    ),
)

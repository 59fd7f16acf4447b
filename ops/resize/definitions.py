"""Images brought to another size: nearest pixels and their gradient, and between four pixels."""

from npusim.operators.checks import attribute_at_least, length_is, rank_in
from npusim.operators.definition import Aclnn, Operator, family, flag, ints, real
from npusim.ops.resize.results import resized

_SIZE = (ints("size?"), flag("align_corners?"), flag("half_pixel_centers?"))
_OUTPUT_SIZE = (ints("outputSize", "size"),)
_SCALES = (real("scalesH?", None), real("scalesW?", None))
_BILINEAR = (*_OUTPUT_SIZE, flag("alignCorners?", "align_corners"), *_SCALES)
_CHECKS = ((rank_in, (4, 5), "<"), (length_is, 2, "size"), (attribute_at_least, "size", 1))

# fmt: off
OPERATORS = family(
    "resize",
    checks=dict.fromkeys(("bilinear", "nearest", "nearest_grad"), _CHECKS),
    bilinear=(
        Operator("ResizeBilinearV2", "x -> y", _SIZE, also=("SyncResizeBilinearV2",),
            infer=resized),
        Operator("ResizeBilinear", aclnn=Aclnn("aclnnUpsampleBilinear2d", attributes=_BILINEAR),
            kernel="resize_bilinear", infer=resized),
    ),
    nearest=(
        Operator("ResizeNearestNeighbor"),
        Operator("ResizeNearestNeighborV2", "x -> y", _SIZE, also=("ResizeNearestNeighborV2D",),
            kernel="ResizeNearestNeighbor", infer=resized),
        Operator("UpsampleNearest2d",
            aclnn=Aclnn("aclnnUpsampleNearest2d", attributes=_OUTPUT_SIZE),
            kernel="ResizeNearestNeighbor", infer=resized),
    ),
    nearest_grad=(
        Operator("ResizeNearestNeighborGrad"),
        Operator("ResizeNearestNeighborV2Grad", "grads -> y", _SIZE,
            also=("ResizeNearestNeighborV2GradD",), kernel="ResizeNearestNeighborGrad",
            infer=resized),
    ),
)

"""Images brought to another size: nearest pixels and their gradient, and between four pixels."""

from npusim.operators.definition import Aclnn, Operator, family, flag, ints, real

_SIZE = (ints("size?"), flag("align_corners?"), flag("half_pixel_centers?"))
_OUTPUT_SIZE = (ints("outputSize", "size"),)
_SCALES = (real("scalesH?", None), real("scalesW?", None))
_BILINEAR = (*_OUTPUT_SIZE, flag("alignCorners?", "align_corners"), *_SCALES)

# fmt: off
OPERATORS = family(
    "resize",
    bilinear=(
        Operator("ResizeBilinearV2", "x -> y", _SIZE, also=("SyncResizeBilinearV2",)),
        Operator("ResizeBilinear", aclnn=Aclnn("aclnnUpsampleBilinear2d", attributes=_BILINEAR),
            kernel="resize_bilinear"),
    ),
    nearest=(
        Operator("ResizeNearestNeighbor"),
        Operator("ResizeNearestNeighborV2", "x -> y", _SIZE, also=("ResizeNearestNeighborV2D",),
            kernel="ResizeNearestNeighbor"),
        Operator("UpsampleNearest2d",
            aclnn=Aclnn("aclnnUpsampleNearest2d", attributes=_OUTPUT_SIZE),
            kernel="ResizeNearestNeighbor"),
    ),
    nearest_grad=(
        Operator("ResizeNearestNeighborGrad"),
        Operator("ResizeNearestNeighborV2Grad", "grads -> y", _SIZE,
            also=("ResizeNearestNeighborV2GradD",), kernel="ResizeNearestNeighborGrad"),
    ),
)

"""Images brought to another size: nearest pixels and their gradient, and between four pixels."""

from npusim.operators.definition import Aclnn, Operator, family, flag, ints, real

_SIZE = (ints("size?"), flag("align_corners?"), flag("half_pixel_centers?"))
_OUTPUT_SIZE = (ints("outputSize", "size"),)
_SCALES = (real("scalesH?", None), real("scalesW?", None))
_BILINEAR = (*_OUTPUT_SIZE, flag("alignCorners?", "align_corners"), *_SCALES)

OPERATORS = family(
    "resize",
    Operator("ResizeBilinearV2", "x -> y", "bilinear", _SIZE, also=("SyncResizeBilinearV2",)),
    Operator(
        "ResizeBilinear",
        kernel="bilinear:resize_bilinear",
        aclnn=Aclnn("aclnnUpsampleBilinear2d", attributes=_BILINEAR),
    ),
    Operator("ResizeNearestNeighbor", kernel="nearest"),
    Operator(
        "ResizeNearestNeighborV2",
        "x -> y",
        "nearest:ResizeNearestNeighbor",
        _SIZE,
        also=("ResizeNearestNeighborV2D",),
    ),
    Operator(
        "UpsampleNearest2d",
        kernel="nearest:ResizeNearestNeighbor",
        aclnn=Aclnn("aclnnUpsampleNearest2d", attributes=_OUTPUT_SIZE),
    ),
    Operator("ResizeNearestNeighborGrad", kernel="nearest_grad"),
    Operator(
        "ResizeNearestNeighborV2Grad",
        "grads -> y",
        "nearest_grad:ResizeNearestNeighborGrad",
        _SIZE,
        also=("ResizeNearestNeighborV2GradD",),
    ),
)

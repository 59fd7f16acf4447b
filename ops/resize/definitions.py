"""Images brought to another size, and the gradients."""

from npusim.operators.checks import attribute_at_least, length_is, rank_in, rank_is
from npusim.operators.definition import Aclnn, Attribute, Operator, family, flag, ints, real
from npusim.ops.resize.results import resized
from npusim.ops.resize.tables import gradient_sizes, to_input, to_size

_SIZE = (ints("size?"), flag("align_corners?"), flag("half_pixel_centers?"))
_OUTPUT_SIZE = (ints("outputSize", "size"),)
_IGNORED = (real("scalesH?", None), real("scalesW?", None))
_BILINEAR = (*_OUTPUT_SIZE, flag("alignCorners?", "align_corners"), *_IGNORED)
_CHECKS = ((rank_in, (4, 5), "<"), (length_is, 2, "size"), (attribute_at_least, "size", 1))

_ALIGN = (flag("alignCorners?", "align_corners"),)
_SCALES = {
    1: (real("scales?", "scale"),),
    2: (real("scalesH?", "scale_h"), real("scalesW?", "scale_w")),
    3: (real("scalesD?", "scale_d"), real("scalesH?", "scale_h"), real("scalesW?", "scale_w")),
}
_TOLD = (ints("size?"), flag("align_corners?"), real("scale?"), real("scale_d?"), real("scale_h?"),
    real("scale_w?"))  # fmt: skip


def _to(
    name: str,
    kernel: str,
    axes: int,
    aclnn: str,
    *,
    align: bool = True,
    scales: tuple[Attribute, ...] | None = None,
    tensors: str = "self -> out",
) -> Operator:
    """Images to another size, ``axes`` of them spatial."""
    more = _SCALES[axes] if scales is None else scales
    attributes = (*_OUTPUT_SIZE, *(_ALIGN if align else ()), *more)
    checks = ((rank_is, axes + 2, "x"), (length_is, axes, "size"), (attribute_at_least, "size", 1))
    interface = Aclnn(aclnn, tensors, attributes)
    return Operator(name, "x -> y", _TOLD, interface, kernel=kernel, infer=to_size, checks=checks)


def _back(
    name: str,
    kernel: str,
    axes: int,
    aclnn: str,
    *,
    align: bool = True,
    tensors: str = "gradOut -> gradInput",
) -> Operator:
    """Gradients back to the size of the images."""
    attributes = (*_OUTPUT_SIZE, ints("inputSize", "input_size"), *(_ALIGN if align else ()),
        *_SCALES[axes])  # fmt: skip
    checks = ((rank_is, axes + 2, "grads"), (length_is, axes, "size"),
        (attribute_at_least, "size", 1), (gradient_sizes, "grads", "size", "input_size",
            {"axes": axes}))  # fmt: skip
    interface = Aclnn(aclnn, tensors, attributes)
    told = (*_TOLD, ints("input_size?"))
    return Operator(
        name, "grads -> dx", told, interface, kernel=kernel, infer=to_input, checks=checks
    )


_OTHER = "gradOutput -> out"
_EXACT = "aclnnUpsampleNearestExact"

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
    tables=(
        _to("UpsampleNearest1d", "nearest_1d", 1, "aclnnUpsampleNearest1d", align=False, scales=()),
        _to("UpsampleNearest1dV2", "nearest_1d", 1, "aclnnUpsampleNearest1dV2", align=False,
            scales=(real("scaleL?", "scale"),)),
        _to("UpsampleNearest2dV2", "nearest_2d", 2, "aclnnUpsampleNearest2dV2", align=False),
        _to("UpsampleNearest3d", "nearest_3d", 3, "aclnnUpsampleNearest3d", align=False),
        _to("UpsampleNearestExact1d", "exact_1d", 1, f"{_EXACT}1d", align=False),
        _to("UpsampleNearestExact2d", "exact_2d", 2, f"{_EXACT}2d", align=False),
        _to("UpsampleNearestExact3d", "exact_3d", 3, f"{_EXACT}3d", align=False),
        _to("UpsampleLinear1d", "linear_1d", 1, "aclnnUpsampleLinear1d"),
        _to("ResizeUpsampleTrilinear", "trilinear_3d", 3, "aclnnUpsampleTrilinear3d"),
        _to("UpsampleBicubic2d", "bicubic_2d", 2, "aclnnUpsampleBicubic2d"),
        _to("UpsampleBilinear2dAA", "bilinear_aa", 2, "aclnnUpsampleBilinear2dAA",
            tensors="input -> out"),
        _to("UpsampleBicubic2dAA", "bicubic_aa", 2, "aclnnUpsampleBicubic2dAA",
            tensors="x -> out"),
        _back("UpsampleNearest1dGrad", "nearest_1d_grad", 1, "aclnnUpsampleNearest1dBackward",
            align=False, tensors="gradOut -> out"),
        _back("UpsampleNearest2dGrad", "nearest_2d_grad", 2, "aclnnUpsampleNearest2dBackward",
            align=False),
        _back("UpsampleNearest3dGrad", "nearest_3d_grad", 3, "aclnnUpsampleNearest3dBackward",
            align=False),
        _back("UpsampleNearestExact2dBackward", "exact_2d_grad", 2, f"{_EXACT}2dBackward",
            align=False, tensors=_OTHER),
        _back("UpsampleNearestExact3dGrad", "exact_3d_grad", 3, f"{_EXACT}3dBackward",
            align=False),
        _back("UpsampleLinear1dGrad", "linear_1d_grad", 1, "aclnnUpsampleLinear1dBackward",
            tensors="gradOut -> out"),
        _back("UpsampleBilinear2dGrad", "bilinear_2d_grad", 2, "aclnnUpsampleBilinear2dBackward",
            tensors="gradOut -> out"),
        _back("UpsampleBilinear2dGradV2", "bilinear_2d_grad", 2,
            "aclnnUpsampleBilinear2dBackwardV2", tensors="gradOut -> out"),
        _back("UpsampleTrilinear3dBackward", "trilinear_3d_grad", 3,
            "aclnnUpsampleTrilinear3dBackward"),
        _back("UpsampleBicubic2dGrad", "bicubic_2d_grad", 2, "aclnnUpsampleBicubic2dBackward"),
        _back("UpsampleBilinear2dAABackward", "bilinear_aa_grad", 2,
            "aclnnUpsampleBilinear2dAABackward", tensors=_OTHER),
        _back("UpsampleBicubic2dAAGrad", "bicubic_aa_grad", 2, "aclnnUpsampleBicubic2dAAGrad",
            tensors=_OTHER),
    ),
)

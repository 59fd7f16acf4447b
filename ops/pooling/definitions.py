"""Pooling: the largest element or the mean of windows, and the gradients."""

from npusim.operators.checks import attribute_at_least, length_is, rank_is, same_shape
from npusim.operators.definition import Aclnn, Composed, Operator, family, flag, ints, text, whole
from npusim.operators.results import like_second
from npusim.ops.pooling.tables import even_sizes, evenly, masked, pooled, windows_fit
from npusim.ops.pooling.unfolding import folded, unfolded, unfolds

_WINDOWS = (ints("ksize?"), ints("strides?"), ints("pads?"), flag("ceil_mode?", None),
    text("data_format?"))  # fmt: skip
_FOUR = tuple((length_is, 4, name) for name in ("ksize", "strides", "pads"))
_EXCLUSIVE = (*_WINDOWS, flag("exclusive?"))

# Plain images: attributes of the operator types, and of the aclnn interfaces.
_PLAIN = (ints("ksize?"), ints("strides?"), ints("pads?"), flag("ceil_mode?"))
_MEANS = (*_PLAIN, flag("count_include_pad?"), whole("divisor_override?"))
_LARGEST = (*_PLAIN, ints("dilations?"))
_EVEN = (ints("output_size?"),)
_CEIL = flag("ceilMode", "ceil_mode")
_SIDES = (ints("kernelSize", "ksize"), ints("stride", "strides"), ints("padding", "pads"))
_DIVISOR = (_CEIL, flag("countIncludePad", "count_include_pad"),
    whole("divisorOverride", "divisor_override"))  # fmt: skip
_MATH = whole("cubeMathType", None)
_DILATED = (*_SIDES, ints("dilation", "dilations"), _CEIL)
_SIZE = (ints("outputSize", "output_size"),)
_BACK = "gradOutput self -> gradInput"
_PLACED = "gradOutput self indices -> gradInput"


_LISTED = ("ksize", "strides", "pads", "dilations")
_LISTS = tuple(ints(f"{name}?") for name in _LISTED)
_UNFOLDED = (ints("kernelSize", "ksize"), ints("dilation", "dilations"), ints("padding", "pads"),
    ints("stride", "strides"))  # fmt: skip


def _slides(axes: int) -> tuple[tuple[object, ...], ...]:
    """What windows that slide over x have to fulfil."""
    return ((windows_fit, "x", "ksize", "strides", "pads", "dilations", {"axes": axes}),)


def _even(axes: int) -> tuple[tuple[object, ...], ...]:
    """What windows that cover x evenly have to fulfil."""
    return ((even_sizes, "x", "output_size", {"axes": axes}),)


# fmt: off
OPERATORS = family(
    "pooling",
    checks={"sliding": (
        (rank_is, 5, "x"), (rank_is, 5, "y"), *_FOUR,
        (attribute_at_least, "ksize", 1), (attribute_at_least, "strides", 1),
        (attribute_at_least, "pads", 0))},
    adaptive=(
        Operator("AdaptiveAvgPool3d", "x -> y", _EVEN,
            Aclnn("aclnnAdaptiveAvgPool3d", attributes=_SIZE), ("AdaptiveAvgPool3D",),
            kernel="adaptive_avg_pool_3d", infer=evenly(3), checks=_even(3)),
    ),
    averages=(
        Operator("AdaptiveAvgPool2d", "x -> y", _EVEN,
            Aclnn("aclnnAdaptiveAvgPool2d", attributes=_SIZE), kernel="adaptive_avg_pool_2d",
            infer=evenly(2), checks=_even(2)),
        Operator("AdaptiveAvgPool2dGrad", "grads x -> dx", (),
            Aclnn("aclnnAdaptiveAvgPool2dBackward", "gradOutput self -> out"),
            kernel="adaptive_avg_pool_2d_grad", infer=like_second),
        Operator("AdaptiveAvgPool3dGrad", "grads x -> dx", (),
            Aclnn("aclnnAdaptiveAvgPool3dBackward", "gradOutput self -> out"),
            kernel="adaptive_avg_pool_3d_grad", infer=like_second),
        Operator("AvgPool2d", "x -> y", _MEANS,
            Aclnn("aclnnAvgPool2d", attributes=(ints("kernelSize", "ksize"), ints("strides"),
                ints("paddings", "pads"), *_DIVISOR, _MATH)),
            kernel="avg_pool_2d", infer=pooled(2), checks=_slides(2)),
        Operator("AvgPool2dGrad", "grads x -> dx", _MEANS,
            Aclnn("aclnnAvgPool2dBackward", _BACK,
                (_SIDES[0], ints("stride?", "strides"), _SIDES[2], *_DIVISOR, _MATH)),
            kernel="avg_pool_2d_grad", infer=like_second, checks=_slides(2)),
        Operator("AvgPool3D", "x -> y", _MEANS,
            Aclnn("aclnnAvgPool3d", attributes=(*_SIDES, *_DIVISOR)),
            kernel="avg_pool_3d", infer=pooled(3), checks=_slides(3)),
        Operator("AvgPool3DGrad", "grads x -> dx", _MEANS,
            Aclnn("aclnnAvgPool3dBackward", "gradOuput self -> output", (*_SIDES, *_DIVISOR)),
            kernel="avg_pool_3d_grad", infer=like_second, checks=_slides(3)),
    ),
    largest=(
        Operator("AdaptiveMaxPool2d", "x -> y indices", _EVEN,
            Aclnn("aclnnAdaptiveMaxPool2d", "self -> outputOut indicesOut", _SIZE,
                host="host:largest_evenly"),
            kernel="adaptive_max_pool_2d", infer=evenly(2, places=True), checks=_even(2)),
        Operator("AdaptiveMaxPool2dGrad", "grads x indices -> dx", (),
            Aclnn("aclnnAdaptiveMaxPool2dBackward", _PLACED),
            kernel="adaptive_max_pool_2d_grad", infer=like_second,
            checks=((same_shape, "grads", "indices"),)),
        Operator("AdaptiveMaxPool3d", "x -> y indices", _EVEN,
            Aclnn("aclnnAdaptiveMaxPool3d", "self -> outputOut indicesOut", _SIZE),
            kernel="adaptive_max_pool_3d", infer=evenly(3, places=True), checks=_even(3)),
        Operator("AdaptiveMaxPool3DGrad", "grads x indices -> dx", (),
            Aclnn("aclnnAdaptiveMaxPool3dBackward", _PLACED),
            kernel="adaptive_max_pool_3d_grad", infer=like_second,
            checks=((same_shape, "grads", "indices"),)),
        Operator("MaxPool2dWithIndices", "x -> y indices", _LARGEST,
            Aclnn("aclnnMaxPool2dWithIndices", "self -> out indices", _DILATED,
                host="host:largest"),
            kernel="max_pool_2d", infer=pooled(2, places=True), checks=_slides(2)),
        Operator("MaxPool2dWithIndicesGrad", "grads x indices -> dx", _LARGEST,
            Aclnn("aclnnMaxPool2dWithIndicesBackward", _PLACED, _DILATED),
            kernel="max_pool_2d_grad", infer=like_second,
            checks=((same_shape, "grads", "indices"), *_slides(2))),
        Operator("MaxPool3DWithArgmaxV2", "x -> y indices", _LARGEST,
            Aclnn("aclnnMaxPool3dWithArgmax", "self -> out indices", _DILATED),
            kernel="max_pool_3d", infer=pooled(3, places=True), checks=_slides(3)),
        Operator("MaxPool3DGradWithArgmax", "grads x indices -> dx", _LARGEST,
            Aclnn("aclnnMaxPool3dWithArgmaxBackward", _PLACED, _DILATED),
            kernel="max_pool_3d_grad", infer=like_second,
            checks=((same_shape, "grads", "indices"), *_slides(3))),
        Operator("MaxPool2d", "x -> y", _LARGEST,
            Aclnn("aclnnMaxPool", attributes=(ints("kernelShape", "ksize"), ints("strides"),
                whole("autoPad", None), ints("pads"), ints("dilations"),
                whole("ceilMode", "ceil_mode"))),
            kernel="max_pool", infer=pooled(2), checks=_slides(2)),
    ),
    host=(
        Composed("aclnnMaxPool2dWithMask", "self -> out indices",
            (ints("kernelSize", "ksize"), ints("stride", "strides"), ints("padding", "pads"),
             ints("dilation", "dilations"), flag("ceilMode", "ceil_mode")), "largest_with_mask",
            checks=((masked, "out", "indices", "ksize"), (windows_fit, "self", "ksize",
                "strides", "pads", "dilations", {"axes": 2}))),
    ),
    unfolding=(
        Operator("Im2col", "x -> y", _LISTS,
            Aclnn("aclnnIm2col", attributes=_UNFOLDED), infer=unfolded,
            kernel="im2col", checks=((unfolds, "x", *_LISTED, {"rank": 4}),)),
        Operator("Col2im", "grads -> dx", (*_LISTS, ints("input_size?")),
            Aclnn("aclnnIm2colBackward", "gradOutput -> out",
                (ints("inputSize", "input_size"), *_UNFOLDED)),
            infer=folded, kernel="col2im",
            checks=((unfolds, "grads", *_LISTED, "input_size", {"rank": 3}),)),
    ),
    max_argmax=(
        Operator("MaxPoolWithArgmax", also=("MaxPoolWithArgmaxV1",)),
    ),
    sliding=(
        Operator("MaxPool", "x -> y", _WINDOWS, also=("MaxPoolV2",)),
        Operator("MaxPoolV3", "x -> y", _WINDOWS),
        Operator("AvgPool", "x -> y", _EXCLUSIVE),
        Operator("AvgPoolV2", "x -> y", _EXCLUSIVE),
    ),
    volumes=(Operator("MaxPool3D", kernel="max_pool_3d"),),
    max_argmax_grad=(
        Operator("MaxPoolGradWithArgmax", also=("MaxPoolGradWithArgmaxV1",)),
    ),
)

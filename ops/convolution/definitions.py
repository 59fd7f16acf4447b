"""Convolutions and their gradients."""

from npusim.operators.checks import attribute_at_least, length_is, rank_is
from npusim.operators.definition import (
    Composed,
    Definition,
    Operator,
    Page,
    family,
    flag,
    ints,
    whole,
)
from npusim.operators.shape_checks import fits
from npusim.ops.convolution.checks import convolution, convolved

_WINDOW = (
    ints("strides?"), ints("pads?"), ints("dilations?"), whole("groups?", None),
    flag("enable_hf32?"),
)  # fmt: skip

# fmt: off
OPERATORS: tuple[Definition, ...] = family(
    "convolution",
    Page("aclnnConvolution", "contract:CONVOLUTION", ("conv2d",)),
    Page("aclnnConvolutionBackward", "backward_contract:CONVOLUTION_BACKWARD"),
    fused="fused:convolution",
    plain=(
        Operator("Conv2D", "x filter bias? -> y", _WINDOW, also=("DepthwiseConv2D",),
            infer=convolved, kernel="convolution",
            checks=((convolution, "x", "filter", "bias", "y"),)),
    ),
    host=(
        Composed("aclnnConvDepthwise2d", "self weight bias? -> out",
            (ints("kernelSize", None), ints("stride", "strides"), ints("padding", "pads"),
                ints("dilation", "dilations"), whole("cubeMathType", "cube_math_type")),
            "depthwise",
            checks=((rank_is, 4, "self", "weight"), (length_is, 2, "stride", "padding", "dilation"),
                (attribute_at_least, "stride", 1), (attribute_at_least, "dilation", 1),
                (attribute_at_least, "padding", 0),
                (fits, "weight", "o 1 *taps", "bias", "o", "out", "n o h w"))),
    ),
    volumes=(Operator("Conv3D"),),
    solid=(Operator("Conv3DBackpropFilter", also=("Conv3DBackpropFilterV2",),
        kernel="filter_gradient"),
        Operator("Conv3DBackpropInput", also=("Conv3DBackpropInputV2", "Conv3DTranspose",
            "Conv3DTransposeV2"), kernel="input_gradient")),
    averaged=(Operator("AvgPoolGradVm", also=("AvgPoolGradD",), kernel="mean_gradient"),),
    gradient_records=(
        Operator("Conv2DBackpropFilter", also=("Conv2DBackpropFilterD",), kernel="filter_gradient"),
        Operator("FusedDbnDw", kernel="normalised_filter_gradient"),
        Operator("Conv2DBackpropInput", kernel="input_gradient", also=(
            "Conv2DBackpropInputD", "Conv2DTranspose", "Conv2DTransposeD", "Deconvolution")),
        Operator("FusionOp_Conv2DBackpropInput_ReluGradV2", kernel="input_gradient",
            also=("FusionOp_Conv2DBackpropInput_AddN_ReluGradV2",)),
    ),
)

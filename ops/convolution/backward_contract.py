"""What aclnnConvolutionBackward accepts.

Source of the checks and their order: hicann/ops-nn conv/convolution_backward
(op_api/aclnn_convolution_backward.cpp, docs/aclnnConvolutionBackward.md).
"""

from __future__ import annotations

from functools import partial

from npusim.hardware.families import BF16_FAMILIES, FLOAT_KINDS
from npusim.operators.checks import (
    any_empty,
    asked_for,
    asked_not_null,
    attribute_in,
    dtype_supported,
    invalid,
    length_is,
    not_null,
    rank_in,
    sizes,
    unless,
)
from npusim.operators.contract import Call, Contract, Finding, Parameter, Typical
from npusim.ops.convolution.contract import (
    ALLOW_FP32_DOWN_PRECISION,
    CHANNELS,
    CUBE_MATH_TYPE,
    FORMATS,
    WINDOW,
    common_dtype,
    lengths,
    math_type,
    missing,
    null_output_padding,
    out_channels,
    plain_formats,
    result_shape,
    values,
)
from npusim.values.dtypes import FLOAT
from npusim.values.formats import Format
from npusim.values.tensors import TensorSpec

OUTPUTS = ("gradInput", "gradWeight", "gradBias")
_GIVEN = ("gradOutput", "input", "weight")
_VOLUMES = 5  # dimensions


def _null_bias_sizes(call: Call) -> Finding:
    if "gradBias" in asked_for(call, *OUTPUTS) and call.is_null("biasSizes"):
        return "biasSizes is needed for gradBias, but is a null pointer."
    return None


def _ranks(call: Call) -> Finding:
    wanted = call.spec("input").rank
    for name, spec in call.given(*_GIVEN):
        if spec.rank != wanted:
            return f"{name} should have {wanted} dimensions like input, but has {spec.rank}."
    return None


def _product_limits(call: Call) -> Finding:
    if call.profile.family in BF16_FAMILIES:
        return None
    if call.spec("input").rank == _VOLUMES:
        return f"{call.profile.name} has gradients of lines and planes only."
    for name, spec in call.given(*_GIVEN):
        if spec.is_empty:
            return f"{name} {sizes(spec.shape)} has no elements, which {call.profile.name} needs."
    return None


def _shapes(call: Call) -> dict[str, tuple[int, ...]]:
    return {
        "gradInput": call.spec("input").shape,
        "gradWeight": call.spec("weight").shape,
        "gradBias": (out_channels(call),),
    }


def _gradient_shapes(call: Call) -> Finding:
    wanted = {"gradOutput": result_shape(call)}
    wanted |= {name: _shapes(call)[name] for name in asked_for(call, *OUTPUTS)}
    for name, spec in call.given(*wanted):
        if spec.shape != wanted[name]:
            return f"{name} should be {sizes(wanted[name])}, but is {sizes(spec.shape)}."
    if "gradBias" in wanted and call.ints("biasSizes") != wanted["gradBias"]:
        told = sizes(call.ints("biasSizes"))
        return f"biasSizes should be {sizes(wanted['gradBias'])}, but is {told}."
    return None


def _infer_outputs(call: Call) -> dict[str, TensorSpec]:
    kind, like = common_dtype(call), call.spec("input").format
    formats = {"gradBias": Format.ND}
    shapes = _shapes(call)
    return {
        name: TensorSpec(shapes[name], kind, formats.get(name, like))
        for name in asked_for(call, *OUTPUTS)
    }


_tensor = partial(Parameter, kind="tensor", dtypes=FLOAT_KINDS, formats=FORMATS, rank=(3, 5))
_out = partial(_tensor, io="out", optional=True)

CONVOLUTION_BACKWARD = Contract(
    name="aclnnConvolutionBackward",
    summary="Gradients of a convolution with respect to its input, its weight and its bias.",
    parameters=(
        _tensor("gradOutput", io="in", description="Gradient that arrives; shape of the output."),
        _tensor("input", io="in", description="Images of the convolution."),
        _tensor("weight", io="in", description="Its weight."),
        Parameter(
            "biasSizes",
            "int_array",
            optional=True,
            description="The shape of the bias, [output channels].",
        ),
        *WINDOW,
        Parameter("transposed", "bool", description="Whether the convolution was the transpose."),
        *CHANNELS,
        Parameter(
            "outputMask", "bool_array", description=f"Which of {', '.join(OUTPUTS)} to compute."
        ),
        CUBE_MATH_TYPE,
        _out("gradInput", description="Gradient of input, of its shape."),
        _out("gradWeight", description="Gradient of weight, of its shape."),
        _out("gradBias", rank=(1, 1), formats=(Format.ND,), description="Gradient of the bias."),
    ),
    products=("910", "A2", "310P", "A3", "950"),
    checks=(
        not_null(*_GIVEN, "stride", "padding", "dilation", "outputMask"),
        length_is(3, "outputMask"),
        asked_not_null(*OUTPUTS),
        missing("biasSizes is missing for gradBias", _null_bias_sizes),
        missing("outputPadding is missing for a transposed convolution", null_output_padding),
        dtype_supported(*_GIVEN, *OUTPUTS),
        rank_in((3, 4, 5), *_GIVEN),
        invalid("gradOutput and weight don't have the dimensions of input", _ranks),
        plain_formats("gradOutput", "input", "weight", "gradInput", "gradWeight"),
        invalid("stride, padding, dilation or outputPadding have other lengths", lengths),
        unless(
            lambda call: any_empty(call, "weight"),
            invalid("stride, dilation, padding, groups or sizes are out of range", values),
        ),
        invalid("gradOutput or a gradient hasn't the convolution's shape", _gradient_shapes),
        attribute_in("cubeMathType", tuple(range(4))),
        invalid("the product can't compute what cubeMathType asks for", math_type),
        invalid("the product doesn't take such tensors", _product_limits),
    ),
    infer_outputs=_infer_outputs,
    is_empty=lambda call: any_empty(call, *_GIVEN),
    plan="backward_plan:build",
    limits=(
        "BFLOAT16 and three dimensions on Atlas A2 and later products only.",
        "310P and Atlas training products compute in FLOAT16; FLOAT needs cubeMathType 1 or 2.",
    ),
    notes=(
        "Partial gradients of the weight meet in memory by float32 additions, in any order.",
        "Outputs that outputMask leaves out are neither needed nor written.",
        "Of three dimensions the gradient of the weight alone is modelled, without groups.",
    ),
    source="hicann/ops-nn conv/convolution_backward",
    typical=Typical(
        "8x64x56x56, 64 kernels of 3x3",
        {
            "gradOutput": TensorSpec((8, 64, 56, 56), FLOAT),
            "input": TensorSpec((8, 64, 56, 56), FLOAT),
            "weight": TensorSpec((64, 64, 3, 3), FLOAT),
            "biasSizes": [64],
            "stride": [1, 1],
            "padding": [1, 1],
            "dilation": [1, 1],
            "transposed": False,
            "outputPadding": [0, 0],
            "groups": 1,
            "outputMask": [True, True, True],
            "cubeMathType": ALLOW_FP32_DOWN_PRECISION,
        },
    ),
)

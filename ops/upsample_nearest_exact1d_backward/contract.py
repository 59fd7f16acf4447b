"""What aclnnUpsampleNearestExact1dBackward accepts.

Source of the checks and their order: hicann/ops-cv image/upsample_nearest_exact2d_grad
(op_host/op_api). The page has the ratio upside down; we limit what the source limits.
"""

from __future__ import annotations

from functools import partial

from npusim.hardware.families import everywhere
from npusim.operators.checks import (
    attribute_at_least,
    dtype_supported,
    invalid,
    length_is,
    not_null,
    rank_is,
    same_dtype,
    same_format,
    sizes,
)
from npusim.operators.contract import Call, Contract, Finding, Parameter, Typical
from npusim.values.dtypes import BFLOAT16, FLOAT, FLOAT16
from npusim.values.formats import Format
from npusim.values.tensors import TensorSpec

_MAX_RATIO = 50


def _batch_and_channels(call: Call) -> Finding:
    wanted = call.spec("gradOutput").shape[:2]
    for _, spec in call.given("out"):
        if spec.shape[:2] != wanted:
            got = sizes(spec.shape[:2])
            return f"N and C of out {got} must match those of gradOutput {sizes(wanted)}."
    return None


def _ratio(call: Call) -> Finding:
    scale = call.number("scales")
    length, shrunk = call.spec("gradOutput").shape[2], call.ints("inputSize")[2]
    # In whole numbers, because 1/50 has no exact float and the limit itself is allowed.
    if scale <= _MAX_RATIO if scale > 0 else length <= _MAX_RATIO * shrunk:
        return None
    ratio = f"scales {scale}" if scale > 0 else f"{length} / {shrunk}"
    return (
        f"The ratio of gradOutput's length to inputSize[2] should be at most {_MAX_RATIO}, "
        f"but got {ratio}."
    )


def _positive_sizes(call: Call) -> Finding:
    shapes = {"gradOutput": call.spec("gradOutput").shape, "inputSize": call.ints("inputSize")[2:]}
    for name, shape in shapes.items():
        if min(shape) <= 0:
            return f"The sizes of {name} {sizes(shape)} should be larger than 0."
    return None


def _length(call: Call) -> Finding:
    wanted = call.ints("inputSize")[2]
    for _, spec in call.given("out"):
        if spec.shape[2] != wanted:
            return f"The length of out {spec.shape[2]} must match inputSize[2] = {wanted}."
    return None


def _infer_outputs(call: Call) -> dict[str, TensorSpec]:
    like = call.spec("gradOutput")
    shape = (*like.shape[:2], call.ints("inputSize")[2])
    return {"out": TensorSpec(shape, like.dtype, like.format)}


_KINDS = everywhere(FLOAT, FLOAT16, BFLOAT16)
_FORMATS = (Format.NCL, Format.ND)
_input = partial(Parameter, kind="tensor", io="in", dtypes=_KINDS, rank=(3, 3), formats=_FORMATS)
_output = partial(Parameter, kind="tensor", io="out", dtypes=_KINDS, rank=(3, 3), formats=_FORMATS)

CONTRACT = Contract(
    name="aclnnUpsampleNearestExact1dBackward",
    summary="Gradient of 1-D nearest-exact interpolation with respect to its input.",
    parameters=(
        _input("gradOutput", description="Gradient that arrives: [N, C, length of the output]."),
        Parameter(
            "outputSize",
            "int_array",
            optional=True,
            description="Length of the forward output; the length of gradOutput counts.",
            aliases=("outputSizeOptional",),
        ),
        Parameter(
            "inputSize",
            "int_array",
            description="Shape of the forward input, [N, C, length]; only the length counts.",
        ),
        Parameter(
            "scales",
            "double",
            description="Forward factor, output over input; 0 takes it from the sizes.",
        ),
        _output("out", description="The gradient: [N, C, inputSize[2]]."),
    ),
    products=("A2", "A3", "950"),
    checks=(
        not_null("gradOutput", "inputSize", "out"),
        dtype_supported("gradOutput"),
        same_dtype("gradOutput", "out"),
        same_format("gradOutput", "out"),
        rank_is(3, "gradOutput"),
        rank_is(3, "out"),
        length_is(3, "inputSize"),
        length_is(1, "outputSize"),
        invalid("gradOutput and out differ in N or C", _batch_and_channels),
        attribute_at_least("scales", 0),
        invalid("the length of gradOutput is more than 50 times inputSize[2]", _ratio),
        invalid("N, C or a length is 0", _positive_sizes),
        invalid("the length of out isn't inputSize[2]", _length),
    ),
    infer_outputs=_infer_outputs,
    limits=(
        "Atlas A2 and later products only.",
        "Three dimensions; the page prints four for out, which the API rejects.",
        "gradOutput is at most 50 times as long as out (scales at most 50).",
        "No empty tensors.",
    ),
    notes=(
        "A null outputSize is accepted, and its value is never used, as on the device.",
        "The sample that is printed on the page doesn't compile.",
        "An out without inputSize[2] as length returns 161002; the device fails later.",
        "The sums are products with zeros and ones: infinity makes a slide of outputs NaN.",
        "A scale of 1 with sizes that differ is summed up; the device would copy shifted rows.",
    ),
    source="hicann/ops-cv image/upsample_nearest_exact2d_grad; CANN 8.1.RC1 operator information",
    typical=Typical(
        "64x256x4096 from 8192",
        {
            "gradOutput": TensorSpec((64, 256, 8192), FLOAT),
            "outputSize": [8192],
            "inputSize": [64, 256, 4096],
            "scales": 0.0,
        },
    ),
)

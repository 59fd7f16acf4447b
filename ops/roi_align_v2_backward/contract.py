"""What aclnnRoiAlignV2Backward accepts.

Source of the checks and their order: hicann/ops-cv objdetect/roi_align_grad/op_api.
"""

from __future__ import annotations

from functools import partial

from npusim.hardware.families import everywhere
from npusim.operators.checks import (
    attribute_at_least,
    dtype_supported,
    format_is,
    invalid,
    length_is,
    not_null,
    rank_is,
    same_dtype,
    size_mismatch,
    sizes,
)
from npusim.operators.contract import Call, Contract, Finding, Parameter, Typical
from npusim.values.dtypes import FLOAT, LEAST_NORMAL
from npusim.values.formats import Format
from npusim.values.tensors import TensorSpec

_BOX = ("image id", "x1", "y1", "x2", "y2")


def _box_columns(call: Call) -> Finding:
    columns = call.spec("boxes").shape[1]
    if columns == len(_BOX):
        return None
    wanted = f"{len(_BOX)} ({', '.join(_BOX)})"
    return f"The second dimension of boxes should be {wanted}, but got {columns}."


def _pooled_sizes(call: Call) -> Finding:
    grad, boxes = call.spec("gradOutput").shape, call.spec("boxes").shape
    pooled = (call.integer("pooledHeight"), call.integer("pooledWidth"))
    wanted = (boxes[0], grad[1], *pooled)
    return size_mismatch("gradOutput", grad, wanted, "boxes, pooledHeight and pooledWidth")


def _channels(call: Call) -> Finding:
    wanted, got = call.spec("gradOutput").shape[1], call.ints("inputShape")[1]
    for _, spec in call.given("gradInput"):
        got = spec.shape[1]
    if got == wanted:
        return None
    return f"The channels of gradInput should be {wanted}, those of gradOutput, but got {got}."


def _input_shape(call: Call) -> Finding:
    wanted = call.ints("inputShape")
    if min(wanted) < 0:
        return f"inputShape can't be negative, but got {sizes(wanted)}."
    for name, spec in call.given("gradInput"):
        return size_mismatch(name, spec.shape, wanted, "inputShape")
    return None


def _scale(call: Call) -> Finding:
    scale = call.number("spatialScale")
    if scale > LEAST_NORMAL:
        return None
    return f"spatialScale should be larger than 0, but got {scale}."


def _infer_outputs(call: Call) -> dict[str, TensorSpec]:
    shape, like = call.ints("inputShape"), call.spec("gradOutput")
    return {"gradInput": TensorSpec(shape, like.dtype, like.format)}


_input = partial(Parameter, kind="tensor", io="in", dtypes=everywhere(FLOAT))
_output = partial(Parameter, kind="tensor", io="out", dtypes=everywhere(FLOAT))
_NCHW = (Format.NCHW,)

CONTRACT = Contract(
    name="aclnnRoiAlignV2Backward",
    summary="Gradient of RoI align with respect to the feature map.",
    parameters=(
        _input(
            "gradOutput",
            rank=(4, 4),
            formats=_NCHW,
            description="Gradient of each box: [boxes, channels, pooledHeight, pooledWidth].",
        ),
        _input(
            "boxes",
            rank=(2, 2),
            description="One row per box: image id, x1, y1, x2, y2 before scaling.",
        ),
        Parameter(
            "inputShape",
            "int_array",
            description="Shape of the feature map: [images, channels, height, width].",
        ),
        Parameter("pooledHeight", "int64", description="Bins of a box along the height."),
        Parameter("pooledWidth", "int64", description="Bins of a box along the width."),
        Parameter(
            "spatialScale", "float", description="Factor from box coordinates to the feature map."
        ),
        Parameter(
            "samplingRatio",
            "int64",
            description="Samples per bin and axis; 0 takes ceil(box size / bins) for each box.",
        ),
        Parameter(
            "aligned",
            "bool",
            description="Shift boxes by half a pixel, and don't widen boxes below one pixel.",
        ),
        _output(
            "gradInput",
            rank=(4, 4),
            formats=_NCHW,
            description="Gradient of the feature map; shape inputShape.",
            aliases=("out",),
        ),
    ),
    products=("910", "A2", "310P", "A3", "950"),
    checks=(
        not_null("gradOutput", "boxes", "inputShape", "gradInput"),
        dtype_supported("gradOutput"),
        same_dtype("gradOutput", "boxes", "gradInput"),
        format_is(Format.NCHW, "gradOutput"),
        format_is(Format.ND, "boxes"),
        format_is(Format.NCHW, "gradInput"),
        rank_is(4, "gradOutput"),
        rank_is(2, "boxes"),
        invalid("the second dimension of boxes isn't 5", _box_columns),
        length_is(4, "inputShape"),
        invalid(
            "gradOutput isn't [boxes, channels, pooledHeight, pooledWidth]",
            _pooled_sizes,
        ),
        rank_is(4, "gradInput"),
        invalid("gradInput and gradOutput differ in channels", _channels),
        invalid("the shape of gradInput isn't inputShape", _input_shape),
        attribute_at_least("samplingRatio", 0),
        invalid("spatialScale isn't larger than 0", _scale),
    ),
    infer_outputs=_infer_outputs,
    # never empty: gradInput is always written, with zeros when there is no box
    limits=(
        "FLOAT only, on every product.",
        "gradOutput and gradInput are NCHW, boxes ND.",
    ),
    notes=(
        "No box or an empty gradOutput: success, and gradInput is filled with zeros.",
        "A box whose image id lies outside the batch is skipped; fractional ids are rounded down.",
        "samplingRatio 0 divides truly; the device rounds up to one sample more for a few sizes.",
        "Atlas inference products are listed on the page; a newer document drops them.",
        "A NaN as spatialScale is rejected.",
    ),
    source="hicann/ops-cv objdetect/roi_align_grad; CANN 8.1.RC1 operator information",
    typical=Typical(
        "512 boxes, 256 channels, 7x7 bins, ratio 2, 200x272 map",
        {
            "gradOutput": TensorSpec((512, 256, 7, 7), FLOAT, Format.NCHW),
            "boxes": TensorSpec((512, 5), FLOAT),
            "inputShape": [1, 256, 200, 272],
            "pooledHeight": 7,
            "pooledWidth": 7,
            "spatialScale": 0.25,
            "samplingRatio": 2,
            "aligned": True,
        },
    ),
)

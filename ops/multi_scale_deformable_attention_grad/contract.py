"""What aclnnMultiScaleDeformableAttentionGrad accepts.

Source of the checks and their order: the operator's page, and hicann/ops-nn
vfusion/multi_scale_deformable_attention_grad for what the page leaves open.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from npusim.hardware.families import everywhere
from npusim.operators.checks import (
    any_empty,
    dtype_supported,
    format_is_not,
    invalid,
    not_null,
    rank_in,
    rank_is,
    same_dtype,
    same_shape,
    size_mismatch,
)
from npusim.operators.contract import Call, Contract, Finding, Parameter, Typical
from npusim.values.dtypes import BFLOAT16, FLOAT, FLOAT16, INT32, INT64
from npusim.values.formats import Format
from npusim.values.tensors import TensorSpec

_INPUTS = ("value", "spatialShape", "levelStartIndex", "location", "attnWeight", "gradOutput")
_OUTPUT_OF = {"gradValue": "value", "gradLocation": "location", "gradAttnWeight": "attnWeight"}
_OUTPUTS = tuple(_OUTPUT_OF)

_CHANNEL_STEP = 8
_MAX_CHANNELS = 256
_QUERY_BOUND = 500_000
_MAX_OTHERS = 16


class Sizes(NamedTuple):
    """The sizes that the shapes are made of."""

    batch: int
    keys: int
    heads: int
    channels: int
    queries: int
    levels: int
    points: int

    @property
    def planes(self) -> int:
        """Number of (batch, head, level, point)."""
        return self.batch * self.heads * self.levels * self.points

    @property
    def sampled(self) -> int:
        """Number of sampling points."""
        return self.planes * self.queries


def sizes_of(call: Call) -> Sizes:
    """The sizes of a call: value gives the first four, location the others."""
    batch, keys, heads, channels = call.spec("value").shape
    _, queries, _, levels, points, _ = call.spec("location").shape
    return Sizes(batch, keys, heads, channels, queries, levels, points)


def _pairs(call: Call) -> Finding:
    for name in ("spatialShape", "location"):
        last = call.spec(name).shape[-1]
        if last != 2:
            return f"The last dimension of {name} should be 2, but got {last}."
    return None


def _limits(call: Call) -> Finding:
    found = sizes_of(call)
    if found.channels % _CHANNEL_STEP:
        return f"channels should be divisible by {_CHANNEL_STEP}, but got {found.channels}."
    if found.channels > _MAX_CHANNELS:
        return f"channels should be at most {_MAX_CHANNELS}, but got {found.channels}."
    if found.queries >= _QUERY_BOUND:
        return f"num_queries should be less than {_QUERY_BOUND}, but got {found.queries}."
    for name in ("levels", "heads", "points"):
        got: int = getattr(found, name)
        if got > _MAX_OTHERS:
            return f"num_{name} should be at most {_MAX_OTHERS}, but got {got}."
    return None


def _shared_sizes(call: Call) -> Finding:
    n = sizes_of(call)
    wanted = {
        "spatialShape": (n.levels, 2),
        "levelStartIndex": (n.levels,),
        "location": (n.batch, n.queries, n.heads, n.levels, n.points, 2),
        "attnWeight": (n.batch, n.queries, n.heads, n.levels, n.points),
    }
    for name, shape in wanted.items():
        finding = size_mismatch(name, call.spec(name).shape, shape, "value and location")
        if finding is not None:
            return finding
    grad = call.spec("gradOutput")
    flat, split = (n.heads * n.channels,), (n.heads, n.channels)
    last = flat if grad.rank == 3 else split
    of = "value and location"
    return size_mismatch("gradOutput", grad.shape, (n.batch, n.queries, *last), of)


def _infer_outputs(call: Call) -> dict[str, TensorSpec]:
    likes = {name: call.spec(like) for name, like in _OUTPUT_OF.items()}
    return {name: TensorSpec(like.shape, like.dtype, like.format) for name, like in likes.items()}


_FLOATS = everywhere(FLOAT, FLOAT16, BFLOAT16)
_input = partial(Parameter, kind="tensor", io="in", dtypes=_FLOATS)
_index = partial(Parameter, kind="tensor", io="in", dtypes=everywhere(INT32, INT64))
_output = partial(Parameter, kind="tensor", io="out", dtypes=_FLOATS)

CONTRACT = Contract(
    name="aclnnMultiScaleDeformableAttentionGrad",
    summary="Gradients of multi-scale deformable attention.",
    parameters=(
        _input(
            "value",
            rank=(4, 4),
            description="Feature maps, all levels after one another: [bs, keys, heads, channels].",
        ),
        _index("spatialShape", rank=(2, 2), description="Height and width per level: [levels, 2]."),
        _index("levelStartIndex", rank=(1, 1), description="First key of each level: [levels]."),
        _input(
            "location",
            rank=(6, 6),
            description="Sampling points, x then y, in [0, 1]: "
            "[bs, queries, heads, levels, points, 2].",
        ),
        _input(
            "attnWeight",
            rank=(5, 5),
            description="Weight of each point: [bs, queries, heads, levels, points].",
        ),
        _input(
            "gradOutput",
            rank=(3, 4),
            description="Gradient that arrives: [bs, queries, heads * channels], or with the last"
            " two apart.",
        ),
        _output("gradValue", rank=(4, 4), description="Gradient of value; its shape."),
        _output("gradLocation", rank=(6, 6), description="Gradient of location; its shape."),
        _output("gradAttnWeight", rank=(5, 5), description="Gradient of attnWeight; its shape."),
    ),
    products=("A2", "A3", "950"),
    checks=(
        not_null(*_INPUTS, *_OUTPUTS),
        dtype_supported("value", "location", "attnWeight", "gradOutput", *_OUTPUTS),
        dtype_supported("spatialShape", "levelStartIndex"),
        same_dtype("value", "location", "attnWeight", "gradOutput", *_OUTPUTS),
        format_is_not(Format.FRACTAL_NZ, *_INPUTS),
        rank_is(4, "value"),
        rank_is(2, "spatialShape"),
        rank_is(1, "levelStartIndex"),
        rank_is(6, "location"),
        rank_is(5, "attnWeight"),
        rank_in((3, 4), "gradOutput"),
        invalid("the last dimension of spatialShape or location isn't 2", _pairs),
        invalid(
            "channels isn't a multiple of 8 up to 256, num_queries isn't below 500000, or levels,"
            " heads or points is above 16",
            _limits,
        ),
        invalid("the shapes disagree about a size that they share", _shared_sizes),
        *(same_shape(like, name) for name, like in _OUTPUT_OF.items()),
    ),
    infer_outputs=_infer_outputs,
    is_empty=lambda call: any_empty(call, *_INPUTS),
    limits=(
        "Atlas A2 and later products only.",
        "All floating tensors have one dtype.",
        "channels is a multiple of 8 and at most 256.",
        "num_queries is below 500000; num_levels, num_heads and num_points are at most 16.",
    ),
    notes=(
        "location holds x first, then y, as the kernel reads it; the page prints y, x.",
        "spatialShape and levelStartIndex are device data: the first phase can't check them.",
        "A key outside value stops the device with 507035.",
        "The sizes in spatialShape are never compared with the number of keys.",
        "Any empty input: success, no workspace, nothing is written (not even zeros).",
    ),
    source="hicann/ops-nn vfusion/multi_scale_deformable_attention_grad; CANN 8.1.RC1",
    typical=Typical(
        "900 queries, 4 levels, 8 heads, 4 points, 32 channels, 32300 keys",
        {
            "value": TensorSpec((1, 32300, 8, 32), FLOAT),
            "spatialShape": TensorSpec((4, 2), INT32),
            "levelStartIndex": TensorSpec((4,), INT32),
            "location": TensorSpec((1, 900, 8, 4, 4, 2), FLOAT),
            "attnWeight": TensorSpec((1, 900, 8, 4, 4), FLOAT),
            "gradOutput": TensorSpec((1, 900, 256), FLOAT),
        },
    ),
)

"""What aclnnGroupNormBackward accepts.

Source of the checks and their order: hicann/ops-nn norm/group_norm_grad/op_host/op_api. Where it
and the operator's page disagree about a code, the page decides.
"""

from __future__ import annotations

from functools import partial

from npusim.hardware.families import BF16_FAMILIES, FLOAT_KINDS
from npusim.operators.checks import (
    any_empty,
    asked_for,
    asked_not_null,
    attribute_at_least,
    counts_are,
    different_dtype,
    dtype_supported,
    invalid,
    length_is,
    not_null,
    rank_at_most,
    same_dtype,
    size_mismatch,
    unless,
)
from npusim.operators.contract import Call, Contract, Finding, Parameter, Typical
from npusim.values.dtypes import FLOAT
from npusim.values.tensors import TensorSpec

_OUTPUTS = ("gradInput", "gradGammaOut", "gradBetaOut")

# Limits of the kernel, which the API checks where it uses that kernel.
_MAX_CHANNELS = 240_000
_MAX_CHANNELS_PER_GROUP = 8_000


def _output_dtype(call: Call) -> Finding:
    for name, spec in call.given(*asked_for(call, *_OUTPUTS)):
        finding = different_dtype(call, "gradOut", name, spec)
        if finding is not None:
            return finding
    return None


def _groups_divide_channels(call: Call) -> Finding:
    channels, group = call.integer("C"), call.integer("group")
    if channels % group == 0:
        return None
    return f"C should be divisible by group, but got C {channels} and group {group}."


def _channel_limits(call: Call) -> Finding:
    channels, group = call.integer("C"), call.integer("group")
    if channels > _MAX_CHANNELS:
        return f"C should be at most {_MAX_CHANNELS}, but got {channels}."
    if channels // group > _MAX_CHANNELS_PER_GROUP:
        return (
            f"C / group should be at most {_MAX_CHANNELS_PER_GROUP}, but got {channels // group}."
        )
    return None


def _channel_shape(call: Call) -> tuple[int, ...]:
    if call.is_given("gamma"):
        return call.spec("gamma").shape
    return (call.integer("C"),)


def _output_shapes(call: Call) -> Finding:
    for name, spec in call.given(*asked_for(call, *_OUTPUTS)):
        if name == "gradInput":
            finding = size_mismatch(name, spec.shape, call.spec("input").shape, "tensor input")
        else:
            of = "tensor gamma" if call.is_given("gamma") else "C"
            finding = size_mismatch(name, spec.shape, _channel_shape(call), of)
        if finding is not None:
            return finding
    return None


def _infer_outputs(call: Call) -> dict[str, TensorSpec]:
    kind, like = call.spec("gradOut").dtype, call.spec("input")
    shapes = {
        "gradInput": like.shape,
        "gradGammaOut": _channel_shape(call),
        "gradBetaOut": _channel_shape(call),
    }
    wanted = asked_for(call, *_OUTPUTS)
    return {name: TensorSpec(shapes[name], kind, like.format) for name in wanted}


_input = partial(Parameter, kind="tensor", io="in", dtypes=FLOAT_KINDS)
_output = partial(Parameter, kind="tensor", io="out", dtypes=FLOAT_KINDS, optional=True)

CONTRACT = Contract(
    name="aclnnGroupNormBackward",
    summary="Gradients of group normalisation with respect to input, gamma and beta.",
    parameters=(
        _input("gradOut", description="Gradient that arrives; N*C*HxW elements in any shape."),
        _input("input", description="Input of the forward operator; N*C*HxW elements."),
        _input(
            "mean", description="Mean of each group, from the forward operator; N*group elements."
        ),
        _input(
            "rstd", description="Reciprocal standard deviation of each group; N*group elements."
        ),
        _input(
            "gamma",
            optional=True,
            description="Scale of each channel; C elements. Null means ones.",
        ),
        Parameter("N", "int64", description="Batch size."),
        Parameter("C", "int64", description="Number of channels."),
        Parameter("HxW", "int64", description="Number of elements of one channel."),
        Parameter("group", "int64", description="Number of groups; divides C."),
        Parameter(
            "outputMask",
            "bool_array",
            description="Which of gradInput, gradGammaOut, gradBetaOut to compute.",
        ),
        _output("gradInput", description="Gradient of input; shape of input."),
        _output("gradGammaOut", description="Gradient of gamma; shape of gamma, or [C]."),
        _output("gradBetaOut", description="Gradient of beta; shape of gamma, or [C]."),
    ),
    products=("910", "A2", "A3", "950"),
    checks=(
        not_null("gradOut", "input", "mean", "rstd"),
        not_null("outputMask"),
        length_is(3, "outputMask"),
        asked_not_null(*_OUTPUTS),
        dtype_supported("gradOut"),
        same_dtype("gradOut", "input", "mean", "rstd", "gamma"),
        invalid("the dtype of a wanted output isn't that of gradOut", _output_dtype),
        attribute_at_least("group", 1),
        invalid("C isn't divisible by group", _groups_divide_channels),
        unless(
            lambda call: call.profile.family not in BF16_FAMILIES,
            invalid("on Atlas A2 and later: C / group > 8000 or C > 240000", _channel_limits),
        ),
        rank_at_most(8, "gradOut", "input", "mean", "rstd", "gamma"),
        counts_are("N*C*HxW", "gradOut", "input"),
        counts_are("N*group", "mean", "rstd"),
        counts_are("C", "gamma"),
        invalid(
            "the shape of a wanted output isn't that of input (gradInput) or gamma (the others)",
            _output_shapes,
        ),
    ),
    infer_outputs=_infer_outputs,
    is_empty=lambda call: any_empty(call, "gradOut", "input"),
    limits=(
        "BFLOAT16 on Atlas A2 and later products only.",
        "All tensors have the dtype of gradOut.",
        "On Atlas A2 and later products at most 240000 channels and 8000 channels per group.",
        "At most 8 dimensions.",
    ),
    notes=(
        "mean and rstd are taken as given and never recomputed.",
        "Outputs that outputMask leaves out are neither needed nor written.",
        "A null pointer for a wanted output returns 161001 as on the page, not 161002.",
        "Empty gradOut or input: success, no workspace, nothing is written.",
        "Atlas training products have no kernel of their own but compose other operators.",
        "FLOAT16 is computed in fp32 and rounded once; Atlas training chips lose more on the way.",
    ),
    source="hicann/ops-nn norm/group_norm_grad; CANN 8.1.RC1 operator information",
    typical=Typical(
        "N=8 C=256 HxW=4096 group=32",
        {
            "gradOut": TensorSpec((8, 256, 4096), FLOAT),
            "input": TensorSpec((8, 256, 4096), FLOAT),
            "mean": TensorSpec((8, 32), FLOAT),
            "rstd": TensorSpec((8, 32), FLOAT),
            "gamma": TensorSpec((256,), FLOAT),
            "N": 8,
            "C": 256,
            "HxW": 4096,
            "group": 32,
            "outputMask": [True, True, True],
        },
    ),
)

"""What aclnnConvolution accepts.

Source of the checks and their order: hicann/ops-nn conv/convolution_forward
(op_host/op_api/aclnn_convolution.cpp, docs/aclnnConvolution.md). The page leaves out Atlas training
products, which the source still lists; they have the kernel, Conv2D.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from npusim.hardware.families import BF16_FAMILIES, FLOAT_KINDS
from npusim.operators.checks import (
    any_empty,
    attribute_in,
    dtype_supported,
    invalid,
    not_null,
    promotable,
    rank_in,
    same_format,
    sizes,
)
from npusim.operators.contract import Call, Check, Contract, Finding, Parameter, Typical
from npusim.values.dtypes import BFLOAT16, FLOAT, FLOAT8_E4M3FN, FLOAT16, HIFLOAT8, DType
from npusim.values.formats import Format
from npusim.values.promotion import promote
from npusim.values.status import StatusCode
from npusim.values.tensors import TensorSpec

# cubeMathType
KEEP_DTYPE, ALLOW_FP32_DOWN_PRECISION, USE_FP16, USE_HF32 = range(4)

_GIVEN = ("input", "weight")
_PLAIN = {
    3: (Format.NCL, Format.ND, Format.UNDEFINED),
    4: (Format.NCHW, Format.ND, Format.UNDEFINED),
    5: (Format.NCDHW, Format.NDHWC, Format.ND, Format.UNDEFINED),
}
_PADDINGS = {3: (1, 2), 4: (2, 4), 5: (3,)}  # entries, by dimensions
_LONGEST_LINE = 4096  # rows and columns of a plane on 310P
_USUAL = "Use cubeMathType 1.", {"cubeMathType": ALLOW_FP32_DOWN_PRECISION}


class Arithmetic(NamedTuple):
    """What a call multiplies: the dtype, and whether the cube reads it as HF32."""

    dtype: DType
    hf32: bool


class Axis(NamedTuple):
    """A spatial axis: of the input, the kernel, and how this moves."""

    size: int
    kernel: int
    stride: int
    dilation: int
    before: int
    after: int
    more: int = 0

    @property
    def extent(self) -> int:
        """Elements from the kernel's first tap to its last."""
        return (self.kernel - 1) * self.dilation + 1

    def result(self, *, transposed: bool) -> int:
        """Elements that come out."""
        if transposed:
            inside = (self.size - 1) * self.stride - self.before - self.after
            return inside + self.extent + self.more
        return (self.size + self.before + self.after - self.extent) // self.stride + 1


def common_dtype(call: Call) -> DType:
    """What the dtypes of all factors are promoted to."""
    given = call.given("gradOutput", *_GIVEN)
    return promote(*(spec.dtype for _, spec in given)) or FLOAT


def arithmetic(call: Call) -> Arithmetic:
    """What the cube computes in; products whose cube has no float32 take float16."""
    common = common_dtype(call)
    chosen = call.integer("cubeMathType")
    if call.profile.family not in BF16_FAMILIES or chosen == USE_FP16:
        return Arithmetic(FLOAT16, hf32=False)
    return Arithmetic(common, hf32=common is FLOAT and chosen != KEEP_DTYPE)


def axes(call: Call) -> list[Axis]:
    """The spatial axes in order."""
    spatial, kernel = (call.spec(name).shape[2:] for name in _GIVEN)
    padding = call.ints("padding")
    if len(padding) == len(spatial):
        around = [(each, each) for each in padding]
    else:
        around = list(zip(padding[::2], padding[1::2], strict=True))
    more = call.ints("outputPadding") if call.flag("transposed") else (0,) * len(spatial)
    return [
        Axis(size, taps, stride, dilation, before, after, extra)
        for size, taps, stride, dilation, (before, after), extra in zip(
            spatial, kernel, call.ints("stride"), call.ints("dilation"), around, more, strict=True
        )
    ]


def out_channels(call: Call) -> int:
    """Channels that come out."""
    first, second = call.spec("weight").shape[:2]
    return second * call.integer("groups") if call.flag("transposed") else first


def result_shape(call: Call) -> tuple[int, ...]:
    """The shape of the output."""
    transposed = call.flag("transposed")
    spatial = (each.result(transposed=transposed) for each in axes(call))
    return (call.spec("input").shape[0], out_channels(call), *spatial)


def null_output_padding(call: Call) -> Finding:
    """A transposed convolution without outputPadding."""
    if call.flag("transposed") and call.is_null("outputPadding"):
        return "outputPadding is needed for a transposed convolution, but is a null pointer."
    return None


def _ranks(call: Call) -> Finding:
    given, weight = (call.spec(name) for name in _GIVEN)
    if given.rank != weight.rank:
        return f"weight should have {given.rank} dimensions like input, but has {weight.rank}."
    for name, spec in call.given("bias"):
        wanted = out_channels(call)
        if spec.numel != wanted or wanted not in spec.shape[:2]:
            return f"{name} should have {wanted} elements, but is {sizes(spec.shape)}."
    return None


def lengths(call: Call) -> Finding:
    """Lists that haven't an entry for every spatial axis."""
    rank = call.spec("input").rank
    names = ["stride", "dilation"] + ["outputPadding"] * call.flag("transposed")
    for name, allowed in (*((name, (rank - 2,)) for name in names), ("padding", _PADDINGS[rank])):
        length = len(call.ints(name))
        if length not in allowed:
            wanted = " or ".join(map(str, allowed))
            return f"{name} should have {wanted} entries for {rank} dimensions, but has {length}."
    return None


def missing(title: str, test: Callable[[Call], Finding]) -> Check:
    """A check that returns 161001 when `test` objects."""
    return Check(StatusCode.ACLNN_ERR_PARAM_NULLPTR, title, test)


def plain_formats(*names: str) -> Check:
    """161002 for a tensor among `names` in another storage format than images are handed over."""

    def test(call: Call) -> Finding:
        for name, spec in call.given(*names):
            allowed = _PLAIN[call.spec("input").rank]
            if spec.format not in allowed:
                return f"{name} in {spec.format} should be in {allowed[0]}."
        return None

    return invalid("the format is none of NCL, NCHW, NCDHW", test)


def values(call: Call) -> Finding:
    """Steps, paddings, groups and sizes out of range."""
    for name, least in (("stride", 1), ("dilation", 1), ("padding", 0)):
        if min(call.ints(name)) < least:
            return f"{name} {sizes(call.ints(name))} should be at least {least}."
    groups, channels = call.integer("groups"), call.spec("input").shape[1]
    first, second = call.spec("weight").shape[:2]
    if groups < 1:
        return f"groups should be at least 1, but is {groups}."
    needed = first if call.flag("transposed") else second * groups
    if needed != channels:
        return f"input has {channels} channels, but weight {sizes((first, second))} takes {needed}."
    if first % groups:
        return f"The first axis of weight, {first}, can't be divided by groups {groups}."
    return _axis_values(call)


def _axis_values(call: Call) -> Finding:
    for each in axes(call):
        if each.kernel < 1:
            return "The sizes of the kernel should be larger than 0."
        if call.flag("transposed"):
            if not 0 <= each.more < max(each.stride, each.dilation):
                most = max(each.stride, each.dilation)
                return f"outputPadding {each.more} should be at least 0 and less than {most}."
        elif each.size + each.before + each.after < each.extent:
            padded = each.size + each.before + each.after
            return f"A padded input of {padded} is shorter than the kernel, {each.extent}."
    return None


def _output_shape(call: Call) -> Finding:
    for name, spec in call.given("output"):
        wanted = result_shape(call)
        if spec.shape != wanted:
            return f"{name} should be {sizes(wanted)}, but is {sizes(spec.shape)}."
    if min(result_shape(call)) < 0:
        return f"The output would be {sizes(result_shape(call))}."
    return None


def math_type(call: Call) -> Finding:
    """A cubeMathType that the product, or the dtype, hasn't."""
    kinds = {spec.dtype for _, spec in call.given(*_GIVEN)}
    chosen, name = call.integer("cubeMathType"), call.profile.name
    if call.profile.family in BF16_FAMILIES:
        if chosen == USE_FP16 and BFLOAT16 in kinds:
            return f"cubeMathType {chosen} doesn't take BFLOAT16.", *_USUAL
        return None
    if chosen == USE_HF32 or (chosen == KEEP_DTYPE and FLOAT in kinds):
        return f"cubeMathType {chosen} is not supported for FLOAT on {name}.", *_USUAL
    return None


def product_limits(call: Call) -> Finding:
    """What 310P takes of planes."""
    if call.profile.family == "310P" and max(call.spec("input").shape[2:]) > _LONGEST_LINE:
        return f"The spatial axes of input should be at most {_LONGEST_LINE} on 310P."
    return None


def _infer_outputs(call: Call) -> dict[str, TensorSpec]:
    like = call.spec("input")
    return {"output": TensorSpec(result_shape(call), common_dtype(call), like.format)}


def _is_empty(call: Call) -> bool:
    return any_empty(call, "input") or 0 in result_shape(call)


_HALVES: Mapping[str, tuple[DType, ...]] = {
    **FLOAT_KINDS,
    "310B": (FLOAT, FLOAT16, BFLOAT16),
}
_KINDS: Mapping[str, tuple[DType, ...]] = {
    **_HALVES,
    "950": (FLOAT, FLOAT16, BFLOAT16, HIFLOAT8, FLOAT8_E4M3FN),
}
FORMATS = (Format.NCL, Format.NCHW, Format.NCDHW)
_tensor = partial(Parameter, kind="tensor", dtypes=_KINDS, formats=FORMATS)
_ints = partial(Parameter, kind="int_array")

# What the gradient's page says in the same words.
WINDOW = (
    _ints("stride", description="Steps of the kernel along each axis."),
    _ints("padding", description="Zeros around each axis, or before and after each."),
    _ints("dilation", description="Elements from one tap of the kernel to the next."),
)
CHANNELS = (
    _ints(
        "outputPadding",
        optional=True,
        description="What a transposed convolution's output is longer, along each axis.",
    ),
    Parameter("groups", "int64", description="Parts of the channels that don't mix."),
)
CUBE_MATH_TYPE = Parameter(
    "cubeMathType",
    "int64",
    description="What the cube computes in: 0 the inputs' dtype, 1 less than FLOAT "
    "allowed, 2 FLOAT16, 3 HFLOAT32.",
)

CONVOLUTION = Contract(
    name="aclnnConvolution",
    summary="Convolution in one, two or three dimensions, or its transpose.",
    parameters=(
        _tensor("input", io="in", rank=(3, 5), description="Images: N, C and spatial axes."),
        _tensor(
            "weight",
            io="in",
            rank=(3, 5),
            description="Output channels, channels of a group, and the kernel's axes; the first "
            "two in turn for a transposed convolution.",
        ),
        _tensor(
            "bias",
            io="in",
            rank=(1, 5),
            dtypes=_HALVES,
            formats=(Format.ND, *FORMATS),
            optional=True,
            description="A number for each output channel.",
        ),
        *WINDOW,
        Parameter("transposed", "bool", description="Whether it is the transpose."),
        *CHANNELS,
        _tensor("output", io="out", rank=(3, 5), description="The convolution."),
        CUBE_MATH_TYPE,
    ),
    products=("A2", "310P", "A3", "310B", "950"),
    checks=(
        not_null("input", "weight", "stride", "padding", "dilation", "output"),
        missing("outputPadding is missing for a transposed convolution", null_output_padding),
        dtype_supported("input", "weight", "bias", "output"),
        promotable("output", *_GIVEN),
        rank_in((3, 4, 5), "input", "weight", "output"),
        invalid("input, weight and bias don't belong together", _ranks),
        invalid("stride, padding, dilation or outputPadding have other lengths", lengths),
        same_format("input", "output"),
        plain_formats(*_GIVEN, "output"),
        invalid("stride, dilation, padding, groups or sizes are out of range", values),
        invalid("the shape of output isn't the convolution's", _output_shape),
        attribute_in("cubeMathType", tuple(range(4))),
        invalid("the product can't compute what cubeMathType asks for", math_type),
        invalid("planes are larger than the product takes", product_limits),
    ),
    infer_outputs=_infer_outputs,
    is_empty=_is_empty,
    limits=(
        "BFLOAT16 on Atlas A2 and later products only.",
        "310P computes in FLOAT16; FLOAT needs cubeMathType 1 or 2 there.",
        "310P: spatial axes up to 4096.",
    ),
    notes=(
        "Images and weights are brought into NC1HWC0 and FRACTAL_Z and back by tasks of their own.",
        "A kernel as large as the padded plane is a matrix product on Atlas A2 and A3 products.",
        "Groups, transposes and dilated depths of three dimensions aren't modelled.",
    ),
    source="hicann/ops-nn conv/convolution_forward",
    typical=Typical(
        "8x64x56x56, 64 kernels of 3x3",
        {
            "input": TensorSpec((8, 64, 56, 56), FLOAT),
            "weight": TensorSpec((64, 64, 3, 3), FLOAT),
            "stride": [1, 1],
            "padding": [1, 1],
            "dilation": [1, 1],
            "transposed": False,
            "outputPadding": [0, 0],
            "groups": 1,
            "cubeMathType": ALLOW_FP32_DOWN_PRECISION,
        },
    ),
)

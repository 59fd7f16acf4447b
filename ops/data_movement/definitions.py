"""Copies between layouts: what makes tensors contiguous, spreads them, writes strided outputs."""

from npusim.operators.checks import (
    attribute_at_least,
    broadcasts_to,
    format_is,
    not_there,
    rank_in,
    same_dtype,
    same_shape,
)
from npusim.operators.definition import (
    Aclnn,
    Composed,
    Operator,
    family,
    flag,
    ints,
    page,
    real,
    scalar,
    whole,
)
from npusim.operators.number_checks import multiplied, resized
from npusim.operators.results import like, like_second
from npusim.operators.shape_checks import (
    axes_in,
    for_each_axis,
    needs,
    no_zero,
    same_but_along,
)
from npusim.ops.data_movement import results
from npusim.ops.data_movement.bordered import bordered, frame_fits, frame_leaves, framed
from npusim.ops.data_movement.checks import covers, inside, same_length, splits, spreads
from npusim.values.dtypes import BFLOAT16
from npusim.values.formats import Format

_JOINED = (whole("concat_dim?"),)
_ORDER = (ints("perm?"),)
_FRAME = (ints("paddings?"),)
_PART = (ints("offsets?"), ints("size?"))
_STEPS = (ints("begin?"), ints("end?"), ints("strides?"))
_SHAPE = (ints("shape?"),)
_PARTS = (whole("split_dim?"), whole("num_split?"))
_OFFSET = (whole("diagonal", "offset"),)
_AXIS = (rank_in, range(1, 9), "x")
_JOINS = (_AXIS, (axes_in, "concat_dim", "x"), (same_but_along, "concat_dim", "x"))
_FRAMES = ((needs, "paddings", "y"), (for_each_axis, "paddings", "x", {"each": 2}),
    (attribute_at_least, "paddings", 0))  # fmt: skip
_TURNS = ((needs, "perm", "y"), (axes_in, "perm", "x"), (for_each_axis, "perm", "x"))
_PARTED = (
    _AXIS,
    (axes_in, "split_dim", "x"),
    (splits, "split_dim", "x", "num_split", "size_splits"),
)
_STRIDES = (
    (same_length, "begin", "end", "strides"),
    *((for_each_axis, name, "x", {"most": True}) for name in ("begin", "end", "strides")),
    (no_zero, "strides"),
)

_PADDING = (ints("padding?"),)


def _bordered(name: str, axes: int, kernel: str, rule: str) -> tuple[Operator, Operator]:
    """Padding by what is inside, and the gradient."""
    checks = ((frame_fits, "x", "padding", {"axes": axes, "rule": rule}),)
    attributes, api = (ints("padding"),), f"aclnn{name}{axes}d"
    return (
        Operator(f"{name}{axes}d", "x -> y", _PADDING, Aclnn(api, attributes=attributes),
            kernel=kernel, infer=bordered, checks=checks),
        Operator(f"{name}{axes}dGrad", "grads x -> dx", _PADDING,
            Aclnn(f"{api}Backward", "gradOutput self -> gradInput", attributes),
            kernel=f"{kernel}_grad", infer=like_second,
            checks=(*checks, (framed, "grads", "x", "padding"))),
    )  # fmt: skip


# fmt: off
OPERATORS = family(
    "data_movement",
    bordered=(
        Operator("ConstantPadNd", "x -> y", (ints("pad?"), real("value?")),
            Aclnn("aclnnConstantPadNd", attributes=(ints("pad"), scalar("value")),
                checks=((same_dtype, "x", "y"),),
                rules=page("ops-math conversion/pad_v3", "ConstantPadNd")),
            kernel="constant_pad", infer=bordered, checks=((frame_leaves, "x", "pad"),)),
        *(each for axes in (1, 2, 3) for each in (
            *_bordered("ReflectionPad", axes, "mirror_pad", "mirrored"),
            *_bordered("ReplicationPad", axes, "border_pad", "repeated"))),
        *(each for axes in (2, 3) for each in _bordered(
            "CircularPad", axes, "circular_pad", "wrapped")),
    ),
    joining=(
        Operator("ConcatD", "x* -> y", _JOINED,
            Aclnn("aclnnCat", "tensors* -> out", (whole("dim", "concat_dim"),), promoted=True,
                rules=page("ops-math conversion/concat_d", "Cat")),
            ("Concat", "ConcatV2", "ConcatV2D"), infer=results.joined, kernel="Concat",
            checks=_JOINS),
        Operator("Pack", "x* -> y", (whole("axis?"),),
            Aclnn("aclnnStack", "tensors* -> out", (whole("dim", "axis"),), promoted=True),
            infer=results.stacked,
            checks=((same_shape, "x"), (axes_in, "axis", "x", {"more": 1}))),
    ),
    host=(
        Composed("aclnnChannelShuffle", "self -> out", (whole("groups"),), "channels_shuffled",
            checks=((rank_in, range(3, 8), "self"),)),
        Composed("aclnnDiag", "self -> out", _OFFSET, "diagonal",
            checks=((rank_in, (1, 2), "self"),)),
        Composed("aclnnDiagFlat", "self -> out", _OFFSET, "diagonal_of"),
        Composed("aclnnEye", "-> out", (whole("n"), whole("m")), "identity",
            checks=((attribute_at_least, "n", 0), (attribute_at_least, "m", 0),
                (rank_in, (2,), "out")),
            rules=page("ops-math math/eye", "Eye")),
        Composed("aclnnFlatten", "self -> out", (whole("axis"),), "flattened"),
        Composed("aclnnInplaceCopy", "selfRef src -> selfRef", (), "copied",
            checks=((broadcasts_to, "selfRef", "src"),)),
        Composed("aclnnRepeatInterleaveInt", "self -> out",
            (whole("repeats"), whole("outputSize", None)), "repeated",
            checks=((same_dtype, "self", "out"), (attribute_at_least, "repeats", 0),
                (multiplied, "outputSize", "repeats", "self"),
                (resized, "out", "self", "outputSize")),
            rules=page("ops-nn index/repeat_interleave", "RepeatInterleaveInt")),
        Composed("aclnnRepeatInterleaveIntWithDim", "self -> out",
            (whole("repeats"), whole("dim"), whole("outputSize", None)), "repeated",
            checks=((same_dtype, "self", "out"), (attribute_at_least, "repeats", 0),
                (rank_in, range(1, 9), "self"), (axes_in, "dim", "self"),
                (multiplied, "outputSize", "repeats", "self", "dim"),
                (resized, "out", "self", "outputSize", "dim")),
            rules=page("ops-nn index/repeat_interleave", "RepeatInterleaveIntWithDim")),
        Composed("aclnnSlice", "self -> out",
            (whole("dim"), whole("start"), whole("end"), whole("step")), "sliced",
            checks=((rank_in, range(1, 9), "self"), (axes_in, "dim", "self"),
                (attribute_at_least, "step", 1))),
        Composed("aclnnSliceV2", "self -> out",
            (ints("starts"), ints("ends"), ints("axes"), ints("steps")), "cut",
            checks=((axes_in, "axes", "self"), (attribute_at_least, "steps", 1),
                (same_length, "starts", "ends", "axes", "steps"))),
        Composed("aclnnStridedSliceAssignV2", "varRef inputValue -> varRef",
            (ints("begin", "starts"), ints("end", "ends"), ints("strides", "steps"),
             ints("axesOptional?", "axes")), "assigned",
            checks=((attribute_at_least, "strides", 1), (axes_in, "axesOptional", "varRef"),
                (same_length, "begin", "end", "strides", "axesOptional"),
                (for_each_axis, "begin", "varRef", {"most": True}))),
        Composed("aclnnSplitTensor", "self -> out*", (whole("splitSections", "size"), whole("dim")),
            "split_evenly", checks=((rank_in, range(1, 9), "self"), (axes_in, "dim", "self"),
                (attribute_at_least, "splitSections", 1))),
        Composed("aclnnSplitWithSize", "self -> out*", (ints("splitSize", "sizes"), whole("dim")),
            "split_into", parts="splitSize",
            checks=((rank_in, range(1, 9), "self"), (axes_in, "dim", "self"))),
        Composed("aclnnTrace", "self -> out", (), "trace", checks=((rank_in, (2,), "self"),)),
    ),
    layouts=(Operator("TransData", "src -> dst"),),
    weights=(
        Composed("aclnnNpuFormatCast", "srcTensor -> dstTensor", (), "format_cast"),
        Composed("aclnnTransMatmulWeight", "mmWeightRef -> weight", (), "fractal_weight",
            checks=((format_is, Format.ND, "mmWeightRef"),
                (not_there, BFLOAT16, ("910", "310P"), "mmWeightRef"),
                (rank_in, range(2, 7), "mmWeightRef")), into={"weight": "mmWeightRef"}),
    ),
    padding=(
        Operator("Pad", "x -> y", _FRAME, also=("PadD",), infer=results.padded, checks=_FRAMES),
        Operator("PadV3", "x constant_values? -> y", _FRAME, infer=results.padded, kernel="Pad",
            checks=_FRAMES),
        Operator("StridedSliceGrad", "dy -> output", (*_SHAPE, *_STEPS),
            infer=results.shaped_by("shape"), kernel="Pad",
            checks=((same_length, "begin", "end", "strides", "shape"), (no_zero, "strides"),
                (attribute_at_least, "shape", 0), (for_each_axis, "shape", "dy"))),
    ),
    permuting=(
        Operator("ConfusionTransposeD", "x -> y", (*_ORDER, *_SHAPE, flag("transpose_first?")),
            Aclnn("aclnnConfusionTranspose", "x -> out",
                (ints("perm"), ints("shape"), flag("transpose_first")))),
        Operator("Transpose", "x -> y", _ORDER,
            Aclnn("aclnnPermute", attributes=(ints("dims", "perm"),)), ("TransposeD",),
            infer=results.permuted, checks=_TURNS),
        Operator("TransposeNOD"),
    ),
    rolling=(
        Operator("ReverseV2", "x -> y", (ints("axis"),),
            Aclnn("aclnnFlip", attributes=(ints("dims", "axis"),)), kernel="reverse", infer=like,
            checks=((axes_in, "axis", "x"), (same_shape, "x", "y"))),
        Operator("Roll", "x -> y", (ints("shifts"), ints("dims?")),
            Aclnn("aclnnRoll", "x -> out", (ints("shifts"), ints("dims?"))), kernel="roll",
            infer=like, checks=((same_shape, "x", "y"),)),
    ),
    slicing=(
        Operator("Slice", "x -> y", _PART, also=("SliceD",), infer=results.part,
            checks=((needs, "size", "y"), (for_each_axis, "offsets", "x"),
                (for_each_axis, "size", "x"), (inside, "offsets", "size", "x"))),
        Operator("StridedSlice", "x -> y", _STEPS, also=("StridedSliceD",), infer=results.cut,
            checks=_STRIDES),
    ),
    spreading=(
        Operator("BroadcastTo", "x -> y", _SHAPE,
            Aclnn("aclnnExpand", attributes=(ints("size", "shape"),)),
            ("BroadcastToD", "Expand", "ExpandD"), infer=results.shaped_by("shape"),
            checks=((needs, "shape", "y"), (covers, "shape", "x"), (spreads, "shape", "x"))),
        Operator("Tile", "x -> y", (ints("multiples?"),),
            Aclnn("aclnnRepeat", attributes=(ints("repeats", "multiples"),)), ("TileD",),
            infer=results.tiled, kernel="BroadcastTo",
            checks=((needs, "multiples", "y"), (covers, "multiples", "x"),
                (attribute_at_least, "multiples", 0))),
    ),
    splitting=(
        Operator("Split", "x -> y*", _PARTS, also=("SplitD",), infer=results.parts,
            parts="num_split", checks=_PARTED),
        Operator("SplitV", "x -> y*", (ints("size_splits?"), *_PARTS), also=("SplitVD",),
            infer=results.parts, parts="size_splits", kernel="Split", checks=_PARTED),
        Operator("Unpack", "x -> y*", (whole("num?", None), whole("axis?")), infer=results.unpacked,
            parts="num", checks=(_AXIS, (axes_in, "axis", "x"))),
    ),
    strided=(
        Operator("AsStrided"),
        Operator("ViewCopy"),
    ),
)

"""Copies between layouts: what makes tensors contiguous, spreads them, writes strided outputs."""

from npusim.operators.definition import Aclnn, Operator, family, flag, ints, whole
from npusim.ops.data_movement import results

_JOINED = (whole("concat_dim?"),)
_ORDER = (ints("perm?"),)
_FRAME = (ints("paddings?"),)
_PART = (ints("offsets?"), ints("size?"))
_STEPS = (ints("begin?"), ints("end?"), ints("strides?"))
_SHAPE = (ints("shape?"),)
_PARTS = (whole("split_dim?"), whole("num_split?"))

# fmt: off
OPERATORS = family(
    "data_movement",
    joining=(
        Operator("ConcatD", "x* -> y", _JOINED,
            Aclnn("aclnnCat", "tensors* -> out", (whole("dim", "concat_dim"),)),
            ("Concat", "ConcatV2", "ConcatV2D"), infer=results.joined, kernel="Concat"),
        Operator("Pack", "x* -> y", (whole("axis?"),),
            Aclnn("aclnnStack", "tensors* -> out", (whole("dim", "axis"),))),
    ),
    layouts=(Operator("TransData", "src -> dst"),),
    padding=(
        Operator("Pad", "x -> y", _FRAME, also=("PadD",), infer=results.padded),
        Operator("PadV3", "x constant_values? -> y", _FRAME, infer=results.padded, kernel="Pad"),
        Operator("StridedSliceGrad", "dy -> output", (*_SHAPE, *_STEPS),
            infer=results.shaped_by("shape"), kernel="Pad"),
    ),
    permuting=(
        Operator("ConfusionTransposeD", "x -> y", (*_ORDER, *_SHAPE, flag("transpose_first?"))),
        Operator("Transpose", "x -> y", _ORDER,
            Aclnn("aclnnPermute", attributes=(ints("dims", "perm"),)), ("TransposeD",)),
        Operator("TransposeNOD"),
    ),
    slicing=(
        Operator("Slice", "x -> y", _PART, also=("SliceD",), infer=results.shaped_by("size")),
        Operator("StridedSlice", "x -> y", _STEPS, also=("StridedSliceD",), infer=results.cut),
    ),
    spreading=(
        Operator("BroadcastTo", "x -> y", _SHAPE,
            Aclnn("aclnnExpand", attributes=(ints("size", "shape"),)),
            ("BroadcastToD", "Expand", "ExpandD"), infer=results.shaped_by("shape")),
        Operator("Tile", "x -> y", (ints("multiples?"),),
            Aclnn("aclnnRepeat", attributes=(ints("repeats", "multiples"),)), ("TileD",),
            infer=results.tiled, kernel="BroadcastTo"),
    ),
    splitting=(
        Operator("Split", "x -> y*", _PARTS, also=("SplitD",), infer=results.parts,
            parts="num_split"),
        Operator("SplitV", "x -> y*", (ints("size_splits?"), *_PARTS), also=("SplitVD",),
            infer=results.parts, parts="size_splits", kernel="Split"),
        Operator("Unpack", "x -> y*", (whole("num?", None), whole("axis?")), infer=results.unpacked,
            parts="num"),
    ),
    strided=(
        Operator("AsStrided"),
        Operator("ViewCopy"),
    ),
)

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

OPERATORS = family(
    "data_movement",
    Operator(
        "ConcatD",
        "x* -> y",
        "joining:Concat",
        _JOINED,
        Aclnn("aclnnCat", "tensors* -> out", (whole("dim", "concat_dim"),)),
        also=("Concat", "ConcatV2", "ConcatV2D"),
        infer=results.joined,
    ),
    Operator(
        "Pack",
        "x* -> y",
        "joining",
        (whole("axis?"),),
        Aclnn("aclnnStack", "tensors* -> out", (whole("dim", "axis"),)),
    ),
    Operator("TransData", "src -> dst", "layouts"),
    Operator("Pad", "x -> y", "padding", _FRAME, also=("PadD",), infer=results.padded),
    Operator("PadV3", "x constant_values? -> y", "padding:Pad", _FRAME, infer=results.padded),
    Operator(
        "StridedSliceGrad",
        "dy -> output",
        "padding:Pad",
        (*_SHAPE, *_STEPS),
        infer=results.shaped_by("shape"),
    ),
    Operator(
        "ConfusionTransposeD",
        "x -> y",
        "permuting",
        (*_ORDER, *_SHAPE, flag("transpose_first?")),
    ),
    Operator(
        "Transpose",
        "x -> y",
        "permuting",
        _ORDER,
        Aclnn("aclnnPermute", attributes=(ints("dims", "perm"),)),
        also=("TransposeD",),
    ),
    Operator("TransposeNOD", kernel="permuting"),
    Operator(
        "Slice", "x -> y", "slicing", _PART, also=("SliceD",), infer=results.shaped_by("size")
    ),
    Operator(
        "StridedSlice", "x -> y", "slicing", _STEPS, also=("StridedSliceD",), infer=results.cut
    ),
    Operator(
        "BroadcastTo",
        "x -> y",
        "spreading",
        _SHAPE,
        Aclnn("aclnnExpand", attributes=(ints("size", "shape"),)),
        also=("BroadcastToD", "Expand", "ExpandD"),
        infer=results.shaped_by("shape"),
    ),
    Operator(
        "Tile",
        "x -> y",
        "spreading:BroadcastTo",
        (ints("multiples?"),),
        Aclnn("aclnnRepeat", attributes=(ints("repeats", "multiples"),)),
        also=("TileD",),
        infer=results.tiled,
    ),
    Operator(
        "Split",
        "x -> y*",
        "splitting",
        _PARTS,
        also=("SplitD",),
        infer=results.parts,
        parts="num_split",
    ),
    Operator(
        "SplitV",
        "x -> y*",
        "splitting:Split",
        (ints("size_splits?"), *_PARTS),
        also=("SplitVD",),
        infer=results.parts,
        parts="size_splits",
    ),
    Operator(
        "Unpack",
        "x -> y*",
        "splitting",
        (whole("num?", None), whole("axis?")),
        infer=results.unpacked,
        parts="num",
    ),
    Operator("AsStrided", kernel="strided"),
    Operator("ViewCopy", kernel="strided"),
)

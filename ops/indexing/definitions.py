"""Rows at places that data tells: gathered, scattered, added up; and places turned into ones."""

from npusim.operators.definition import Aclnn, Operator, family, flag, text, whole

_AXIS = (whole("axis?"),)
_DIM = (whole("dim", "axis"),)
_UPDATES = "var indices updates -> var"
_SEGMENTS = (whole("num_segments?"),)
_HOT = (whole("depth?"), *_AXIS)
_CLASSES = (whole("numClasses", "depth"), whole("axis?", only=-1))
_NEGATIVE = (flag("negativeIndexSupport?", None),)
_SCATTERED = (whole("dim"), whole("reduce?", only=0))

# fmt: off
OPERATORS = family(
    "indexing",
    gather=(
        Operator("Embedding", "x indices -> y", kernel="GatherV2"),
        Operator("GatherNd", "x indices -> y", (),
            Aclnn("aclnnGatherNd", "self indices -> out", _NEGATIVE)),
        Operator("GatherV2", "x indices -> y", _AXIS,
            (Aclnn("aclnnEmbedding", "weight indices -> out"),
             Aclnn("aclnnIndexSelect", "self index -> out", _DIM),
             Aclnn("aclnnGatherV2", "self index -> out", _DIM)),
            ("GatherV2D",)),
        Operator("Gather", "x indices -> y", kernel="gather"),
    ),
    one_hot=(
        Operator("OneHot", "x on_value off_value -> y", _HOT,
            Aclnn("aclnnOneHot", "self onValue offValue -> out", _CLASSES), ("OneHotD",)),
    ),
    scatter=(
        Operator("InplaceIndexAdd", "var indices updates alpha? -> var", _AXIS),
        Operator("IndexAdd (torch.index_add)", kernel="InplaceIndexAdd"),
        Operator("ScatterAdd", _UPDATES, also=("ScatterNdAdd",)),
        Operator("ScatterNdUpdate", _UPDATES, (),
            Aclnn("aclnnScatterNdUpdate", "varRef indices updates -> varRef"),
            kernel="ScatterUpdate"),
        Operator("ScatterUpdate", _UPDATES),
        Operator("UnsortedSegmentSumD", "x segment_ids -> y", _SEGMENTS,
            kernel="UnsortedSegmentSum"),
        Operator("UnsortedSegmentSum", "x segment_ids -> y", _SEGMENTS,
            kernel="unsorted_segment_sum"),
    ),
    elements=(
        Operator("GatherElements", "x index -> y", (whole("dim?"),),
            Aclnn("aclnnGather", "self index -> out", (whole("dim"),)), kernel="gather_elements"),
        Operator("ScatterElements", "data indices updates -> y", _AXIS,
            Aclnn("aclnnScatter", "self index src -> out", _SCATTERED), kernel="scatter_elements"),
        Operator("Scatter", _UPDATES, (text("reduce?"), *_AXIS), kernel="scatter_elements"),
        Operator("Index", kernel="index_elements"),
    ),
)

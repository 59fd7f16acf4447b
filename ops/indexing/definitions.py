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

OPERATORS = family(
    "indexing",
    Operator("Embedding", "x indices -> y", "gather:GatherV2"),
    Operator(
        "GatherNd",
        "x indices -> y",
        "gather",
        (),
        Aclnn("aclnnGatherNd", "self indices -> out", _NEGATIVE),
    ),
    Operator(
        "GatherV2",
        "x indices -> y",
        "gather",
        _AXIS,
        (
            Aclnn("aclnnEmbedding", "weight indices -> out"),
            Aclnn("aclnnIndexSelect", "self index -> out", _DIM),
            Aclnn("aclnnGatherV2", "self index -> out", _DIM),
        ),
        also=("GatherV2D",),
    ),
    Operator("Gather", "x indices -> y", "gather:gather"),
    Operator(
        "OneHot",
        "x on_value off_value -> y",
        "one_hot",
        _HOT,
        Aclnn("aclnnOneHot", "self onValue offValue -> out", _CLASSES),
        also=("OneHotD",),
    ),
    Operator("InplaceIndexAdd", "var indices updates alpha? -> var", "scatter", _AXIS),
    Operator("IndexAdd (torch.index_add)", kernel="scatter:InplaceIndexAdd"),
    Operator("ScatterAdd", _UPDATES, "scatter", also=("ScatterNdAdd",)),
    Operator(
        "ScatterNdUpdate",
        _UPDATES,
        "scatter:ScatterUpdate",
        aclnn=Aclnn("aclnnScatterNdUpdate", "varRef indices updates -> varRef"),
    ),
    Operator("ScatterUpdate", _UPDATES, "scatter"),
    Operator("UnsortedSegmentSumD", "x segment_ids -> y", "scatter:UnsortedSegmentSum", _SEGMENTS),
    Operator("UnsortedSegmentSum", "x segment_ids -> y", "scatter:unsorted_segment_sum", _SEGMENTS),
    Operator(
        "GatherElements",
        "x index -> y",
        "elements:gather_elements",
        (whole("dim?"),),
        Aclnn("aclnnGather", "self index -> out", (whole("dim"),)),
    ),
    Operator(
        "ScatterElements",
        "data indices updates -> y",
        "elements:scatter_elements",
        _AXIS,
        Aclnn("aclnnScatter", "self index src -> out", _SCATTERED),
    ),
    Operator("Scatter", _UPDATES, "elements:scatter_elements", (text("reduce?"), *_AXIS)),
    Operator("Index", kernel="elements:index_elements"),
)

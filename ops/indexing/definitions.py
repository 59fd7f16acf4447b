"""Rows at places that data tells: gathered, scattered, added up; and places turned into ones."""

from npusim.operators.checks import attribute_at_least, rank_in, same_shape
from npusim.operators.definition import Aclnn, Operator, family, flag, text, whole
from npusim.operators.shape_checks import axes_in, fits, needs, one_element
from npusim.ops.indexing.checks import (
    added_along,
    gathered,
    gathered_parts,
    one_hot,
    places_in,
    rows_at,
    scattered,
    tuples_of,
)

_AXIS = (whole("axis?"),)
_DIM = (whole("dim", "axis"),)
_UPDATES = "var indices updates -> var"
_SEGMENTS = (whole("num_segments?"),)
_HOT = (whole("depth?"), *_AXIS)
_CLASSES = (whole("numClasses", "depth"), whole("axis?", only=-1))
_NEGATIVE = (flag("negativeIndexSupport?", None),)
_SCATTERED = (whole("dim"), whole("reduce?", only=0))
_ROWS = ((rows_at, "var", "indices", "updates"),)
_ALONG = ((rank_in, range(1, 9), "x"), (axes_in, "axis", "x"))
_SUMS = ((needs, "num_segments", "y"), (attribute_at_least, "num_segments", 1),
    (fits, "segment_ids", "*ids", "x", "*ids *row", "y", "n *row"))  # fmt: skip
_ENCODES = ((needs, "depth", "y"), (attribute_at_least, "depth", 1),
    (axes_in, "axis", "x", {"more": 1}), (one_element, "on_value", "off_value"))  # fmt: skip


def _picked(axis: str, x: str) -> tuple[tuple[object, ...], ...]:
    """An index for every element of the result, in as many axes as the tensor has."""
    return (axes_in, axis, x), (places_in, axis, x, "<")


# fmt: off
OPERATORS = family(
    "indexing",
    gather=(
        Operator("Embedding", "x indices -> y", kernel="GatherV2", infer=gathered, checks=_ALONG),
        Operator("GatherNd", "x indices -> y", (),
            Aclnn("aclnnGatherNd", "self indices -> out", _NEGATIVE), infer=gathered_parts,
            checks=((tuples_of, "indices", "x"),)),
        Operator("GatherV2", "x indices -> y", _AXIS,
            (Aclnn("aclnnEmbedding", "weight indices -> out"),
             Aclnn("aclnnIndexSelect", "self index -> out", _DIM),
             Aclnn("aclnnGatherV2", "self index -> out", _DIM)),
            ("GatherV2D",), infer=gathered, checks=_ALONG),
        Operator("Gather", "x indices -> y", kernel="gather", infer=gathered, checks=_ALONG),
    ),
    one_hot=(
        Operator("OneHot", "x on_value off_value -> y", _HOT,
            Aclnn("aclnnOneHot", "self onValue offValue -> out", _CLASSES), ("OneHotD",),
            infer=one_hot, checks=_ENCODES),
    ),
    scatter=(
        Operator("InplaceIndexAdd", "var indices updates alpha? -> var", _AXIS,
            checks=((axes_in, "axis", "var"), (added_along, "axis", "var", "indices", "updates"))),
        Operator("IndexAdd (torch.index_add)", kernel="InplaceIndexAdd"),
        Operator("ScatterAdd", _UPDATES, also=("ScatterNdAdd",), checks=_ROWS),
        Operator("ScatterNdUpdate", _UPDATES, (),
            Aclnn("aclnnScatterNdUpdate", "varRef indices updates -> varRef"),
            kernel="ScatterUpdate", checks=_ROWS),
        Operator("ScatterUpdate", _UPDATES, checks=_ROWS),
        Operator("UnsortedSegmentSumD", "x segment_ids -> y", _SEGMENTS,
            kernel="UnsortedSegmentSum", checks=_SUMS),
        Operator("UnsortedSegmentSum", "x segment_ids -> y", _SEGMENTS,
            kernel="unsorted_segment_sum", checks=_SUMS),
    ),
    cache=(
        Operator("Scatter", _UPDATES, (text("reduce?"), *_AXIS), kernel="scatter",
            checks=((scattered, "axis", "var", "indices", "updates"),)),
    ),
    elements=(
        Operator("GatherElements", "x index -> y", (whole("dim?"),),
            Aclnn("aclnnGather", "self index -> out", (whole("dim"),)), kernel="gather_elements",
            checks=(*_picked("dim", "x"), (same_shape, "index", "y"))),
        Operator("ScatterElements", "data indices updates -> y", _AXIS,
            Aclnn("aclnnScatter", "self index src -> out", _SCATTERED),
            kernel="scatter_elements", checks=(*_picked("axis", "data"),
                (same_shape, "indices", "updates"), (same_shape, "data", "y"))),
        Operator("Index", kernel="index_elements"),
    ),
)

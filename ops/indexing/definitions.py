"""Rows at places that data tells: gathered, scattered, added up; and places turned into ones."""

from npusim.operators.checks import (
    attribute_at_least,
    attribute_in,
    broadcasts_to,
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
    real,
    scalar,
    text,
    whole,
)
from npusim.operators.results import like
from npusim.operators.shape_checks import axes_in, fits, needs, one_element
from npusim.ops.indexing.checks import (
    added_along,
    cached,
    counts_rows,
    covered,
    gathered,
    gathered_parts,
    holding,
    indexed,
    one_hot,
    only_adds,
    places_in,
    put_at,
    rows_at,
    scattered,
    together,
    tuples_of,
)
from npusim.ops.indexing.paged_limits import paged_kinds, paged_shapes

_AXIS = (whole("axis?"),)
_DIM = (whole("dim", "axis"),)
_UPDATES = "var indices updates -> var"
_SEGMENTS = (whole("num_segments?"),)
_HOT = (whole("depth?"), *_AXIS)
_CLASSES = (whole("numClasses", "depth"), whole("axis?"))
_NEGATIVE = (flag("negativeIndexSupport?", None),)
_SCATTERED = (whole("dim", "axis"), whole("reduce?"))
_NUMBERED = (whole("dim"), scalar("value"), whole("reduce"))
_OWN_AXIS = ((rank_in, range(1, 9), "self"), (axes_in, "dim", "self"))
_UNIQUE = (flag("sorted", "is_sorted"), flag("returnInverse", "inverse"),
    flag("returnCounts", "counts"))  # fmt: skip
_SIZED = (attribute_at_least, "outputSize", 0)
_ROWS = ((rows_at, "var", "indices", "updates"),)
_ALONG = ((rank_in, range(1, 9), "x"), (axes_in, "axis", "x"))
_SUMS = ((needs, "num_segments", "y"), (attribute_at_least, "num_segments", 1),
    (fits, "segment_ids", "*ids", "x", "*ids *row", "y", "n *row"))  # fmt: skip
_ENCODES = ((needs, "depth", "y"), (attribute_at_least, "depth", 1),
    (axes_in, "axis", "x", {"more": 1}), (one_element, "on_value", "off_value"))  # fmt: skip


def _picked(axis: str, x: str) -> tuple[tuple[object, ...], ...]:
    """An index for every element of the result, in as many axes as the tensor has."""
    return (axes_in, axis, x), (places_in, axis, x, "<")


_PAGED = ("key", "key_cache", "slot_mapping", "value", "value_cache", "compress_lens",
          "compress_seq_offset", "seq_lens")  # fmt: skip

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
            ("GatherV2D", "GatherV3"), infer=gathered, checks=_ALONG),
        Operator("Gather", "x indices -> y", kernel="gather", infer=gathered, checks=_ALONG),
    ),
    one_hot=(
        Operator("OneHot", "x on_value off_value -> y", _HOT,
            Aclnn("aclnnOneHot", "self onValue offValue -> out", _CLASSES), ("OneHotD",),
            infer=one_hot, checks=_ENCODES),
    ),
    paged=(
        Operator("ScatterPaKvCache",
            "key key_cache slot_mapping value value_cache compress_lens? compress_seq_offset? "
            "seq_lens? -> key_cache value_cache",
            (text("cache_mode?"), text("scatter_mode?")),
            Aclnn("aclnnScatterPaKvCache",
                "key keyCacheRef slotMapping value valueCacheRef compressLensOptional? "
                "compressSeqOffsetOptional? seqLensOptional? -> keyCacheRef valueCacheRef",
                (text("cacheModeOptional?", "cache_mode"),
                 text("scatterModeOptional?", "scatter_mode"),
                 ints("stridesOptional?", None), ints("offsetsOptional?", None)),
                rules="hicann/ops-transformer attention/scatter_pa_kv_cache/docs/"
                    "aclnnScatterPaKvCache.md"),
            checks=((paged_kinds, *_PAGED, "cache_mode"),
                (paged_shapes, *_PAGED, "cache_mode", "scatter_mode"))),
    ),
    scatter=(
        Operator("InplaceIndexAdd", "var indices updates alpha? -> var", _AXIS,
            checks=((axes_in, "axis", "var"), (added_along, "axis", "var", "indices", "updates"))),
        Operator("IndexAdd (torch.index_add)", kernel="InplaceIndexAdd"),
        Operator("IndexAdd", _UPDATES, _AXIS, kernel="index_add"),
        Operator("ScatterAdd", _UPDATES, (),
            Aclnn("aclnnTfScatterAdd", "varRef indices updates -> varRef"),
            ("ScatterNdAdd", "InplaceScatterAdd"), checks=_ROWS),
        Operator("ScatterNdUpdate", _UPDATES, (),
            Aclnn("aclnnScatterNdUpdate", "varRef indices updates -> varRef"),
            checks=((tuples_of, "indices", "var"),
                (rows_at, "var", "indices", "updates", {"tuples": True}))),
        Operator("ScatterUpdate", _UPDATES, checks=_ROWS),
        Operator("UnsortedSegmentSumD", "x segment_ids -> y", _SEGMENTS,
            kernel="UnsortedSegmentSum", checks=_SUMS),
        Operator("UnsortedSegmentSum", "x segment_ids -> y", _SEGMENTS,
            kernel="unsorted_segment_sum", checks=_SUMS),
    ),
    sorted_rows=(
        Operator("InplaceIndexAddWithSorted",
            "var value sorted_indices pos alpha? -> var", _AXIS),
    ),
    host=(
        Composed("aclnnEmbeddingDenseBackward", "grad indices -> out",
            (whole("numWeights", "rows"), whole("paddingIdx", "padding"),
             flag("scaleGradByFreq", "by_frequency")), "embedding_gradient",
            checks=((rank_in, range(1, 9), "grad"), (fits, "indices", "*ids", "grad", "*ids w"),
                (attribute_at_least, "numWeights", 1))),
        Composed("aclnnGatherV3", "self index -> out",
            (whole("dim"), whole("batchDims", "batch_dims"), whole("mode", None)), "rows_taken",
            checks=_OWN_AXIS),
        Composed("aclnnIndexAdd", "self index source -> out", (whole("dim"), scalar("alpha")),
            "rows_added", checks=(*_OWN_AXIS, (added_along, "dim", "self", "index", "source"))),
        Composed("aclnnIndexCopy", "selfRef index source -> outRef", (whole("dim"),),
            "rows_copied", checks=((axes_in, "dim", "selfRef"),
                (added_along, "dim", "selfRef", "index", "source"))),
        Composed("aclnnInplaceIndexCopy", "selfRef index source -> selfRef", (whole("dim"),),
            "rows_copied", checks=((axes_in, "dim", "selfRef"),
                (added_along, "dim", "selfRef", "index", "source"))),
        Composed("aclnnInplacePut", "selfRef index source -> selfRef", (flag("accumulate"),),
            "put"),
        Composed("aclnnInplaceScatter", "selfRef index src -> selfRef",
            (whole("dim"), whole("reduce")), "scattered",
            checks=(*_picked("dim", "selfRef"), (covered, "index", "src"),
                (attribute_in, "reduce", (0, 1, 2)))),
        Composed("aclnnInplaceScatterValue", "selfRef index -> selfRef", _NUMBERED,
            "number_scattered", checks=(*_picked("dim", "selfRef"),
                (attribute_in, "reduce", (0, 1, 2)))),
        Composed("aclnnScatterAdd", "self index src -> out", (whole("dim"),), "scatter_added",
            checks=(*_picked("dim", "self"), (covered, "index", "src"),
                (same_shape, "self", "out"))),
        Composed("aclnnScatterNd", "data indices updates -> out", (), "rows_put",
            checks=((rows_at, "data", "indices", "updates"), (same_shape, "data", "out"))),
        Composed("aclnnTake", "self index -> out", (), "taken",
            checks=((same_shape, "index", "out"),)),
    ),
    by_lists=(
        Operator("Index", kernel="index"),
        Operator("IndexPutV2", kernel="index_put", also=("IndexPut",)),
    ),
    cache=(
        Composed("aclnnInplaceScatterUpdate", "data indices updates -> data", (whole("axis"),),
            "updated", checks=((holding, "data", "updates", "indices"),
                (cached, "axis", "data", "indices", "updates"))),
        Operator("Scatter", _UPDATES, (text("reduce?"), *_AXIS), kernel="scatter",
            checks=((scattered, "axis", "var", "indices", "updates"),)),
    ),
    decided=(
        Operator("NonZero", "x -> y", (flag("transpose?"),), kernel="non_zero",
            checks=((needs, "y"),)),
        Operator("MaskedSelectV3", "x mask -> y", (), kernel="masked_select",
            also=("MaskedSelect",), checks=((together, "x", "mask"), (needs, "y"))),
        Operator("MaskedScatter", "x mask updates -> y", (), kernel="masked_scatter",
            infer=like, checks=((broadcasts_to, "x", "mask"),)),
        Operator("IndexFill", kernel="index_fill"),
        Operator("LinearIndex", kernel="short_index"),
        Operator("RepeatInterleave", "x repeats -> y", (), kernel="repeat",
            checks=((needs, "y"), (rank_in, range(1, 9), "x", "y"),
                (counts_rows, "repeats", "x", "axis"))),
        Operator("UniqueConsecutive", kernel="unique_rows"),
        Operator("UniqueWithCountsExt2", kernel="unique_rows"),
        Operator("EmbeddingBag", kernel="embedding_bag"),
    ),
    selected=(
        Composed("aclnnNonzero", "self -> out", (), "places"),
        Composed("aclnnNonzeroV2", "self -> out", (), "places_in_columns"),
        Composed("aclnnMaskedSelect", "self mask -> out", (), "masked",
            checks=((together, "self", "mask"),)),
        Composed("aclnnInplaceMaskedScatter", "selfRef mask source -> selfRef", (), "put_by_mask",
            checks=((broadcasts_to, "selfRef", "mask"),)),
        Composed("aclnnUnique", "self -> valueOut inverseOut", _UNIQUE[:2], "different_numbers"),
        Composed("aclnnUnique2", "self -> valueOut inverseOut countsOut", _UNIQUE, "different"),
        Composed("aclnnUniqueDim", "self -> valueOut inverseOut countsOut",
            (*_UNIQUE[:2], whole("dim", "axis")), "different", checks=_OWN_AXIS),
        Composed("aclnnUniqueConsecutive", "self -> valueOut inverseOut countsOut",
            (*_UNIQUE[1:], whole("dim", "axis")), "runs"),
        Composed("aclnnIndex", "self indices* -> out", (), "indexed",
            checks=((indexed, "self", "out", "indices"),)),
        Composed("aclnnIndexPutImpl", "selfRef indices* values -> selfRef",
            (flag("accumulate"), flag("unsafe", "is_unsafe")), "indices_put",
            checks=((put_at, "selfRef", "values", "indices"),)),
        Composed("aclnnIndexAddV2", "self index source -> out",
            (whole("dim"), scalar("alpha"), whole("mode")), "rows_added_by",
            checks=(*_OWN_AXIS, (added_along, "dim", "self", "index", "source"))),
        Composed("aclnnIndexFill", "self index -> out", (whole("dim"), scalar("value")),
            "filled_rows", in_place=True,
            checks=(*_OWN_AXIS, (rank_in, (0, 1), "index"), (same_shape, "self", "out"))),
        Composed("aclnnIndexFillTensor", "self -> out",
            (whole("dim"), ints("index"), scalar("value")), "filled_places", in_place=True,
            checks=(*_OWN_AXIS, (same_shape, "self", "out"))),
        Composed("aclnnRepeatInterleave", "self repeats -> out", (whole("outputSize", "size"),),
            "repeated", checks=((counts_rows, "repeats", "self"), _SIZED)),
        Composed("aclnnRepeatInterleaveWithDim", "self repeats -> out",
            (whole("dim"), whole("outputSize", "size")), "repeated",
            checks=(*_OWN_AXIS, (counts_rows, "repeats", "self", "dim"), _SIZED)),
        Composed("aclnnRepeatInterleaveTensor", "repeats -> out", (whole("outputSize", "size"),),
            "places_repeated", checks=((rank_in, (1,), "repeats"), _SIZED)),
        Composed("aclnnScatterValue", "self index -> out",
            (whole("dim"), scalar("value"), whole("reduce")), "value_scattered",
            checks=(*_picked("dim", "self"), (same_shape, "self", "out"),
                (attribute_in, "reduce", (0, 1, 2)))),
        Composed("aclnnScatterReduce", "self index src -> out",
            (whole("dim"), whole("reduce"), flag("includeSelf", "include")), "reduced_by_places",
            checks=(*_picked("dim", "self"), (covered, "index", "src"),
                (same_shape, "self", "out"), (only_adds, "self", "reduce", "includeSelf"))),
        Composed("aclnnEmbeddingBag",
            "weight indices offsets perSampleWeights? -> output offset2bag bagSize maxIndices",
            (flag("scaleGradByFreq", "by_frequency"), whole("mode"), flag("sparse", "is_sparse"),
             flag("includeLastOffset", "last"), whole("paddingIdx", "padding")), "bags",
            checks=((rank_in, (2,), "weight"), (rank_in, (1,), "indices", "offsets"),
                (same_shape, "indices", "perSampleWeights"))),
        Composed("aclnnRenorm", "self -> out",
            (scalar("p"), whole("dim"), scalar("maxNorm", "most")), "renormed", in_place=True,
            checks=((rank_in, range(2, 9), "self"), (axes_in, "dim", "self"),
                (same_shape, "self", "out"))),
        Composed("aclnnEmbeddingRenorm", "selfRef indices -> selfRef",
            (real("maxNorm", "most"), real("normType", "power")), "rows_renormed",
            checks=((rank_in, (2,), "selfRef"),)),
    ),
    elements=(
        Operator("GatherElements", "x index -> y", (whole("dim?"),),
            Aclnn("aclnnGather", "self index -> out", (whole("dim"),),
                checks=((same_dtype, "x", "y"),)), ("GatherElementsV2",),
            kernel="gather_elements",
            checks=(*_picked("dim", "x"), (same_shape, "index", "y"))),
    ),
    put_elements=(
        Operator("ScatterElements", "data indices updates -> y", _AXIS,
            Aclnn("aclnnScatter", "self index src -> out", _SCATTERED),
            kernel="scatter_elements", checks=(*_picked("axis", "data"),
                (same_shape, "indices", "updates"), (same_shape, "data", "y"),
                (attribute_in, "reduce", (0, 1, 2)))),
        Operator("ScatterElementsV2", kernel="scatter_elements"),
    ),
)

"""Order: running extremes, places of extremes, the k largest."""

from npusim.operators.checks import attribute_at_least, not_all_null, rank_in, same_dtype
from npusim.operators.definition import (
    Aclnn,
    Composed,
    Operator,
    family,
    flag,
    page,
    real,
    whole,
)
from npusim.operators.norm_checks import not_empty
from npusim.operators.results import like
from npusim.operators.shape_checks import axes_in, fits
from npusim.ops.sorting.checks import at_most_size, parted
from npusim.ops.sorting.results import sampled

_HALVES = (
    "Atlas training products (910A) sort float32 as float16: values are rounded to it. Source: "
    "ops-math math/sort/op_api/aclnn_sort.cpp, ops-nn index/gather_elements/op_api/aclnn_topk.cpp."
)
_KEPT = (whole("dim"), flag("keepdim", "keep"))
_ALONG = ((rank_in, range(1, 9), "self"), (axes_in, "dim", "self"))

# fmt: off
OPERATORS = family(
    "sorting",
    places=(
        Operator("ArgMax", kernel="ArgMax", also=("ArgMaxV2", "ArgMaxD", "ArgMaxWithValue")),
        Operator("ArgMin", kernel="ArgMin", also=("ArgMinD", "ArgMinWithValue")),
    ),
    top_k=(
        Operator("TopK", kernel="top_k", also=("TopKV2", "TopKD")),
        Operator("Sort", kernel="sort", also=("SortV2",)),
    ),
    host=(
        Composed("aclnnArgMax", "self -> out", _KEPT, "place_of_largest", checks=_ALONG),
        Composed("aclnnArgMin", "self -> out", _KEPT, "place_of_smallest", checks=_ALONG),
        Composed("aclnnArgsort", "self -> out", (whole("dim"), flag("descending")), "order",
            checks=_ALONG),
        Composed("aclnnCummax", "self -> valuesOut indicesOut", (whole("dim"),), "running_largest",
            checks=_ALONG),
        Composed("aclnnCummin", "self -> valuesOut indicesOut", (whole("dim"),),
            "running_smallest", checks=_ALONG),
        Composed("aclnnKthvalue", "self -> valuesOut indicesOut", (whole("k"), *_KEPT), "kth",
            checks=(*_ALONG, (attribute_at_least, "k", 1), (at_most_size, "k", "dim", "self"))),
        Composed("aclnnMaxDim", "self -> out indices", _KEPT, "largest_and_place",
            checks=(*_ALONG, (same_dtype, "self", "out")),
            rules=page("ops-math math/arg_max_with_value", "MaxDim")),
        Composed("aclnnMedian", "self -> valuesOut", (), "median"),
        Composed("aclnnMedianDim", "self -> valuesOut indicesOut",
            (whole("dim"), flag("keepDim", "keep")), "median_along", checks=_ALONG),
        Composed("aclnnNanMedian", "self -> out", (), "number_median"),
        Composed("aclnnNanMedianDim", "self -> valuesOut indicesOut",
            (whole("dim"), flag("keepDim", "keep")), "number_median_along", checks=_ALONG),
        Composed("aclnnMinDim", "self -> out indices", _KEPT, "smallest_and_place",
            checks=(*_ALONG, (same_dtype, "self", "out"))),
        Composed("aclnnSort", "self -> valuesOut indicesOut",
            (flag("stable"), whole("dim"), flag("descending")), "ordered", checks=_ALONG,
            note=_HALVES),
        Composed("aclnnTopk", "self -> valuesOut indicesOut",
            (whole("k"), whole("dim"), flag("largest"), flag("sorted", "is_sorted")), "first_ones",
            checks=((same_dtype, "self", "valuesOut"), *_ALONG, (attribute_at_least, "k", 0),
                (at_most_size, "k", "dim", "self"),
                (parted, "k", "dim", "self", "valuesOut", "indicesOut")), note=_HALVES),
    ),
    kept=(
        Operator("ApplyTopKTopPWithSorted", "sorted_value sorted_indices p? k? logits? -> out", (),
            kernel="apply_top_k_top_p", infer=like,
            checks=((fits, "sorted_value", "b v", "sorted_indices", "b v", "p", "b", "k", "b",
                "logits", "b v", "out", "b v"),)),
        Composed("aclnnApplyTopKTopP", "logits p? k? -> out", (), "kept",
            checks=((not_all_null, "p", "k"), (same_dtype, "logits", "p", "out"),
                (fits, "logits", "b v", "p", "b", "k", "b", "out", "b v")),
            rules=page("ops-nn index/apply_top_k_top_p_with_sorted", "ApplyTopKTopP")),
    ),
    sampled=(
        Operator("TopKTopPSample",
            "logits top_k top_p q? -> logits_select_idx logits_top_kp_select",
            (real("eps?"), flag("is_need_logits?"), whole("top_k_guess?")),
            Aclnn("aclnnTopKTopPSample",
                "logits topK topP q? -> logitsSelectIdx logitsTopKPSelect",
                (real("eps"), flag("isNeedLogits", "is_need_logits"),
                 whole("topKGuess", "top_k_guess")),
                checks=((same_dtype, "logits", "top_p"), (attribute_at_least, "topKGuess", 1),
                    (not_empty, "logits")),
                rules=page("ops-nn index/top_k_top_p_sample", "TopKTopPSample")),
            kernel="top_k_top_p_sample", infer=sampled,
            checks=((fits, "logits", "b v", "top_k", "b", "top_p", "b", "q", "b v",
                "logits_select_idx", "b", "logits_top_kp_select", "b v",
                {"within": {"v": range(1, (1 << 20) + 1)}}),)),
    ),
    unique=(
        Operator("Unique", kernel="unique", also=("Unique2", "UniqueWithCountsAndSorting")),
    ),
    running=(
        Operator("Cummin"),
        Operator("Cummax"),
    ),
)

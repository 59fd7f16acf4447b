"""Order: running extremes, places of extremes, the k largest."""

from npusim.operators.definition import Operator, family

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
    unique=(
        Operator("Unique", kernel="unique", also=("Unique2", "UniqueWithCountsAndSorting")),
    ),
    running=(
        Operator("Cummin"),
        Operator("Cummax"),
    ),
)

"""Counts of numbers, places among sorted ones, running products: what the AI CPU does of these."""

from npusim.operators.checks import rank_in
from npusim.operators.definition import (
    Aclnn,
    Composed,
    Operator,
    family,
    flag,
    scalar,
    text,
    whole,
)
from npusim.operators.results import like
from npusim.operators.shape_checks import axes_in, fits, needs
from npusim.ops.search import results

_SIDE = (flag("out_int32?"), flag("right?"))
_NAMED = (flag("outInt32", "out_int32"), flag("right"))

# fmt: off
OPERATORS = family(
    "search",
    counting=(
        Operator("Bincount", "array weights? -> bins", (whole("minlength?", None),),
            Aclnn("aclnnBincount", "self weights? -> out", (whole("minlength", None),)),
            kernel="bincount",
            checks=((needs, "bins"), (rank_in, (1,), "array", "weights", "bins"))),
        Operator("SearchSorted", "sorted_sequence values sorter? -> out", _SIDE,
            Aclnn("aclnnSearchSorted", "sortedSequence self sorter? -> out",
                _NAMED), kernel="search_sorted", infer=results.places,
            checks=((results.rows_alike, "sorted_sequence", "values"),
                (fits, "sorted_sequence", "*rows n", "sorter", "*rows n"))),
    ),
    host=(
        Composed("aclnnSearchSorteds", "sortedSequence sorter? -> out",
            (scalar("self", "number"), *_NAMED), "number_searched",
            checks=((rank_in, (1,), "sortedSequence"),)),
    ),
    running=(
        Operator("Cumprod", "x -> y", (whole("axis?"), flag("exclusive?"), flag("reverse?")),
            (Aclnn("aclnnCumprod", "input -> out", (whole("dim", "axis"), text("dtype?", None))),
             Aclnn("aclnnInplaceCumprod", "input -> input", (whole("dim", "axis"),))),
            kernel="cumprod", infer=like, checks=((axes_in, "axis", "x"),)),
    ),
    functions=(
        Operator("Digamma", "x -> y", (), Aclnn("aclnnDigamma"), kernel="digamma", infer=like),
        Operator("Lgamma", "x -> y", (), Aclnn("aclnnLgamma"), kernel="lgamma", infer=like),
    ),
)

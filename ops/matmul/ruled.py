"""Products of groups of which the rules are known, and no kernel is modelled.

Sources: pages of hicann/ops-transformer gmm/grouped_matmul_add, grouped_matmul_swiglu_quant,
grouped_matmul_swiglu_quant_v2, grouped_matmul_finalize_routing, grouped_matmul, and op_api there.
"""

from __future__ import annotations

from npusim.operators.checks import absent, attribute_in, not_null, same_dtype
from npusim.operators.conditions import unsure, when_in
from npusim.operators.definition import Attribute, Composed, flag, ints, real, whole
from npusim.operators.dtype_checks import together
from npusim.operators.shape_checks import fits
from npusim.ops.matmul.grouped_fusions import (
    dequantised_as,
    gated,
    one_of_shapes,
    sized_as_on_page,
    summed_into,
)

_LATER = ("A2", "A3")  # Atlas A2 and A3, the products that these are for
_PACKED = ("INT4", "INT32")
_SWIGLU = "hicann/ops-transformer gmm/grouped_matmul_swiglu_quant"
_ADD = "hicann/ops-transformer gmm/grouped_matmul_add"

_ANY = range(1, 1 << 31)  # INT32

_Row = tuple[object, ...]
GATED_ROWS = dict.fromkeys(_LATER, (
    "INT8 INT8 FLOAT/FLOAT16/BFLOAT16", "INT8 INT4/INT32 UINT64/INT64",
))  # fmt: skip
"""x, weight and weightScale."""
_GATED_ROWS_LATER = dict.fromkeys(_LATER, (
    "INT8 INT8 FLOAT/FLOAT16/BFLOAT16 -", "INT8 INT4/INT32 UINT64 FLOAT",
    "INT4/INT32 INT4/INT32 UINT64 -",
))  # fmt: skip
# x weight scale bias scales-of-rows shared logit rows; offset stands apart, it is FLOAT or null.
_SUMMED_BYTES = "INT8 INT8 FLOAT/BFLOAT16 - -/FLOAT -/BFLOAT16 -/FLOAT INT64/INT32"
_SUMMED_PACKED = "INT8 INT4/INT32 INT64 -/FLOAT -/FLOAT -/BFLOAT16 -/FLOAT INT64"


def gated_checks(*, always_blocked: bool) -> tuple[_Row, ...]:
    """What the first interface asks, and the one whose weight is always in FRACTAL_NZ."""
    return (
        (when_in, "weight", _PACKED, (not_null, "bias")),
        (together, "x", "weight", "weightScale", {"rows": GATED_ROWS}),
        (gated, ("x", "xScale", "groupList", "output", "outputScale"), ("weight",),
            ("weightScale",), ("bias",), {"always_blocked": always_blocked}),
        # The host code warns of these and goes on.
        (when_in, "weight", ("INT8",), (unsure, (absent, "bias"))),
        (unsure, (absent, "offset", "outputOffset")),
        (unsure, (fits, "weightScale", "e *more", "groupList", "e")),
    )  # fmt: skip


def _gated_later(name: str, *, always_blocked: bool) -> Composed:
    lists = (("weight",), ("weightScale",), ("weightAssistMatrix",))
    return Composed(
        name,
        "x weight* weightScale* weightAssistMatrix*? bias? xScale smoothScale? groupList -> "
        "output outputScale",
        (whole("dequantMode"), whole("dequantDtype", None), whole("quantMode", None),
         whole("groupListType"), ints("tuningConfigOptional?", None)),
        checks=(
            (absent, "bias"),
            (attribute_in, "groupListType", (0, 1)),
            (together, "x", "weight0", "weightScale0", "weightAssistMatrix0",
                {"rows": _GATED_ROWS_LATER}),
            (gated, ("x", "xScale", "groupList", "output", "outputScale"), *lists,
                {"always_blocked": always_blocked}),
            (dequantised_as, *lists[1::-1], "smoothScale"),
        ),
    )  # fmt: skip


def _summing(
    name: str, tensors: str, kinds: tuple[str, ...], *more: Attribute, needed: tuple[str, ...] = ()
) -> Composed:
    """Products of groups whose rows are summed up.

    ``tensors`` are x, weight, scale, bias, scales of rows, groups, what is shared, logits, rows and
    the result; from the second version on, three more stand behind bias.
    """
    words = tensors.split()
    x, weight, scale, bias, *extra, per_row, groups, shared, logit, places, out = words
    offset, *reserved = extra or (scale,)
    turned = ("transposeX", "transposeW") if x == "x" else ("transposeX1", "transposeX2")
    named = (x, weight, scale, bias, per_row, shared, logit, places)
    inputs = " ".join(f"{each}?" if each not in (x, weight) else each for each in words[:-1])
    rows = dict.fromkeys(_LATER, kinds)
    return Composed(
        name,
        f"{inputs} -> {out}",
        (whole("dtype"), real("sharedInputWeight"), whole("sharedInputOffset"),
         *map(flag, turned), whole("groupListType"), *more),
        checks=(
            (not_null, scale, groups, places, *needed),
            *(((absent, *reserved),) if reserved else ()),
            *((attribute_in, each, (False,)) for each in turned),
            (attribute_in, "dtype", (0,)),
            (attribute_in, "groupListType", (0, 1)),
            (together, *named, {"rows": rows}),
            (summed_into, x, weight, out, (per_row, logit, places), (scale, bias, offset), groups,
                shared),
            (unsure, (sized_as_on_page, x, weight)),
        ),
    )  # fmt: skip


def _added(name: str, *more: Attribute) -> Composed:
    """Products of groups along what is summed, added to a result."""
    return Composed(
        name,
        "x weight groupList yRef -> yRef",
        (flag("transposeX"), flag("transposeWeight"), whole("groupType"), *more),
        checks=(
            (same_dtype, "x", "weight"),
            (attribute_in, "transposeX", (True,)),
            (attribute_in, "transposeWeight", (False,)),
            (attribute_in, "groupType", (2,)),
            *((attribute_in, each.name, (0, 1)) for each in more),
            (fits, "x", "k m", "weight", "k n", "groupList", "e",
                {"within": {"k": _ANY, "m": _ANY, "n": _ANY, "e": range(1, 1025)}}),
            (one_of_shapes, "yRef", "x", "weight", "groupList"),
        ),
        rules=f"{_ADD} (docs, op_api)",
    )  # fmt: skip


_EXTRA = "offsetOptional antiquantScaleOptional antiquantOffsetOptional"
_TUNED = ints("tuningConfigOptional?", None)

# fmt: off
RULED = (
    Composed(
        "aclnnGroupedMatmulSwigluQuantWeightNZ",
        "x weight bias? offset? weightScale xScale groupList -> output outputScale outputOffset?",
        checks=gated_checks(always_blocked=True),
        rules=f"{_SWIGLU} (docs, op_api)",
    ),
    _gated_later("aclnnGroupedMatmulSwigluQuantV2", always_blocked=False),
    _gated_later("aclnnGroupedMatmulSwigluQuantWeightNzV2", always_blocked=True),
    _added("aclnnGroupedMatmulAdd"),
    _added("aclnnGroupedMatmulAddV2", whole("groupListType")),
    _summing("aclnnGroupedMatmulFinalizeRouting", "x w scaleOptional biasOptional "
        "pertokenScaleOptional groupListOptional sharedInputOptional logitOptional "
        "rowIndexOptional y", (_SUMMED_PACKED,), needed=("biasOptional",)),
    *(_summing(name, f"x1 x2 scaleOptional biasOptional {_EXTRA} pertokenScaleOptional "
        "groupListOptional sharedInputOptional logitOptional rowIndexOptional out",
        (_SUMMED_PACKED,), *more, needed=("biasOptional",))
      for name, more in (("aclnnGroupedMatmulFinalizeRoutingV2", ()),
                         ("aclnnGroupedMatmulFinalizeRoutingV3", (_TUNED,)))),
    _summing("aclnnGroupedMatmulFinalizeRoutingWeightNz", "x1 x2 scale bias "
        "pertokenScaleOptional groupList sharedInput logit rowIndex out", (_SUMMED_BYTES,)),
    _summing("aclnnGroupedMatmulFinalizeRoutingWeightNzV2", f"x1 x2 scale bias {_EXTRA} "
        "pertokenScaleOptional groupList sharedInput logit rowIndex out",
        (_SUMMED_BYTES, _SUMMED_PACKED), _TUNED),
)

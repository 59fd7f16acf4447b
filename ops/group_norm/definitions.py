"""Group normalisation."""

from npusim.operators.checks import attribute_at_least, rank_is, same_dtype
from npusim.operators.conditions import unsure
from npusim.operators.definition import Aclnn, Operator, family, flag, real, whole
from npusim.operators.norm_checks import one_kind_or_wide, positive, sizes_as_told
from npusim.operators.shape_checks import fits, one_per_part, parts_of

_FORWARD = "self gamma beta -> out meanOut rstdOut"
_SIZES = (whole("N?", None), whole("C?", None), whole("HxW?", None))
_GROUPS = (whole("group", "num_groups"), real("eps?", "epsilon"))
_IMAGES = (fits, "x", "n c *hw", "y", "n c *hw", "gamma", "c", "beta", "c")
_CHECKS = (_IMAGES, (parts_of, "x", 1, "num_groups"),
    (one_per_part, "x", "num_groups", "mean", "rstd"), (attribute_at_least, "epsilon", 0),
    (attribute_at_least, "eps", 0))  # fmt: skip

_PAGES = "hicann/ops-nn norm"
_SILU = ((positive, "eps"), (rank_is, 1, "gamma", "beta"),
    (same_dtype, "x", "y", "mean", "rstd"), (unsure, (rank_is, 2, "mean", "rstd")),
    (one_kind_or_wide, "x", "gamma", "beta"))  # fmt: skip
_STATED = ((positive, "epsilon"), (rank_is, 1, "gamma", "beta"))

# fmt: off
OPERATORS = family(
    "group_norm",
    checks={"kernel": _CHECKS},
    kernel=(
        Operator("GroupNorm", "x gamma beta -> y mean rstd",
            (whole("num_groups?"), real("epsilon?")),
            Aclnn("aclnnGroupNorm", _FORWARD, (*_SIZES, *_GROUPS), checks=(*_STATED,
                (same_dtype, "x", "gamma", "beta", "y", "mean", "rstd"), (sizes_as_told, "x"),
                (unsure, (rank_is, 2, "mean", "rstd"))),
                rules=f"{_PAGES}/group_norm (docs)")),
        Operator("GroupNormSilu", "x gamma beta -> y mean rstd",
            (whole("num_groups?"), real("eps?"), flag("activate_silu?")),
            (Aclnn("aclnnGroupNormSilu", _FORWARD, _GROUPS, checks=_SILU),
             Aclnn("aclnnGroupNormSiluV2", _FORWARD,
                (*_GROUPS, flag("activateSilu", "activate_silu")), checks=_SILU,
                rules=f"{_PAGES}/group_norm_silu (docs)"))),
    ),
)

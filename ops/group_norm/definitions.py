"""Group normalisation."""

from npusim.operators.definition import Aclnn, Operator, family, flag, real, whole

_FORWARD = "self gamma beta -> out meanOut rstdOut"
_SIZES = (whole("N?", None), whole("C?", None), whole("HxW?", None))
_GROUPS = (whole("group", "num_groups"), real("eps?", "epsilon"))

# fmt: off
OPERATORS = family(
    "group_norm",
    kernel=(
        Operator("GroupNorm", "x gamma beta -> y mean rstd",
            (whole("num_groups?"), real("epsilon?")),
            Aclnn("aclnnGroupNorm", _FORWARD, (*_SIZES, *_GROUPS))),
        Operator("GroupNormSilu", "x gamma beta -> y mean rstd",
            (whole("num_groups?"), real("eps?"), flag("activate_silu?")),
            Aclnn("aclnnGroupNormSilu", _FORWARD, _GROUPS)),
    ),
)

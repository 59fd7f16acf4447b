"""Running sums along an axis."""

from npusim.operators.definition import Operator, family, flag, whole
from npusim.operators.results import like
from npusim.operators.shape_checks import axes_in

# fmt: off
OPERATORS = family(
    "cumsum",
    checks={"kernel": ((axes_in, "axis", "x"),)},
    kernel=(
        Operator("Cumsum", "x -> y", (whole("axis?"), flag("exclusive?"), flag("reverse?")),
            also=("CumsumD",), infer=like),
    ),
)

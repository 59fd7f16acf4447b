"""Running sums along an axis."""

from npusim.operators.definition import Operator, family, whole
from npusim.operators.results import like
from npusim.operators.shape_checks import axes_in

# fmt: off
OPERATORS = family(
    "cumsum",
    checks={"kernel": ((axes_in, "axis", "x"),)},
    kernel=(
        Operator("Cumsum", "x -> y", (whole("axis?"),), also=("CumsumD",), infer=like),
    ),
)

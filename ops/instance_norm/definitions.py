"""Instance normalisation of images."""

from npusim.operators.definition import Operator, family, real
from npusim.operators.results import like
from npusim.operators.shape_checks import fits

# fmt: off
OPERATORS = family(
    "instance_norm",
    checks={"kernel": ((fits, "x", "n c *hw", "y", "n c *hw", "gamma", "c", "beta", "c"),)},
    kernel=(Operator("InstanceNorm", "x gamma beta -> y", (real("epsilon?"),), infer=like),),
)

"""Images sampled at places that a grid tells."""

from npusim.operators.definition import Operator, family

# fmt: off
OPERATORS = family("grid_sample", kernel=(Operator("GridSampler3D", kernel="grid_sampler_3d"),))

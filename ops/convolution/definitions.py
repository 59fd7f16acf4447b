"""Convolutions and their gradients."""

from npusim.operators.definition import Definition, Operator, family

OPERATORS: tuple[Definition, ...] = family(
    "convolution",
    gradient_records=(
        Operator("Conv2DBackpropFilter", also=("Conv2DBackpropFilterD",), kernel="filter_gradient"),
    ),
)

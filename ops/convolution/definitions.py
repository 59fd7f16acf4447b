"""Convolutions and their gradients."""

from npusim.operators.definition import Definition, family

OPERATORS: tuple[Definition, ...] = family("convolution")

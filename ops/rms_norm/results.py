"""What RmsNorm leaves besides the normalised rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from npusim.operators.results import described
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from npusim.values.tensors import TensorSpec


def root_per_row(given: Sequence[TensorSpec], _: Mapping[str, Any]) -> list[TensorSpec]:
    """One number in float32 for each row: the axes of gamma, the last input, become one."""
    x, gamma = given[0], given[-1]
    rows = x.shape[: max(0, x.rank - gamma.rank)]
    return [described((*rows, *(1,) * gamma.rank), FLOAT)]


def normalised_sum(given: Sequence[TensorSpec], _: Mapping[str, Any]) -> list[TensorSpec]:
    """y, one number for each row, and the sum; gamma, and beta behind it, are lines."""
    x, gamma = given[0], given[2]
    return [x, *root_per_row((x, gamma), {}), x]

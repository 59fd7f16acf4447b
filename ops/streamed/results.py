"""What comes out of functions that change dtype or shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from npusim.operators.results import broadcasted, described
from npusim.values.dtypes import COMPLEX64, COMPLEX128, DOUBLE, FLOAT

if TYPE_CHECKING:
    from npusim.values.tensors import TensorSpec

    Given = Sequence[TensorSpec]
    Known = Mapping[str, Any]


def real_part(given: Given, _: Known) -> list[TensorSpec]:
    """As the input, without what is imaginary."""
    kinds = {COMPLEX64: FLOAT, COMPLEX128: DOUBLE}
    return [described(given[0].shape, kinds.get(given[0].dtype, given[0].dtype))]


def paired(given: Given, known: Known) -> list[TensorSpec]:
    """Complex numbers of two tensors."""
    kinds = {DOUBLE: COMPLEX128}
    return [each.recast(kinds.get(each.dtype, COMPLEX64)) for each in broadcasted(given, known)]


def first_half(given: Given, _: Known) -> list[TensorSpec]:
    """Half of every row."""
    shape = given[0].shape
    return [described((*shape[:-1], shape[-1] // 2), given[0].dtype)] if shape else []


def each_pair(given: Given, _: Known) -> list[TensorSpec]:
    """A number for every row of the one with every row of the other."""
    first, second = given[0], given[1]
    if first.rank < 2 or second.rank < 2:
        return []
    return [described((*first.shape[:-1], second.shape[-2]), first.dtype)]


def segments(given: Given, _: Known) -> list[TensorSpec]:
    """A matrix for every row."""
    shape = given[0].shape
    return [described((*shape, shape[-1]), given[0].dtype)] if shape else []


def sums_of_groups(given: Given, _: Known) -> list[TensorSpec]:
    """A row for every group: those that ends are given of, or those of the first axis."""
    grad = given[0]
    if grad.rank < 2:
        return []
    groups = given[1].numel if len(given) > 1 else grad.shape[0]
    return [described((groups, grad.shape[-1]), grad.dtype)]

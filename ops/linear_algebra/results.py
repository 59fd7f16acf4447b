"""Shapes of what matrices are decomposed into."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.operators.results import described

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from npusim.values.tensors import TensorSpec


def one_number(given: Sequence[TensorSpec], _: Mapping[str, Any]) -> list[TensorSpec]:
    """One number for every matrix."""
    return [described(given[0].shape[:-2], given[0].dtype)]


def two_numbers(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
    """Two numbers for every matrix."""
    return one_number(given, attributes) * 2


def orthogonal(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
    """An orthogonal matrix and a triangle."""
    x = given[0]
    (*batch, rows, columns), kind = x.shape, x.dtype
    inner = rows if attributes.get("full_matrices") else min(rows, columns)
    return [described((*batch, rows, inner), kind), described((*batch, inner, columns), kind)]


def singular(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
    """Singular values, and the vectors on both sides."""
    x = given[0]
    (*batch, rows, columns), kind = x.shape, x.dtype
    count = min(rows, columns)
    left, right = (rows, columns) if attributes.get("full_matrices") else (count, count)
    shapes = ((*batch, count), (*batch, rows, left), (*batch, columns, right))
    return [described(shape, kind) for shape in shapes]


def broadcast_batches(given: Sequence[TensorSpec], _: Mapping[str, Any]) -> list[TensorSpec]:
    """Solutions for every matrix, with the columns of the right-hand sides."""
    b, a = given
    batch = np.broadcast_shapes(b.shape[:-2], a.shape[:-2])
    return [described((*batch, *b.shape[-2:]), b.dtype)]

"""What a reduction leaves of a shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from npusim.operators.results import broadcasted, described, numbers

if TYPE_CHECKING:
    from npusim.values.tensors import TensorSpec


def reduced(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
    """Without the axes, or with them as one element; all axes where none are named."""
    x = given[0]
    named = numbers(attributes.get("axes", attributes.get("axis")))
    axes = {axis % max(1, x.rank) for axis in named} if named else set(range(x.rank))
    keep = bool(attributes.get("keep_dims"))
    shape = [
        1 if axis in axes else size for axis, size in enumerate(x.shape) if keep or axis not in axes
    ]
    return [described(shape, x.dtype)]


def reduced_and_kept(
    given: Sequence[TensorSpec], attributes: Mapping[str, Any]
) -> list[TensorSpec]:
    """The reduction, and the tensor itself."""
    return [*reduced(given, attributes), described(given[0].shape, given[0].dtype)]


def one_per_slice(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
    """A number for every slice along an axis, with all axes."""
    x, dim = given[0], attributes.get("dim", 0)
    sizes = (size if axis == dim % x.rank else 1 for axis, size in enumerate(x.shape))
    return [described(tuple(sizes), x.dtype)]


def one_number(given: Sequence[TensorSpec], _: Mapping[str, Any]) -> list[TensorSpec]:
    """A single element."""
    return [described((), given[0].dtype)]


def one_number_each(given: Sequence[TensorSpec], _: Mapping[str, Any]) -> list[TensorSpec]:
    """A single element for every tensor of a list."""
    return [described((), x.dtype) for x in given]


def sums_of_columns(given: Sequence[TensorSpec], _: Mapping[str, Any]) -> list[TensorSpec]:
    """A row."""
    return [described(given[0].shape[-1:], given[0].dtype)]


def loss_of(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
    """One number, the mean by default; without a reduction what the inputs broadcast to."""
    if attributes.get("reduction", "mean") == "none":
        return broadcasted(given, attributes)
    return [described((), given[0].dtype)]

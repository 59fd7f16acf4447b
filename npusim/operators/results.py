"""What comes out where attributes, not the kernel, tell the shape: rules that families share.

A rule takes the inputs that are there and the attributes by the kernel's names, and describes all
results; none where it can't tell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from npusim.values.dtypes import FLOAT, DType, dtype, from_acl
from npusim.values.tensors import TensorSpec


def described(shape: Sequence[int], kind: DType) -> TensorSpec:
    """A contiguous tensor."""
    return TensorSpec(tuple(int(size) for size in shape), kind)


def numbers(found: object) -> list[int] | None:
    """A list of whole numbers, or one of them; None for anything else."""
    if isinstance(found, int) and not isinstance(found, bool):
        return [found]
    return [int(each) for each in found] if isinstance(found, list | tuple) else None


def like(given: Sequence[TensorSpec], _: Mapping[str, Any]) -> list[TensorSpec]:
    """As the first input."""
    return [described(given[0].shape, given[0].dtype)]


def broadcasted(given: Sequence[TensorSpec], _: Mapping[str, Any]) -> list[TensorSpec]:
    """In the dtype of the first input, the shape that all broadcast to; none where they don't."""
    import numpy as np

    try:
        shape = np.broadcast_shapes(*(each.shape for each in given))
    except ValueError:
        return []
    return [described(shape, given[0].dtype)]


def like_second(given: Sequence[TensorSpec], _: Mapping[str, Any]) -> list[TensorSpec]:
    """As the second input."""
    return [described(given[1].shape, given[1].dtype)]


def half_each(count: int, *, even: bool = False) -> Callable[..., list[TensorSpec]]:
    """So many results of half the first input along axis ``dim``, the last one by default.

    ``even`` ones lose the last column of an odd last axis first.
    """

    def rule(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
        shape, dim = list(given[0].shape), attributes.get("dim", -1)
        if not -len(shape) <= dim < len(shape):
            return []
        if even and shape[-1] > 1:
            shape[-1] -= shape[-1] % 2
        shape[dim] //= 2
        return [described(shape, given[0].dtype)] * count

    return rule


def converted(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
    """As the first input, in the dtype that is asked for."""
    wanted = attributes.get("dst_type")
    if wanted is None:
        return []
    kind = from_acl(wanted) if isinstance(wanted, int) else dtype(str(wanted))
    return [described(given[0].shape, kind)]


def filled(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
    """In the dtype of the value, the shape an attribute."""
    shape = numbers(attributes.get("dims"))
    return [] if shape is None else [described(shape, given[0].dtype if given else FLOAT)]


def sums_of_rows(given: Sequence[TensorSpec], _: Mapping[str, Any]) -> list[TensorSpec]:
    """Two rows in float32."""
    return [described(given[0].shape[-1:], FLOAT)] * 2

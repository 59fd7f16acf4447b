"""What comes out of batch normalisation: a map like the input, and rows of a number per channel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from npusim.operators.results import described, like
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from npusim.operators.definition import Rule
    from npusim.values.tensors import TensorSpec


def with_rows(count: int) -> Rule:
    """A map and rows."""

    def rule(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec | None]:
        return [*like(given, attributes), *rows(count)(given, attributes)]

    return rule


def rows(count: int) -> Rule:
    """A number per channel, in float32."""

    def rule(given: Sequence[TensorSpec], _: Mapping[str, Any]) -> list[TensorSpec]:
        shape = given[0].shape
        return [described((1, shape[1], 1, 1, shape[4]), FLOAT)] * count

    return rule


def of_images(given: Sequence[TensorSpec], _: Mapping[str, Any]) -> list[TensorSpec]:
    """Two numbers for each channel of each image, in float32."""
    images, slices, *_plane, lanes = given[0].shape
    return [described((images, slices, 1, 1, lanes), FLOAT)] * 2


def with_images(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
    """A map, and two numbers for each channel of each image."""
    return [*like(given, attributes), *of_images(given, attributes)]

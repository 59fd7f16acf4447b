"""Which shapes a convolution may have, and what comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from npusim.ascendc.task import Task, made
from npusim.hardware.profile import Profile
from npusim.operators.checks import invalid, sizes
from npusim.operators.results import described
from npusim.ops.convolution import plain
from npusim.ops.convolution.geometry import Geometry, out_plane
from npusim.values.dtypes import INT8, INT32
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.operators.contract import Call, Check, Finding
    from npusim.values.tensors import TensorSpec

_FEATURE_MAP, _WEIGHT = 5, 4  # axes of NC1HWC0 and of FRACTAL_Z


def convolution(x: str, weight: str, bias: str, y: str) -> Check:
    """161002 for feature maps in NC1HWC0 and a weight in FRACTAL_Z that make no convolution."""

    def test(call: Call) -> Finding:
        given = dict(call.given(x, weight, bias, y))
        if y not in given or any(0 in spec.shape for spec in given.values()):
            shapes = ", ".join(f"{name} {sizes(spec.shape)}" for name, spec in given.items())
            return f"{x}, {weight} and {y} are needed, with elements, but got {shapes}."
        profile, name = call.profile, call.contract.name
        tensors = {name: made(each.shape, each.dtype, name) for name, each in given.items()}
        inputs = (tensors[x], tensors[weight], tensors.get(bias))
        try:
            if isinstance(profile, Profile):
                plain.convolution(Task(profile, name, inputs, (tensors[y],), call.arguments))
            else:
                Geometry.of(name, given[x], given[weight], given[y], call.arguments)
        except KernelError as error:
            return f"{error.problem}."
        return None

    return invalid(f"{x} can't be convolved with {weight}", test)


def convolved(given: Sequence[TensorSpec], attributes: Mapping[str, Any]) -> list[TensorSpec]:
    """The result for a window that the attributes tell; none where they don't."""
    x, weight = given[:2]
    if (len(x.shape), len(weight.shape)) != (_FEATURE_MAP, _WEIGHT) or not prod(weight.shape):
        return []
    plane = out_plane(x, weight, attributes)
    if plane is None:
        return []
    lanes = 16 if x.dtype is INT8 else x.shape[-1]
    channels = weight.shape[1] * weight.shape[2]
    kind = INT32 if x.dtype is INT8 else x.dtype
    return [described((x.shape[0], -(-channels // lanes), *plane, lanes), kind)]

"""What the numbers of the aclnn interfaces may say of sampling."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.operators.checks import each_tensor, invalid, sizes
from npusim.operators.shape_checks import entries

if TYPE_CHECKING:
    from npusim.operators.contract import Call, Check, Finding
    from npusim.values.tensors import TensorSpec

_MOST = 2  # bilinear, nearest, bicubic; zeros, border, reflection


def modes(interpolation: str, padding: str) -> Check:
    """161002 for numbers that are no mode; words are the kernel's to judge."""

    def test(call: Call) -> Finding:
        for name in (interpolation, padding):
            chosen = call.arguments.get(name)
            if isinstance(chosen, int) and not 0 <= chosen <= _MOST:
                return f"{name} should be 0 to {_MOST}, but is {chosen}."
        return None

    return invalid(f"{interpolation} or {padding} isn't 0 to {_MOST}", test)


def moves(theta: str, size: str) -> Check:
    """161002 for matrices that don't move the images of a size."""

    def objection(call: Call, name: str, spec: TensorSpec) -> Finding:
        outer = entries(call, size) or ()
        axes = len(outer) - 2
        if axes not in (2, 3) or min(outer) < 1:
            return f"{size} should be 4 or 5 positive numbers, but is {list(outer)}."
        wanted = (outer[0], axes, axes + 1)
        if spec.shape != wanted:
            return f"{name} should be {sizes(wanted)}, but has sizes {sizes(spec.shape)}."
        return None

    return each_tensor(f"{theta} doesn't move images of {size}", (theta,), objection)

"""What the numbers of the aclnn interfaces may say of sampling."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.operators.checks import invalid

if TYPE_CHECKING:
    from npusim.operators.contract import Call, Check, Finding

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

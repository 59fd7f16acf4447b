"""What pages of linear attentions ask of heads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.operators.checks import invalid

if TYPE_CHECKING:
    from npusim.operators.contract import Call, Check, Finding


def shared_heads(value: str, key: str) -> Check:
    """161002 for heads of values that heads of keys don't share evenly."""

    def test(call: Call) -> Finding:
        heads, own = call.spec(value).shape[1], call.spec(key).shape[1]
        if heads % own:
            return f"The {heads} heads of {value} should be a multiple of the {own} of {key}."
        return None

    return invalid(f"heads of {value} aren't a multiple of those of {key}", test)

"""How the tensors of a routing fit together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.operators.checks import invalid, sizes

if TYPE_CHECKING:
    from npusim.operators.contract import Call, Check, Finding


def finalized(*names: str) -> Check:
    """161002 for tensors that aren't those of the same tokens, experts and columns."""
    rows, places, first, second, bias, scales, experts, out = names

    def test(call: Call) -> Finding:
        given = dict(call.given(*names))
        width = given[rows].shape[-1:] if given[rows].rank > 1 else (0,)
        known = next((given[name] for name in (scales, first, experts) if name in given), None)
        if not width[0] or known is None or not known.rank or not known.shape[0]:
            return f"{rows} should have rows, and {scales}, {first} or {experts} tell the tokens."
        tokens, total = known.shape[0], given[places].numel
        if total % tokens or given[places].rank != 1:
            found = sizes(given[places].shape)
            return f"{places} should have places for {tokens} tokens, but has sizes {found}."
        each = (tokens, total // tokens)
        wanted = {first: (tokens, *width), second: (tokens, *width), scales: each, experts: each}
        wanted[out] = (tokens, *width)
        for name, shape in wanted.items():
            if name in given and given[name].shape != shape:
                found = sizes(given[name].shape)
                return f"{name} should have sizes {sizes(shape)}, but has {found}."
        if bias in given and (given[bias].rank != 2 or given[bias].shape[-1:] != width):
            return f"{bias} should have rows of {width[0]}, but has {sizes(given[bias].shape)}."
        if bias in given and experts not in given:
            return f"{bias} needs {experts}."
        if second in given and first not in given:
            return f"{second} needs {first}."
        return None

    return invalid(f"{', '.join(names)} aren't those of the same tokens", test)

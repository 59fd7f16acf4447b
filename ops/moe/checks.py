"""How the tensors of a routing fit together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.operators.checks import invalid, sizes

MOST_CHOSEN = 1024  # experts of a token: moe_gating_top_k_softmax_tiling_base.cpp

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


def experts_chosen(x: str, y: str, count: str) -> Check:
    """161002 for a number of experts that a token can't have, or that the result hasn't."""

    def test(call: Call) -> Finding:
        experts, k = call.spec(x).shape[-1], call.arguments.get(count)
        if call.spec(x).rank not in (2, 3):
            return f"{x} should have 2 or 3 dimensions, but has {call.spec(x).rank}."
        if not isinstance(k, int) or not 0 < k <= min(experts, MOST_CHOSEN):
            most = f"at most {MOST_CHOSEN} and {experts}, the experts of {x}"
            return f"{count} should be at least 1 and {most}, but is {k}."
        for _, spec in call.given(y):
            if spec.shape[-1] != k:
                return f"{y} should have {k} columns, but has sizes {sizes(spec.shape)}."
        return None

    return invalid(f"{count} isn't a number of experts of {x}", test)


def routed(x: str, active: str, room: str = "", count: str = "", mode: str = "") -> Check:
    """161002 for numbers of rows that a routing doesn't take."""

    def test(call: Call) -> Finding:
        names = [each for each in (active, room, count, mode) if call.is_given(each)]
        known = {each: call.integer(each) for each in names}
        for name, number in known.items():
            if number < 0 or (name == mode and number > 1):
                return f"{name} can't be {number}."
        tokens = call.spec(x).shape[0]
        if known.get(mode) and not (known.get(count) and 0 < known.get(room, 0) <= tokens):
            return f"{count} should be positive, and {room} from 1 to {tokens}."
        return None

    return invalid(f"{active}, {room} and {count} aren't numbers of rows", test)


def per_token(places: str, tokens: str, weights: str) -> Check:
    """161002 for places that aren't one for each weight, or for each token without weights."""

    def test(call: Call) -> Finding:
        known = weights if call.is_given(weights) else tokens
        shape = call.spec(known).shape
        wanted = shape[0] * (shape[1] if known == weights else 1)
        got = call.spec(places)
        if got.numel == wanted and got.rank == 1:
            return None
        return f"{places} should have {wanted} places, but has sizes {sizes(got.shape)}."

    return invalid(f"{places} aren't those of {tokens}", test)


def shared_out(places: str, out: str, count: str) -> Check:
    """161002 for a number of places for each token that doesn't go into them."""

    def test(call: Call) -> Finding:
        each, total = call.integer(count), call.spec(places).numel
        if each < 1 or total % each:
            return f"{count} should divide the {total} places, but is {each}."
        for _, spec in call.given(out):
            if spec.shape[0] != total // each:
                return f"{out} should have {total // each} rows, but has {spec.shape[0]}."
        return None

    return invalid(f"{places} aren't {count} for each row of {out}", test)


def rows_of_mode(rows: str, places: str, mode: str, active: str) -> Check:
    """161002 for rows that aren't as many as there are places, or active ones, or by expert."""

    def test(call: Call) -> Finding:
        spec, kept = call.spec(rows), call.integer(active) if call.is_given(active) else 0
        padded = call.is_given(mode) and call.integer(mode) == 1
        if spec.rank != (3 if padded else 2):
            return f"{rows} should have {3 if padded else 2} dimensions, but has {spec.rank}."
        wanted = kept or call.spec(places).numel
        if not padded and spec.shape[0] != wanted:
            return f"{rows} should have {wanted} rows, but has {spec.shape[0]}."
        return None

    return invalid(f"{rows} aren't those of {places}", test)

"""How the tensors of a routing fit together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.operators.checks import invalid, sizes
from npusim.ops.moe.group_gating import MOST_EXPERTS
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import INT4

MOST_CHOSEN = 1024  # experts of a token: moe_gating_top_k_softmax_tiling_base.cpp
_MOST_COUNTED, _MOST_PAIRED, _BY_PAIRS = 10240, 5120, 2  # experts; expertTokensNumType
_ROOT_OF_SOFTPLUS = 2
_GROUPING = ("k", "kGroup", "groupCount", "groupSelectMode", "renorm", "normType")

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
    """161002 for a number of places for each token, 1 if none, that doesn't go into them."""

    def test(call: Call) -> Finding:
        each = call.integer(count) if call.is_given(count) else 1
        total = call.spec(places).numel
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


def groups_chosen(x: str, *, hashed: bool = False) -> Check:
    """161002 for numbers of experts and groups that a choice in groups doesn't take.

    Source: hicann/ops-transformer moe/moe_gating_top_k/op_host, tiling, and
    docs/aclnnMoeGatingTopK.md; vllm-ascend csrc/moe/moe_gating_top_k_hash/op_host where `hashed`.
    """
    curves = (0, 1, 2) if hashed else (0, 1)

    def test(call: Call) -> Finding:
        number = {name: call.integer(name) for name in _GROUPING if call.is_given(name)}
        k, kept, groups = (number.get(name, 1) for name in ("k", "kGroup", "groupCount"))
        experts = call.spec(x).shape[-1]
        for name, allowed in (("groupSelectMode", (0, 1)), ("normType", curves)):
            if number.get(name, 0) not in allowed:
                listed = " or ".join(map(str, allowed))
                return f"{name} should be {listed}, but is {number[name]}."
        least = 2 - (hashed and not number.get("groupSelectMode", 0))
        if number.get("renorm", 0):
            return f"renorm should be 0, but is {number['renorm']}."
        if groups < 1 or experts % groups or experts // groups < least:
            wanted = f"groupCount should split {experts} experts into groups of {least} or more"
            return f"{wanted}, but is {groups}."
        if number.get("normType") == _ROOT_OF_SOFTPLUS and groups != 1:
            return f"groupCount should be 1 where normType is 2, but is {groups}."
        if not 1 <= kept <= groups:
            return f"kGroup should be from 1 to groupCount {groups}, but is {kept}."
        if not 1 <= k <= experts // groups * kept:
            return f"k should be from 1 to {experts // groups * kept}, but is {k}."
        apart = not hashed or (groups not in (1, experts) and kept != groups)
        filled = groups * round_up(experts // groups, 32) if apart else 0
        if max(experts, filled) > MOST_EXPERTS:
            return f"{experts} experts in {groups} groups are more than {MOST_EXPERTS}."
        return None

    return invalid(f"{x} and the numbers of its groups don't fit", test)


def routed_in_range(x: str, experts: str, scale: str) -> Check:
    """161002 for numbers that the third routing doesn't take.

    Source: hicann/ops-transformer moe/moe_init_routing_v3/op_host, tiling, and
    docs/aclnnMoeInitRoutingV3.md.
    """

    def test(call: Call) -> Finding:
        number = call.integer
        rows, chosen = call.spec(experts).shape
        kind, many = number("expertTokensNumType"), number("expertNum")
        allowed = {"dropPadMode": (0,), "expertTokensNumType": (1, 2), "quantMode": (-1, 1),
            "rowIdxType": (0, 1), "activeNum": (rows * chosen,)}  # fmt: skip
        for name, values in allowed.items():
            if number(name) not in values:
                listed = " or ".join(map(str, values))
                return f"{name} should be {listed}, but is {number(name)}."
        if not call.flag("expertTokensNumFlag"):
            return "expertTokensNumFlag should be true."
        most = _MOST_PAIRED if kind == _BY_PAIRS else _MOST_COUNTED
        if not 0 < many <= most:
            return f"expertNum should be from 1 to {most}, but is {many}."
        if not call.is_given("activeExpertRangeOptional"):
            return None
        taken = call.ints("activeExpertRangeOptional")
        if len(taken) != 2 or not 0 <= taken[0] < taken[1] <= many:
            return f"activeExpertRangeOptional {sizes(taken)} is no range of {many} experts."
        wanted: tuple[int, ...] = (rows,)
        if number("quantMode") == 1:
            wanted = (taken[1] - taken[0], call.spec(x).shape[-1])
        for name, spec in call.given(scale):
            if spec.shape != wanted:
                return f"{name} should be {sizes(wanted)}, but has sizes {sizes(spec.shape)}."
        return None

    return invalid(f"the numbers of a routing of {x} aren't offered", test)


def padded_rows(x: str, mode: str) -> Check:
    """161002 for a mode that there isn't, or rows with another number of axes than it has.

    Source: hicann/ops-transformer moe/moe_finalize_routing_v2/op_host, tiling.
    """

    def test(call: Call) -> Finding:
        value, spec = call.integer(mode) if call.is_given(mode) else 0, call.spec(x)
        if value not in (0, 1, 2, 3):
            return f"{mode} should be from 0 to 3, but is {value}."
        wanted = 2 + value % 2
        if spec.rank != wanted:
            return f"{x} should have {wanted} dimensions with {mode} {value}, but has {spec.rank}."
        return None

    return invalid(f"{x} isn't that of {mode}", test)


def experts_counted(flag: str, count: str, mode: str) -> Check:
    """161002 for counts of the experts' tokens that are asked for without a number of experts."""

    def test(call: Call) -> Finding:
        number = {name: call.integer(name) for name in (flag, count, mode) if call.is_given(name)}
        if number.get(flag) and not number.get(mode) and number.get(count, 0) < 1:
            return f"{count} should be positive with {flag} {number[flag]}."
        return None

    return invalid(f"{flag} asks for counts of no experts", test)


def scaled_by_mode(x: str, scale: str, offset: str, out: str) -> Check:
    """161002 for scales of another form than quantMode says, and rows of int4 that it excludes.

    Source: hicann/ops-transformer moe/moe_init_routing_quant_v2/docs/aclnnMoeInitRoutingQuantV2.md.
    """

    def test(call: Call) -> Finding:
        given = dict(call.given(scale, offset, out))
        width, many = call.spec(x).shape[-1], call.integer("expertNum")
        packed = out in given and given[out].dtype is INT4
        if call.integer("quantMode") == 0:
            for name in (scale, offset):
                if name not in given or given[name].shape != (1,):
                    return f"{name} should have one element with quantMode 0."
        elif scale in given and given[scale].shape not in ((many, width), (1, width)):
            found = sizes(given[scale].shape)
            return f"{scale} should be [{many} or 1, {width}], but has sizes {found}."
        if packed and (call.integer("dropPadMode") or width % 2):
            return f"{out} in INT4 needs rows of an even length and dropPadMode 0."
        if packed and call.integer("quantMode") and scale in given and given[scale].shape[0] != 1:
            return f"{scale} should be [1, {width}] for {out} in INT4."
        return None

    return invalid(f"{scale} and {offset} aren't those of quantMode", test)

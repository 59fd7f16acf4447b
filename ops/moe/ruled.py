"""Routing of tokens of which the rules are known, and no kernel is modelled.

Sources: pages of hicann/ops-transformer moe/moe_token_permute_with_ep, moe_token_unpermute_with_ep,
moe_token_permute_with_routing_map, moe_token_unpermute_with_routing_map, their gradients, and
moe_compute_expert_tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.operators.checks import absent, attribute_in, invalid, length_is, same_dtype
from npusim.operators.conditions import when
from npusim.operators.definition import Composed, flag, ints, whole
from npusim.operators.shape_checks import entries, fits
from npusim.values.dtypes import BFLOAT16, FLOAT
from npusim.values.status import StatusCode

if TYPE_CHECKING:
    from npusim.operators.contract import Call, Check, Finding

MOST_PAIRS = 16777215  # indices are compared as floating numbers
_MOST_CHOSEN = 512  # experts of a token
_PATH = "hicann/ops-transformer moe"
_Rows = tuple[tuple[object, ...], ...]


def chosen_at_most(places: str, tokens: str, *, code: StatusCode | None = None) -> Check:
    """161002, or ``code``, for more experts of a token than a kernel gathers.

    ``tokens`` is what tells the tokens: an attribute, or a tensor with a row for each.
    """

    def test(call: Call) -> Finding:
        told = entries(call, tokens) or [spec.shape[0] for _, spec in call.given(tokens)]
        count = next(iter(told), 0)
        for name, spec in call.given(places):
            if count > 0 and spec.shape[0] > _MOST_CHOSEN * count:
                return f"{name} should have {_MOST_CHOSEN} places for each of {count} at most."
        return None

    check = invalid(f"{places} has more than {_MOST_CHOSEN} places for a token", test)
    return check if code is None else check._replace(code=code)


def range_of(name: str, *rows: str, pairs: str) -> Check:
    """161002 for a range without two ends in order, or rows that aren't those within it."""

    def test(call: Call) -> Finding:
        taken = entries(call, name)
        if taken is None:
            return None
        most = call.spec(pairs).numel
        if len(taken) != 2 or not 0 <= taken[0] <= taken[1] <= most:
            return f"{name} {list(taken)} should be two ends within {most} pairs, in order."
        for each, spec in call.given(*rows):
            if spec.shape[0] != taken[1] - taken[0]:
                return f"{each} should have {taken[1] - taken[0]} rows, but has {spec.shape[0]}."
        return None

    return invalid(f"{name} isn't a range of {pairs}", test)


def few_pairs(name: str) -> Check:
    """161002 for indices that are too many to be told apart."""

    def test(call: Call) -> Finding:
        count = call.spec(name).numel
        return None if count < MOST_PAIRS else f"{name} should be fewer than {MOST_PAIRS}."

    return invalid(f"{name} are {MOST_PAIRS} or more", test)


def like_tokens(tokens: str, *weights: str) -> Check:
    """161002 for weights in another dtype than the tokens, but FLOAT beside BFLOAT16."""

    def test(call: Call) -> Finding:
        own = call.spec(tokens).dtype
        for name, spec in call.given(*weights):
            if spec.dtype is not own and not (own is BFLOAT16 and spec.dtype is FLOAT):
                return f"{name} should be {own.dt} as {tokens}, but is {spec.dtype.dt}."
        return None

    return invalid(f"{', '.join(weights)} in another dtype than {tokens}", test)


def slots_of(wanted: str, padded: str, tokens: str, *outputs: str) -> Check:
    """161002 for results that haven't a row for each token and expert of it, or slot of experts.

    ``tokens`` has a row for each token and a column for each expert.
    """

    def test(call: Call) -> Finding:
        count, experts = call.spec(tokens).shape
        asked = call.integer(wanted)
        if not 0 <= asked <= count * experts:
            return f"{wanted} should be from 0 to {count * experts}, but is {asked}."
        unit = experts if call.flag(padded) else count
        rows = asked // unit * unit if unit else 0
        each = asked // count if count else 0
        if not call.flag(padded) and (each > _MOST_CHOSEN or each * count >= MOST_PAIRS):
            return f"{each} experts for each of {count} tokens are too many."
        if call.flag(padded) and count >= MOST_PAIRS:
            return f"{tokens} should have fewer than {MOST_PAIRS} rows with {padded}."
        for name, spec in call.given(*outputs):
            if spec.shape[:1] != (rows,):
                return f"{name} should have {rows} rows, but has sizes {list(spec.shape)}."
        return None

    return invalid(f"{wanted} isn't a number of pairs of {tokens}", test)


def together_or_none(*names: str) -> Check:
    """161002 for some of several inputs without the others."""

    def test(call: Call) -> Finding:
        given = [name for name in names if call.is_given(name)]
        missing = [name for name in names if name not in given]
        return f"{given[0]} needs {', '.join(missing)}." if given and missing else None

    return invalid(f"some of {', '.join(names)} without the others", test)


def _unpadded(*more: str) -> _Rows:
    return ((attribute_in, "paddedMode", (False,)), *(((absent, *more),) if more else ()))


_RANGE = ints("rangeOptional?", None)
_RESTORED = ints("restoreShapeOptional?", None)
_PADDED = flag("paddedMode")
_DROPS = flag("dropAndPad")


def no_shape(name: str) -> Check:
    """161002 for a list of sizes that is reserved and has to be null."""

    def test(call: Call) -> Finding:
        given = call.is_given(name)
        return (f"{name} should be null.", f"Leave {name} out.", {name: None}) if given else None

    return invalid(f"{name} isn't null", test)


RULED = (
    Composed("aclnnMoeComputeExpertTokens", "sortedExperts -> out", (whole("numExperts"),),
        checks=((attribute_in, "numExperts", range(1, 2049)),
            (fits, "sortedExperts", "n", "out", "e",
                {"told": {"e": "numExperts"}, "within": {"n": range(1 << 24)}})),
        rules=f"{_PATH}/moe_compute_expert_tokens (docs)"),
    Composed("aclnnMoeTokenPermuteWithEp", "tokens indices probsOptional? -> permuteTokensOut "
        "sortedIndicesOut permuteProbsOut?", (_RANGE, whole("numOutTokens"), _PADDED),
        checks=(*_unpadded(), (same_dtype, "tokens", "permuteTokensOut"),
            (fits, "tokens", "t h", "indices", "t *k", "probsOptional", "t *k",
                "permuteTokensOut", "p h", "permuteProbsOut", "p"), (few_pairs, "indices"),
            (range_of, "rangeOptional", "permuteTokensOut", "permuteProbsOut",
                {"pairs": "indices"})),
        rules=f"{_PATH}/moe_token_permute_with_ep (docs)"),
    Composed("aclnnMoeTokenPermuteWithEpGrad", "permutedTokensOutputGrad sortedIndices "
        "permutedProbsOutputGradOptional? -> tokenGradOut probsGradOut?",
        (whole("numTopk"), _RANGE, _PADDED),
        checks=(*_unpadded(), (attribute_in, "numTopk", range(1, 513)),
            (same_dtype, "permutedTokensOutputGrad", "tokenGradOut"),
            (fits, "permutedTokensOutputGrad", "p h", "permutedProbsOutputGradOptional", "p",
                "tokenGradOut", "t h", "probsGradOut", "t k", "sortedIndices", "t*k",
                {"told": {"k": "numTopk"}}),
            (range_of, "rangeOptional", {"pairs": "sortedIndices"}))),
    Composed("aclnnMoeTokenUnpermuteWithEp", "permutedTokens sortedIndices probsOptional? -> out",
        (whole("numTopk"), _RANGE, _PADDED, _RESTORED),
        checks=(*_unpadded(), (no_shape, "restoreShapeOptional"),
            (attribute_in, "numTopk", range(1, 513)), (same_dtype, "permutedTokens", "out"),
            (fits, "permutedTokens", "p h", "probsOptional", "t k", "out", "t h",
                "sortedIndices", "t*k", {"told": {"k": "numTopk"}}),
            (range_of, "rangeOptional", {"pairs": "sortedIndices"}))),
    Composed("aclnnMoeTokenUnpermuteWithEpGrad", "unpermutedTokensGrad sortedIndices "
        "permutedTokensOptional? probsOptional? -> permutedTokensGradOut probsGradOut?",
        (_PADDED, _RESTORED, _RANGE, whole("topkNum")),
        checks=(*_unpadded(), (no_shape, "restoreShapeOptional"),
            (attribute_in, "topkNum", range(1, 513)),
            (same_dtype, "unpermutedTokensGrad", "permutedTokensOptional",
                "permutedTokensGradOut"), (same_dtype, "probsOptional", "probsGradOut"),
            (fits, "unpermutedTokensGrad", "t h", "probsOptional", "t k", "probsGradOut", "t k",
                "permutedTokensOptional", "p h", "permutedTokensGradOut", "p h",
                "sortedIndices", "t*k", {"told": {"k": "topkNum"}}),
            (range_of, "rangeOptional", {"pairs": "sortedIndices"}))),
    Composed("aclnnMoeTokenPermuteWithRoutingMap", "tokens routingMap probsOptional? -> "
        "permuteTokensOut permuteProbsOutOptional? sortedIndicesOut",
        (whole("numOutTokens"), _DROPS),
        checks=((same_dtype, "tokens", "permuteTokensOut"),
            (same_dtype, "probsOptional", "permuteProbsOutOptional"),
            (like_tokens, "tokens", "probsOptional"),
            (fits, "tokens", "t h", "routingMap", "t e", "probsOptional", "t e",
                "permuteTokensOut", "p h", "permuteProbsOutOptional", "p",
                "sortedIndicesOut", "p"),
            (slots_of, "numOutTokens", "dropAndPad", "routingMap", "permuteTokensOut",
                "permuteProbsOutOptional", "sortedIndicesOut")),
        rules=f"{_PATH}/moe_token_permute_with_routing_map (docs)"),
    Composed("aclnnMoeTokenPermuteWithRoutingMapGrad", "permutedTokenOutputGrad "
        "permutedProbsOutputGradOptional? sortedIndices routingMapOptional? -> tokensGradOut "
        "probsGradOutOptional?", (whole("numExperts"), whole("tokensNum"), _DROPS),
        checks=((same_dtype, "permutedTokenOutputGrad", "tokensGradOut"),
            (like_tokens, "permutedTokenOutputGrad", "permutedProbsOutputGradOptional",
                "probsGradOutOptional"),
            (fits, "permutedTokenOutputGrad", "p h", "permutedProbsOutputGradOptional", "p",
                "sortedIndices", "p", "routingMapOptional", "t e", "tokensGradOut", "t h",
                "probsGradOutOptional", "t e", {"told": {"t": "tokensNum", "e": "numExperts"}}),
            (when, "dropAndPad", (False,), (chosen_at_most, "sortedIndices", "tokensNum"))),
        rules=f"{_PATH}/moe_token_permute_with_routing_map_grad (docs)"),
    Composed("aclnnMoeTokenUnpermuteWithRoutingMap", "permutedTokens sortedIndices "
        "routingMapOptional? probsOptional? -> unpermutedTokens outIndex permuteTokenId "
        "permuteProbs?", (_PADDED, ints("restoreShapeOptional")),
        checks=((length_is, 2, "restoreShapeOptional"),
            (same_dtype, "permutedTokens", "unpermutedTokens"),
            (like_tokens, "permutedTokens", "probsOptional", "permuteProbs"),
            (together_or_none, "routingMapOptional", "probsOptional"),
            (fits, "permutedTokens", "p h", "sortedIndices", "p", "routingMapOptional", "t e",
                "probsOptional", "t e", "unpermutedTokens", "t h", "outIndex", "p",
                "permuteTokenId", "p", "permuteProbs", "p"),
            (when, "paddedMode", (False,), (chosen_at_most, "sortedIndices", "unpermutedTokens",
                {"code": StatusCode.ACLNN_ERR_INNER_NULLPTR})))),
    Composed("aclnnMoeTokenUnpermuteWithRoutingMapGrad", "unpermutedTokensGrad outIndex "
        "permuteTokenId routingMapOptional? permutedTokensOptional? probsOptional? -> "
        "permutedTokensGradOut probsGradOutOptional?", (_DROPS, ints("restoreShapeOptional?")),
        checks=((same_dtype, "unpermutedTokensGrad", "permutedTokensOptional",
                "permutedTokensGradOut"), (same_dtype, "probsOptional", "probsGradOutOptional"),
            (like_tokens, "unpermutedTokensGrad", "probsOptional"),
            (together_or_none, "probsOptional", "routingMapOptional", "permutedTokensOptional"),
            (fits, "unpermutedTokensGrad", "t h", "outIndex", "p", "permuteTokenId", "p",
                "routingMapOptional", "t e", "permutedTokensOptional", "p h",
                "probsOptional", "t e", "permutedTokensGradOut", "p h",
                "probsGradOutOptional", "t e"),
            (when, "dropAndPad", (False,), (chosen_at_most, "outIndex", "unpermutedTokensGrad")))),
)  # fmt: skip

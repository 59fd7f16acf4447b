"""Tokens handed to experts on other cards and back: interfaces, and rules of their pages.

Sources: hicann/ops-transformer mc2/moe_distribute_dispatch, moe_distribute_dispatch_v2,
moe_distribute_combine, moe_distribute_combine_v2 (docs). Tilings refuse shapes and values: 561002.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from npusim.operators.checks import absent, attribute_in, invalid, same_dtype
from npusim.operators.conditions import on, when
from npusim.operators.definition import Attribute, Composed, text, whole
from npusim.operators.shape_checks import fits
from npusim.values.dtypes import FLOAT, INT8, INT32

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from npusim.ascendc import GlobalTensor
    from npusim.operators.contract import Call, Check, Finding
    from npusim.operators.host import Host

_MANY = 1 << 31
_ASSIST = 128  # numbers that combining needs of each token
_MOST_LOCAL = 2048  # experts of a card times cards, on A3
_LATER_A3 = range(2, 769)


@dataclass(frozen=True)
class Limits:
    """What a product takes: sizes, experts, cards; the last as one range for each algorithm."""

    width: range
    tokens: dict[str, range]
    chosen: range
    experts: dict[str, range]
    cards: dict[str, tuple[int, ...] | range]


_FULL = (2, 3, 4, 5, 6, 7, 8, 16, 32, 64, 128, 192, 256, 384)
_TREE = (16, 32, 64)
_FIRST = {
    "A2": Limits(range(32, 7169, 32), {"": range(1, 257)}, range(1, 17), {"": range(1, 513)},
        {"": _TREE}),
    "A3": Limits(range(7168, 7169), {"": range(1, 513)}, range(1, 9), {"": range(1, 513)},
        {"": (8, 16, 32, 64, 128, 144, 256, 288)}),
}  # fmt: skip
_LATER = {
    # Without an algorithm HCCL's environment chooses one: what either takes.
    "A2": Limits(range(32, 10241, 32),
        {"": range(1, 513), "fullmesh": range(1, 257), "hierarchy": range(1, 513)}, range(1, 17),
        {"": range(1, 1025), "fullmesh": range(1, 1025), "hierarchy": range(1, 513)},
        {"": _FULL, "fullmesh": _FULL, "hierarchy": _TREE}),
    "A3": Limits(range(1024, 8193), {"": range(1, 513)}, range(1, 17), {"": range(1, 1025)},
        {"": _LATER_A3}),
}  # fmt: skip


def distributed(tokens: str, experts: str, expanded: str, *, later: bool) -> Check:
    """161002 for numbers of tokens, experts and cards that the product doesn't take.

    ``tokens`` are those of this card, ``expanded`` those that its experts get.
    """

    def test(call: Call) -> Finding:
        limits = (_LATER if later else _FIRST).get(call.profile.family)
        if limits is None:
            return None
        return next(_objections(call, limits, tokens, experts, expanded, later=later), None)

    return invalid(f"{tokens}, {experts} and the numbers of experts and cards don't fit", test)


def _objections(
    call: Call, limits: Limits, tokens: str, experts: str, expanded: str, *, later: bool
) -> Iterator[str]:
    number = call.integer
    said = call.arguments.get("commAlg")
    way = said if isinstance(said, str) else ""
    if way not in limits.cards and later and call.profile.family == "A2":
        yield f"commAlg should be fullmesh or hierarchy, but is {way!r}."
    own, chosen = call.spec(experts).shape
    yield from _ranges(call, limits, way, (call.spec(tokens).shape[-1], own, chosen))
    cards, on_cards = number("epWorldSize"), number("sharedExpertRankNum")
    many, left = number("moeExpertNum"), cards - on_cards
    yield from _shared(call, cards, number("sharedExpertNum"), on_cards, later=later)
    if left < 1 or many % left:
        yield f"moeExpertNum {many} should be a multiple of {left}, the cards of other experts."
    if later and call.profile.family == "A3" and many // left * cards > _MOST_LOCAL:
        yield f"{many // left} experts of a card times {cards} should be at most {_MOST_LOCAL}."
    everyone = number("globalBs")
    if everyone and (everyone % cards or everyone < own * cards):
        yield f"globalBs should be 0, or {cards} times {own} tokens or more, but is {everyone}."
    local = 1 if number("epRankId") < on_cards else many // left
    yield from _results(call, expanded, (own, chosen, call.spec(tokens).shape[-1]), local)


def _ranges(call: Call, limits: Limits, way: str, of: tuple[int, int, int]) -> Iterator[str]:
    """The numbers that have limits of their own; ``of`` are H, BS and K."""
    cards, many, rank = (call.integer(e) for e in ("epWorldSize", "moeExpertNum", "epRankId"))
    allowed = limits.cards.get(way, limits.cards[""])
    if cards not in allowed:
        listed = f"{allowed[0]} to {allowed[-1]}" if isinstance(allowed, range) else allowed
        yield f"epWorldSize should be {listed}, but is {cards}."
    for name, value, within in (
        ("H", of[0], limits.width),
        ("BS", of[1], limits.tokens.get(way, limits.tokens[""])),
        ("K", of[2], limits.chosen),
        ("moeExpertNum", many, limits.experts.get(way, limits.experts[""])),
    ):
        if value not in within:
            step = f" in steps of {within.step}" if within.step > 1 else ""
            yield f"{name} should be from {within[0]} to {within[-1]}{step}, but is {value}."
    if of[2] > many:
        yield f"K {of[2]} should be at most moeExpertNum {many}."
    if not 0 <= rank < cards:
        yield f"epRankId should be from 0 to {cards - 1}, but is {rank}."


def _results(call: Call, expanded: str, of: tuple[int, int, int], local: int) -> Iterator[str]:
    """What the experts of this card get, and how it is counted; ``of`` are BS, K and H."""
    own, chosen, width = of
    cards, on_cards = call.integer("epWorldSize"), call.integer("sharedExpertRankNum")
    everyone = call.integer("globalBs")
    for name, spec in call.given(expanded):
        least = (everyone or own * cards) * min(local, chosen)
        if spec.shape[-1] != width:
            yield f"{name} should have rows of {width}, but of {spec.shape[-1]}."
        if call.integer("epRankId") < on_cards:
            wanted = own * cards * call.integer("sharedExpertNum") // on_cards
            if spec.shape[0] != wanted and not everyone:
                yield f"{name} should have {wanted} rows for shared experts, not {spec.shape[0]}."
        elif spec.shape[0] < least:
            yield f"{name} should have at least {least} rows, but has {spec.shape[0]}."
    counts = dict.fromkeys(("expertTokenNums", "expertTokenNumsOut"), local)
    if call.profile.family == "A3":
        counts |= dict.fromkeys(("epRecvCounts", "epRecvCountsOut", "epSendCounts"), cards * local)
    for name, spec in call.given(*counts):
        if spec.shape != (counts[name],):
            yield f"{name} should have {counts[name]} entries, but has sizes {list(spec.shape)}."


def _shared(call: Call, cards: int, shared: int, on_cards: int, *, later: bool) -> Iterator[str]:
    """How many experts all tokens go to, and on how many cards they are."""
    if call.profile.family == "A2":
        if shared or on_cards:
            yield f"sharedExpertNum {shared} and sharedExpertRankNum {on_cards} should be 0."
        return
    most = 4 if later else 1
    if not 0 <= shared <= most:
        yield f"sharedExpertNum should be from 0 to {most}, but is {shared}."
    if not 0 <= on_cards < cards:
        yield f"sharedExpertRankNum should be from 0 to {cards - 1}, but is {on_cards}."
    if later and (shared > 1 if not on_cards else not shared or on_cards % shared):
        yield f"{shared} shared experts don't lie on {on_cards} cards."
    if not later and on_cards and cards % on_cards:
        yield f"sharedExpertRankNum should divide {cards}, but is {on_cards}."


def scaled_as_quantised(x: str, scales: str, expanded: str, *, packed: bool) -> Check:
    """161002 for scales that quantMode has no use for, or of another shape; another result."""

    def test(call: Call) -> Finding:
        own = call.spec(x)
        kinds = {0: own.dtype, 2: INT8}
        mode = call.integer("quantMode")
        as_is = packed and own.dtype is INT32 and call.profile.family == "A2"
        for name, spec in call.given(expanded):
            if mode in kinds and spec.dtype is not kinds[mode]:
                return f"{name} should be {kinds[mode].dt} with quantMode {mode}."
        if as_is and (mode or not call.is_given(scales)):
            return f"{x} of INT32 needs {scales} and quantMode 0."
        many = call.integer("moeExpertNum")
        if call.integer("sharedExpertRankNum"):
            many += call.integer("sharedExpertNum")
        for name, spec in call.given(scales):
            if mode == 0 and not as_is:
                said = f"{name} should be null with quantMode 0."
                return said, f"Leave {name} out.", {name: None}
            wanted = own.shape[:1] if as_is else (many, own.shape[-1])
            if spec.shape != wanted:
                return f"{name} should have sizes {list(wanted)}, but has {list(spec.shape)}."
        return None

    return invalid(f"{scales} and {expanded} aren't those of quantMode", test)


def dispatched(host: Host, *inputs: GlobalTensor | None, **said: object) -> Any:
    """One kernel: rows, scales, what rows are of, totals and counts."""
    host.assume("all chips have equal tokens and experts, and begin together")
    return _one_kernel(host, "MoeDistributeDispatch", _DISPATCHED, inputs, said)


def combined(host: Host, *inputs: GlobalTensor | None, **said: object) -> Any:
    """One kernel: what this chip's experts say of this chip's tokens."""
    host.assume("what experts on other chips make isn't known: it counts as nought")
    return _one_kernel(host, "MoeDistributeCombine", _COMBINED, inputs, said)


_DISPATCHED = (
    "expandX dynamicScales expandIdx expertTokenNums epRecvCounts",
    "expandXOut dynamicScalesOut assistInfoForCombineOut expertTokenNumsOut epRecvCountsOut",
)
_COMBINED = ("x", "xOut")  # of the first interface, and of later ones


def _one_kernel(
    host: Host,
    op_type: str,
    names: tuple[str, str],
    inputs: Sequence[GlobalTensor | None],
    said: Mapping[str, object],
) -> Any:
    """Queue it with what the caller gives of its results."""
    if host.profile.family != "A3":
        host.assume("rows are sent as A3 sends them, over the links of this product")
    later = host.told(names[1].split()[0]) is not None
    outputs = [
        host.chain.output(name) if host.told(name) else host.empty((1,), FLOAT, name)
        for name in names[later].split()
    ]
    named = {_SNAKE.sub("_", each).lower(): value for each, value in said.items()}
    return host.run(f"{op_type}V2" if later else op_type, *inputs, outputs=outputs, **named)


_SNAKE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_CARDS = (text("groupEp"), whole("epWorldSize"), whole("epRankId"), whole("moeExpertNum"),
    text("groupTp?"), whole("tpWorldSize"), whole("tpRankId"), whole("expertShardType"),
    whole("sharedExpertNum"), whole("sharedExpertRankNum"))  # fmt: skip
_OTHERS = (whole("zeroExpertNum"), whole("copyExpertNum"), whole("constExpertNum"))
_PLAIN: tuple[tuple[object, ...], ...] = (
    (attribute_in, "tpWorldSize", (0, 1)),
    (attribute_in, "tpRankId", (0,)),
    (attribute_in, "expertShardType", (0,)),
)
_OTHER_RULES: tuple[tuple[object, ...], ...] = (
    *((attribute_in, each, range(_MANY)) for each in ("zeroExpertNum", "copyExpertNum")),
    (attribute_in, "constExpertNum", range(_MANY)),
    (on, ("A2",), (attribute_in, "constExpertNum", (0,))),
    (on, ("A2",), (absent, "elasticInfoOptional")),
)


def _dispatch(ending: str, words: str, results: str, *more: Attribute) -> Composed:
    """``words`` are what stands behind expertIds, ``results`` all outputs."""
    later = bool(ending)
    scales, mask, weights, *rest = words.split()
    expanded, _, assist, *_ = (each.rstrip("?") for each in results.split())
    rules: tuple[tuple[object, ...], ...] = (
        *_PLAIN,
        (attribute_in, "quantMode", (0, 2)),
        (attribute_in, "expertTokenNumsType", (0, 1)),
        (fits, "x", "bs h", "expertIds", "bs k", weights.rstrip("?"), "bs k", expanded, "a h"),
        (distributed, "x", "expertIds", expanded, {"later": later}),
        (scaled_as_quantised, "x", scales.rstrip("?"), expanded, {"packed": later}),
    )
    mask = mask.rstrip("?")
    if later:
        rules += ((fits, expanded, "a h", assist, f"{_ASSIST}a"),
            (when, "commAlg", ("hierarchy",), (absent, mask)),
            (when, "commAlg", ("hierarchy",), (absent, scales.rstrip("?"))),
            (on, ("A2",), (fits, "x", "bs h", mask, "bs")),
            (on, ("A3",), (fits, "x", "bs h", mask, "bs *k")))  # fmt: skip
    else:
        rules += ((absent, mask),)
    if rest:
        rules += _OTHER_RULES
    return Composed(
        f"aclnnMoeDistributeDispatch{ending}", f"x expertIds {words} -> {results}",
        (*_CARDS, whole("quantMode"), whole("globalBs"), whole("expertTokenNumsType"), *more),
        "dispatched", checks=rules,
    )  # fmt: skip


def _combine(ending: str, words: str, result: str, *more: Attribute) -> Composed:
    """``words`` are what stands behind expertScales."""
    later = bool(ending)
    assist = "assistInfoForCombine" if later else "expandIdx"
    names = [each.rstrip("?") for each in words.split()]
    _, mask, *reserved = names[:5]
    rules: tuple[tuple[object, ...], ...] = (
        *_PLAIN,
        (attribute_in, "outDtype", (0,)),
        (attribute_in, "commQuantMode", (0, 2) if later else (0,)),
        (attribute_in, "groupListType" if later else "groupList_type", (0,)),
        (absent, *reserved),
        (same_dtype, "expandX", result),
        (fits, "expandX", "a h", "expertIds", "bs k", "expertScales", "bs k", result, "bs h"),
        (distributed, "expandX", "expertIds", "expandX", {"later": later}),
    )
    if later:
        rules += ((fits, "expandX", "a h", assist, f"{_ASSIST}a"),
            (on, ("A2",), (absent, "sharedExpertXOptional")),
            (on, ("A3",), (absent, "expandScalesOptional")),
            (when, "commAlg", ("hierarchy",), (absent, mask)),
            (on, ("A2",), (fits, "expertIds", "bs k", mask, "bs")),
            (on, ("A3",), (fits, "expertIds", "bs k", mask, "bs *k")))  # fmt: skip
    else:
        rules += ((absent, mask),)
    if "elasticInfoOptional" in names:
        rules += _OTHER_RULES
    return Composed(
        f"aclnnMoeDistributeCombine{ending}",
        f"expandX expertIds {assist} epSendCounts expertScales {words} -> {result}",
        (*_CARDS, whole("globalBs"), whole("outDtype"), whole("commQuantMode"),
         whole("groupListType" if later else "groupList_type"), *more),
        "combined", checks=rules,
    )  # fmt: skip


_GIVEN = "scalesOptional? xActiveMaskOptional? expertScalesOptional?"
_MADE = (
    "expandXOut dynamicScalesOut? assistInfoForCombineOut expertTokenNumsOut epRecvCountsOut "
    "tpRecvCountsOut? expandScalesOut?"
)
_BACK = (
    "tpSendCountsOptional? xActiveMaskOptional? activationScaleOptional? weightScaleOptional? "
    "groupListOptional? expandScalesOptional? sharedExpertXOptional?"
)
_OF_OTHERS = (
    "elasticInfoOptional? oriXOptional? constExpertAlpha1Optional? constExpertAlpha2Optional? "
    "constExpertVOptional?"
)
_WAY = text("commAlg?")

RULED = (
    _dispatch("", "scales? xActiveMask? expertScales?",
        "expandX dynamicScales? expandIdx expertTokenNums epRecvCounts tpRecvCounts? "
        "expandScales?"),
    _dispatch("V2", _GIVEN, _MADE, _WAY),
    _dispatch("V3", f"{_GIVEN} elasticInfoOptional?", _MADE, _WAY, *_OTHERS),
    _dispatch("V4", f"{_GIVEN} elasticInfoOptional? performanceInfoOptional?", _MADE, _WAY,
        *_OTHERS),
    _combine("", "tpSendCounts? xActiveMask? activationScale? weightScale? groupList? "
        "expandScales?", "x"),
    _combine("V2", _BACK, "xOut", _WAY),
    _combine("V3", f"{_BACK} {_OF_OTHERS}", "xOut", _WAY, *_OTHERS),
    _combine("V4", f"{_BACK} {_OF_OTHERS} performanceInfoOptional?", "xOut", _WAY, *_OTHERS),
)  # fmt: skip

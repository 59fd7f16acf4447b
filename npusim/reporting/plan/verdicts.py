"""What a plan came to, in sentences: the products that meet the objective, and why others don't."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from npusim.capacity.units import US_PER_MS
from npusim.model.results import DECIDED_UP_TO
from npusim.reporting.document import Tone, Verdict
from npusim.reporting.spelling import burden, count, latency, not_simulated, percent, significant
from npusim.values.language import ngettext, say

if TYPE_CHECKING:
    from npusim.capacity import CardCount, Estimate, PlanResult, ProductResult

_NAMED: Final = 3  # products that do with as few cards, by name
_MOST_REQUESTS: Final = 10**8  # in a run, which then takes minutes


def question(result: PlanResult) -> str:
    """The peak, and what must hold at it."""
    wanted = result.plan.objective
    return say(
        "{peak_per_s} requests/s at the peak, {quantile_name} within "
        "{limit_ms:g} ms, {availability}"
    ).format(
        peak_per_s=rate(result.peak_per_s),
        quantile_name=quantile_name(wanted.quantile),
        limit_ms=wanted.limit_ms,
        availability=wanted.availability,
    )


def verdicts(result: PlanResult) -> Iterator[Verdict]:
    """The answer: the product to look at first, its cards, their headroom, and why so many.

    Then what may have been meant by a name, and, where nothing meets the objective, why not.
    """
    if result.meeting:
        best = result.meeting[0]
        yield Verdict(_answer(result, best), "good" if _is_sure(best) else "open", _why(result))
    elif result.is_open:
        yield Verdict(say("Undecided: no product is known to meet the objective yet."), "open")
    else:
        yield Verdict(say("No product of the plan meets the objective."), "bad")
    for caution in dict.fromkeys(each.board.caution for each in result.products):
        if caution:
            yield Verdict(caution, "open")
    if not result.meeting:
        for each in result.products:
            tone: Tone = "open" if each.is_open else "bad"
            yield Verdict(why_not(each), tone)


def why_not(each: ProductResult) -> str:
    """Why a product has no count, and what to do about it."""
    reason = f"{each.reason.rstrip('.')}. {each.remedy}".strip()
    return f"{say(each.board.name)} {say(each.verdict.value)}: {reason}"


def _is_sure(each: ProductResult) -> bool:
    decided = each.count is not None and each.count.is_decided
    return decided and (each.not_simulated or 0.0) <= DECIDED_UP_TO


def _answer(result: PlanResult, best: ProductResult) -> str:
    """Product, cards and what they take, for which requests how fast, and how much more they do."""
    objective = result.plan.objective
    price, currency = (best.cost.purchase, best.cost.currency) if best.cost else (None, "")
    cards = "" if best.count is None else cards_of(best.count)
    needs = "needs" if best.count is None or best.count.is_decided else "is"
    return say(
        "{board} {needs} {cards}{burden} to answer {peak_per_s} "
        "requests/s, {quantile} of them within {limit_ms:g} ms; they "
        "carry {headroom}."
    ).format(
        board=say(best.board.name),
        needs=needs,
        cards=cards,
        burden=burden(best.power_w, price, currency),
        peak_per_s=rate(result.peak_per_s),
        quantile=percent(objective.quantile),
        limit_ms=objective.limit_ms,
        headroom=headroom(best.headroom or 0.0),
    )


def _why(result: PlanResult) -> str:
    """What the count hangs on, what the slow end would take, and what about other products."""
    best = result.meeting[0]
    said = [_within(result, best), _one_fewer(result, best), _slow_end(best)]
    if best.count is not None and not best.count.is_decided:
        said.append(_what_would_decide(result, best))
    simulated = not_simulated(best.not_simulated)
    capitalised = f"{simulated[:1].upper()}{simulated[1:]}"
    said.append(say("{sentence}.").format(sentence=capitalised))
    return " ".join(each for each in (*said, _others(result)) if each)


def _within(result: PlanResult, best: ProductResult) -> str:
    """The working cards at the peak against both bounds."""
    objective, at_work = result.plan.objective, best.degraded or best.at_peak
    if at_work is None:
        return ""
    down = say(", with the spare ones down") if best.degraded else ""
    return say(
        "At the peak{down}, {quantile_name} is {latency_us}, and the "
        "devices are busy for {utilisation} of the time (target "
        "{target_utilisation})."
    ).format(
        down=down,
        quantile_name=quantile_name(objective.quantile),
        latency_us=interval(at_work.latency_us),
        utilisation=percent(at_work.utilisation.mean),
        target_utilisation=percent(objective.target_utilisation),
    )


def _one_fewer(result: PlanResult, best: ProductResult) -> str:
    """What one working card fewer would miss."""
    fewer = next(
        (one for one in best.by_cards if best.count and one.cards == best.count.working - 1), None
    )
    if fewer is None or fewer.holds is not False:
        return ""
    if fewer.latency_us is None:
        return say("One card fewer can't keep up.")
    objective = result.plan.objective
    misses = []
    if fewer.utilisation > objective.target_utilisation:
        misses.append(
            say("is busy for {utilisation} of the time").format(
                utilisation=percent(fewer.utilisation)
            )
        )
    if fewer.latency_us.mean > objective.limit_ms * US_PER_MS:
        misses.append(
            say("has a {quantile_name} of {latency_us}").format(
                quantile_name=quantile_name(objective.quantile),
                latency_us=interval(fewer.latency_us),
            )
        )
    return say("One card fewer {misses}.").format(misses=" and ".join(misses)) if misses else ""


def _others(result: PlanResult) -> str:
    """How the product compares with the others that meet the objective, and what ranked them."""
    best, others = result.meeting[0], result.meeting[1:]
    if not others:
        return ""
    if result.is_ranked_by_cost:
        return say("It costs least of {meeting} products at the prices given.").format(
            meeting=len(result.meeting)
        )
    alike = [say(each.board.name) for each in others if each.surely == best.surely]
    more = say(" and {alike} more").format(alike=len(alike) - _NAMED) if len(alike) > _NAMED else ""
    as_few = (
        say(", {alike}{more} as few").format(alike=", ".join(alike[:_NAMED]), more=more)
        if alike
        else ""
    )
    return say(
        "Counted at the slow end, none of {meeting} products needs "
        "fewer cards{as_few}; a card of one isn't a card of another: "
        "--prices FILE ranks them by cost."
    ).format(meeting=len(result.meeting), as_few=as_few)


def cards_of(cards: CardCount) -> str:
    """The number to install, or the two between which it isn't decided."""
    if not cards.is_decided:
        return say("undecided between {perhaps} and {installed} cards").format(
            perhaps=cards.perhaps + cards.spare, installed=cards.installed
        )
    spare = (
        say(" ({working} and {spare} spare)").format(working=cards.working, spare=cards.spare)
        if cards.spare
        else ""
    )
    number = ngettext("{count} card", "{count} cards", cards.installed)
    return number.format(count=cards.installed) + spare


def _what_would_decide(result: PlanResult, each: ProductResult) -> str:
    """What an undecided count hangs on."""
    if each.count and each.count.budget_spent:
        return say("{board}: {spent} before the count was decided.").format(
            board=say(each.board.name), spent=_spent(result)
        )
    objective = result.plan.objective
    fewest = each.count.perhaps if each.count else 0
    nearest = next(one for one in each.by_cards if one.cards >= fewest and one.holds is None)
    shown = (
        ""
        if nearest.latency_us is None
        else say(" is {latency_us}").format(latency_us=interval(nearest.latency_us))
    )
    wanted = each.count.to_decide / result.plan.simulation.runs if each.count else 0.0
    longer = (
        say("about {up_to_two} requests in each run (simulation.max_requests)").format(
            up_to_two=_up_to_two(wanted)
        )
        if wanted < _MOST_REQUESTS
        else say("no number of requests that can be simulated")
    )
    return say(
        "{board}: {quantile_name} with {cards} working cards{shown} "
        "after {requests} requests, and the limit {limit_ms:g} ms; "
        "they are busy for {utilisation} of the time, and the target "
        "is {target_utilisation}; {longer} would decide it."
    ).format(
        board=say(each.board.name),
        quantile_name=quantile_name(objective.quantile),
        cards=nearest.cards,
        shown=shown,
        requests=count(nearest.requests),
        limit_ms=objective.limit_ms,
        utilisation=percent(nearest.utilisation),
        target_utilisation=percent(objective.target_utilisation),
        longer=longer,
    )


def _spent(result: PlanResult) -> str:
    """That there was no more time, and how to have more."""
    budget_s = result.plan.simulation.budget_s
    return say("the budget of {budget_s:g} s (--budget, simulation.budget_s) was spent").format(
        budget_s=budget_s
    )


def _up_to_two(value: float) -> str:
    """A number with two digits, rounded up."""
    step = 10 ** max(0, math.floor(math.log10(max(1.0, value))) - 1)
    return count(math.ceil(value / step) * step)


def _slow_end(each: ProductResult) -> str:
    """What the slow end of the latencies asks for, where that is more."""
    slow = each.slow_end
    if slow is None or each.count is None:
        return ""
    if slow.is_open:
        return say("The slow end of the estimate wasn't asked: no budget was left.")
    if slow.cards is None:
        return say("At the slow end of the estimate it fails: {reason}.").format(reason=slow.reason)
    if slow.cards > each.count.installed:
        return say("It is {cards} if latencies are at the slow end of their band.").format(
            cards=slow.cards
        )
    return ""


def headroom(more: float) -> str:
    """``31 % more``, or from twice as much on ``2.4 times that``."""
    return (
        say("{more} more").format(more=percent(more))
        if more < 1
        else say("{value} times that").format(value=significant(1 + more, 2))
    )


def quantile_name(value: float) -> str:
    """``p99`` of 0.99."""
    return f"p{100 * value:g}"


def rate(per_s: float) -> str:
    """A rate as the plan gives it: no digit is lost, and none is added."""
    return f"{per_s:,.6g}"


def interval(value: Estimate) -> str:
    """A latency with its confidence interval, where several seeds gave one."""
    if value.lo == value.hi:
        return latency(value.mean)
    return latency(value.mean, (value.lo, value.hi))

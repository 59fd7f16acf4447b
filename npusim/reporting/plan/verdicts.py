"""What a plan came to, in sentences: the products that meet the objective, and why others don't."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from npusim.capacity.units import US_PER_MS
from npusim.model.results import DECIDED_UP_TO
from npusim.reporting.document import Tone, Verdict
from npusim.reporting.spelling import count, latency, not_simulated, percent, significant

if TYPE_CHECKING:
    from npusim.capacity import CardCount, Estimate, PlanResult, ProductResult

_NAMED: Final = 3  # products that do with as few cards, by name
_MOST_REQUESTS: Final = 10**8  # in a run, which then takes minutes


def question(result: PlanResult) -> str:
    """The peak, and what must hold at it."""
    wanted = result.plan.objective
    return (
        f"{rate(result.peak_per_s)} requests/s at the peak, {quantile_name(wanted.quantile)} "
        f"within {wanted.limit_ms:g} ms, {wanted.availability}"
    )


def verdicts(result: PlanResult) -> Iterator[Verdict]:
    """The answer: the product to look at first, its cards, their headroom, and why so many.

    Then what may have been meant by a name, and, where nothing meets the objective, why not.
    """
    if result.meeting:
        best = result.meeting[0]
        yield Verdict(_answer(result, best), "good" if _is_sure(best) else "open", _why(result))
    elif result.is_open:
        yield Verdict("Undecided: no product is known to meet the objective yet.", "open")
    else:
        yield Verdict("No product of the plan meets the objective.", "bad")
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
    return f"{each.board.name} {each.verdict.value}: {reason}"


def _is_sure(each: ProductResult) -> bool:
    decided = each.count is not None and each.count.is_decided
    return decided and (each.not_simulated or 0.0) <= DECIDED_UP_TO


def _answer(result: PlanResult, best: ProductResult) -> str:
    """Product, cards and what they take, for which requests how fast, and how much more they do."""
    objective = result.plan.objective
    takes = [f"{count(best.power_w)} W"] if best.power_w is not None else []
    if best.cost is not None and best.cost.purchase is not None:
        takes.append(f"{count(best.cost.purchase)} {best.cost.currency}")
    burden = f" ({', '.join(takes)})" if takes else ""
    cards = "" if best.count is None else cards_of(best.count)
    needs = "is" if cards.startswith("undecided") else "needs"
    return (
        f"{best.board.name} {needs} {cards}{burden} to answer {rate(result.peak_per_s)} "
        f"requests/s, {percent(objective.quantile)} of them within {objective.limit_ms:g} ms; "
        f"they carry {headroom(best.headroom or 0.0)}."
    )


def _why(result: PlanResult) -> str:
    """What the count hangs on, what the slow end would take, and what about other products."""
    best = result.meeting[0]
    said = [_within(result, best), _one_fewer(result, best), _slow_end(best)]
    if best.count is not None and not best.count.is_decided:
        said.append(_what_would_decide(result, best))
    said.append(f"{not_simulated(best.not_simulated).capitalize()}.")
    return " ".join(each for each in (*said, _others(result)) if each)


def _within(result: PlanResult, best: ProductResult) -> str:
    """The working cards at the peak against both bounds."""
    objective, at_work = result.plan.objective, best.degraded or best.at_peak
    if at_work is None:
        return ""
    down = ", with the spare ones down" if best.degraded else ""
    return (
        f"At the peak{down}, {quantile_name(objective.quantile)} is "
        f"{interval(at_work.latency_us)}, and the devices are busy for "
        f"{percent(at_work.utilisation.mean)} of the time (target "
        f"{percent(objective.target_utilisation)})."
    )


def _one_fewer(result: PlanResult, best: ProductResult) -> str:
    """What one working card fewer would miss."""
    fewer = next(
        (one for one in best.by_cards if best.count and one.cards == best.count.working - 1), None
    )
    if fewer is None or fewer.holds is not False:
        return ""
    if fewer.latency_us is None:
        return "One card fewer can't keep up."
    objective = result.plan.objective
    misses = []
    if fewer.utilisation > objective.target_utilisation:
        misses.append(f"is busy for {percent(fewer.utilisation)} of the time")
    if fewer.latency_us.mean > objective.limit_ms * US_PER_MS:
        misses.append(f"has a {quantile_name(objective.quantile)} of {interval(fewer.latency_us)}")
    return f"One card fewer {' and '.join(misses)}." if misses else ""


def _others(result: PlanResult) -> str:
    """How the product compares with the others that meet the objective, and what ranked them."""
    best, others = result.meeting[0], result.meeting[1:]
    if not others:
        return ""
    if result.is_ranked_by_cost:
        return f"It costs least of {len(result.meeting)} products at the prices given."
    alike = [each.board.name for each in others if each.surely == best.surely]
    more = f" and {len(alike) - _NAMED} more" if len(alike) > _NAMED else ""
    as_few = f", {', '.join(alike[:_NAMED])}{more} as few" if alike else ""
    return (
        f"Counted at the slow end, none of {len(result.meeting)} products needs fewer cards"
        f"{as_few}; a card of one isn't a card of another: --prices FILE ranks them by cost."
    )


def cards_of(cards: CardCount) -> str:
    """The number to install, or the two between which it isn't decided."""
    if not cards.is_decided:
        return f"undecided between {cards.perhaps + cards.spare} and {cards.installed} cards"
    spare = f" ({cards.working} and {cards.spare} spare)" if cards.spare else ""
    return f"{cards.installed} {'card' if cards.installed == 1 else 'cards'}{spare}"


def _what_would_decide(result: PlanResult, each: ProductResult) -> str:
    """What an undecided count hangs on."""
    objective = result.plan.objective
    fewest = each.count.perhaps if each.count else 0
    nearest = next(one for one in each.by_cards if one.cards >= fewest and one.holds is None)
    shown = "" if nearest.latency_us is None else f" is {interval(nearest.latency_us)}"
    wanted = each.count.to_decide / result.plan.simulation.runs if each.count else 0.0
    if each.count and each.count.budget_spent:
        return f"{each.board.name}: {_spent(result)} before the count was decided."
    longer = (
        f"about {_up_to_two(wanted)} requests in each run (simulation.max_requests)"
        if wanted < _MOST_REQUESTS
        else "no number of requests that can be simulated"
    )
    return (
        f"{each.board.name}: {quantile_name(objective.quantile)} with {nearest.cards} working cards"
        f"{shown} after {count(nearest.requests)} requests, and the limit {objective.limit_ms:g} "
        f"ms; they are busy for {percent(nearest.utilisation)} of the time, and the target is "
        f"{percent(objective.target_utilisation)}; {longer} would decide it."
    )


def _spent(result: PlanResult) -> str:
    """That there was no more time, and how to have more."""
    budget_s = result.plan.simulation.budget_s
    return f"the budget of {budget_s:g} s (--budget, simulation.budget_s) was spent"


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
        return "The slow end of the estimate wasn't asked: no budget was left."
    if slow.cards is None:
        return f"At the slow end of the estimate it fails: {slow.reason}."
    if slow.cards > each.count.installed:
        return f"It is {slow.cards} if latencies are at the slow end of their band."
    return ""


def headroom(more: float) -> str:
    """``31 % more``, or from twice as much on ``2.4 times that``."""
    return f"{percent(more)} more" if more < 1 else f"{significant(1 + more, 2)} times that"


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

"""What a plan came to, in sentences: the products that meet the objective, and why others don't."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from npusim.model.results import DECIDED_UP_TO
from npusim.reporting.document import Tone, Verdict
from npusim.reporting.spelling import count, latency, not_simulated, percent, significant

if TYPE_CHECKING:
    from npusim.capacity import CardCount, Estimate, PlanResult, ProductResult

_MOST_REQUESTS: Final = 10**8  # in a run, which then takes minutes


def question(result: PlanResult) -> str:
    """The peak, and what must hold at it."""
    wanted = result.plan.objective
    return (
        f"{rate(result.peak_per_s)} requests/s at the peak, {quantile_name(wanted.quantile)} "
        f"within {wanted.limit_ms:g} ms, {wanted.availability}"
    )


def verdicts(result: PlanResult) -> Iterator[Verdict]:
    """The products that meet the objective with their cards, then why the others don't.

    The first sentence is for those who decide: the product with the fewest cards and its burden.
    """
    if not result.meeting and result.is_open:
        yield Verdict("Undecided: no product is known to meet the objective yet.", "open")
    elif not result.meeting:
        yield Verdict("No product of the plan meets the objective.", "bad")
    else:
        yield Verdict(_in_short(result), "good" if _is_sure(result.meeting[0]) else "open")
    for each in result.meeting:
        if each.count is None or each.at_peak is None:
            continue
        yield Verdict(
            f"{each.board.name}: {_cards(each.count)}; "
            f"{quantile_name(result.plan.objective.quantile)} at the peak "
            f"{interval(each.at_peak.latency_us)}, limited by {each.count.limited_by}"
            f"{_slow_end(each)}{_busy(each, result.plan.objective.target_utilisation)}"
            f"; {not_simulated(each.not_simulated)}.",
            "good" if _is_sure(each) else "open",
        )
        if not each.count.is_decided:
            yield Verdict(_what_would_decide(result, each), "open")
    for each in result.products:
        if not each.meets:
            reason = f"{each.reason.rstrip('.')}. {each.remedy}".strip()
            tone: Tone = "open" if each.is_open else "bad"
            yield Verdict(f"{each.board.name} {each.verdict.value}: {reason}", tone)


def _is_sure(each: ProductResult) -> bool:
    decided = each.count is not None and each.count.is_decided
    return decided and (each.not_simulated or 0.0) <= DECIDED_UP_TO


def _in_short(result: PlanResult) -> str:
    """The answer of the product that takes least, in a sentence."""
    best, objective = result.meeting[0], result.plan.objective
    takes = [f"{count(best.power_w)} W"] if best.power_w is not None else []
    if best.cost is not None and best.cost.purchase is not None:
        takes.append(f"{count(best.cost.purchase)} {best.cost.currency}")
    burden = f" ({', '.join(takes)})" if takes else ""
    fewest = "; no other product that was asked needs fewer" if len(result.meeting) > 1 else ""
    cards = "" if best.count is None else _cards(best.count)
    needs = "is" if cards.startswith("undecided") else "needs"
    return (
        f"{best.board.name} {needs} {cards}{burden} to answer {rate(result.peak_per_s)} "
        f"requests/s, {percent(objective.quantile)} of them within {objective.limit_ms:g} "
        f"ms{fewest}."
    )


def _cards(cards: CardCount) -> str:
    """The number to install, or the two between which it isn't decided."""
    if not cards.is_decided:
        return f"undecided between {cards.perhaps + cards.spare} and {cards.installed} cards"
    spare = f" ({cards.working} and {cards.spare} spare)" if cards.spare else ""
    return f"{cards.installed} {'card' if cards.installed == 1 else 'cards'}{spare}"


def _what_would_decide(result: PlanResult, each: ProductResult) -> str:
    """What an undecided count hangs on."""
    objective = result.plan.objective
    fewest = each.count.perhaps if each.count else 0
    nearest = next(one for one in each.by_cards if one.cards >= fewest and one.in_time is None)
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
        f"ms; {longer} would decide it; a limit outside that interval would."
    )


def _spent(result: PlanResult) -> str:
    """That there was no more time, and how to have more."""
    budget_s = result.plan.simulation.budget_s
    return f"the budget of {budget_s:g} s (--budget, simulation.budget_s) was spent"


def _up_to_two(value: float) -> str:
    """A number with two digits, rounded up."""
    step = 10 ** max(0, math.floor(math.log10(max(1.0, value))) - 1)
    return count(math.ceil(value / step) * step)


def _busy(each: ProductResult, target: float) -> str:
    """What a verdict adds where the devices are busier than the target; empty where not."""
    if each.at_peak is None or each.at_peak.utilisation.mean <= target:
        return ""
    return (
        f"; busy for {percent(each.at_peak.utilisation.mean)} of the time, above the target of "
        f"{percent(target)}: batches start with {significant(each.at_peak.mean_batch, 2)} requests"
    )


def _slow_end(each: ProductResult) -> str:
    """What a verdict adds where the slow end of the latencies asks for more; empty where not."""
    slow = next((one for one in each.scenarios if "slow" in one.name), None)
    if slow is None or each.count is None:
        return ""
    if slow.is_open:
        return "; not asked at the slow end of the estimate"
    if slow.cards is None:
        return f"; at the slow end of the estimate it fails: {slow.reason}"
    if slow.cards > each.count.installed:
        return f"; {slow.cards} if latencies are at the slow end of their band"
    return ""


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

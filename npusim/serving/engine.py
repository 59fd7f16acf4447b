"""Continuous batching played step by step; steps that only decode are taken many at a time.

Groups that share experts step together: what one of them reads or writes, all wait for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.serving.group import Group, Outcome
from npusim.values.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npusim.serving.costs import StepCosts
    from npusim.serving.policy import Policy
    from npusim.serving.requests import Requests


def serve(
    requests: Requests, costs: StepCosts, policy: Policy, *, concurrency: int | None = None
) -> Outcome:
    """Serve all requests on one data-parallel group, first come, first served.

    With `concurrency` no more than so many are sent at once: the next one when one is done.
    Raises ArgumentError where a request can't ever fit.
    """
    return serve_in_step([requests], costs, policy, concurrency=concurrency)[0]


def serve_in_step(
    dealt: Sequence[Requests],
    costs: StepCosts,
    policy: Policy,
    *,
    concurrency: int | None = None,
) -> list[Outcome]:
    """Serve what each of several groups was dealt; every step takes as long as the longest of them.

    So step groups that exchange tokens with the same experts: a rank waits in every layer for the
    others (vllm-ascend pads them to the largest). `concurrency` is of each group.
    """
    longest = max(int((each.input_tokens + each.output_tokens).max()) for each in dealt)
    if longest > policy.kv_tokens:
        raise ArgumentError(
            f"a request of {longest} tokens, and room for {policy.kv_tokens} in the cache",
            "Take more or larger cards, fewer bits, or shorter requests.",
        )
    groups = [Group(each, costs, policy, concurrency) for each in dealt]
    now_ms = 0.0
    while True:
        for group in groups:
            group.receive(now_ms)
            group.schedule()
        running = [group for group in groups if group.running]
        if running:
            now_ms = _step(groups, running, now_ms)
            continue
        arrival_ms = min(group.next_arrival_ms for group in groups)
        if arrival_ms == float("inf"):
            return [group.outcome for group in groups]
        now_ms = max(now_ms, arrival_ms)


def _step(groups: Sequence[Group], running: Sequence[Group], now_ms: float) -> float:
    """One step with prompts, or all steps without any up to the next event; when it is over."""
    for group in running:
        group.make_room()
    slowest = max(running, key=Group.step_ms) if len(running) > 1 else running[0]
    steps, time_ms = 1, slowest.step_ms()
    if not any(group.chunks for group in running):
        growth_ms = slowest.growth_ms
        steps = int(min(group.steps_left(now_ms, time_ms, growth_ms) for group in groups))
        time_ms = steps * time_ms + growth_ms * steps * (steps - 1) / 2
    now_ms += time_ms
    for group in running:
        group.took(steps, time_ms, now_ms)
    return now_ms

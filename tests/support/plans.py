"""Small capacity plans, evaluated in a second."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from npusim.capacity import evaluate, plan_of

if TYPE_CHECKING:
    from npusim.capacity import PlanResult


def plan(**changes: Any) -> dict[str, Any]:
    """A plan with two models and three products, one of which is too slow; keys are replaced."""
    fast = {"batch": [1, 4], "latency_ms": [2, 5], "lo_ms": [1.5, 4], "hi_ms": [4, 9]}
    slow = {"batch": [1, 4], "latency_ms": [6, 15], "memory_bytes": [2**30, 2**31]}
    hopeless = {"batch": [1, 4], "latency_ms": [300, 900]}
    curves = {"Atlas 800T A2": fast, "Ascend910A": slow, "Ascend310P3": hopeless}
    return {
        "title": "A small plan",
        "workload": {
            "models": [
                {"name": "head", "curves": curves, "share": 3},
                {"name": "tail", "curves": curves},
            ],
            "mean_requests_per_s": 60,
            "peak_requests_per_s": 120,
            "batching": {"max_batch": 4, "max_wait_ms": 2},
        },
        "objective": {"quantile": "p90", "limit_ms": 60, "availability": "N+1"},
        "fleet": {
            "products": [
                {"product": "Atlas 800T A2", "power_w_per_card": 300, "price_per_card_hour": 2.5},
                "Ascend910A",
                "Ascend310P3",
            ],
            "currency": "EUR",
        },
        "simulation": {"runs": 2, "requests": 300, "seed": 7},
    } | changes


@lru_cache(maxsize=1)
def small_plan() -> PlanResult:
    """The evaluated plan; made once."""
    return evaluate(plan_of(plan()))

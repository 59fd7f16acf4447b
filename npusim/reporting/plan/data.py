"""Everything that an evaluated plan found out, as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from npusim.reporting.renderers.jsonout import fields

if TYPE_CHECKING:
    from npusim.capacity import ModelOnProduct, Operation, PlanResult, ProductResult
    from npusim.model.results import StepResult

ModelResults = dict[tuple[str, str], dict[int, "StepResult"]]
"""Timed steps by (model name, SoC), then by batch."""


def plan_json(result: PlanResult, steps: ModelResults, verdicts: Sequence[str]) -> dict[str, Any]:
    """Everything that was found out, without the single requests of the simulations."""
    return {
        "title": result.plan.title,
        "verdict": list(verdicts),
        **fields(result, "mean_requests_per_s=mean_per_s peak_requests_per_s=peak_per_s arrivals"),
        "plan": result.plan.model_dump(mode="json"),
        "products": [_product_json(each, steps) for each in result.products],
        "assumptions": list(result.assumptions),
    }


def _product_json(each: ProductResult, steps: ModelResults) -> dict[str, Any]:
    count = each.count
    return {
        **fields(
            each,
            "product=board.name soc=board.soc devices_per_card=board.devices_per_card "
            "meets verdict=verdict.value reason remedy budget_spent",
        ),
        "cards": None
        if count is None
        else fields(
            count,
            "installed working spare by_throughput_alone=closed_form servers "
            "limited_by carried_requests_per_s=carried_per_s decided=is_decided "
            "fewest_not_ruled_out=perhaps requests_to_decide=to_decide budget_spent",
        ),
        "cards_at_slow_end": each.slow_end and each.slow_end.cards,
        **fields(
            each, "not_simulated_share=not_simulated card_requests_per_s=card_rate_per_s headroom"
        ),
        "by_cards": [
            fields(one, "cards latency_us holds utilisation requests") for one in each.by_cards
        ],
        "at_peak": _operation_json(each.at_peak),
        "at_mean": _operation_json(each.at_mean),
        "spare_cards_down": _operation_json(each.degraded),
        "a_card_fails": _operation_json(each.failing),
        "share_of_time_short_of_cards": each.short_share,
        "memory": each.memory and vars(each.memory),
        "power_w": each.power_w,
        "cost": each.cost and vars(each.cost),
        "what_if": [
            {
                **fields(one, "name requests_per_s=rate_per_s cards"),
                "planned": _operation_json(one.planned),
                "reason": one.reason,
            }
            for one in each.scenarios
        ],
        "cards_by_load": [
            {"requests_per_s": rate, "cards": cards} for rate, cards in each.cards_by_load
        ],
        "models": [_model_json(model, steps, each.board.soc) for model in each.models],
    }


def _operation_json(operation: Operation | None) -> dict[str, Any] | None:
    if operation is None:
        return None
    return {
        **fields(operation, "cards requests_per_s=rate_per_s meets latency_us"),
        "quantiles_us": [
            {"quantile": quantile, "latency_us": list(value)}
            for quantile, value in operation.quantiles_us
        ],
        "by_model_us": {name: list(value) for name, value in operation.by_model_us},
        **fields(operation, "utilisation mean_batch longest_queue"),
    }


def _model_json(model: ModelOnProduct, steps: ModelResults, soc: str) -> dict[str, Any]:
    timed: Mapping[int, StepResult] = steps.get((model.name, soc), {})
    return {
        **fields(
            model,
            "name share items_per_request max_batch max_batch_stated=stated max_wait_us "
            "basis=curve.basis",
        ),
        "curve": [point._asdict() for point in model.curve.points],
        "evidence": [
            {
                "batch": batch,
                "calibrated_share": result.calibrated_share,
                "simulated_share": result.simulated_share,
                "classes": {each.kind: each.duration_us for each in result.classes},
            }
            for batch, result in timed.items()
        ],
    }

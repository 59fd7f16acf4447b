"""Do recommendations keep their own rule? Five plans of networks, five of language models.

    python benchmarks/recommendations.py

The recommended cards are simulated ten times as long as the plan did, with another seed: they must
keep the limit and the target, and one card (of a language model, one replica of either kind) fewer
mustn't. Where a plan says that it is undecided between two numbers, the larger must and one below
the smaller mustn't. Exit code 1 when one of them doesn't hold; some minutes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from npusim.capacity import PlanResult, SimulatedLatencies, evaluate
from npusim.capacity.asking import plan_of_model
from npusim.capacity.planning import sizer_of
from npusim.serving.asking import llm_plan_of_model, wanted_plan
from npusim.serving.plan import LlmPlan
from npusim.serving.planning import in_time_share, plan_llm

if TYPE_CHECKING:
    from collections.abc import Iterator

    from npusim.capacity import Plan, ProductResult

ROOT = Path(__file__).parents[1]
LONGER = 10
SEED = 10**6  # plans count theirs from 0 or 1
NETWORKS = (  # file, requests/s, limit in ms, product
    ("examples/resnet50.onnx", 4000, 30, "Atlas 300I Pro"),
    ("examples/resnet50.onnx", 9000, 8, "910B3"),
    ("reports/plans/models/encoder.yaml", 3000, 40, "Atlas 800I A2"),
    ("reports/plans/models/ranker.yaml", 150000, 10, "Atlas 300I Duo"),
    ("examples/model.yaml", 60000, 5, "910B4"),
)
LANGUAGE_MODELS = (  # config, requests/s, TTFT and TPOT in ms, product
    ("Qwen3-8B", 20, (1000, 50), "910B3"),
    ("Qwen3-32B", 20, (1000, 50), "Atlas 800T A2"),
    ("Qwen2.5-7B-Instruct", 40, (500, 40), "Atlas 800I A2"),
    ("Llama-2-7B", 10, (800, 60), "910B1"),
    ("Qwen3-0.6B", 60, (800, 60), "Atlas 300I Duo"),
)


def network(which: int) -> tuple[Plan, ProductResult]:
    """A plan of a network, and the answer of its product."""
    file, rate_per_s, limit_ms, product = NETWORKS[which]
    objective = {"quantile": "p99", "limit_ms": limit_ms}
    asked = plan_of_model(ROOT / file, {}, rate_per_s, {}, objective, [product])
    plan = wanted_plan(ROOT / file, asked)
    if isinstance(plan, LlmPlan):
        raise TypeError(file)
    result = evaluate(plan, SimulatedLatencies(plan, ROOT))
    if not isinstance(result, PlanResult):
        raise TypeError(file)
    return plan, result.products[0]


def network_keeps(plan: Plan, found: ProductResult) -> tuple[str, bool, bool]:
    """The count of a network, whether a long run keeps the rule with it, and with one card less."""
    if found.count is None:
        raise RuntimeError(found.reason)
    peak_per_s, objective = plan.workload.peak_requests_per_s or 0.0, plan.objective
    sizer = sizer_of(plan, found)

    def keeps(cards: int) -> bool:
        if not cards or peak_per_s >= cards * sizer.card_rate_per_s:
            return False
        length = LONGER * plan.simulation.max_requests
        run = sizer.run(cards, peak_per_s, SEED, length=length)
        is_busy = run.utilisation() > objective.target_utilisation
        return run.quantile_us(objective.quantile) <= 1e3 * objective.limit_ms and not is_busy

    count = found.count
    said = f"{found.board.name}: {count.perhaps}..{count.working} cards"
    return said, keeps(count.working), keeps(count.perhaps - 1)


def llm_keeps(which: int) -> tuple[str, bool, bool]:
    """The same for a language model."""
    name, rate_per_s, limits_ms, product = LANGUAGE_MODELS[which]
    config = ROOT / "reports" / "data" / "llm_configs" / f"{name}.json"
    asked = llm_plan_of_model(config, rate_per_s, limits_ms, (1024, 256), "p90", ("",), [product])
    plan = wanted_plan(config, asked)
    if not isinstance(plan, LlmPlan):
        raise TypeError(name)
    chosen = plan_llm(plan, ROOT).chosen
    if chosen is None:
        raise RuntimeError(f"{name}: no option")
    reading, answering = counts = chosen.replicas, chosen.answering
    kinds = 1 if chosen.candidate.decode is None else 2
    fewest = round(chosen.perhaps / (chosen.cards / reading)) if kinds == 1 else reading
    fewer = [(fewest - 1, answering), (reading, answering - 1)][:kinds]
    told = f"{fewest}..{reading}" if kinds == 1 else f"{reading} + {answering}"

    def keeps(counts: tuple[int, int]) -> bool:
        if not all(counts[:kinds]):
            return False
        requests = LONGER * plan.simulation.max_requests
        share = in_time_share(plan, ROOT, chosen.candidate, counts, requests, SEED)
        return share >= plan.objective.quantile

    said = f"{name} on {product}: {told} replicas of {chosen.candidate.where}"
    return said, keeps(counts), any(map(keeps, fewer))


def answers() -> Iterator[tuple[str, bool, bool]]:
    """All ten: what was said, whether it keeps the rule, whether one fewer would."""
    for which in range(len(NETWORKS)):
        yield network_keeps(*network(which))
    for which in range(len(LANGUAGE_MODELS)):
        yield llm_keeps(which)


if __name__ == "__main__":
    wrong = 0
    for said, enough, too_many in answers():
        holds = enough and not too_many
        wrong += not holds
        words = f"keeps the rule: {enough}, one fewer does: {too_many}"
        sys.stdout.write(f"{'  ' if holds else '! '}{said}; {words}\n")
        sys.stdout.flush()
    sys.exit(bool(wrong))

"""Plans from Python: a question in, the answer of every product out.

A plan with the key ``llm`` is one of a language model; the others are of models that answer a
request in one pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npusim.capacity import Plan, SimulatedLatencies, evaluate, plan_of
from npusim.capacity.asking import Prices, plan_of_model, priced_fleet
from npusim.capacity.plan import plan_in
from npusim.reading.files import read_text
from npusim.reading.markup import yaml_mapping
from npusim.serving.plan import LlmPlan, is_language_model, llm_plan_of
from npusim.values.errors import ArgumentError
from npusim.values.language import say
from npusim.values.takes import CALL, COUNT, PATH, REAL, TEXT, each, maybe, of, path_or, takes

if TYPE_CHECKING:
    from npusim.capacity.results import PlanResult
    from npusim.serving.planning import LlmPlanResult


@takes(
    question=path_or(Mapping), seed=maybe(COUNT), budget_s=maybe(REAL), folder=maybe(PATH),
    progress=maybe(CALL),
)  # fmt: skip
def plan(
    question: str | PathLike[str] | Mapping[str, Any],
    *,
    seed: int | None = None,
    budget_s: float | None = None,
    folder: str | PathLike[str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> PlanResult | LlmPlanResult:
    """How many cards a workload needs, product by product: ``npusim.plan("plan.yaml")``.

    A plan is a file or what such a file says; `folder` is where its models and traces are looked
    for, that of the file if not given. `seed` is that of everything random, `budget_s` the seconds
    of processor time for fleets: what they leave open is undecided. With the key ``llm`` the answer
    is the LlmPlanResult of a language model. Raises FileError or ArgumentError for a wrong plan.
    """
    said = question if isinstance(question, Mapping) else None
    file = Path("plan") if isinstance(question, Mapping) else Path(question)
    place = file.parent if folder is None else Path(folder)
    at = file if said is None else place / file
    wanted = wanted_plan(at, said, seed=seed, budget_s=budget_s)
    if isinstance(wanted, LlmPlan):
        from npusim.serving.planning import plan_llm

        return plan_llm(wanted, place, progress)
    source = SimulatedLatencies(wanted, place, progress)
    return evaluate(wanted, source, folder=place, progress=progress)


@takes(
    model=PATH, products=each(TEXT), prices=maybe(of(Mapping)), dtypes=each(TEXT),
    seed=maybe(COUNT), budget_s=maybe(REAL), progress=maybe(CALL),
)  # fmt: skip
def recommend(
    model: str | PathLike[str],
    *,
    rate_per_s: float,
    limit_ms: float,
    products: Sequence[str],
    prices: Mapping[str, float] | None = None,
    quantile: str = "p99",
    availability: str = "N",
    max_batch: int | None = None,
    max_wait_ms: float = 0.0,
    items_per_request: int = 1,
    measured_on: str | None = None,
    tpot_ms: float = 50.0,
    input_tokens: int = 1024,
    output_tokens: int = 256,
    dtypes: Sequence[str] = ("",),
    seed: int | None = None,
    budget_s: float | None = None,
    progress: Callable[[str], None] | None = None,
) -> PlanResult | LlmPlanResult:
    """How many cards one model needs at one rate of requests under one limit in milliseconds.

    As `plan`, with everything else as in a plan that says nothing about it: Poisson arrivals, 70 %
    target utilisation. `model` is a file as for `npusim.Model.read`; `measured_on` the chip that a
    profile comes from; `prices` are EUR for a card, by product. For a language model, a config.json
    or its folder, `limit_ms` is of the first token, and `tpot_ms`, the tokens of prompt and answer,
    and `dtypes` say the rest. Raises FileError for a model that can't be read, ArgumentError for
    numbers out of range, UnknownNameError for a product.
    """
    file = Path(model)
    if is_language_model(file):
        tokens = (input_tokens, output_tokens)
        question = llm_plan_of_model(
            file, rate_per_s, (limit_ms, tpot_ms), tokens, quantile, dtypes, products, prices
        )
        return plan(question, seed=seed, budget_s=budget_s, progress=progress)
    batching: dict[str, Any] = {"max_wait_ms": max_wait_ms}
    if max_batch is not None:
        batching["max_batch"] = max_batch
    served: dict[str, Any] = {"items_per_request": items_per_request}
    if measured_on is not None:
        served["measured_on"] = measured_on
    objective = {"quantile": quantile, "limit_ms": limit_ms, "availability": availability}
    wanted = plan_of_model(file, served, rate_per_s, batching, objective, products, prices)
    return plan(wanted, seed=seed, budget_s=budget_s, progress=progress)


def llm_plan_of_model(
    model: Path,
    rate_per_s: float,
    limits_ms: tuple[float, float],
    tokens: tuple[int, int],
    quantile: str,
    dtypes: Sequence[str],
    products: Sequence[str],
    prices: Prices | None = None,
) -> dict[str, Any]:
    """The plan of one language model at one rate, as a file would say it.

    `limits_ms` are of TTFT and TPOT, `tokens` those of a prompt and an answer. Raises ArgumentError
    for a price of a product that isn't compared.
    """
    llm = {
        "config": str(model.resolve() if model.exists() else model),
        "dtypes": tuple(dtypes),
        "requests_per_s": rate_per_s,
        "input_tokens": tokens[0],
        "output_tokens": tokens[1],
    }
    objective = {"ttft_ms": limits_ms[0], "tpot_ms": limits_ms[1], "quantile": quantile}
    return {"llm": llm, "objective": objective, "fleet": priced_fleet(products, prices)}


def wanted_plan(
    file: Path,
    said: Mapping[str, Any] | None = None,
    *,
    seed: int | None = None,
    budget_s: float | None = None,
) -> Plan | LlmPlan:
    """The plan in a file, or what is `said` in its place; seed and budget instead of the plan's.

    Raises ArgumentError for a budget of a language model's plan, whose search has none.
    """
    raw = yaml_mapping(read_text(file), str(file)) if said is None else said
    wanted: Plan | LlmPlan
    if "llm" in raw:
        wanted = llm_plan_of(raw, file)
        if budget_s is not None:
            raise ArgumentError(
                say("a budget for a language model's plan, which has none"), say("Leave it out.")
            )
    else:
        wanted = plan_in(file, raw) if said is None else plan_of(raw)
        if budget_s is not None and not 0 < budget_s < inf:
            raise ArgumentError(
                say("a budget of {budget_s:g} s").format(budget_s=budget_s),
                say("Give some seconds: --budget 300."),
            )
    given = {"seed": seed, "budget_s": budget_s}
    update = {name: value for name, value in given.items() if value is not None}
    return wanted.model_copy(update={"simulation": wanted.simulation.model_copy(update=update)})

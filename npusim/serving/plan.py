"""A plan for a language model: workload, objectives and the fleets to choose from, in YAML.

::

    title: chat
    llm:
      config: Qwen3-32B/config.json
      dtypes: [bf16, w8a8]
      input_tokens: 3500
      output_tokens: 1500
      requests_per_s: 4
    objective: {ttft_ms: 5000, tpot_ms: 60, quantile: 0.9}
    fleet:
      products: [Atlas 800I A2, Atlas 800T A2]
      tensor_parallel: [2, 4, 8]
      max_sequences: [32, 128]
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from npusim.capacity.plan import PricedProducts
from npusim.capacity.plan_parts import PlanPart, Share, as_share
from npusim.hardware.groups import as_tuple
from npusim.hardware.numbers import Positive
from npusim.llm import is_id
from npusim.reading.limits import LEAST_RATE
from npusim.values.errors import FileError

Names = Annotated[tuple[str, ...], BeforeValidator(as_tuple), Field(min_length=1)]
Sizes = Annotated[
    tuple[Annotated[int, Field(gt=0, le=4096)], ...], BeforeValidator(as_tuple), Field(min_length=1)
]
Tokens = Annotated[int, Field(gt=0, le=1 << 20)]
Rate = Annotated[float, Field(ge=LEAST_RATE, le=1e6)]


UNTITLED = "language model"
"""The title of a plan without one: pages have the model's name in its place."""


class LlmWorkload(PlanPart):
    """The model and what is asked of it; lengths lie evenly within `spread` of the means."""

    config: str
    architecture: str | None = None
    dtypes: Names = ("",)
    input_tokens: Tokens
    output_tokens: Tokens
    spread: Annotated[float, Field(ge=0, lt=1)] = 0.0
    prefix_share: Annotated[float, Field(ge=0, lt=1)] = 0.0
    requests_per_s: Rate


class LlmObjective(PlanPart):
    """Limits that `quantile` of the requests have to meet."""

    ttft_ms: Positive
    tpot_ms: Positive
    quantile: Annotated[Share, BeforeValidator(as_share)] = 0.9


class LlmFleet(PricedProducts):
    """What is searched: products, ranks that share a model, and the most sequences of a step."""

    tensor_parallel: Sizes = (1, 2, 4, 8)
    max_sequences: Sizes = (64,)
    max_tokens: Annotated[int, Field(ge=64, le=1 << 17)] = 8192
    spare_replicas: Annotated[int, Field(ge=0, le=100)] = 0


class LlmSimulation(PlanPart):
    """How many requests a run has, and the seed of arrivals and lengths.

    Layouts are compared by runs of `requests`; the answer is confirmed by several runs that get
    longer, up to `max_requests`, until they tell.
    """

    requests: Annotated[int, Field(ge=50, le=1_000_000)] = 300
    max_requests: Annotated[int, Field(ge=50, le=1_000_000)] = 8_000
    seed: Annotated[int, Field(ge=0)] = 0


class LlmPlan(PlanPart):
    """A whole plan."""

    title: str = UNTITLED
    llm: LlmWorkload
    objective: LlmObjective
    fleet: LlmFleet
    simulation: LlmSimulation = LlmSimulation()

    @model_validator(mode="after")
    def _fits_a_step(self) -> LlmPlan:
        if max(self.fleet.max_sequences) > self.fleet.max_tokens:
            raise ValueError("fleet.max_tokens must be no less than fleet.max_sequences")
        return self


def is_language_model(model: Path) -> bool:
    """Whether a model is a language model's config, a folder that holds one, or a hub's id."""
    if model.suffix == ".json" or (model / "config.json").is_file():
        return True
    return not model.exists() and is_id(str(model))


def llm_plan_of(raw: Mapping[str, Any], file: Path) -> LlmPlan:
    """The plan in a mapping; FileError says what is wrong with it, in the keys of the file."""
    try:
        return LlmPlan.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "plan"
        said = first["msg"].removeprefix("Value error, ")
        raise FileError(file, f"{where}: {said}") from None

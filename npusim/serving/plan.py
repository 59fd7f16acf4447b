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
      serving: mixed
      tensor_parallel: [2, 4, 8]
      max_sequences: [32, 128]
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from npusim.capacity.plan import PricedProducts
from npusim.capacity.plan_parts import PlanPart, Share, as_share
from npusim.hardware.groups import as_tuple
from npusim.hardware.numbers import Positive
from npusim.llm import Sampling, is_id
from npusim.reading.limits import LEAST_RATE
from npusim.values.errors import FileError

Names = Annotated[tuple[str, ...], BeforeValidator(as_tuple), Field(min_length=1)]
Sizes = Annotated[
    tuple[Annotated[int, Field(gt=0, le=4096)], ...], BeforeValidator(as_tuple), Field(min_length=1)
]
Graphs = Annotated[
    tuple[Literal["", "full", "piecewise", "eager"], ...],
    BeforeValidator(as_tuple),
    Field(min_length=1),
]
Tokens = Annotated[int, Field(gt=0, le=1 << 20)]
Rate = Annotated[float, Field(ge=LEAST_RATE, le=1e6)]


UNTITLED = "language model"
"""The title of a plan without one: pages have the model's name in its place."""


class LlmSampling(PlanPart):
    """How tokens are taken from logits, as `npusim.llm.Sampling` has it."""

    greedy: bool = False
    top_k: Annotated[int, Field(ge=0, le=1 << 24)] = 20
    top_p: Annotated[float, Field(gt=0, le=1)] = 0.95
    penalties: bool = False

    def as_sampling(self) -> Sampling:
        """The same for a step."""
        return Sampling(self.greedy, self.top_k, self.top_p, self.penalties)


class LlmWorkload(PlanPart):
    """The model and what is asked of it; lengths lie evenly within `spread` of the means.

    With a `draft` of so many tokens, of which `accepted` are on average, plans try both.
    """

    config: str
    architecture: str | None = None
    dtypes: Names = ("",)
    input_tokens: Tokens
    output_tokens: Tokens
    spread: Annotated[float, Field(ge=0, lt=1)] = 0.0
    prefix_share: Annotated[float, Field(ge=0, lt=1)] = 0.0
    requests_per_s: Rate
    sampling: LlmSampling = LlmSampling()
    draft: Annotated[int, Field(ge=0, le=15)] = 0
    accepted: Annotated[float, Field(ge=0, le=15)] = 0.0

    @model_validator(mode="after")
    def _accepts_what_is_drafted(self) -> LlmWorkload:
        if self.accepted > self.draft:
            raise ValueError(f"{self.accepted:g} accepted of a draft of {self.draft}")
        return self

    @property
    def drafts(self) -> tuple[int, ...]:
        """Numbers of tokens that a draft may propose, none first."""
        return (0, self.draft) if self.draft else (0,)

    def tokens_per_step(self, draft: int) -> float:
        """Tokens that a sequence gets in a step."""
        return 1.0 + (self.accepted if draft else 0.0)


class LlmObjective(PlanPart):
    """Limits that `quantile` of the requests have to meet."""

    ttft_ms: Positive
    tpot_ms: Positive
    quantile: Annotated[Share, BeforeValidator(as_share)] = 0.9


class LlmFleet(PricedProducts):
    """What is searched: products, and on each every layout, or those with `tensor_parallel` ranks.

    ``mixed`` cards read prompts and answer, ``apart`` some do either; `max_sequences` of a step
    follow from the limits where they aren't said. Steps of `most_layouts` of a product are timed.
    """

    serving: Literal["both", "mixed", "apart"] = "both"
    tensor_parallel: Sizes | None = None
    max_sequences: Sizes | None = None
    graphs: Graphs = ("",)
    most_layouts: Annotated[int, Field(ge=1, le=1000)] = 12
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
        if max(self.fleet.max_sequences or (0,)) > self.fleet.max_tokens:
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

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
from npusim.llm import Popularity, Sampling, is_id, read_counts
from npusim.reading.limits import LEAST_RATE
from npusim.values.errors import FileError
from npusim.values.language import say

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

    greedy: bool = Field(False, description="take the largest logit")
    top_k: Annotated[int, Field(ge=0, le=1 << 24)] = Field(
        20, description="tokens to draw from; 0: all"
    )
    top_p: Annotated[float, Field(gt=0, le=1)] = Field(
        0.95, description="share of the probability to draw from"
    )
    penalties: bool = Field(False, description="whether repeated tokens are penalised")

    def as_sampling(self) -> Sampling:
        """The same for a step."""
        return Sampling(self.greedy, self.top_k, self.top_p, self.penalties)


class LlmWorkload(PlanPart):
    """The model and what is asked of it.

    Plans try steps with a draft and without.
    """

    config: str = Field(
        description="config.json, its folder, or the id of a model in this machine's cache"
    )
    architecture: str | None = Field(
        None, description="a file that describes a model whose class isn't known"
    )
    dtypes: Names = Field(("",), description="dtypes to try; empty: the config's")
    input_tokens: Tokens = Field(description="tokens of a prompt in the mean")
    output_tokens: Tokens = Field(description="tokens of an answer in the mean")
    spread: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.0, description="how far lengths lie from the mean, as a share of it"
    )
    prefix_share: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.0, description="share of a prompt that the cache holds already"
    )
    requests_per_s: Rate = Field(description="requests/s to be answered")
    expert_skew: Annotated[float, Field(ge=0, le=10)] = Field(
        0.0, description="Zipf's exponent of how popular experts are; 0: all alike"
    )
    expert_counts: str | None = Field(
        None, description="a file with the tokens of each expert, instead of expert_skew"
    )
    sampling: LlmSampling = Field(LlmSampling(), description="how tokens are taken from logits")
    draft: Annotated[int, Field(ge=0, le=15)] = Field(
        0, description="tokens that a draft proposes; 0: no draft"
    )
    accepted: Annotated[float, Field(ge=0, le=15)] = Field(
        0.0, description="tokens of a draft that are accepted in the mean"
    )

    @model_validator(mode="after")
    def _accepts_what_is_drafted(self) -> LlmWorkload:
        if self.accepted > self.draft:
            raise ValueError(
                say("{accepted:g} accepted of a draft of {draft}").format(
                    accepted=self.accepted, draft=self.draft
                )
            )
        return self

    @property
    def popularity(self) -> Popularity | None:
        """How tokens go to experts; None where evenly."""
        if self.expert_counts is not None:
            return read_counts(Path(self.expert_counts))
        return Popularity(self.expert_skew) if self.expert_skew else None

    @property
    def drafts(self) -> tuple[int, ...]:
        """Numbers of tokens that a draft may propose, none first."""
        return (0, self.draft) if self.draft else (0,)

    def tokens_per_step(self, draft: int) -> float:
        """Tokens that a sequence gets in a step."""
        return 1.0 + (self.accepted if draft else 0.0)


class LlmObjective(PlanPart):
    """Limits that requests have to meet."""

    ttft_ms: Positive = Field(description="limit of the time to the first token, ms")
    tpot_ms: Positive = Field(description="limit of the time of each further token, ms")
    quantile: Annotated[Share, BeforeValidator(as_share)] = Field(
        0.9, description="share of the requests that must meet each: p90 or 0.9"
    )
    availability: Annotated[Share, BeforeValidator(as_share)] = Field(
        0.999, description="share of the time that enough replicas work, where cards fail"
    )


class LlmFleet(PricedProducts):
    """What is searched: products, and on each every layout or some."""

    serving: Literal["both", "mixed", "apart"] = Field(
        "both",
        description=(
            "`mixed`: cards read prompts and answer; `apart`: some do either; `both`: "
            "either is tried"
        ),
    )
    tensor_parallel: Sizes | None = Field(
        None, description="ranks of tensor parallelism to try; else all layouts"
    )
    max_sequences: Sizes | None = Field(
        None,
        description="limits of sequences in a step to try; else what follows from the objective",
    )
    graphs: Graphs = Field(
        ("",), description="how steps are launched; empty: as the engine does by default"
    )
    most_layouts: Annotated[int, Field(ge=1, le=1000)] = Field(
        24, description="layouts of a product of which steps are timed"
    )
    max_tokens: Annotated[int, Field(ge=64, le=1 << 17)] = Field(
        8192, description="most tokens of a step"
    )
    spare_replicas: Annotated[int, Field(ge=0, le=100)] = Field(
        0, description="replicas that may be down"
    )
    card_mtbf_h: Positive | None = Field(
        None, description="mean hours between failures of a card; spare replicas follow from it"
    )
    repair_h: Positive = Field(24.0, description="hours until a card that failed works again")
    router: Literal["round_robin", "least_loaded"] = Field(
        "round_robin", description="which replica and group gets a request"
    )


class LlmSimulation(PlanPart):
    """How many requests a run has, and the seed of arrivals and lengths."""

    requests: Annotated[int, Field(ge=50, le=1_000_000)] = Field(
        300, description="requests of a run that compares layouts"
    )
    max_requests: Annotated[int, Field(ge=50, le=1_000_000)] = Field(
        8_000, description="requests that a confirming run may grow to"
    )
    seed: Annotated[int, Field(ge=0)] = Field(
        0, description="what arrivals and lengths follow from"
    )


class LlmPlan(PlanPart):
    """A whole plan."""

    title: str = Field(UNTITLED, description="heading of the page")
    llm: LlmWorkload = Field(description="the model and what is asked of it")
    objective: LlmObjective = Field(description="what must hold")
    fleet: LlmFleet = Field(description="what is searched")
    simulation: LlmSimulation = Field(LlmSimulation(), description="how much is simulated")

    @model_validator(mode="after")
    def _fits_a_step(self) -> LlmPlan:
        if max(self.fleet.max_sequences or (0,)) > self.fleet.max_tokens:
            raise ValueError(say("fleet.max_tokens must be no less than fleet.max_sequences"))
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

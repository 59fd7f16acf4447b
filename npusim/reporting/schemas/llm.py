"""Language models, and collectives."""

from __future__ import annotations

from npusim.reporting.schemas.common import Band, Json, Number, Object


class Layout(Object):
    """How a language model is spread over cards."""

    tp: int
    pp: int
    dp: int
    experts: int
    cards: int
    sp: bool = False


class LlmStep(Object):
    """A step of a language model: `llm step`."""

    soc: str
    graph: str | bool
    step_ms: Number
    compute_ms: Number
    communication_ms: Number
    host_ms: Number
    beside_ms: Number
    band_ms: Band
    tok_s: Number
    model: str
    layout: Layout
    dtype: str
    batch: Json
    simulated_share: Number
    memory: Json
    operators: list[Json]
    collectives: list[Json]
    replaced: Json
    refused: list[Json]
    notes: list[str]
    parameters: int
    draft_parameters: int
    approximated: list[Json]


class LlmServed(Object):
    """Requests served by a language model: `llm serve`."""

    soc: str
    model: str
    layout: Layout
    decode_layout: Layout
    """That of the cards that decode, the same where all cards do both."""
    requests: int
    duration_s: Number
    output_tok_s: Number
    req_s: Number
    goodput_req_s: Number
    in_flight: Number
    preemptions: int
    steps: int
    busy_share: Number
    kv_tokens: int
    most_kv_tokens: int
    ttft_ms: Json
    tpot_ms: Json
    end_to_end_ms: Json
    step_band: Band
    memory: Json
    definitions: dict[str, str]


class LlmBenched(Object):
    """The same in the keys of ``vllm bench serve``: `llm serve --bench-json`."""

    backend: str
    model_id: str
    num_prompts: int
    completed: int
    failed: int
    duration: Number
    total_input_tokens: int
    total_output_tokens: int
    request_throughput: Number
    request_goodput: Number
    output_throughput: Number
    total_token_throughput: Number
    mean_ttft_ms: Number
    median_ttft_ms: Number
    std_ttft_ms: Number
    p90_ttft_ms: Number
    p99_ttft_ms: Number
    mean_tpot_ms: Number
    median_tpot_ms: Number
    std_tpot_ms: Number
    p90_tpot_ms: Number
    p99_tpot_ms: Number
    mean_e2el_ms: Number
    median_e2el_ms: Number
    std_e2el_ms: Number
    p90_e2el_ms: Number
    p99_e2el_ms: Number


class LlmTraining(Object):
    """A training step of a language model: `llm train`."""

    soc: str
    step_ms: Number
    forward_ms: Number
    backward_ms: Number
    communication_ms: Number
    bubble_ms: Number
    exchange_ms: Number
    update_ms: Number
    band_ms: Band
    tok_s_per_card: Number
    simulated_share: Number
    model: str
    layout: Layout
    training: Json
    memory: Json
    replaced: Json


class LlmSteps(LlmStep):
    """The first chip's answer, and in `answers` those of all."""

    answers: list[LlmStep]


class LlmServedAll(LlmServed):
    """The first chip's answer, and in `answers` those of all."""

    answers: list[LlmServed]


class LlmBenchedAll(LlmBenched):
    """The first chip's answer, and in `answers` those of all."""

    answers: list[LlmBenched]


class LlmTrainings(LlmTraining):
    """The first chip's answer, and in `answers` those of all."""

    answers: list[LlmTraining]


class Collective(Object):
    """A collective operation on some ranks."""

    operation: str
    interconnect: str
    ranks: int
    nbytes: int
    algorithm: str
    engine: str
    steps: int
    duration_us: Number
    band_us: Band
    band_basis: str
    closed_form_us: Number
    algbw_gbps: Number
    soc: str = ""


class Collectives(Collective):
    """The first answer, and in `answers` all: `collective`."""

    answers: list[Collective]

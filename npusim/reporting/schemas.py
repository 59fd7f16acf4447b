"""What `--json` prints, verb by verb, as models: `npusim schema` makes a JSON Schema of them.

Numbers that aren't finite are the strings "nan", "inf" and "-inf". Units stand in the names.
The tests hold every JSON that the command line prints against these models.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter
from typing_extensions import TypedDict  # pydantic's own; typing's knows too little before 3.12

from npusim.values.errors import UnknownNameError

Number = float | Literal["nan", "inf", "-inf"]
Band = tuple[Number, Number]
Json = dict[str, Any]


class _Object(BaseModel):
    """An object that has these keys and no others."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class Status(_Object):
    """An aclnn status: 0 is a yes, anything else says why not and what to do."""

    code: int
    name: str
    ok: bool
    message: str
    remedy: str


class Problem(_Object):
    """Why there is no answer at all."""

    kind: str
    exit_code: int
    code: int | None
    message: str
    remedy: str


class Failed(_Object):
    """What any verb prints when it fails; the exit code of the command is in it."""

    error: Problem


class Tensor(_Object):
    """A tensor, with data where it is small."""

    dtype: str
    shape: list[int]
    format: str | None = None
    data: list[Any] | None = None
    note: str = ""


class Task(_Object):
    """A task on the device, named by its OpType; `pipes` are busy ratios after the launch."""

    name: str
    block_dim: int
    start_us: Number
    duration_us: Number
    launch_us: Number
    cycles: int
    bound: str
    pipes: dict[str, Number]
    bytes_read: int
    bytes_written: int


class Answer(_Object):
    """One chip's answer: a status or an error, and for a time what it is made of."""

    soc: str
    product_line: str
    ok: bool
    status: Status | None = None
    error: Problem | None = None
    duration_us: Number | None = None
    band_us: Band | None = None
    """The 80 % band of `duration_us`."""
    band_basis: str | None = None
    cycles: int | None = None
    bound: str | None = None
    pipes: dict[str, Number] | None = None
    workspace_size: int | None = None
    """Bytes."""
    tasks: list[Task] | None = None
    assumptions: list[str] | None = None
    outputs: dict[str, Tensor] | None = None
    comparisons: list[Json] | None = None


class Call(_Object):
    """A call on one chip or several: `check`, `estimate` and `run`."""

    op: str
    arguments: Json
    answers: list[Answer]


class Demo(Call):
    """What `npusim demo` found, and where its trace is."""

    trace: str


class Case(Answer):
    """A case of a file and how it went."""

    name: str
    verdict: str
    note: str


class Cases(_Object):
    """A file of cases, played: `run --case`."""

    file: str
    cases: list[Case]


class CatalogueAnswer(_Object):
    """What the catalogue knows of an operator on a product family."""

    operator: str
    kind: str
    family: str
    soc: str | None
    verdict: str
    by_page: str
    by_operator_information: str
    disagree: bool
    why: str
    remedy: str
    status: Status | None
    supported_by: list[str]
    notes: list[str]
    evidence: list[Json]
    parameters: list[Json]


class CatalogueAnswers(_Object):
    """An operator that only the catalogue knows: `check`."""

    answers: list[CatalogueAnswer]


class ModelCheck(_Object):
    """Every operator of a model on every product asked: `check --model`."""

    model: str
    kind: str
    ok: bool
    products: list[Json]
    operators: list[Json]
    notes: list[str]


class Step(_Object):
    """A step of a model on a chip; `verdict` says it in a sentence."""

    verdict: str
    model: str
    batch: int | None
    soc: str
    product_line: str
    runs: bool
    l2: str
    streams: int
    measured_on: str | None
    duration_us: Number
    band_us: Band
    band_basis: str
    items_per_s: Number | None
    device_us: Number
    host_dispatch_us: Number | None
    eager: Json
    measured_us: Number | None
    error: Number | None
    simulated_error: Number | None
    calibrated_share: Number
    simulated_share: Number
    not_simulated_share: Number
    not_counted: int
    launches: int
    classes: list[Json]
    bounds: list[Json]
    operators: list[Json]
    dtypes: list[Json]
    memory: Json
    passes: list[Any]
    tasks: list[Json]
    assumptions: list[str]


class Steps(_Object):
    """A model on one chip or several, at one batch or several: `model`.

    `best` is each chip's best batch, where several were asked or a latency limit; null where no
    batch keeps it.
    """

    answers: list[Step]
    best: list[Json] | None = None


class Layout(_Object):
    """How a language model is spread over cards."""

    tp: int
    pp: int
    dp: int
    experts: int
    cards: int


class LlmStep(_Object):
    """A step of a language model: `llm step`."""

    soc: str
    graph: str | bool
    step_ms: Number
    compute_ms: Number
    communication_ms: Number
    host_ms: Number
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


class LlmServed(_Object):
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


class LlmTraining(_Object):
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


class LlmTrainings(LlmTraining):
    """The first chip's answer, and in `answers` those of all."""

    answers: list[LlmTraining]


class Collective(_Object):
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


class Judged(_Object):
    """A profile against estimates, kernel by kernel: `judge`."""

    name: str
    soc: str
    kernels: int
    compared: int
    unusual: list[Json]
    findings: list[Json]
    classes: list[Json]


class FitError(_Object):
    """Mean absolute logarithms of estimated over measured time, each at most 0.5."""

    kernels: int
    error_before: Number
    error_after: Number


class FittedConstant(_Object):
    """A number of the chip before and after a fit, and how many kernels depend on it."""

    key: str
    meaning: str
    before: Number
    after: Number
    kernels: int
    moved: bool


class Calibrated(_Object):
    """A chip fitted to a profile: `calibrate`; `holds` says whether a file is written."""

    name: str
    soc: str
    holds: bool
    verdict: str
    launches: int
    fitted: FitError
    aside: FitError
    constants: list[FittedConstant]


class PlannedProduct(_Object):
    """A product's answer to a plan; `cards` is null where there is none, and `reason` says why."""

    product: str
    soc: str
    devices_per_card: int
    meets: bool
    verdict: str
    reason: str
    remedy: str
    cards: Json | None
    not_simulated_share: Number | None
    card_requests_per_s: Number | None
    headroom: Number | None
    by_cards: list[Json]
    at_peak: Json | None
    at_mean: Json | None
    spare_cards_down: Json | None
    a_card_fails: Json | None
    share_of_time_short_of_cards: Number | None
    memory: Json | None
    power_w: Any
    cost: Json | None
    what_if: list[Json]
    cards_by_load: list[Json]
    models: list[Json]


class Planned(_Object):
    """Cards for a workload, product by product: `plan` and `recommend`."""

    title: str
    verdict: list[str]
    mean_requests_per_s: Number
    peak_requests_per_s: Number
    arrivals: str
    plan: Json
    products: list[PlannedProduct]
    assumptions: list[str]


class LlmPlanned(_Object):
    """Cards for a language model: `plan` and `recommend`; null where no product meets limits."""

    title: str
    verdict: list[str]
    model: str
    cards: int | None
    product: str | None
    currency: str | None
    options: list[Json]
    what_ifs: Json


class Trace(_Object):
    """What was written: `trace`."""

    path: str
    slices: int
    cores: int
    end_us: Number


class ModelTrace(_Object):
    """What was written of a model's step: `trace`."""

    path: str
    slices: int
    streams: int
    end_us: Number


class Sweep(_Object):
    """How the points went: `sweep`."""

    spec: str
    file: str
    points: int
    answered_now: int
    ok: int
    rejected: int
    error: int
    seconds: Number
    points_per_s: Number


class Accuracy(_Object):
    """Errors as fractions of the measured time."""

    rows: int
    modelled: int
    median_abs_error: Number | None
    p90_abs_error: Number | None
    bias: Number | None
    rank_correlation: Number | None
    in_band: Number | None
    roofline_median_abs_error: Number | None


class Workload(_Object):
    """A workload's kernels added up."""

    rows: int
    measured_us: Number
    modelled_ratio: Number
    error: Number
    absolute_error: Number


class Validated(_Object):
    """Measured rows replayed: `validate`."""

    overall: Accuracy
    by_chip: dict[str, Accuracy]
    by_family: dict[str, Accuracy]
    by_workload: dict[str, Workload]
    not_modelled: dict[str, int]


class Summary(_Object):
    """An operator in a list."""

    name: str
    summary: str
    products: list[str]


class Contract(Summary):
    """An operator's page: `ops show`."""

    parameters: list[Json]
    return_codes: list[Json]
    limits: Any
    notes: Any
    source: Any
    typical: Any


class Entry(_Object):
    """An interface on a product family: `ops --search`."""

    operator: str
    family: str
    by_page: str
    by_operator_information: str
    verdict: str
    dtypes: Any
    doubted_dtypes: Any


class Difference(_Object):
    """What two products differ in: `ops --diff`."""

    first: str
    second: str
    common: Any
    only_first: Any
    only_second: Any
    other_dtypes: list[Json]


class Coverage(_Object):
    """How far an interface is modelled on a family: `ops coverage`."""

    api: str
    family: str
    folder: str
    runs: str
    why: str


class Chip(_Object):
    """A chip: `profiles`; `values` (of `profiles show`) have sources and confidences."""

    name: str
    family: str
    product_line: str
    architecture: str
    aliases: list[str]
    cores: Json
    clock_mhz: Number
    values: dict[str, Json] | None = None


class Chips(_Object):
    """All chips and products: `profiles`."""

    chips: list[Chip]
    products: list[Json]


VERBS: Final[dict[str, tuple[Any, ...]]] = {
    "check": (Call, CatalogueAnswers, ModelCheck),
    "estimate": (Call,),
    "run": (Call, Cases),
    "model": (Steps,),
    "llm": (LlmSteps, LlmServedAll, LlmTrainings),
    "collective": (Collectives,),
    "judge": (Judged,),
    "calibrate": (Calibrated,),
    "plan": (Planned, LlmPlanned),
    "recommend": (Planned, LlmPlanned),
    "trace": (Trace, ModelTrace),
    "sweep": (Sweep,),
    "ops": (
        list[Summary | Json],
        list[Entry],
        Contract,
        Difference,
        list[Coverage],
        CatalogueAnswers,
    ),
    "profiles": (Chips, Chip),
    "validate": (Validated,),
    "demo": (Demo,),
}
"""The verbs that take ``--json``, and what each of them prints; `Failed` comes with all."""


def schema(verb: str = "") -> dict[str, Any]:
    """The JSON Schema (2020-12) of what a verb prints, or of everything that any verb prints.

    Raises UnknownNameError for a verb that prints no JSON.
    """
    if verb and verb not in VERBS:
        raise UnknownNameError("verb with --json", verb, VERBS)
    kinds = {name: reduce(or_, models, Failed) for name, models in VERBS.items()}
    if verb:
        title, made = f"npusim {verb} --json", TypeAdapter(kinds[verb]).json_schema()
    else:
        every = TypedDict("Verbs", kinds, total=False)  # type: ignore[misc]
        title, made = "npusim --json, by verb", TypeAdapter(every).json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made, "title": title}

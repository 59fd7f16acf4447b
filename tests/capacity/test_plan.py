"""Plans: wrong ones are refused in one clear sentence, right ones answered for every product."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npusim.capacity.assumptions import assumptions
from npusim.capacity.boards import Board, find_board
from npusim.capacity.demand import Demand
from npusim.capacity.plan import Plan, plan_of, read_plan
from npusim.capacity.planning import LOADS, evaluate
from npusim.capacity.results import PlanResult, ProductResult, Verdict
from npusim.capacity.service import ServiceCurve, ServicePoint
from npusim.reporting.plan.data import plan_json
from npusim.reporting.plan.verdicts import verdicts
from npusim.values.errors import (
    ArgumentError,
    FileError,
    KernelError,
    UnknownNameError,
    UsageError,
)

BASE: dict[str, Any] = {
    "workload": {
        "models": [
            {"name": "head", "curve": {"batch": [1, 4, 8], "latency_ms": [4, 9, 15]}},
        ],
        "peak_requests_per_s": 900,
        "batching": {"max_batch": 8, "max_wait_ms": 5},
    },
    "objective": {"quantile": "p90", "limit_ms": 60},
    "fleet": {"products": ["Small"]},
    "simulation": {"runs": 3, "requests": 500, "max_requests": 1000, "max_cards": 64},
}

BOARDS = {
    "Small": Board("Small card", "Ascend310P3", 1, 4, 8_000, 70.0, "a table"),
    "Duo": Board("Duo card", "Ascend310P3", 2, 8, 24_000, 150.0, "a table", "Two chips."),
    "Chip": Board("Ascend910B3", "Ascend910B3", 1, None, None, None, "a table"),
}


def changed(*changes: tuple[str, Any]) -> dict[str, Any]:
    """The base plan with values at dotted paths replaced, or removed where the value is ``...``."""
    raw = copy.deepcopy(BASE)
    for path, value in changes:
        *steps, last = (int(step) if step.isdigit() else step for step in path.split("."))
        place: Any = raw
        for step in steps:
            place = place[step] if isinstance(step, int) else place.setdefault(step, {})
        if value is ...:
            del place[last]
        else:
            place[last] = value
    return raw


def answer(*changes: tuple[str, Any], **options: Any) -> PlanResult:
    return evaluate(plan_of(changed(*changes)), board_of=BOARDS.__getitem__, **options)


def only(*changes: tuple[str, Any], **options: Any) -> ProductResult:
    (product,) = answer(*changes, **options).products
    return product


# Wrong plans


MEAN, PEAK = "workload.mean_requests_per_s", "workload.peak_requests_per_s"
ARRIVALS, BATCHING = "workload.arrivals", "workload.batching"


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        (PEAK, -5, "workload.peak_requests_per_s is -5; it must be at least 1e-06"),
        (PEAK, 0, "it must be at least 1e-06"),
        (PEAK, "many", "workload.peak_requests_per_s is 'many'; it must be a number"),
        (PEAK, "1e3", "it must be a number (write 1000 without quotes or exponent)"),
        (PEAK, True, "it must be a number"),
        (PEAK, float("inf"), "it must be finite"),
        (PEAK, ..., "workload: mean_requests_per_s is missing; only a trace brings its own rate"),
        (MEAN, 1000, "mean_requests_per_s is 1000, more than peak_requests_per_s, 900"),
        ("workload.peak_request_per_s", 5, "unknown key 'peak_request_per_s'. Did you mean peak_"),
        ("workload.models", [], "workload.models is []; it needs at least one entry"),
        ("workload.models", "head", "workload.models is 'head'; it must be a list"),
        ("workload.models.0.name", ..., "workload.models.0.name is missing"),
        ("workload.models.0.curve", ..., "needs one of reference, curve and curves, and has none"),
        ("workload.models.0.reference", "x", "and has reference and curve"),
        ("workload.models.0.share", 0, "workload.models.0.share is 0; it must be greater than 0"),
        (
            "workload.models.0.items_per_request",
            9,
            "max_batch is 8 but one request of model 'head'",
        ),
        ("workload.models.0.batching", {"max_batch": 1, "max_wait_ms": 2}, "waits for nobody"),
        ("workload.models.0.curve.latency_ms", [4], "1 values of latency_ms for 3 batches"),
        ("workload.models.0.curve.batch", [1, 1, 2], "two points for batch 1"),
        ("workload.models.0.curve.lo_ms", [5, 9, 15], "lie within their band"),
        ("workload.models.0.curve", 7, "it must be a mapping of keys to values"),
        (BATCHING, {"max_batch": 1, "max_wait_ms": 3}, "a batch of one waits for nobody"),
        (BATCHING, {"max_batch": 0}, "workload.batching.max_batch is 0; it must be greater than 0"),
        (BATCHING, {"max_batch": 2.5}, "it must be a whole number"),
        (BATCHING, {"max_batch": 8, "max_wait_ms": -1}, "max_wait_ms is -1; it must be at least 0"),
        (BATCHING, {"max_batch": 8, "max_wait_ms": 60}, "late before it is served"),
        (ARRIVALS, "poison", "workload.arrivals is 'poison'; it must be one of poisson, constant"),
        (ARRIVALS, {"gap_cv": 2}, "workload.arrivals.kind is missing"),
        (ARRIVALS, {"kind": "gamma"}, "workload.arrivals.gap_cv is missing"),
        (ARRIVALS, {"kind": "gamma", "cv": 1}, "unknown key 'cv'"),
        (ARRIVALS, 3, "workload.arrivals is 3; it must be a mapping of keys to values"),
        (
            ARRIVALS,
            {"kind": "bursty", "burst_ratio": 4, "burst_share": 0.5, "burst_s": 1},
            "carry 200% of the requests",
        ),
        (
            ARRIVALS,
            {"kind": "bursty", "burst_ratio": 4, "burst_share": 0.1, "burst_s": -1},
            "workload.arrivals.burst_s is -1; it must be greater than 0",
        ),
        ("objective", ..., "objective is missing"),
        ("objective.limit_ms", -1, "objective.limit_ms is -1; it must be greater than 0"),
        ("objective.quantile", 99, "objective.quantile is 99; it must be less than 1"),
        ("objective.quantile", "p100", "objective.quantile is 1.0; it must be less than 1"),
        ("objective.quantile", "99%", "objective.quantile is '99%'; it must be a number"),
        ("objective.availability", "N+3", "it must be 'N', 'N+1' or 'N+2'"),
        ("objective.target_utilisation", 1.2, "it must be less than 1"),
        ("fleet.products", [], "it needs at least one entry"),
        ("fleet.products", [{"product": "Small", "price_per_card": 9}], "the fleet no currency"),
        ("fleet.dispatch", "rr", "it must be 'shared', 'least_loaded', 'round_robin' or 'random'"),
        ("fleet.mtbf_h", 1000, "mtbf_h and mttr_h belong together"),
        ("simulation.runs", 0, "simulation.runs is 0; it must be at least 2"),
        ("simulation.seed", 1.5, "simulation.seed is 1.5; it must be a whole number"),
        ("title", 5, "title is 5; it must be text"),
        ("workload", [], "workload is []; it must be a mapping of keys to values"),
    ],
)
def test_a_wrong_plan_is_refused_in_one_sentence(path: str, value: Any, complaint: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        plan_of(changed((path, value)))
    assert complaint in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.exit_code == 2


def test_every_mistake_of_a_plan_is_named() -> None:
    raw = changed((PEAK, -1), ("objective.limit_ms", 0), ("fleet.dispatch", "x"))
    with pytest.raises(ArgumentError) as caught:
        plan_of(raw)
    assert len(caught.value.message.splitlines()) == 3


@pytest.mark.parametrize(
    ("changes", "complaint", "remedy"),
    [
        (
            [("objective.limit_ms", 3.5), ("workload.batching.max_wait_ms", 0)],
            "one request of model 'head' takes 4 ms on an idle Small card, and the limit is 3.5 ms",
            "a limit above 4 ms can be met",
        ),
        (
            [("objective.limit_ms", 10)],
            "a full batch of 8 items of model 'head' takes 15 ms on Small card, and the limit is",
            "max_batch: 4 would fit",
        ),
        (
            [("objective.limit_ms", 19)],
            "may wait 5 ms for its batch, which then takes up to 15 ms on Small card, and the",
            "max_wait_ms up to 4 would fit",
        ),
        (
            [("workload.batching.max_batch", 16)],
            "batches of 16 items on Small card, where its latency is known for up to 8",
            "set max_batch to 8 or less",
        ),
    ],
)
def test_a_limit_that_no_fleet_can_keep_is_refused(
    changes: list[tuple[str, Any]], complaint: str, remedy: str
) -> None:
    with pytest.raises(ArgumentError) as caught:
        answer(*changes)
    assert complaint in caught.value.message
    assert remedy in caught.value.remedy


def test_an_unknown_board_is_answered_with_its_neighbours() -> None:
    plan = plan_of(changed(("fleet.products", ["Atlas 300I Dua"])))
    with pytest.raises(UnknownNameError, match="Did you mean Atlas 300I Duo"):
        evaluate(plan)


def test_a_plan_file_is_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "PLAN.yaml"
    for text, complaint in [
        ("workload: [", "is no YAML"),
        ("- 1", "holds no mapping"),
        ("workload: 5", "workload is 5"),
    ]:
        file.write_text(text)
        with pytest.raises(FileError) as caught:
            read_plan(file)
        assert str(file) in str(caught.value)
        assert complaint in str(caught.value)
    with pytest.raises(FileError, match="there is no such file"):
        read_plan(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n", "the trace has no requests"),
        ("", "the trace is empty"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\nnow,1,1\n", "line 2: TIMESTAMP is 'now'"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,1,1\n", "no rate"),
    ],
)
def test_a_useless_trace_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "day.csv").write_text(text)
    trace = {"kind": "trace", "file": "day.csv"}
    with pytest.raises(UsageError, match=complaint):
        answer((ARRIVALS, trace), (PEAK, ...), folder=tmp_path)


def test_a_trace_scales_to_one_rate_only() -> None:
    with pytest.raises(ArgumentError, match="not both"):
        plan_of(changed((ARRIVALS, {"kind": "trace", "file": "x"}), (MEAN, 5)))


def test_models_that_nobody_can_time_are_refused() -> None:
    by_reference = (("workload.models.0.curve", ...), ("workload.models.0.reference", "x.yaml"))
    with pytest.raises(ArgumentError, match="nothing is there to time it"):
        answer(*by_reference)
    curves = {"Smal": {"batch": [8], "latency_ms": [9]}}
    with pytest.raises(UnknownNameError, match="Did you mean Smal"):
        answer(("workload.models.0.curve", ...), ("workload.models.0.curves", curves))


# Answers


def test_a_plan_is_answered_from_the_first_card_to_the_last() -> None:
    result = answer(
        (MEAN, 300),
        ("objective.availability", "N+1"),
        ("fleet.products", ["Small", "Duo"]),
        ("workload.models.0.curve.hi_ms", [6, 13, 22]),
    )
    assert (result.mean_per_s, result.peak_per_s, result.arrivals) == (300, 900, "Poisson")
    small, duo = result.products
    # 8 in 15 ms is 533 a second; at 70 % that takes 2.4 cards, or 1.2 with two chips each. The
    # queue forms smaller batches, with which three cards are busy for 79 % of the time.
    assert small.card_rate_per_s == pytest.approx(8 / 15e-3)
    assert duo.card_rate_per_s == pytest.approx(16 / 15e-3)
    assert small.count is not None
    assert duo.count is not None
    assert (small.count.closed_form, small.count.working, small.count.installed) == (3, 4, 5)
    assert (duo.count.closed_form, duo.count.working, duo.count.installed) == (2, 2, 3)
    assert (small.count.servers, duo.count.servers) == (2, 1)
    assert (small.count.limited_by, duo.count.limited_by) == ("utilisation", "throughput")
    assert small.headroom is not None
    assert 0 <= small.headroom <= 4 * 533.4 * 0.7 / 900 - 1
    assert [product.board.name for product in result.meeting] == ["Duo card", "Small card"]
    for product in result.products:
        check_operations(product)


def check_operations(product: ProductResult) -> None:
    assert product.verdict is Verdict.MEETS
    assert product.count is not None
    for operation, cards, rate in (
        (product.at_peak, product.count.installed, 900),
        (product.at_mean, product.count.installed, 300),
        (product.degraded, product.count.working, 900),
        (product.failing, product.count.installed, 900),
    ):
        assert operation is not None
        assert (operation.cards, operation.rate_per_s, operation.meets) == (cards, rate, True)
        assert operation.latency_us.lo <= operation.latency_us.mean <= operation.latency_us.hi
        assert 4_000 <= operation.latency_us.mean <= 60_000
        quantiles = [estimate.mean for _, estimate in operation.quantiles_us]
        assert quantiles == sorted(quantiles)
        assert dict(operation.quantiles_us)[0.9] == operation.latency_us
        assert operation.by_model_us == (("head", operation.latency_us),)
        assert 0 < operation.utilisation.mean < 1
        assert 1 <= operation.mean_batch <= 8
    assert product.at_peak is not None
    assert product.at_mean is not None
    assert product.degraded is not None
    assert product.failing is not None
    assert product.at_mean.utilisation.mean < product.at_peak.utilisation.mean
    assert product.at_peak.utilisation.mean < product.degraded.utilisation.mean <= 0.7
    assert 0 <= product.failing.run.interrupted <= product.board.devices_per_card
    counts = [cards for _, cards in product.cards_by_load]
    assert None not in counts
    assert counts == sorted(counts)  # type: ignore[type-var]
    assert dict(product.cards_by_load)[900] == product.count.installed
    assert len(counts) == len(LOADS)
    twice, slow = product.scenarios
    assert twice.rate_per_s == 1800
    assert twice.cards == dict(product.cards_by_load)[1800]
    assert slow.rate_per_s == 900
    assert slow.cards is not None
    assert slow.cards >= product.count.installed


def test_a_slow_end_beyond_the_limit_is_told() -> None:
    product = only(("workload.models.0.curve.hi_ms", [70, 80, 90]))
    assert product.meets
    slow = product.scenarios[1]
    assert slow.cards is None
    assert "takes 70 ms" in slow.reason
    assert slow.planned is None, "the planned fleet can't even keep up"


def test_the_same_seed_gives_the_same_answer_and_another_one_another() -> None:
    def numbers(seed: int) -> list[Any]:
        product = only(("simulation.seed", seed))
        assert product.at_peak is not None
        return [product.count, product.cards_by_load, product.at_peak.quantiles_us]

    assert numbers(1) == numbers(1)
    assert numbers(1)[2] != numbers(2)[2]


def test_more_memory_than_there_is_takes_no_cards() -> None:
    path = "workload.models.0.curve.memory_bytes"
    fitting, full = only((path, [1000, 2000, 8000])), only((path, [1000, 2000, 8001]))
    assert fitting.memory is not None
    assert fitting.memory.fits
    assert fitting.meets
    assert full.verdict is Verdict.NO_MEMORY
    assert "8,001 bytes, a device has 8,000" in full.reason
    assert full.count is None
    assert only((path, [1000, 2000, 8001]), ("fleet.products", ["Chip"])).memory is None
    assert only().memory is None


def test_what_the_plan_knows_better_wins() -> None:
    known = {
        "product": "Small",
        "cards_per_server": 1,
        "power_w_per_card": 100,
        "memory_bytes_per_device": 5,
    }
    product = only(("fleet.products", [known]))
    assert product.count is not None
    assert product.count.servers == product.count.installed
    assert product.power_w == 100 * product.count.installed
    assert product.board.memory_bytes_per_device == 5


def test_prices_are_used_and_never_made_up() -> None:
    assert only().cost is None
    bare = only(("fleet.products", ["Chip"]))
    assert bare.count is not None
    assert (bare.power_w, bare.count.servers) == (None, None)
    priced = only(
        (MEAN, 200),
        ("fleet.products", [{"product": "Small", "price_per_card": 5, "price_per_card_hour": 0.9}]),
        ("fleet.currency", "CNY"),
    )
    assert priced.cost is not None
    assert priced.count is not None
    assert priced.cost.per_hour is not None
    assert priced.cost.purchase == 5 * priced.count.installed
    assert priced.cost.per_hour == pytest.approx(0.9 * priced.count.installed)
    assert priced.cost.per_million_requests == pytest.approx(priced.cost.per_hour / 0.72)


def test_failure_rates_give_the_time_with_too_few_cards() -> None:
    rates = (("fleet.mtbf_h", 900), ("fleet.mttr_h", 100))
    alone, spared = only(*rates), only(*rates, ("objective.availability", "N+1"))
    assert alone.short_share == pytest.approx(1 - 0.9**4)
    assert spared.short_share == pytest.approx(1 - 0.9**5 - 5 * 0.1 * 0.9**4)
    assert only().short_share is None


def test_without_a_stated_batch_the_fastest_that_is_in_time_twice_is_taken() -> None:
    for limit_ms, max_batch in [(60, 8), (29, 7), (18, 4)]:
        product = only((BATCHING, {}), ("objective.limit_ms", limit_ms))
        assert product.models[0].max_batch == max_batch
        assert not product.models[0].stated
    grouped = only((BATCHING, {}), ("workload.models.0.items_per_request", 3))
    assert grouped.models[0].max_batch == 6
    assert grouped.card_rate_per_s == pytest.approx(2 / 12e-3)


def test_too_many_cards_is_an_answer() -> None:
    product = only((PEAK, 1e6))
    assert product.verdict is Verdict.TOO_MANY_CARDS
    assert "64 cards don't carry 1e+06 requests/s" in product.reason
    assert product.count is None


@dataclass
class Source:
    """Curves by SoC: the 310P takes twice as long, and the 910B3 can't run the model bf16."""

    asked: list[tuple[str, str | None, str]] = field(default_factory=list)

    def curve(self, model: Any, product: Any) -> ServiceCurve:
        self.asked.append((model.name, model.reference, product.soc))
        if model.name == "bf16" and product.soc == "Ascend910B3":
            raise KernelError("vadd", "doesn't take bfloat16", "Cast to FLOAT16.")
        slow = 2.0 if product.soc == "Ascend310P3" else 1.0
        sizes = ((1, 2500), (8, 6000))
        return ServiceCurve.of(
            (ServicePoint(n, slow * us, slow * us, slow * us) for n, us in sizes), "from a test"
        )


def test_references_are_timed_by_the_source_on_product_names() -> None:
    source = Source()
    models = [{"name": "fp16", "reference": "a.yaml"}, {"name": "bf16", "reference": "b.yaml"}]
    result = answer(
        ("workload.models", models),
        ("fleet.products", ["Small", "Chip"]),
        latencies=source,
    )
    small, chip = result.products
    assert small.meets
    assert small.models[0].batch_us(8) == 12_000
    assert chip.verdict is Verdict.CANT_RUN
    assert (chip.reason, chip.remedy) == (
        "kernel vadd: doesn't take bfloat16",
        "Cast to FLOAT16.",
    )
    assert ("fp16", "a.yaml", "Ascend310P3") in source.asked
    assert result.meeting == (small,)
    assert any("latencies from a test" in line for line in result.assumptions)


def test_one_product_too_slow_leaves_the_others_an_answer() -> None:
    curves = {
        "Small": {"batch": [8], "latency_ms": [70]},
        "Ascend910B3": {"batch": [8], "latency_ms": [10]},
    }
    result = answer(
        ("workload.models.0.curve", ...),
        ("workload.models.0.curves", curves),
        ("fleet.products", ["Small", "Chip"]),
    )
    small, chip = result.products
    assert small.verdict is Verdict.TOO_SLOW
    assert "takes 70 ms on an idle Small card" in small.reason
    assert chip.meets


def test_a_trace_brings_its_rates_and_can_be_scaled(tmp_path: Path) -> None:
    calm, rush = np.arange(0, 600, 2.0), 600 + np.arange(0, 60, 0.1)
    stamps = np.concatenate((calm, rush, 660 + calm))
    rows = "".join(f"{at:.1f},m,1,1,2,log\n" for at in stamps)
    header = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    (tmp_path / "day.csv").write_text(header + rows)
    trace = (ARRIVALS, {"kind": "trace", "file": "day.csv", "window_requests": 600})
    said: list[str] = []
    asked: dict[str, Any] = {"folder": tmp_path, "progress": said.append}
    recorded = answer(trace, (PEAK, ...), **asked)
    assert recorded.mean_per_s == pytest.approx(1200 / 1260, rel=0.01)
    assert recorded.peak_per_s == pytest.approx(10, rel=0.01)
    by_peak = answer(trace, (PEAK, 900), **asked)
    assert by_peak.peak_per_s == pytest.approx(900)
    assert by_peak.mean_per_s == pytest.approx(900 * recorded.mean_per_s / recorded.peak_per_s)
    by_mean = answer(trace, (PEAK, ...), (MEAN, by_peak.mean_per_s), **asked)
    assert by_mean.peak_per_s == pytest.approx(900)
    assert by_mean.products[0].count == by_peak.products[0].count
    assert "600 requests of day.csv" in by_peak.arrivals
    assert any("day.csv: 1,200 requests, 100%" in line for line in said)
    assert any("cards at" in line for line in said)


def test_assumptions_say_what_was_decided_for_the_reader() -> None:
    said = "\n".join(
        answer(
            (BATCHING, {}),
            ("fleet.products", ["Duo"]),
            ("workload.models.0.curve.latency_ms", [4, 9, 8]),
            ("simulation.service_cv", 0.1),
        ).assumptions
    )
    for line in (
        "Arrivals: Poisson.",
        "Dispatch: to the device with the fewest requests",
        "Every card holds all models.",
        "3 runs, of 500 requests or more at first",
        "coefficient of variation of 0.1",
        "Duo card: Two chips.",
        "head on Duo card: latencies stated in the plan.",
        "head on Duo card: batches of up to 8 items",
        "head on Duo card: latency at batch 8 raised",
        "How often cards fail wasn't given",
    ):
        assert line in said


def test_bursts_that_are_too_long_to_simulate_are_told() -> None:
    plan = plan_of(changed((ARRIVALS, SLOW_BURSTS), (PEAK, 400)))
    demand = Demand.of(plan.workload, Path(), print)
    # Twenty bursts and what lies between them: 6,000 seconds.
    assert any(
        "ends after 1,000 requests" in line and "2,400,000" in line
        for line in assumptions(plan, demand, [])
    )


SLOW_BURSTS = {"kind": "bursty", "burst_ratio": 2, "burst_share": 0.1, "burst_s": 30}


def test_a_plan_reads_as_it_is_documented(tmp_path: Path) -> None:
    from npusim.capacity import plan as module

    assert module.__doc__ is not None
    example = module.__doc__.split("::\n")[1].split("\n\n`peak")[0]
    file = tmp_path / "PLAN.yaml"
    file.write_text(example)
    plan = read_plan(file)
    assert isinstance(plan, Plan)
    assert plan.title == "Detection head"
    assert plan.objective.quantile == 0.99
    assert plan.objective.spare_cards == 1
    assert [product.product for product in plan.fleet.products] == [
        "Atlas 800I A2",
        "Atlas 300I Duo",
    ]
    for product in plan.fleet.products:
        assert find_board(product.product).devices_per_card >= 1


@pytest.mark.parametrize(
    ("name", "soc", "devices"),
    [
        ("Atlas 300I Duo", "Ascend310P3", 2),
        ("atlas300i duo", "Ascend310P3", 2),
        ("Ascend910B3", "Ascend910B3", 1),
        ("910b3", "Ascend910B3", 1),
    ],
)
def test_boards_are_found_by_any_name(name: str, soc: str, devices: int) -> None:
    board = find_board(name)
    assert (board.soc, board.devices_per_card) == (soc, devices)
    assert board.memory_bytes_per_device is not None
    assert board.source
    if name.lower().startswith("atlas"):
        assert board.cards_per_server is not None
    else:
        assert board.cards_per_server is None
        assert "one chip a card is assumed" in board.note


UNDECIDED = (
    ("workload.models.0.curve", {"batch": [1], "latency_ms": [1.9]}),
    (BATCHING, {}),
    (ARRIVALS, {"kind": "bursty", "burst_ratio": 2, "burst_share": 0.2, "burst_s": 0.05}),
    ("objective.quantile", "p95"),
)


def test_a_close_call_is_undecided_and_says_what_would_decide_it() -> None:
    """Three cards have a p95 of about 23 ms, which short runs can't tell from the limit."""
    result = answer(*UNDECIDED, ("objective.limit_ms", 22.8))
    (product,) = result.products
    assert product.count is not None
    assert (product.count.perhaps, product.count.working) == (3, 4)
    assert not product.count.is_decided
    assert [one.holds for one in product.by_cards] == [False, None, True, True]
    (said,) = verdicts(result)
    assert "undecided between 3 and 4 cards" in said.text
    assert "p95 with 3 working cards is" in said.why
    assert "requests in each run (simulation.max_requests) would decide it" in said.why
    count = replace(product.count, budget_spent=True)  # before any of these was asked for long
    decided = tuple(one for one in product.by_cards if one.holds is not None)
    spent = replace(product, count=count, by_cards=decided)
    (said,) = verdicts(replace(result, products=(spent,)))
    assert "was spent before the count was decided" in said.why


def test_a_count_stands_with_one_card_fewer_and_one_more() -> None:
    result = answer(*UNDECIDED, ("objective.limit_ms", 60), ("simulation", {"requests": 10_000}))
    (product,) = result.products
    assert product.count is not None
    assert product.count.is_decided
    cards = product.count.working
    assert [one.cards for one in product.by_cards] == [cards - 1, cards, cards + 1]
    assert [one.holds for one in product.by_cards] == [False, True, True]
    found = plan_json(result, {}, [])["products"][0]
    assert found["cards"]["decided"]
    assert [one["cards"] for one in found["by_cards"]] == [cards - 1, cards, cards + 1]


def test_batches_that_arent_full_ask_for_cards() -> None:
    """A batch starts as soon as a device is free, so devices are busy with few requests each."""
    curve = {"batch": [1, 32], "latency_ms": [4, 6]}
    result = answer(
        ("workload.models.0.curve", curve),
        (BATCHING, {"max_batch": 32}),
        ("simulation.max_requests", 20_000),
    )
    (product,) = result.products
    assert product.at_peak is not None
    assert product.count is not None
    assert product.count.closed_form == 1
    assert (product.count.working, product.count.limited_by) == (6, "utilisation")
    assert product.at_peak.utilisation.mean < 0.7 < product.by_cards[0].utilisation
    (said,) = verdicts(result)
    assert said.text.startswith("Small card needs 6 cards (420 W) to answer 900 requests/s")
    assert said.text.endswith("% more.")
    assert "busy for 60 % of the time (target 70 %). One card fewer is busy for 71 %" in said.why
    assert "Latencies as stated, not simulated." in said.why


def test_the_slow_end_decides_between_products_and_then_what_is_sold_for_inference() -> None:
    names = ("Small", "Duo", "Chip")
    curves = {name: {"batch": [8], "latency_ms": [9], "hi_ms": [9]} for name in names}
    one_curve = ("workload.models.0.curve", ...), ("workload.models.0.curves", curves)
    boards = {
        "Small": replace(BOARDS["Small"], is_for_training=True, power_w_per_card=None),
        "Duo": replace(BOARDS["Small"], name="Duo card"),
        "Chip": replace(BOARDS["Small"], name="Chip card"),
    }
    asked = changed(*one_curve, ("fleet.products", list(names)))

    def order(**prices: float) -> list[str]:
        products = [
            {"product": name, "price_per_card": prices[name]} if name in prices else name
            for name in names
        ]
        fleet = {"products": products, "currency": "EUR"}
        plan = plan_of({**asked, "fleet": fleet})
        result = evaluate(plan, board_of=boards.__getitem__)
        return [each.board.name for each in result.meeting]

    assert order() == ["Duo card", "Chip card", "Small card"], "the plan's order, training last"
    curves["Duo"]["hi_ms"] = [29]
    assert order() == ["Chip card", "Small card", "Duo card"]
    assert order(Small=5) == order(), "a price that the others lack ranks nobody"
    assert order(Small=5, Duo=1, Chip=6)[0] == "Duo card", "more cards may cost less"


def test_a_name_that_may_mean_another_chip_is_said_beside_the_answer() -> None:
    asked = changed(("fleet.products", ["910B", "910B3"]))
    said = list(verdicts(evaluate(plan_of(asked))))
    assert len(said) == 2
    assert "Ascend910B: 910B without a digit is the first generation" in said[1].text
    assert "910B1, 910B2, 910B3 or 910B4" in said[1].text


def test_a_budget_leaves_open_what_it_doesnt_reach() -> None:
    open_ = answer(*UNDECIDED, ("simulation.budget_s", 1e-6))
    (product,) = open_.products
    assert (product.count, product.budget_spent, open_.is_open) == (None, True, True)
    said = [verdict.text for verdict in verdicts(open_)]
    assert said[0].startswith("Undecided")
    assert "budget of 1e-06 s was spent" in said[1]
    whole = only(*UNDECIDED)
    assert whole.count
    assert not whole.budget_spent
    assert f"with {whole.count.closed_form} cards or more" in said[1]

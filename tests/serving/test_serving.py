"""Continuous batching: what has to hold whatever is asked, and how fast it is worked out."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim.hardware import load_profile
from npusim.llm import Layout, read_model
from npusim.serving import (
    Policy,
    Requests,
    Stage,
    StepCosts,
    even_lengths,
    read_requests,
    serve,
    serve_in_stages,
    step_costs,
)
from npusim.serving.cache import Blocks
from npusim.serving.clients import Patience, TooLateError
from npusim.serving.prefixes import Prefixes
from npusim.serving.results import served
from npusim.values.errors import ArgumentError, FileError
from support import commands
from support.paths import ROOT

MOST = 600


def costs(base: float = 10.0, sequence: float = 0.1, context: float = 0.0) -> StepCosts:
    """A decoding step takes `base`, and a bit for each sequence and token; prompts 0.05 a token."""
    sizes = range(MOST)
    return StepCosts(
        [base + sequence * size for size in sizes],
        [context] * MOST,
        [base + 0.05 * size for size in range(20_000)],
        [0.0] * 20_000,
    )


requests_ = st.builds(
    lambda rows: Requests(
        np.cumsum([row[0] for row in rows]),
        np.array([row[1] for row in rows]),
        np.array([row[2] for row in rows]),
    ),
    st.lists(
        st.tuples(st.floats(0, 300), st.integers(1, 900), st.integers(1, 300)),
        min_size=1,
        max_size=60,
    ),
)
policies = st.builds(
    Policy,
    max_sequences=st.integers(1, 32),
    max_tokens=st.integers(32, 2000),
    kv_blocks=st.integers(10, 60),
    schedule=st.sampled_from(["chunked", "prefill_first"]),
    prefix_share=st.sampled_from([0.0, 0.5, 0.9]),
)
concurrencies = st.none() | st.integers(1, 20)


@settings(max_examples=200, deadline=None)
@given(asked=requests_, policy=policies, concurrency=concurrencies)
def test_everybody_gets_what_they_asked_for(
    asked: Requests, policy: Policy, concurrency: int | None
) -> None:
    """Tokens out are tokens asked, nobody starves, and blocks are never more than there are."""
    found = serve(asked, costs(context=1e-4), policy, concurrency=concurrency)
    assert found.tokens == asked.output_tokens.tolist()
    assert found.most_blocks <= policy.kv_blocks
    for sent, first, done, arrival in zip(
        found.sent_ms, found.first_ms, found.done_ms, asked.arrival_ms, strict=True
    ):
        assert arrival <= sent < first <= done < float("inf")
    assert found.busy_ms <= max(found.done_ms) + 1e-6


@settings(max_examples=100, deadline=None)
@given(asked=requests_, policy=policies)
def test_first_come_is_first_read(asked: Requests, policy: Policy) -> None:
    """Without preemption first tokens come in the order of requests."""
    found = serve(asked, costs(), policy)
    if not found.preemptions:
        assert found.first_ms == sorted(found.first_ms)


@settings(max_examples=100, deadline=None)
@given(asked=requests_, policy=policies, concurrency=concurrencies)
def test_littles_law(asked: Requests, policy: Policy, concurrency: int | None) -> None:
    """Requests in flight, sampled in time, are the rate times the time that each takes."""
    found = serve(asked, costs(), policy, concurrency=concurrency)
    figures = served(asked, found, kv_tokens=policy.kv_tokens, block=policy.block)
    start, end = min(found.sent_ms), max(found.done_ms)
    samples = np.linspace(start, end, 20_001)[:-1] + (end - start) / 40_000
    sent, done = np.sort(found.sent_ms), np.sort(found.done_ms)
    flying = np.searchsorted(sent, samples) - np.searchsorted(done, samples)
    assert figures.req_s * figures.end_to_end_ms.mean / 1e3 == pytest.approx(
        flying.mean(), rel=0.01
    )


def test_saturated_throughput_is_the_batch_over_the_step() -> None:
    policy = Policy(max_sequences=32, kv_blocks=10**6)
    found = serve(even_lengths(2000, 16, 2000), costs(), policy)
    figures = served(even_lengths(2000, 16, 2000), found, kv_tokens=policy.kv_tokens, block=128)
    assert figures.output_tok_s == pytest.approx(32 / 13.2e-3, rel=0.02)


@settings(max_examples=50, deadline=None)
@given(asked=requests_, blocks=st.integers(10, 40), concurrency=concurrencies)
def test_a_larger_cache_preempts_no_more(
    asked: Requests, blocks: int, concurrency: int | None
) -> None:
    """With room for everything nobody is preempted."""
    ample = Policy(max_sequences=64, kv_blocks=10**5)
    assert serve(asked, costs(), ample, concurrency=concurrency).preemptions == 0
    tight = Policy(max_sequences=64, kv_blocks=blocks)
    found = serve(asked, costs(), tight, concurrency=concurrency)
    assert max(found.done_ms) > 0


@settings(max_examples=50, deadline=None)
@given(asked=requests_, policy=policies)
def test_more_groups_serve_no_fewer_in_time(asked: Requests, policy: Policy) -> None:
    """Two alike groups that take turns meet a first-token objective for as many as one does.

    They share no steps, so that communication is free.
    """
    ample = Policy(max_sequences=64, kv_blocks=10**5, max_tokens=policy.max_tokens + 64)
    alone = serve(asked, costs(), ample)
    waits = [first - sent for first, sent in zip(alone.first_ms, alone.sent_ms, strict=True)]
    halves = [
        Requests(*(column[start::2] for column in (asked.arrival_ms, asked.input_tokens,
                                                   asked.output_tokens)))
        for start in (0, 1)
    ]  # fmt: skip
    both = [serve(half, costs(), ample) for half in halves if len(half)]
    shorter = [first - sent for each in both
               for first, sent in zip(each.first_ms, each.sent_ms, strict=True)]  # fmt: skip
    assert np.mean(shorter) <= np.mean(waits) + 13.2  # a request may just miss the start of a step


@settings(max_examples=200, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 600), min_size=1, max_size=20),
    block=st.sampled_from([1, 16, 128]),
    steps=st.integers(0, 700),
    at=st.integers(0, 500),
)
def test_blocks_are_counted_as_if_sequence_by_sequence(
    lengths: list[int], block: int, steps: int, at: int
) -> None:
    blocks = Blocks(10**6, block)
    for length in lengths:
        blocks.used += blocks.of(length)
        blocks.join(length, at)
    blocks.grow(steps, at)
    assert blocks.used == sum(-(-(length + steps) // block) for length in lengths)
    for length in lengths:
        blocks.leave(length + steps, at + steps)
    assert blocks.used == 0
    assert blocks.needed(steps + 1, at) == 0


@given(free=st.integers(1, 60), most=st.integers(1, 500))
def test_steps_end_before_blocks_do(free: int, most: int) -> None:
    blocks = Blocks(free + 9, 128)
    for length in (1, 100, 128, 200, 300):
        blocks.used += blocks.of(length)
        blocks.join(length, 0)
    steps = blocks.steps_left(most, 0)
    assert blocks.needed(steps, 0) <= max(blocks.free, 0) or steps == 0
    assert steps == most or blocks.needed(steps + 1, 0) > blocks.free


def test_a_prefix_in_the_cache_shortens_the_first_token() -> None:
    asked = even_lengths(1, 4000, 2)
    plain, cached = (
        serve(asked, costs(), Policy(max_tokens=8192, prefix_share=share)).first_ms[0]
        for share in (0, 0.9)
    )
    assert cached == pytest.approx(10 + 0.05 * (4000 - 3584))
    assert plain == pytest.approx(10 + 0.05 * 4000)


def test_prefixes_of_a_trace_are_found_while_there_is_room() -> None:
    """The second of two alike prompts reads what lies behind the first's blocks."""
    lengths = np.array([2000, 2000])
    asked = Requests(np.array([0.0, 500.0]), lengths, np.array([2, 2]), ((1, 2, 3, 4), (1, 2, 9)))
    found = serve(asked, costs(), Policy())
    waits = [first - sent for first, sent in zip(found.first_ms, found.sent_ms, strict=True)]
    assert waits == pytest.approx([10 + 0.05 * 2000, 10 + 0.05 * (2000 - 1024)])
    tight = serve(asked, costs(), Policy(kv_blocks=17))  # room for four names, but of them the last
    assert tight.first_ms[1] == found.first_ms[1]
    kept = Prefixes()
    kept.keep((1, 2, 3, 4))
    assert kept.found((1, 2, 9), room=3) == 2
    assert kept.found((1, 2, 3, 4), room=2) == 2
    assert kept.found((2, 1), room=0) == 0


def test_groups_that_step_together_wait_for_each_other() -> None:
    """A prompt of one group holds the other's tokens up, and apart nobody is held up."""
    lengths, answers = np.array([128, 8000]), np.array([50, 2])
    asked = Requests(np.zeros(2), lengths, answers)
    apart, both = (
        serve_in_stages(asked, [Stage(costs(), Policy(max_tokens=8192), 2, together)])
        for together in (False, True)
    )
    assert apart.first_ms == pytest.approx([16.4, 410])
    assert both.first_ms == [410, 410]
    assert apart.tokens == both.tokens == [50, 2]
    assert both.done_ms[0] == pytest.approx(410 + apart.done_ms[0] - apart.first_ms[0])


def test_cards_that_decode_are_not_held_up_by_prompts() -> None:
    """The second prompt comes while the first answer is written; caches take their time to move."""
    asked = Requests(np.array([0.0, 50.0]), np.array([1000, 8000]), np.array([101, 2]))
    stages = [Stage(costs(), Policy(max_tokens=8192)), Stage(costs(), Policy())]
    apart = serve_in_stages(asked, stages, handover_ms=lambda tokens: tokens / 1000)
    assert apart.first_ms == pytest.approx([60, 470])
    assert apart.done_ms[0] == pytest.approx(60 + 1 + 100 * 10.1 + 0.1)
    assert apart.tokens == [101, 2]
    held = serve(asked, costs(), Policy())
    assert held.done_ms[0] > apart.done_ms[0] + 300


@settings(max_examples=60, deadline=None)
@given(
    asked=requests_, policy=policies, concurrency=concurrencies, groups=st.integers(1, 3),
    together=st.booleans(),
)  # fmt: skip
def test_stages_give_everybody_what_they_asked_for(
    asked: Requests, policy: Policy, concurrency: int | None, groups: int, together: bool
) -> None:
    stage = Stage(costs(context=1e-4), policy, groups, together)
    found = serve_in_stages(
        asked, [stage, stage], handover_ms=lambda tokens: 0.01 * tokens, concurrency=concurrency
    )
    assert found.tokens == asked.output_tokens.tolist()
    assert found.most_blocks <= policy.kv_blocks * groups
    assert all(
        sent < first <= done < float("inf")
        for sent, first, done in zip(found.sent_ms, found.first_ms, found.done_ms, strict=True)
    )


def test_prompts_first_hold_up_those_that_decode() -> None:
    asked = even_lengths(200, 1000, 50, rate_per_s=10, seed=1)
    chunked, first = (
        serve(asked, costs(), Policy(schedule=schedule, max_tokens=2000))
        for schedule in ("chunked", "prefill_first")
    )
    assert chunked.tokens == first.tokens
    assert chunked.done_ms != first.done_ms


def test_a_request_that_never_fits_is_refused() -> None:
    with pytest.raises(ArgumentError, match="room for 1280"):
        serve(even_lengths(3, 1200, 100), costs(), Policy(kv_blocks=10))


@pytest.mark.slow
def test_a_million_requests_take_less_than_a_minute() -> None:
    """A fifth of a million within a fifth of that time, one core."""
    asked = even_lengths(200_000, 300, 200, rate_per_s=9, spread=0.5)
    before = time.process_time()
    found = serve(asked, costs(), Policy(max_sequences=128, kv_blocks=10**5))
    assert time.process_time() - before < 12
    assert sum(found.tokens) == asked.output_tokens.sum()


def test_traces_are_read(tmp_path: Path) -> None:
    mooncake = tmp_path / "trace.jsonl"
    rows = [{"timestamp": 3000, "input_length": 10, "output_length": 5, "hash_ids": [1]},
            {"timestamp": 1000, "input_length": 20, "output_length": 7}]  # fmt: skip
    mooncake.write_text("\n".join(map(json.dumps, rows)))
    found = read_requests(mooncake)
    assert found.arrival_ms.tolist() == [0, 2000]
    assert found.output_tokens.tolist() == [7, 5]
    assert found.prefixes == ((), (1,))
    azure = tmp_path / "azure.csv"
    azure.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.68,374,44\n"
        "2023-11-16 18:15:50.99,396,109\n"
    )
    assert read_requests(azure).input_tokens.tolist() == [374, 396]
    mooncake.write_text(json.dumps({**rows[0], "hash_ids": ["a"]}))
    with pytest.raises(FileError, match="hash_ids that are no list"):
        read_requests(mooncake)
    mooncake.write_text('{"timestamp": 1}')
    with pytest.raises(FileError, match="line 1 lacks"):
        read_requests(mooncake)


@pytest.mark.parametrize(
    "wrong",
    [{"max_sequences": 0}, {"schedule": "lifo"}, {"prefix_share": 1.0}, {"max_tokens": 10}],
)
def test_policies_that_cannot_be_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ArgumentError):
        Policy(**wrong)  # type: ignore[arg-type]


CONFIG = str(ROOT / "reports" / "data" / "llm_configs" / "Qwen3-0.6B.json")


def test_the_verb(capsys: pytest.CaptureFixture[str]) -> None:
    line = f"llm serve {CONFIG} -s 910b3 --concurrency 8 --input 512 --output 64 --max-tokens 2048"
    said = commands.npusim(capsys, f"{line} --json").json
    assert said["output_tok_s"] == pytest.approx(said["req_s"] * 64)
    assert said["preemptions"] == 0
    assert said["kv_tokens"] > 8 * 576
    for name in ("ttft_ms", "tpot_ms"):
        figures = said[name]
        assert figures["p50"] <= figures["p90"] <= figures["p99"]
    page = commands.npusim(capsys, f"{line} --ttft-ms 1")
    assert "goodput" in page.out
    assert "0.00 requests/s" in page.out
    drafted = commands.npusim(capsys, f"{line} --draft 3 --accepted 2 --json").json
    assert drafted["tpot_ms"]["mean"] < said["tpot_ms"]["mean"]
    apart = commands.npusim(capsys, f"{line} --decode tp=1,dp=2 --json").json
    assert apart["decode_layout"]["cards"] == 2
    assert apart["tpot_ms"]["p99"] < said["tpot_ms"]["p99"]
    assert "decoding on DP2" in commands.npusim(capsys, f"{line} --decode dp=2").out
    twice = commands.npusim(capsys, f"{line} --cards 2 --json").json
    assert twice["output_tok_s"] > said["output_tok_s"]


def test_wrong_questions_of_the_verb(capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in (
        "--concurrency 0",
        "--accepted 2",
        "--rate -1",
        "--input 0",
        "--spread 1",
        "--seed -1",
        "--decode 8",
        "--requests 1000001",
        "--ttft-ms 0",
        "--tpot-ms -5",
        "--rate nan",
        "--ttft-ms inf",
        "--accepted=-1e999",
    ):
        said = commands.npusim(capsys, f"llm serve {CONFIG} -s 910b3 {wrong}")
        assert said.code == 2, wrong
        assert "error:" in said.err.lower()


def test_a_full_graph_holds_no_prompts() -> None:
    """FULL_DECODE_ONLY: the host launches steps with prompts by operators, whatever decodes."""
    small, chip = read_model(CONFIG), load_profile("910b3")
    sizes = {"max_sequences": 2, "max_tokens": 64, "longest": 256, "prompt": 64}
    full, eager = (
        step_costs(small, chip, Layout(), **sizes, graph=graph) for graph in ("full", "eager")
    )
    assert full.prompt[64] == eager.prompt[64] > full.decode[2]
    assert full.decode[2] < eager.decode[2]


def test_a_model_that_leaves_no_room_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    large = CONFIG.replace("Qwen3-0.6B", "Qwen3-32B")
    said = commands.npusim(capsys, f"llm serve {large} -s 910b4")
    assert said.code == 2
    assert "no room for a cache" in said.err


def test_a_page_counts_the_chips_of_all_replicas(capsys: pytest.CaptureFixture[str]) -> None:
    config = ROOT / "reports/data/llm_configs/Qwen3-0.6B.json"
    line = f"llm serve {config} -s 910b3 --requests 8 --input 50 --output 8 --rate 20 --tp 2"
    alike = commands.npusim(capsys, f"{line} --replicas 3").out
    assert "6 x Ascend910B3" in alike
    assert "3 x TP2" in alike
    apart = commands.npusim(capsys, f"{line} --decode tp=1 --replicas 2 --decode-replicas 3").out
    assert "7 x Ascend910B3" in apart
    assert "3 x TP1" in apart


ROUTERS = st.sampled_from(["round_robin", "least_loaded", "prefix_aware"])


@settings(max_examples=60, deadline=None)
@given(
    asked=requests_, router=ROUTERS, instances=st.integers(1, 4), concurrency=concurrencies,
    apart=st.booleans(), together=st.booleans(),
)  # fmt: skip
def test_every_router_brings_everybody_home(
    asked: Requests, router: str, instances: int, concurrency: int | None, apart: bool,
    together: bool,
) -> None:  # fmt: skip
    policy = Policy(max_sequences=16, max_tokens=500, kv_blocks=40)
    stage = Stage(costs(), policy, groups=2, together=together, instances=instances)
    found = serve_in_stages(
        asked, [stage] * (1 + apart), handover_ms=(lambda tokens: 0.01 * tokens) if apart else None,
        concurrency=concurrency, router=router,
    )  # fmt: skip
    assert found.tokens == asked.output_tokens.tolist()
    for sent, first, done in zip(found.sent_ms, found.first_ms, found.done_ms, strict=True):
        assert sent < first <= done < float("inf")


def test_a_router_that_looks_at_the_load_shortens_the_tail() -> None:
    """Every fourth prompt is long: of four groups that take turns one gets all of them."""
    asked = even_lengths(400, 100, 20, rate_per_s=40, seed=1)
    asked.input_tokens[::4] = 4000
    stage = Stage(costs(), Policy(max_sequences=32, kv_blocks=10**4), instances=4)
    late = {}
    for router in ("round_robin", "least_loaded"):
        found = serve_in_stages(asked, [stage], router=router)
        late[router] = np.quantile(np.subtract(found.first_ms, found.sent_ms), 0.9)
    assert late["least_loaded"] < 0.5 * late["round_robin"]


def test_a_router_that_knows_prefixes_finds_them() -> None:
    """Eight beginnings that a group has room for a few of; each goes where it was before."""
    asked = even_lengths(400, 4096, 20, rate_per_s=3, seed=2)
    dice = np.random.default_rng(3)
    names = tuple(tuple(int(8 * kind + at) for at in range(8)) for kind in dice.integers(0, 8, 400))
    asked = Requests(asked.arrival_ms, asked.input_tokens, asked.output_tokens, names)
    stage = Stage(costs(), Policy(max_sequences=4, kv_blocks=100), instances=4)
    first = {}
    for router in ("round_robin", "prefix_aware"):
        found = serve_in_stages(asked, [stage], router=router)
        first[router] = np.mean(np.subtract(found.first_ms, found.sent_ms))
    assert first["prefix_aware"] < 0.7 * first["round_robin"]


def test_caches_that_are_sent_at_once_wait_for_each_other() -> None:
    """Four groups read a prompt each for one that decodes, whose port takes one at a time."""
    asked = even_lengths(4, 100, 2)
    stages = [Stage(costs(), Policy(), groups=4), Stage(costs(), Policy(), groups=1)]
    found = serve_in_stages(asked, stages, handover_ms=lambda _: 1000.0)
    assert len(set(found.first_ms)) == 1
    gone_ms = np.subtract(sorted(found.done_ms), found.first_ms[0])
    assert gone_ms == pytest.approx([1010.1, 2010.1, 3010.1, 4010.1], abs=1)


def test_an_unknown_router_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    config = ROOT / "reports" / "data" / "llm_configs" / "Qwen3-0.6B.json"
    said = commands.npusim(capsys, f"llm serve {config} -s 910b3 --requests 5 --router random")
    assert said.code == 2
    assert "least_loaded" in said.err


@settings(max_examples=60, deadline=None)
@given(asked=requests_, policy=policies, concurrency=concurrencies)
def test_groups_that_do_the_same_do_what_one_of_them_does(
    asked: Requests, policy: Policy, concurrency: int | None
) -> None:
    """Three that step together, each with the same requests: looked at where something happens."""
    alone = serve(asked, costs(context=1e-4), policy, concurrency=concurrency)
    thrice = Requests(
        *(np.repeat(each, 3) for each in (asked.arrival_ms, asked.input_tokens,
                                          asked.output_tokens)))  # fmt: skip
    stage = Stage(costs(context=1e-4), policy, groups=3, together=True)
    slots = None if concurrency is None else 3 * concurrency
    found = serve_in_stages(thrice, [stage], concurrency=slots)
    for first in range(3):
        assert found.done_ms[first::3] == pytest.approx(alone.done_ms)
        assert found.first_ms[first::3] == pytest.approx(alone.first_ms)
    assert (found.steps, found.preemptions) == (alone.steps, 3 * alone.preemptions)


@settings(max_examples=60, deadline=None)
@given(asked=requests_, policy=policies, most=st.integers(0, 30))
def test_a_run_is_given_up_where_too_many_are_late(
    asked: Requests, policy: Policy, most: int
) -> None:
    limits = {"ttft_ms": 100.0, "tpot_ms": 13.0}
    found = serve(asked, costs(), policy)
    figures = served(asked, found, kv_tokens=policy.kv_tokens, block=policy.block, **limits)
    late = round(len(asked) * (1 - figures.in_time))
    stage, patience = Stage(costs(), policy), Patience(**limits, most=most)
    if late <= most:
        assert serve_in_stages(asked, [stage], patience=patience).done_ms == found.done_ms
        return
    with pytest.raises(TooLateError) as error:
        serve_in_stages(asked, [stage], patience=patience)
    assert error.value.first + error.value.further == most + 1

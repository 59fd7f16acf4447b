"""Requests served: latencies and throughput, each with what it means."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from npusim.reporting.document import Facts, Page, Section, Table, Verdict
from npusim.reporting.llm import memory_facts, memory_json
from npusim.reporting.renderers.jsonout import fields
from npusim.serving.results import DEFINITIONS
from npusim.values.language import say

if TYPE_CHECKING:
    from npusim.serving import Deployment
    from npusim.serving.results import Quantiles, Served


def serve_page(
    ready: Deployment,
    found: Served,
    behind: Deployment | None = None,
    *,
    replicas: tuple[int, int] = (1, 1),
) -> Page:
    """What one deployment does, or one for prompts and one `behind` it; `replicas` are of each."""
    every = [ready] if behind is None else [ready, behind]
    counts = list(zip(every, replicas, strict=False))
    cards = sum(each.layout.cards * count for each, count in counts)
    where = " for prompts, decoding on ".join(
        f"{count} x {each.layout}" if count > 1 else str(each.layout) for each, count in counts
    )
    return Page(
        say("{model} on {cards} x {chip}").format(
            model=ready.model.name, cards=cards, chip=ready.chip.name
        ),
        say(
            "{where}, steps of up to {max_sequences} sequences and {max_tokens} tokens, {schedule}"
        ).format(
            where=where,
            max_sequences=ready.policy.max_sequences,
            max_tokens=ready.policy.max_tokens,
            schedule=ready.policy.schedule,
        ),
        verdicts=[_verdict(found)],
        sections=[
            Section("latency in ms", [_latencies(found)]),
            Section("throughput", [_throughput(found, cards, every[-1].costs.band)]),
            *(
                Section(
                    say("memory of a rank, {layout}").format(layout=each.layout),
                    [memory_facts(each.memory)],
                )
                for each in every
            ),
        ],
    )


def _verdict(found: Served) -> Verdict:
    said = say(
        "{output_tok_s:.0f} tokens/s, {req_s:.2f} requests/s; TTFT "
        "{ttft_ms:.0f} ms, TPOT {tpot_ms:.1f} ms in the mean"
    ).format(
        output_tok_s=found.output_tok_s,
        req_s=found.req_s,
        ttft_ms=found.ttft_ms.mean,
        tpot_ms=found.tpot_ms.mean,
    )
    return Verdict(said, "good")


def _latencies(found: Served) -> Table:
    latencies = (
        ("TTFT", found.ttft_ms),
        ("TPOT", found.tpot_ms),
        ("end to end", found.end_to_end_ms),
    )
    numbers = ("mean", "p50", "p90", "p99")
    rows = [(name, *_row(each), DEFINITIONS[name]) for name, each in latencies]
    return Table(("", *numbers, "is"), rows, numbers, wide=("is",))


def _throughput(found: Served, cards: int, band: tuple[float, float]) -> Facts:
    low, high = band
    return Facts(
        [
            ("requests", str(found.requests)),
            ("output tokens/s", f"{found.output_tok_s:.1f}: {DEFINITIONS['output tokens/s']}"),
            ("tokens/s per chip", f"{found.output_tok_s / cards:.1f}"),
            (
                "goodput",
                say("{goodput_req_s:.2f} requests/s: {definitions}").format(
                    goodput_req_s=found.goodput_req_s, definitions=DEFINITIONS["goodput"]
                ),
            ),
            (
                "band of a step",
                say("{low:.2f} to {high:.2f} of its time (80 %)").format(low=low, high=high),
            ),
            (
                "in flight",
                say("{in_flight:.1f} requests on average").format(in_flight=found.in_flight),
            ),
            ("preemptions", str(found.preemptions)),
            (
                "cache",
                say("{most_kv_tokens} of {kv_tokens} tokens at most").format(
                    most_kv_tokens=found.most_kv_tokens, kv_tokens=found.kv_tokens
                ),
            ),
        ]
    )


def serve_json(
    ready: Deployment, found: Served, behind: Deployment | None = None
) -> dict[str, Any]:
    """The same as data."""
    answers = behind or ready
    return {
        "soc": ready.chip.name,
        "model": ready.model.name,
        "layout": fields(ready.layout, "tp pp dp experts sp cards"),
        "decode_layout": fields(answers.layout, "tp pp dp experts sp cards"),
        **fields(
            found,
            "requests duration_s output_tok_s req_s goodput_req_s in_flight preemptions steps "
            "busy_share kv_tokens most_kv_tokens",
        ),
        "ttft_ms": asdict(found.ttft_ms),
        "tpot_ms": asdict(found.tpot_ms),
        "end_to_end_ms": asdict(found.end_to_end_ms),
        "step_band": list(answers.costs.band),
        "memory": memory_json(answers.memory),
        "definitions": dict(DEFINITIONS),
    }


def bench_json(ready: Deployment, found: Served, _: Deployment | None = None) -> dict[str, Any]:
    """The same in the keys of ``vllm bench serve --save-result``.

    Times between tokens (``itl``) aren't among them: steps that only decode are played many at a
    time. Source: vLLM, vllm/benchmarks/serve.py.
    """
    tokens = found.input_tokens + found.output_tokens
    latencies = {
        f"{statistic}_{name}_ms": value
        for name, each in (
            ("ttft", found.ttft_ms),
            ("tpot", found.tpot_ms),
            ("e2el", found.end_to_end_ms),
        )
        for statistic, value in (
            ("mean", each.mean), ("median", each.p50), ("std", each.deviation),
            ("p90", each.p90), ("p99", each.p99),
        )
    }  # fmt: skip
    return {
        "backend": "npusim",
        "model_id": ready.model.name,
        "num_prompts": found.requests,
        "completed": found.requests,
        "failed": 0,
        "duration": found.duration_s,
        "total_input_tokens": found.input_tokens,
        "total_output_tokens": found.output_tokens,
        "request_throughput": found.req_s,
        "request_goodput": found.goodput_req_s,
        "output_throughput": found.output_tok_s,
        "total_token_throughput": tokens / found.duration_s,
        **latencies,
    }


def _row(each: Quantiles) -> tuple[str, ...]:
    return tuple(f"{value:.1f}" for value in (each.mean, each.p50, each.p90, each.p99))

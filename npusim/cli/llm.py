"""`npusim llm`: language models, by their config.json."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from npusim.cli import output
from npusim.cli.chips import Chip, chips
from npusim.cli.options import AsJson, Socs

if TYPE_CHECKING:
    from npusim.llm import LanguageModel, Layout, LlmStep

app = typer.Typer(
    help="Language models by their config.json: a step, serving, training.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Config = Annotated[
    Path,
    typer.Argument(metavar="CONFIG", help="A config.json of Hugging Face, or its folder."),
]
Cards = Annotated[int | None, typer.Option("--cards", help="Chips in all; default: tp x pp x dp.")]
Tp = Annotated[int, typer.Option("--tp", help="Tensor parallelism.")]
Pp = Annotated[int, typer.Option("--pp", help="Pipeline stages.")]
Dp = Annotated[int | None, typer.Option("--dp", help="Data parallelism; default: what is left.")]
Ep = Annotated[int, typer.Option("--ep", help="Ranks over which experts are dealt: tp x dp.")]
Dtype = Annotated[
    str | None,
    typer.Option(
        "--dtype",
        help="bf16, fp16, w8a8, w8a16, w4a16, w4a8; w8a8c8: int8 cache. Default: the config's.",
    ),
]
Graph = Annotated[
    str | None,
    typer.Option(
        "--graph",
        help="full (one captured graph), piecewise or eager; default: full to decode, else eager.",
    ),
]
Overlap = Annotated[
    bool | None,
    typer.Option(
        "--overlap/--no-overlap",
        help="Collectives beside products hide (MC2, as MindIE does); default: FlashComm's.",
    ),
]
Described = Annotated[
    Path | None,
    typer.Option("--architecture", metavar="FILE", help="A YAML that describes the architecture."),
]
Links = Annotated[
    str | None,
    typer.Option("--interconnect", metavar="NAME", help="Other links than the product's."),
]


@app.command("step")
def step_(
    config: Config,
    soc: Socs = None,
    cards: Cards = None,
    tp: Tp = 1,
    pp: Pp = 1,
    dp: Dp = None,
    ep: Ep = 1,
    dtype: Dtype = None,
    phase: Annotated[str, typer.Option("--phase", help="prefill, decode or mixed.")] = "decode",
    batch: Annotated[
        int, typer.Option("--batch", help="Sequences, or prompts, of one data-parallel group.")
    ] = 1,
    context: Annotated[
        int,
        typer.Option("--context", help="Tokens so far; of a prompt, its length."),
    ] = 4096,
    chunk: Annotated[
        int, typer.Option("--chunk", help="Tokens of a prompt in this step; 0: all of it.")
    ] = 0,
    graph: Graph = None,
    overlap: Overlap = None,
    greedy: Annotated[
        bool, typer.Option("--greedy", help="The largest logit, without sorting and sampling.")
    ] = False,
    architecture: Described = None,
    interconnect: Links = None,
    top: Annotated[int, typer.Option("--top", min=1, help="Operators to list.")] = 12,
    as_json: AsJson = False,
) -> None:
    """How long does one step take, what is it made of, and does it fit?

    Exit code 1 where every chip refuses an operator, or the step doesn't fit.

    Example: npusim llm step config.json -s 910b3 --tp 4 --batch 32 --context 4096
    """
    from npusim.llm import step
    from npusim.llm.workload import batch_of
    from npusim.reporting.llm import step_json, step_page

    model = _model(config, architecture)
    layout = _layout(cards, tp, pp, dp, ep)
    work = batch_of(phase, batch, context, chunk=chunk)

    def timed(chip: Chip) -> LlmStep:
        return step(
            model, chip.profile, layout, work, dtype=dtype, graph=graph,
            interconnect=interconnect, sampling=not greedy, overlap=overlap,
        )  # fmt: skip

    found = [timed(chip) for chip in chips(soc)]
    if as_json:
        _emit([step_json(each) for each in found])
    else:
        output.emit(*(step_page(each, top) for each in found))
    if not any(each.runs for each in found):
        raise typer.Exit(1)


@app.command("serve")
def serve_(
    config: Config,
    soc: Socs = None,
    cards: Cards = None,
    tp: Tp = 1,
    pp: Pp = 1,
    dp: Dp = None,
    ep: Ep = 1,
    dtype: Dtype = None,
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", help="Requests that clients have open at most.")
    ] = None,
    rate: Annotated[
        float | None, typer.Option("--rate", help="Requests a second, Poisson; default: at once.")
    ] = None,
    input_tokens: Annotated[int, typer.Option("--input", help="Tokens of a prompt.")] = 1024,
    output_tokens: Annotated[int, typer.Option("--output", help="Tokens of an answer.")] = 256,
    spread: Annotated[
        float, typer.Option("--spread", help="Lengths lie evenly within this share of theirs.")
    ] = 0.0,
    requests: Annotated[
        int | None, typer.Option("--requests", help="Default: five times the concurrency, or 500.")
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option("--trace", metavar="FILE", help="Azure LLM, BurstGPT or Mooncake requests."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of arrivals and lengths.")] = 0,
    max_sequences: Annotated[
        int, typer.Option("--max-sequences", help="Of a step of one data-parallel group.")
    ] = 256,
    max_tokens: Annotated[int, typer.Option("--max-tokens", help="Of a step.")] = 8192,
    schedule: Annotated[
        str, typer.Option("--schedule", help="chunked (vllm-ascend) or prefill_first (MindIE).")
    ] = "chunked",
    prefix_share: Annotated[
        float, typer.Option("--prefix-share", help="Share of a prompt found in the cache.")
    ] = 0.0,
    draft: Annotated[int, typer.Option("--draft", help="Tokens that a draft proposes.")] = 0,
    accepted: Annotated[
        float, typer.Option("--accepted", help="Tokens of a draft that are accepted on average.")
    ] = 0.0,
    answers: Annotated[
        str | None,
        typer.Option(
            "--decode",
            metavar="tp=4,dp=8",
            help="Layout of cards that decode; the others read prompts.",
        ),
    ] = None,
    ttft: Annotated[
        float | None, typer.Option("--ttft-ms", help="Objective for goodput: first token.")
    ] = None,
    tpot: Annotated[
        float | None, typer.Option("--tpot-ms", help="Objective for goodput: further tokens.")
    ] = None,
    graph: Graph = None,
    overlap: Overlap = None,
    greedy: Annotated[
        bool, typer.Option("--greedy", help="The largest logit, without sorting and sampling.")
    ] = False,
    architecture: Described = None,
    interconnect: Links = None,
    as_json: AsJson = False,
) -> None:
    """How fast are requests answered? TTFT, TPOT, tokens a second, preemptions.

    Example: npusim llm serve config.json -s 910b3 --tp 4 --concurrency 32 --input 3500
    """
    from npusim.llm.layout import layout_of
    from npusim.reporting.serving import serve_json, serve_page
    from npusim.serving import Policy, deploy, even_lengths, read_requests, serve_apart
    from npusim.values.errors import ArgumentError

    if not 0 <= accepted <= draft <= 15:
        raise ArgumentError(
            f"{accepted:g} accepted of a draft of {draft}", "Say 0 <= --accepted <= --draft <= 15."
        )
    if concurrency is not None and concurrency < 1:
        raise ArgumentError(f"--concurrency {concurrency}", "Say 1 or more.")
    model, layout = _model(config, architecture), _layout(cards, tp, pp, dp, ep)
    asked = (
        read_requests(trace)
        if trace
        else even_lengths(
            requests or 5 * (concurrency or 100), input_tokens, output_tokens,
            rate_per_s=rate, spread=spread, seed=seed,
        )
    )  # fmt: skip
    policy = Policy(
        max_sequences=min(max_sequences, max(1, len(asked))),
        max_tokens=max_tokens, schedule=schedule, prefix_share=prefix_share,
    )  # fmt: skip
    decoding = layout_of(answers) if answers else None
    options: dict[str, Any] = {
        "longest": int((asked.input_tokens + asked.output_tokens).max()),
        "prompt": max(1, int(asked.input_tokens.mean())), "dtype": dtype,
        "draft": draft, "tokens_per_step": 1 + accepted, "progress": output.progress,
        "graph": graph, "interconnect": interconnect, "sampling": not greedy,
        "overlap": overlap,
    }  # fmt: skip
    wanted: dict[str, Any] = {"concurrency": concurrency, "ttft_ms": ttft, "tpot_ms": tpot}
    found: list[tuple[Any, ...]] = []
    for chip in chips(soc):
        ready = deploy(model, chip.profile, layout, policy, **options)
        if decoding is None:
            found.append((ready, ready.serve(asked, **wanted)))
        else:
            behind = deploy(model, chip.profile, decoding, policy, **options)
            found.append((ready, serve_apart(ready, behind, asked, **wanted), behind))
        output.progress("")
    if as_json:
        _emit([serve_json(*each) for each in found])
    else:
        output.emit(*(serve_page(*each) for each in found))


@app.command("train")
def train_(
    config: Config,
    soc: Socs = None,
    cards: Cards = None,
    tp: Tp = 1,
    pp: Pp = 1,
    dp: Dp = None,
    ep: Ep = 1,
    dtype: Annotated[str | None, typer.Option("--dtype", help="bf16 or fp16.")] = None,
    seq: Annotated[int, typer.Option("--seq", help="Tokens of a sequence.")] = 4096,
    micro_batch: Annotated[
        int, typer.Option("--micro-batch", help="Sequences of a micro-batch of one rank.")
    ] = 1,
    global_batch: Annotated[
        int | None, typer.Option("--global-batch", help="Sequences of a step; default: one each.")
    ] = None,
    zero: Annotated[
        int, typer.Option("--zero", help="1: data-parallel ranks share the optimizer's states.")
    ] = 0,
    recompute: Annotated[
        str, typer.Option("--recompute", help="none, or full: layers are computed again.")
    ] = "none",
    virtual: Annotated[
        int, typer.Option("--virtual", help="Chunks of layers of each pipeline stage.")
    ] = 1,
    architecture: Described = None,
    interconnect: Links = None,
    as_json: AsJson = False,
) -> None:
    """How long does a training step take? Tokens/s per card, pipeline bubble, memory.

    Exit code 1 where it fits on no chip that was asked.

    Example: npusim llm train config.json -s 910b1 --tp 8 --global-batch 64 --zero 1
    """
    from npusim.llm.training import Training, train
    from npusim.reporting.training import training_json, training_page

    model, layout = _model(config, architecture), _layout(cards, tp, pp, dp, ep)
    batch = global_batch or micro_batch * layout.dp
    asked = Training(seq, micro_batch, batch, recompute, zero, virtual)
    found = [
        train(model, chip.profile, layout, asked, dtype=dtype, interconnect=interconnect)
        for chip in chips(soc)
    ]
    if as_json:
        _emit([training_json(each) for each in found])
    else:
        output.emit(*map(training_page, found))
    if not any(each.memory.fits for each in found):
        raise typer.Exit(1)


def _emit(answers: list[dict[str, Any]]) -> None:
    """One document: the first chip's answer, and all of them under `answers`."""
    output.emit_json({**answers[0], "answers": answers})


def _model(config: Path, architecture: Path | None) -> LanguageModel:
    from npusim.llm import read_model

    return read_model(config, architecture)


def _layout(cards: int | None, tp: int, pp: int, dp: int | None, ep: int) -> Layout:
    from npusim.llm import Layout
    from npusim.values.errors import ArgumentError

    rest = tp * pp
    if dp is None:
        dp = max(1, (cards or rest) // rest) if rest > 0 else 1
    layout = Layout(tp, pp, dp, ep)
    if cards is not None and cards != layout.cards:
        raise ArgumentError(
            f"{layout} takes {layout.cards} chips, not {cards}", "Choose --tp, --pp, --dp to match."
        )
    return layout

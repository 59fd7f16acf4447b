"""`npusim llm`: language models, by their config.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from npusim.cli import llm_options as said
from npusim.cli import output
from npusim.cli.chips import Chip, chips
from npusim.cli.options import AsJson, Figures, Force, Html, Links, Socs, Top
from npusim.cli.pages import Files, retold

if TYPE_CHECKING:
    from npusim.llm import LanguageModel, Layout
    from npusim.serving import Policy
    from npusim.serving.requests import Requests

app = typer.Typer(
    help="Language models by their config.json: a step, serving, training.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("step")
def step_(
    context_: typer.Context,
    config: said.Config,
    soc: Socs = None,
    cards: said.Cards = None,
    tp: said.Tp = 1,
    pp: said.Pp = 1,
    dp: said.Dp = None,
    ep: said.Ep = 1,
    sp: said.Sp = False,
    dcp: said.Dcp = 1,
    dtype: said.Dtype = None,
    phase: said.Phase = "decode",
    batch: said.Sequences = 1,
    context: said.Context = 4096,
    chunk: said.Chunk = 0,
    images: said.Images = 0,
    image_size: said.ImageSize = "1024x1024",
    graph: said.Graph = None,
    overlap: said.Overlap = None,
    greedy: said.Greedy = False,
    top_k: said.TopK = 20,
    top_p: said.TopP = 0.95,
    penalties: said.Penalties = False,
    expert_skew: said.Skew = 0.0,
    expert_counts: said.ExpertCounts = None,
    architecture: said.Described = None,
    interconnect: Links = None,
    top: Top = 12,
    html: Html = None,
    figures: Figures = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """How long does one step take, what is it made of, and does it fit?

    Exit code 1 where every chip refuses an operator, or the step doesn't fit.

    Example: npusim llm step config.json -s 910b3 --tp 4 --batch 32 --context 4096
    """
    from npusim.llm import step
    from npusim.llm.workload import batch_of
    from npusim.reporting.llm import step_json, step_page
    from npusim.reporting.llm_pages import steps_page

    files = Files(html, figures, force)
    files.claim(beside=(config, expert_counts))
    model = said.model_in(config, architecture)
    layout = said.layout_on(cards, tp, pp, dp, ep, sp=sp, dcp=dcp)
    work = batch_of(phase, batch, context, chunk=chunk)
    work = said.with_images(model, work, images, image_size)
    sampling = said.sampling_of(greedy, top_k, top_p, penalties)
    popularity = said.popularity_of(expert_skew, expert_counts)
    found = [
        step(
            model, chip.profile, layout, work, dtype=dtype, graph=graph,
            interconnect=interconnect, sampling=sampling, overlap=overlap,
            popularity=popularity,
        )
        for chip in chips(soc)
    ]  # fmt: skip
    if html or figures:
        files.write(steps_page(found, top, retold(context_, "llm", "step")))
    if as_json:
        _emit([step_json(each) for each in found])
    else:
        output.emit(*(step_page(each, top) for each in found))
    if not any(each.runs for each in found):
        raise typer.Exit(1)


@app.command("serve")
def serve_(
    context_: typer.Context,
    config: said.Config,
    soc: Socs = None,
    cards: said.Cards = None,
    tp: said.Tp = 1,
    pp: said.Pp = 1,
    dp: said.Dp = None,
    ep: said.Ep = 1,
    sp: said.Sp = False,
    dcp: said.Dcp = 1,
    dtype: said.Dtype = None,
    concurrency: said.Concurrency = None,
    rate: said.Rate = None,
    input_tokens: said.InputTokens = 1024,
    output_tokens: said.OutputTokens = 256,
    spread: said.Spread = 0.0,
    requests: said.Number = None,
    trace: said.Trace = None,
    seed: said.Seed = 0,
    max_sequences: said.MaxSequences = 256,
    max_tokens: said.MaxTokens = 2048,
    schedule: said.Schedule = "chunked",
    prefix_share: said.PrefixShare = 0.0,
    draft: said.Draft = 0,
    accepted: said.Accepted = 0.0,
    answers: said.Decoding = None,
    replicas: said.Replicas = 1,
    decode_replicas: said.DecodeReplicas = 1,
    router: said.ToWhom = "round_robin",
    ttft: said.TtftMs = None,
    tpot: said.TpotMs = None,
    graph: said.Graph = None,
    overlap: said.Overlap = None,
    greedy: said.Greedy = False,
    top_k: said.TopK = 20,
    top_p: said.TopP = 0.95,
    penalties: said.Penalties = False,
    expert_skew: said.Skew = 0.0,
    expert_counts: said.ExpertCounts = None,
    architecture: said.Described = None,
    interconnect: Links = None,
    html: Html = None,
    figures: Figures = None,
    as_json: AsJson = False,
    as_bench: said.AsBench = False,
    force: Force = False,
) -> None:
    """How fast are requests answered? TTFT, TPOT, tokens a second, preemptions.

    Example: npusim llm serve config.json -s 910b3 --tp 4 --concurrency 32 --input 3500
    """
    from npusim.llm.layout import layout_of
    from npusim.reporting.llm_pages import served_page
    from npusim.reporting.serving import bench_json, serve_json, serve_page
    from npusim.serving import Policy, check_router

    check_router(router)
    files = Files(html, figures, force)
    files.claim(beside=(config, trace, expert_counts))
    per_step, tokens = said.tokens_per_step(draft, accepted), (input_tokens, output_tokens)
    model = said.model_in(config, architecture)
    asked = said.requests_of(trace, requests, concurrency, tokens, rate, spread, seed)
    most = min(max_sequences, max(1, len(asked)))
    policy = Policy(most, max_tokens, schedule=schedule, prefix_share=prefix_share)
    layout = said.layout_on(cards, tp, pp, dp, ep, sp=sp, dcp=dcp)
    layouts = [layout, *([layout_of(answers)] if answers else [])]
    sampling = said.sampling_of(greedy, top_k, top_p, penalties)
    popularity = said.popularity_of(expert_skew, expert_counts)
    options = {
        "dtype": dtype, "draft": draft, "tokens_per_step": per_step, "graph": graph,
        "interconnect": interconnect, "sampling": sampling, "overlap": overlap,
        "popularity": popularity, "progress": output.progress,
    }  # fmt: skip
    wanted = {
        "concurrency": concurrency, "ttft_ms": ttft, "tpot_ms": tpot,
        "replicas": (replicas, decode_replicas) if answers else replicas, "router": router,
    }  # fmt: skip
    found = [_served(model, chip, layouts, policy, asked, options, wanted) for chip in chips(soc)]
    if html or figures:
        files.write(served_page(found, retold(context_, "llm", "serve")))
    if as_bench:
        _emit([bench_json(*each) for each in found])
    elif as_json:
        _emit([serve_json(*each) for each in found])
    else:
        counts = replicas, decode_replicas
        output.emit(*(serve_page(*each, replicas=counts) for each in found))


def _served(
    model: LanguageModel,
    chip: Chip,
    layouts: list[Layout],
    policy: Policy,
    asked: Requests,
    options: Mapping[str, Any],
    wanted: Mapping[str, Any],
) -> tuple[Any, ...]:
    """A deployment, what it does, and the one behind it that decodes, if there are two layouts."""
    from npusim.serving import deploy, serve_apart

    longest = int((asked.input_tokens + asked.output_tokens).max())
    prompt = max(1, int(asked.input_tokens.mean()))
    every = [
        deploy(model, chip.profile, layout, policy, longest=longest, prompt=prompt, **options)
        for layout in layouts
    ]
    ready, behind = every[0], every[-1]
    if ready is behind:
        found = ready.serve(asked, **wanted)
        output.progress("")
        return ready, found
    found = serve_apart(ready, behind, asked, **wanted)
    output.progress("")
    return ready, found, behind


@app.command("train")
def train_(
    config: said.Config,
    soc: Socs = None,
    cards: said.Cards = None,
    tp: said.Tp = 1,
    pp: said.Pp = 1,
    dp: said.Dp = None,
    ep: said.Ep = 1,
    dtype: said.TrainingDtype = None,
    seq: said.Seq = 4096,
    micro_batch: said.MicroBatch = 1,
    global_batch: said.GlobalBatch = None,
    zero: said.Zero = 0,
    recompute: said.Recompute = "none",
    virtual: said.Virtual = 1,
    architecture: said.Described = None,
    interconnect: Links = None,
    as_json: AsJson = False,
) -> None:
    """How long does a training step take? Tokens/s per card, pipeline bubble, memory.

    Exit code 1 where it fits on no chip that was asked.

    Example: npusim llm train config.json -s 910b1 --tp 8 --global-batch 64 --zero 1
    """
    from npusim.llm.training import Training, train
    from npusim.reporting.training import training_json, training_page

    model, layout = said.model_in(config, architecture), said.layout_on(cards, tp, pp, dp, ep)
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

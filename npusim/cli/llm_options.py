"""The options of `npusim llm`, and what they stand for: a model, a layout, requests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from npusim.values.errors import ArgumentError

if TYPE_CHECKING:
    from npusim.llm import Batch, LanguageModel, Layout, Popularity, Sampling
    from npusim.serving.requests import Requests

Config = Annotated[
    Path,
    typer.Argument(metavar="CONFIG", help="A config.json of Hugging Face, or its folder."),
]
Cards = Annotated[int | None, typer.Option("--cards", help="Chips in all; default: tp x pp x dp.")]
Tp = Annotated[int, typer.Option("--tp", help="Tensor parallelism.")]
Pp = Annotated[int, typer.Option("--pp", help="Pipeline stages.")]
Dp = Annotated[int | None, typer.Option("--dp", help="Data parallelism; default: what is left.")]
Ep = Annotated[int, typer.Option("--ep", help="Ranks over which experts are dealt: tp x dp.")]
Sp = Annotated[
    bool,
    typer.Option("--sp", help="Ranks of --tp share norms of prompts, as FlashComm of vllm-ascend."),
]
Dcp = Annotated[
    int,
    typer.Option("--dcp", help="Ranks of --tp that keep parts of the same keys (vllm's DCP)."),
]
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
Phase = Annotated[str, typer.Option("--phase", help="prefill, decode or mixed.")]
Sequences = Annotated[
    int, typer.Option("--batch", help="Sequences, or prompts, of one data-parallel group.")
]
Context = Annotated[int, typer.Option("--context", help="Tokens so far; of a prompt, its length.")]
Chunk = Annotated[
    int, typer.Option("--chunk", help="Tokens of a prompt in this step; 0: all of it.")
]
Greedy = Annotated[
    bool, typer.Option("--greedy", help="The largest logit, without sorting and sampling.")
]

TopK = Annotated[
    int, typer.Option("--top-k", help="Tokens to draw from; 0: all. With --top-p 1 nothing sorts.")
]
TopP = Annotated[float, typer.Option("--top-p", help="Probability to draw from.")]
Penalties = Annotated[
    bool, typer.Option("--penalties", help="Presence, frequency or repetition penalties.")
]
Images = Annotated[int, typer.Option("--images", help="Images that each prompt brings.")]
ImageSize = Annotated[str, typer.Option("--image-size", metavar="WxH", help="Pixels of an image.")]

Concurrency = Annotated[
    int | None, typer.Option("--concurrency", help="Requests that clients have open at most.")
]
Rate = Annotated[
    float | None, typer.Option("--rate", help="Requests a second, Poisson; default: at once.")
]
InputTokens = Annotated[int, typer.Option("--input", help="Tokens of a prompt.")]
OutputTokens = Annotated[int, typer.Option("--output", help="Tokens of an answer.")]
Spread = Annotated[
    float, typer.Option("--spread", help="Lengths lie evenly within this share of theirs.")
]
Number = Annotated[
    str | None,
    typer.Option(
        "--requests",
        metavar="N|FILE",
        help="How many, or a file of them; default: five times the concurrency, or 500.",
    ),
]
Trace = Annotated[
    Path | None,
    typer.Option(
        "--trace",
        metavar="FILE",
        help="Requests of Azure LLM, BurstGPT, Mooncake, vLLM or ShareGPT.",
    ),
]
Seed = Annotated[int, typer.Option("--seed", help="Of arrivals and lengths.")]
MaxSequences = Annotated[
    int, typer.Option("--max-sequences", help="Of a step of one data-parallel group.")
]
MaxTokens = Annotated[
    int, typer.Option("--max-tokens", help="Of a step; what `vllm serve` takes on these products.")
]
Schedule = Annotated[
    str, typer.Option("--schedule", help="chunked (vllm-ascend) or prefill_first (MindIE).")
]
PrefixShare = Annotated[
    float, typer.Option("--prefix-share", help="Share of a prompt found in the cache.")
]
Draft = Annotated[int, typer.Option("--draft", help="Tokens that a draft proposes.")]
Accepted = Annotated[
    float,
    typer.Option("--accepted", help="Tokens of a draft that are accepted on average."),
]
Decoding = Annotated[
    str | None,
    typer.Option(
        "--decode",
        metavar="tp=4,dp=8",
        help="Layout of cards that decode; the others read prompts.",
    ),
]
Replicas = Annotated[
    int, typer.Option("--replicas", min=1, max=4096, help="Times that the layout is there.")
]
DecodeReplicas = Annotated[
    int,
    typer.Option(
        "--decode-replicas", min=1, max=4096, help="Times that the layout of --decode is there."
    ),
]
Skew = Annotated[
    float,
    typer.Option("--expert-skew", help="Zipf's exponent of how popular experts are; 0: all alike."),
]
ExpertCounts = Annotated[
    Path | None,
    typer.Option("--expert-counts", metavar="FILE", help="Tokens of each expert, by number."),
]
ToWhom = Annotated[
    str,
    typer.Option(
        "--router",
        metavar="NAME",
        help="Who gets a request: round_robin, least_loaded or prefix_aware.",
    ),
]
TtftMs = Annotated[
    float | None, typer.Option("--ttft-ms", help="Objective for goodput: first token.")
]
TpotMs = Annotated[
    float | None, typer.Option("--tpot-ms", help="Objective for goodput: further tokens.")
]

AsBench = Annotated[
    bool,
    typer.Option("--bench-json", help="Print JSON in the keys of vllm bench serve."),
]

TrainingDtype = Annotated[str | None, typer.Option("--dtype", help="bf16 or fp16.")]
Seq = Annotated[int, typer.Option("--seq", help="Tokens of a sequence.")]
MicroBatch = Annotated[
    int, typer.Option("--micro-batch", help="Sequences of a micro-batch of one rank.")
]
GlobalBatch = Annotated[
    int | None, typer.Option("--global-batch", help="Sequences of a step; default: one each.")
]
Zero = Annotated[
    int, typer.Option("--zero", help="1: data-parallel ranks share the optimizer's states.")
]
Recompute = Annotated[
    str, typer.Option("--recompute", help="none, or full: layers are computed again.")
]
Virtual = Annotated[int, typer.Option("--virtual", help="Chunks of layers of each pipeline stage.")]


def model_in(config: Path, architecture: Path | None) -> LanguageModel:
    """The model that a config.json, or a YAML beside it, describes."""
    from npusim.llm import read_model

    return read_model(config, architecture)


def sampling_of(greedy: bool, top_k: int, top_p: float, penalties: bool) -> Sampling:
    """What requests ask of the sampler."""
    from npusim.llm import Sampling

    return Sampling(greedy, top_k, top_p, penalties)


def popularity_of(skew: float, counts: Path | None) -> Popularity | None:
    """How tokens go to experts; None where evenly."""
    from npusim.llm import Popularity, read_counts

    if counts is not None:
        return read_counts(counts)
    return Popularity(skew) if skew else None


def with_images(model: LanguageModel, batch: Batch, images: int, size: str) -> Batch:
    """A batch whose prompts bring images beside their text; ArgumentError for a blind model."""
    if not images:
        return batch
    tower = model.architecture.tower
    across, _, down = size.lower().partition("x")
    if not (across.isdecimal() and down.isdecimal()) or images < 0:
        raise ArgumentError(f"--image-size {size}", "Say pixels, for example 1024x768.")
    if tower is None or tower.patch is None:
        raise ArgumentError(f"{model.name} sees no images", "Leave --images away.")
    if not batch.prompts:
        raise ArgumentError("images in a step without prompts", "Say --phase prefill or mixed.")
    patches = tower.patches(int(across), int(down))
    seen = images * tower.tokens(patches)
    return replace(
        batch, chunk=batch.chunk + seen, pictures=batch.prompts * images, patches=patches
    )


def layout_on(
    cards: int | None,
    tp: int,
    pp: int,
    dp: int | None,
    ep: int,
    *,
    sp: bool = False,
    dcp: int = 1,
) -> Layout:
    """How the cards are shared out; ArgumentError where their number isn't that of the ranks."""
    from npusim.llm import Layout

    rest = tp * pp
    if dp is None:
        dp = max(1, (cards or rest) // rest) if rest > 0 else 1
    layout = Layout(tp, pp, dp, ep, sp, dcp)
    if cards is not None and cards != layout.cards:
        raise ArgumentError(
            f"{layout} takes {layout.cards} chips, not {cards}", "Choose --tp, --pp, --dp to match."
        )
    return layout


def requests_of(
    trace: Path | None,
    requests: str | None,
    concurrency: int | None,
    tokens: tuple[int, int],
    rate: float | None,
    spread: float,
    seed: int,
) -> Requests:
    """Those of a file, or as many as make sense of these lengths; `tokens` are in and out."""
    from npusim.serving import even_lengths, read_requests

    if concurrency is not None and concurrency < 1:
        raise ArgumentError(f"--concurrency {concurrency}", "Say 1 or more.")
    number = None
    if requests is not None and trace is None and not _is_number(requests):
        trace = Path(requests)
    elif requests is not None:
        if not _is_number(requests) or int(requests) < 1:
            raise ArgumentError(f"--requests {requests}", "Say 1 or more, or a file of them.")
        number = int(requests)
    if trace:
        found = read_requests(trace, rate_per_s=rate, seed=seed, output_tokens=tokens[1])
        return found if number is None else found.first(number)
    number = number or 5 * (concurrency or 100)
    return even_lengths(number, *tokens, rate_per_s=rate, spread=spread, seed=seed)


def _is_number(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdecimal() and len(digits) < 20


def tokens_per_step(draft: int, accepted: float) -> float:
    """Tokens that a sequence gets in a step; ArgumentError for more than a draft proposes."""
    if not 0 <= accepted <= draft <= 15:
        raise ArgumentError(
            f"{accepted:g} accepted of a draft of {draft}", "Say 0 <= --accepted <= --draft <= 15."
        )
    return 1 + accepted

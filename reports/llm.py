"""Makes reports/llm.md: published measurements of language models against npusim, worst first.

python reports/llm.py > reports/llm.md
"""

from __future__ import annotations

import csv
import gzip
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING

from npusim.cluster import collective
from npusim.hardware import load_profile
from npusim.llm import Batch, LanguageModel, Layout, read_model, step
from npusim.llm.architecture import Architecture
from npusim.llm.parts import Block
from npusim.llm.sampling import Sampling
from npusim.llm.training import Training, train
from npusim.serving import Policy, deploy, even_lengths, serve_apart
from npusim.values.errors import NpusimError

if TYPE_CHECKING:
    from npusim.serving import Deployment
    from npusim.serving.results import Served

DATA = Path(__file__).parent / "data"
HEAD = """# Language models and collectives: measured against simulated

Rows are public measurements of trust A and B (`data/measured_llm.csv.gz`; every row names its source). A ratio is
simulated over measured. Rows that a constant was fitted on say so (`hw_profiles/interconnects`, `hw_profiles/engines.yaml`)
and count in no figure of the summary. Where the bin of an Atlas A2 chip isn't stated, 910B3 is taken (910B1 for Atlas 900
A2 PoD, 910B4-1 for Atlas 800I A2). Throughputs of continuous integration are guards, which readings lie above.
What a row doesn't say is as the engine has it by default: 2,048 tokens of a step of `vllm serve` (vllm/engine/arg_utils.py; no NPU
says how much memory it has), 256 sequences, norms that ranks don't share (`sp=1`: FlashComm was on). AISBench asks for the largest
logit (vllm-ascend's tools/aisbench.py), vLLM's benchmark did until it left that to servers; Qwen2.5-7B-Instruct penalises repetition
by its own generation_config.json. Rows of July 2025 with `ascend_scheduler_config` read prompts first. Left out by rule: vLLM's
engine V0; a budget that isn't stated and, by the row's own times between tokens, isn't the default.
Decoding windows of Qwen3-32B were profiled while requests came and went: a window's time is divided by its steps that
only decode, and prompts in between are counted with them. Here every sequence brings a step with its prompt of 4,096
tokens for each answer of 1,536, which is the mean of a whole run; that many came at once in windows with 16 and 32
requests isn't in the rows (their AllReduce take 20.2 and 24.1 us in the median, by which 2.7 and 3.3 ms of 5.2 and
7.7 would be communication). Prompts of the vendor's engine hide collectives behind products (`overlap=1`: DuoStream in
the paper on Pangu Pro MoE, `enable_mc2` by default in MindIE's configuration). Of 22 published memory peaks of training two state
all but the vocabulary, which is that of the model here. How the host launched a step is
vllm-ascend's default at the date of a row, where the row doesn't say: operators until May 2025, graphs between
attentions (ACL graph, `PIECEWISE`) until May 2026, one graph for decoding since (`FULL_AND_PIECEWISE`).
Tokens are decoded by FusedInferAttentionScore in packed sequences, as vllm-ascend has it; the vendor's engine takes ATB's paged
attention instead, which isn't modelled (the row with 336 sequences). Guards that a case without graphs shares are met by it too.
CloudMatrix384 read prompts on 32 dies, 5,655 tokens/s a package with experts as they were balanced and 6,688 with
experts balanced perfectly, which they are here; it decoded on 320 dies with a draft of one token that 70 % accept. Of
these 64 have shared and redundant experts, where here 256 have one expert each and the shared one; their micro-batches
overlap, which isn't modelled.

Remade by `python reports/llm.py > reports/llm.md`.
"""


@dataclass(frozen=True)
class Row:
    """A measurement: what was run, and the value."""

    kind: str
    model: str
    soc: str
    layout: str
    dtype: str
    graph: str
    setting: str
    metric: str
    value: float
    trust: str
    fitted: str
    left_out: str
    source: str

    @property
    def said(self) -> dict[str, float]:
        """The numbers of the setting by their names."""
        return {name: float(value) for name, value in _pairs(self.setting)}

    def number(self, name: str, default: int = 0) -> int:
        """A whole number of the setting."""
        return int(self.said.get(name, default))

    @property
    def deployed(self) -> Layout:
        """How the model is laid out, or the part of it that reads prompts."""
        return self._laid_out("")

    @property
    def decoding(self) -> Layout | None:
        """How the cards that decode are laid out, where they are others."""
        return self._laid_out("decode_") if "decode_" in self.layout else None

    @property
    def sampling(self) -> Sampling:
        """How tokens were drawn."""
        return Sampling(
            greedy=bool(self.number("greedy")), penalties=bool(self.number("penalties"))
        )

    def _laid_out(self, of: str) -> Layout:
        sizes = {name: int(value) for name, value in _pairs(self.layout)}
        tp, pp, dp, ep = (sizes.get(f"{of}{name}", 1) for name in ("tp", "pp", "dp", "ep"))
        return Layout(tp, pp, dp, ep, bool(sizes.get("sp", 0)))


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for word in text.split():
        name, _, value = word.partition("=")
        yield name, value


def rows() -> list[Row]:
    """The table as it is shipped."""
    with gzip.open(DATA / "measured_llm.csv.gz", "rt", encoding="utf-8", newline="") as file:
        return [Row(**{**each, "value": float(each["value"])}) for each in csv.DictReader(file)]


@cache
def model(name: str) -> LanguageModel:
    """A model by the name of its config."""
    return read_model(DATA / "llm_configs" / f"{name}.json")


def simulated(row: Row) -> float:
    """The same figure by npusim."""
    answers = {"collective": _collective, "step": _step, "train": _train}
    return answers.get(row.kind.partition(",")[0], _serve)(row)


def _collective(row: Row) -> float:
    return collective(
        row.model, row.soc, cards=row.number("ranks"), nbytes=row.number("nbytes"),
        in_graph=bool(row.number("in_graph")),
    ).duration_us  # fmt: skip


def _step(row: Row) -> float:
    names = ("sequences", "context", "prompts", "chunk", "drafted")
    batch = Batch(**{name: row.number(name) for name in names})
    parts = {"compute": "compute_ms", "comm": "communication_ms", "free": "host_ms"}
    part = parts.get(row.metric.removesuffix("_ms").partition("_")[2], "step_ms")

    def timed(batch: Batch, graph: str | None) -> float:
        found = step(
            model(row.model), load_profile(row.soc), row.deployed, batch,
            dtype=row.dtype, graph=graph, sampling=row.sampling,
            overlap=bool(row.number("overlap")) or None,
        )  # fmt: skip
        if row.metric.endswith("_us"):
            sent = next(e for e in found.exchanges if e.why == row.metric.removesuffix("_us"))
            return sent.total_ms / sent.count * 1e3
        return float(getattr(found, part))

    alone = timed(batch, row.graph)
    if row.metric == "tok_s_per_card":
        return row.number("dies", 1) * batch.tokens / alone * 1e3
    if row.metric == "tpot_ms":
        return alone / (1 + row.said.get("accepted", 0.0))
    if not row.number("prompt"):
        return alone
    read = timed(Batch(prompts=1, chunk=row.number("prompt")), None)
    return alone + batch.sequences / row.number("output") * read


def _serve(row: Row) -> float:
    found = _served(row.model, row.soc, row.layout, row.dtype, row.graph, row.setting)
    figures = {
        "output_tok_s_total": found.output_tok_s,
        "tpot_ms": found.tpot_ms.mean,
        "ttft_ms": found.ttft_ms.mean,
    }
    return figures[row.metric]


@cache
def _served(name: str, soc: str, layout: str, dtype: str, graph: str, setting: str) -> Served:
    row = Row("serve", name, soc, layout, dtype, graph, setting, "", 0, "", "", "", "")
    tokens, answer = row.number("input"), row.number("output")

    def deployed(laid_out: Layout, part: str) -> Deployment:
        policy = Policy(
            max_sequences=min(row.number(f"{part}_sequences", 256), row.number("requests")),
            max_tokens=row.number(f"{part}_tokens", Policy().max_tokens),
            schedule="prefill_first" if row.number("prefill_first") else "chunked",
        )
        return deploy(
            model(name), load_profile(soc), laid_out, policy,
            longest=tokens + answer, prompt=tokens, dtype=dtype, graph=graph, sampling=row.sampling,
        )  # fmt: skip

    ready = deployed(row.deployed, "max")
    asked = even_lengths(row.number("requests"), tokens, answer, rate_per_s=row.said.get("rate"))
    concurrency = row.number("concurrency")
    if row.decoding is None:
        return ready.serve(asked, concurrency=concurrency)
    behind = deployed(row.decoding, "decode" if "decode_" in setting else "max")
    return serve_apart(ready, behind, asked, concurrency=concurrency)


def _train(row: Row) -> float:
    names = ("hidden", "heads", "kv_heads", "width", "vocabulary", "head_dim")
    stack = (Block(count=row.number("layers")),)
    sizes = Architecture(name=row.model, stack=stack, **{name: row.number(name) for name in names})
    asked = Training(
        row.number("length"), row.number("micro_batch"), row.number("global_batch"),
        "full" if row.number("full") else "none", row.number("zero"), row.number("virtual", 1),
    )  # fmt: skip
    known = LanguageModel(row.model, sizes, row.dtype, "")
    found = train(known, load_profile(row.soc), row.deployed, asked)
    # What a framework has allocated holds no buffers of communication.
    allocated = found.memory.total_bytes - found.memory.buffer_bytes
    figures = {"step_ms": found.step_ms, "peak_mem_MiB": allocated / 2**20}
    return figures.get(row.metric, found.tok_s_per_card)


def page(measured: list[Row]) -> Iterator[str]:
    """The page, line by line."""
    yield HEAD
    used = [row for row in measured if not row.left_out]
    found: list[tuple[Row, float]] = []
    refused: Counter[str] = Counter()
    for number, row in enumerate(used, 1):
        print(f"{number}/{len(used)} {row.kind} {row.model}", file=sys.stderr)  # noqa: T201
        try:
            found.append((row, simulated(row) / row.value))
        except NpusimError as error:
            refused[error.message.split("\n")[0]] += 1
    yield from _summary(found)
    for kind in dict.fromkeys(row.kind for row in used):
        yield f"\n## {kind}\n"
        yield "| model | chip | layout | dtype | setting | metric | measured | ratio | trust | fitted |"
        yield "|---|---|---|---|---|---|---:|---:|---|---|"
        mine = [(row, ratio) for row, ratio in found if row.kind == kind]
        for row, ratio in sorted(mine, key=lambda each: -_distance(each[1])):
            yield (
                f"| {row.model} | {row.soc} | {row.layout} | {row.dtype} | {row.setting} | "
                f"{row.metric} | {row.value:g} | {ratio:.2f} | {row.trust} | {row.fitted} |"
            )
    yield "\n## Left out\n"
    yield "| rows | why |\n|---:|---|"
    reasons = Counter(f"{row.kind}: {row.left_out}" for row in measured if row.left_out)
    for why, count in (reasons + refused).most_common():
        yield f"| {count} | {why} |"


def _summary(found: list[tuple[Row, float]]) -> Iterator[str]:
    yield "## Summary\n"
    yield "| kind | metric | rows | median ratio | median error | P90 error |"
    yield "|---|---|---:|---:|---:|---:|"
    groups: dict[tuple[str, str], list[float]] = {}
    for row, ratio in found:
        if not row.fitted:
            groups.setdefault((row.kind, row.metric), []).append(ratio)
    for (kind, metric), ratios in groups.items():
        errors = [abs(ratio - 1) for ratio in ratios]
        worst = quantiles(errors, n=10)[-1] if len(errors) > 1 else errors[0]
        yield (
            f"| {kind} | {metric} | {len(ratios)} | {median(ratios):.2f} | "
            f"{median(errors):.0%} | {worst:.0%} |"
        )


def _distance(ratio: float) -> float:
    return max(ratio, 1 / ratio)


if __name__ == "__main__":
    for line in page(rows()):
        print(line)  # noqa: T201

"""Writes reports/throughput.md: published throughput of whole models on 310P3, and ours.

python reports/throughput.py

No operator times of this chip are public, so the sum of a model's kernels is compared with what
the whole model reaches: an encoder of 12 layers of 768 features (BERT base, RoBERTa base), float16,
whose kernels follow from its shape. Embedding and head (below 2 % of the work) are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from npusim.hardware import load_profile
from npusim.operators.tasks import TaskSpec
from npusim.validation.replay import simulate_task
from npusim.values.tensors import TensorSpec

SOC = "Ascend310P3"
LAYERS, FEATURES, INNER, HEADS = 12, 768, 3072, 12
TARGET = Path(__file__).with_suffix(".md")


@dataclass(frozen=True)
class Published:
    """Samples a second of one model at one batch and length."""

    model: str
    batch: int
    length: int
    samples_per_second: float


# ModelZoo-PyTorch @ 6a2804a358, ACL_PyTorch: contrib/nlp/roberta (static shapes, ais_bench),
# built-in/nlp/Bert_Base_Uncased_for_Pytorch and Bert_Uncased_Huggingface. The best figure of each.
PUBLISHED = (
    Published("roberta", 64, 16, 8649),
    Published("roberta", 64, 32, 4718),
    Published("roberta", 32, 64, 2413),
    Published("roberta", 32, 128, 1100),
    Published("Bert_Uncased_Huggingface", 4, 384, 374),
    Published("Bert_Base_Uncased", 8, 512, 218.12),
    Published("Bert_Base_Uncased", 64, 512, 211.73),
)

HEAD = f"""# Whole models on {SOC}

No operator times of {SOC} are public, so its constants come from published rates and from the
first generation, unfitted. What can be compared is the throughput of whole models: an encoder of
{LAYERS} layers with {FEATURES} features in float16, kernel by kernel from its shape, each with a
part of its inputs in L2 (`--l2 in_graph`), against what ais_bench reports for BERT base and RoBERTa
base. Embedding and head are left out.

Compiled models fuse element by element work into the matrix products and keep matrices in fractal
layout. So what a model reaches should lie between the sum of all kernels and that of the matrix
products alone, and does. The sum alone is too slow by the factors under *ratio*: as much as the
vector kernels between the products take, computed in float32 by the builtin kernels, where compiled
models may stay in float16.

Made by `python reports/throughput.py`.

| model | batch | length | all kernels, samples/s | published | products alone | ratio | longest |
|---|---:|---:|---:|---:|---:|---:|---|
"""


def half(*shape: int) -> TensorSpec:
    """A float16 tensor."""
    return TensorSpec(shape, "float16")


def layer(batch: int, length: int) -> Iterator[TaskSpec]:
    """The kernels of one encoder layer."""
    rows, depth = batch * length, FEATURES // HEADS
    hidden, wide = half(rows, FEATURES), half(rows, INNER)
    parts, heads = half(batch, length, HEADS, depth), half(batch, HEADS, length, depth)
    scores = half(batch, HEADS, length, length)
    square = half(FEATURES, FEATURES)
    for _ in range(3):
        yield TaskSpec("MatMulV2", (hidden, square, half(FEATURES)), (hidden,))
        yield TaskSpec("TransposeD", (parts,), (heads,), {"perm": (0, 2, 1, 3)})
    yield TaskSpec("BatchMatMulV2", (heads, heads), (scores,), {"adj_x2": True})
    yield TaskSpec("Mul", (scores, half()), (scores,))
    yield TaskSpec("Add", (scores, half(batch, 1, 1, length)), (scores,))
    yield TaskSpec("SoftmaxV2", (scores,), (scores,), {"axes": (-1,)})
    yield TaskSpec("BatchMatMulV2", (scores, heads), (heads,))
    yield TaskSpec("TransposeD", (heads,), (parts,), {"perm": (0, 2, 1, 3)})
    yield TaskSpec("MatMulV2", (hidden, square, half(FEATURES)), (hidden,))
    yield from _sum_and_norm(hidden)
    yield TaskSpec("MatMulV2", (hidden, half(FEATURES, INNER), half(INNER)), (wide,))
    yield TaskSpec("Gelu", (wide,), (wide,))
    yield TaskSpec("MatMulV2", (wide, half(INNER, FEATURES), half(FEATURES)), (hidden,))
    yield from _sum_and_norm(hidden)


def _sum_and_norm(hidden: TensorSpec) -> Iterator[TaskSpec]:
    rows = hidden.shape[0]
    yield TaskSpec("Add", (hidden, hidden), (hidden,))
    yield TaskSpec(
        "LayerNorm",
        (hidden, half(FEATURES), half(FEATURES)),
        (hidden, half(rows, 1), half(rows, 1)),
    )


def row(published: Published) -> str:
    """One line of the table."""
    profile = load_profile(SOC)
    times_us: Counter[str] = Counter()
    for task in layer(published.batch, published.length):
        times_us[task.op_type] += simulate_task(profile, task, "in_graph").duration_us * LAYERS
    total_us = sum(times_us.values())
    reached = published.batch / (total_us * 1e-6)
    products_us = sum(time for op, time in times_us.items() if "MatMul" in op)
    shares = ", ".join(f"{op} {time / total_us:.0%}" for op, time in times_us.most_common(4))
    return (
        f"| {published.model} | {published.batch} | {published.length} | {reached:.0f} "
        f"| {published.samples_per_second:.0f} | {published.batch / (products_us * 1e-6):.0f} "
        f"| {reached / published.samples_per_second:.2f} | {shares} |"
    )


def page() -> str:
    """The whole page."""
    return HEAD + "\n".join(map(row, PUBLISHED)) + "\n"


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")

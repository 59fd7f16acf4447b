"""How the tensors of lists are dealt out to cores."""

from __future__ import annotations

import pytest

from npusim import TensorSpec, load_profile
from npusim.operators.tasks import TaskSpec, kernels_of

A2 = load_profile("Ascend910B3")


def shares(dtype: str, *sizes: int) -> list[list[tuple[int, int]]]:
    """What each core has of every tensor, as far as it is any."""
    specs = tuple(TensorSpec((size,), dtype) for size in sizes)
    (kernel,) = kernels_of(A2, TaskSpec("ForeachNeg", specs, specs))
    assert kernel.block_dim == len(kernel.parts[0].shares)  # type: ignore[attr-defined]
    return [
        [share for share in part.shares if share[1]]
        for part in kernel.parts  # type: ignore[attr-defined]
    ]


@pytest.mark.parametrize(
    ("dtype", "sizes", "blocks"),
    [  # as the tiling of ops-nn's checkout answers
        ("fp16", (78,), 5), ("fp16", (443,), 28), ("fp16", (7, 230, 58), 19), ("int32", (128,), 16),
        ("fp32", (1,), 1), ("bf16", (2240,), 40), ("fp32", (512, 64), 40), ("int32", (128, 64), 24),
    ],
)  # fmt: skip
def test_a_core_for_every_block_of_32_bytes(
    dtype: str, sizes: tuple[int, ...], blocks: int
) -> None:
    specs = tuple(TensorSpec((size,), dtype) for size in sizes)
    (kernel,) = kernels_of(A2, TaskSpec("ForeachNeg", specs, specs))
    assert kernel.block_dim == blocks


@pytest.mark.parametrize("sizes", [(97,), (3, 1000, 17, 12345), (1, 1, 1), (40 * 8 + 8, 8)])
def test_every_element_has_one_core(sizes: tuple[int, ...]) -> None:
    for size, found in zip(sizes, shares("fp32", *sizes), strict=True):
        ends = [first + length for first, length in found]
        assert [first for first, _ in found] == [0, *ends[:-1]]
        assert ends[-1] == size
    counts = [length for part in shares("fp32", 100_000) for _, length in part]
    assert max(counts) - min(counts) <= 8

"""Small tasks of language models' kernels: inputs, outputs and attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from support.task_cases import Pick

Array = np.ndarray[Any, Any]
Case = tuple[Sequence[Array | None], Sequence[Array], Mapping[str, object]]


def gating(pick: Pick) -> Case:
    """Shares of experts of some tokens, few of them or many."""
    tokens, experts, kind = pick.size(), pick.of(4, 8, 40, 67, 130), pick.half()
    k = pick.of(1, 2, min(experts, 8), experts // 2)
    finished = pick.of(None, pick.numbers(tokens, kind=bool))
    places = [np.full((tokens, k), 77, np.int32) for _ in range(2)]
    return (
        [pick.numbers(tokens, experts, kind=kind), finished],
        [np.full((tokens, k), 77, kind), *places],
        {},
    )


def gated_product(pick: Pick) -> Case:
    """Rows of int8 in groups, some of them empty, halves of which gate each other."""
    count, k, half = pick.of(1, 2, 5), pick.size(67), pick.size(67)
    lengths = [pick.of(0, 1, 7, 40) for _ in range(count)]
    lengths[-1] += 1
    m, n = sum(lengths), 2 * half
    x, weight = ((pick.numbers(*shape) * 5).astype(np.int8) for shape in ((m, k), (count, k, n)))
    ends = np.cumsum(lengths).astype(np.int64)
    given = [x, weight, pick.positive(count, n), pick.positive(m), ends]
    return given, [np.full((m, half), 77, np.int8), np.full(m, 77, np.float32)], {}


CASES: dict[str, Callable[[Pick], Case]] = {
    "MoeGatingTopKSoftmax": gating,
    **dict.fromkeys(("GroupedMatmulSwigluQuant", "GroupedMatmulSwigluQuantV2"), gated_product),
}

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


CASES: dict[str, Callable[[Pick], Case]] = {
    "MoeGatingTopKSoftmax": gating,
}

"""How a token is taken from logits: the largest, or drawn from those that are left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from npusim.llm.work import Part, Work, part, tensor
from npusim.values.dtypes import FLOAT, INT32, INT64
from npusim.values.errors import ArgumentError
from npusim.values.language import say

if TYPE_CHECKING:
    from npusim.values.tensors import TensorSpec


@dataclass(frozen=True)
class Sampling:
    """What requests ask of the sampler.

    A limit of `top_k` tokens (0: none) or of the probability `top_p` (1: none) sorts the logits;
    `penalties` (presence, frequency, repetition) change them by what was said before. With
    `greedy` nothing is drawn, and limits mean nothing.
    """

    greedy: bool = False
    top_k: int = 20
    top_p: float = 0.95
    penalties: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.top_k <= 1 << 24:
            raise ArgumentError(f"--top-k {self.top_k}", say("Say 0 (all tokens) or more."))
        if not 0 < self.top_p <= 1:
            raise ArgumentError(f"--top-p {self.top_p:g}", say("Say more than 0, up to 1."))

    @property
    def sorts(self) -> bool:
        """Whether logits are sorted."""
        return not self.greedy and (self.top_k > 0 or self.top_p < 1)


USUAL: Final = Sampling()
"""What models of today recommend for themselves (generation_config.json of Qwen3)."""


def sampled(work: Work, sampling: Sampling, rows: int, vocabulary: int) -> None:
    """A token for each of `rows` of logits in float32.

    Random numbers are those of all rows at once, on a stream of their own, for which the division
    waits (vllm-ascend, sample/sampler.py). Products without an engine for them have the host draw
    (_310p/sample/sampler.py).
    """
    logits, chosen = tensor(FLOAT, rows, vocabulary), tensor(INT32, rows)
    if sampling.penalties:
        work.run(*_penalties(rows, vocabulary))
    largest = part("ArgMaxV2", (logits,), (chosen,))
    if sampling.greedy:
        work.run(largest)
        return
    if sampling.sorts:
        _limited(work, sampling, logits)
    work.run(part("SoftmaxV2", (logits,), (logits,)))
    by = [part("RealDiv", (logits, logits), (logits,)), largest]
    work.first_of([part("DSARandomUniform", (), (logits,)), *by], by)


def _limited(work: Work, sampling: Sampling, logits: TensorSpec) -> None:
    """Logits that are likely stay: aclnnApplyTopKTopP where vllm-ascend calls it.

    Elsewhere limits are plain operators, of which sorting takes the time (sample/sampler.py).
    """
    work.run(part("Sort", (logits,), (logits, tensor(INT64, *logits.shape))))
    if work.chip.family not in ("A2", "A3"):
        return
    places = tensor(INT32, *logits.shape)
    p = tensor(FLOAT, logits.shape[0]) if sampling.top_p < 1 else None
    k = tensor(INT32, logits.shape[0]) if sampling.top_k else None
    given = (logits, places, p, k, logits)
    work.run(part("ApplyTopKTopPWithSorted", given, (logits,)))


def _penalties(rows: int, vocabulary: int) -> list[Part]:
    """Logits scaled and cut by how often each token of the vocabulary was said."""
    logits = tensor(FLOAT, rows, vocabulary)
    return [
        part("Mul", (logits, logits), (logits,), count=3),
        part("Sub", (logits, logits), (logits,), count=2),
    ]

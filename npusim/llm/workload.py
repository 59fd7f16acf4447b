"""What one step works on: sequences that each get a token, and prompts or chunks of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd

from npusim.values.errors import ArgumentError
from npusim.values.language import say
from npusim.values.takes import takes, tells

_MOST = 1 << 24
_MOST_CAPTURED = 512
_FINE = 256
_MOST_TOKENS = 1 << 20
_MOST_SEQUENCES = 1 << 14


@tells
@dataclass(frozen=True)
class Batch:
    """A step of one data-parallel rank.

    `sequences` decode a token each behind `context` tokens, and verify so many `drafted` ones with
    it; `prompts` are read, `chunk` tokens of each, behind `before` that are in the cache already.
    `idle` rows go through the layers for nobody: those that a captured graph has on top. `pictures`
    are seen (or heard) by a model's tower in this step, `patches` of each; their tokens are among
    those of the prompts.
    """

    sequences: int = 0
    context: int = 0
    prompts: int = 0
    chunk: int = 0
    before: int = 0
    idle: int = 0
    pictures: int = 0
    patches: int = 0
    drafted: int = 0

    def __post_init__(self) -> None:
        given = (
            self.sequences, self.context, self.prompts, self.chunk, self.before, self.pictures,
            self.patches, self.drafted,
        )  # fmt: skip
        if any(not 0 <= each <= _MOST for each in given):
            raise ArgumentError(
                say("a step's numbers are {given}").format(given=", ".join(map(str, given))),
                say("Each is 0 to {most:,}.").format(most=_MOST),
            )
        if not self.tokens:
            raise ArgumentError(
                say("a step needs sequences or prompts"), say("Say --batch 1 or more.")
            )
        if self.tokens > _MOST_TOKENS or self.rows > _MOST_SEQUENCES:
            raise ArgumentError(
                say("a step of {rows} sequences with {tokens} tokens").format(
                    rows=self.rows, tokens=self.tokens
                ),
                say(
                    "A step has at most {most_sequences} sequences and {most_tokens} tokens."
                ).format(most_sequences=_MOST_SEQUENCES, most_tokens=_MOST_TOKENS),
            )

    @property
    def tokens(self) -> int:
        """Tokens that go through the layers."""
        return self.sequences * self.queries + self.prompts * self.chunk + self.idle

    @property
    def queries(self) -> int:
        """Tokens of a sequence that decodes: its own, and those of a draft."""
        return 1 + self.drafted

    @property
    def texts(self) -> int:
        """Sequences and prompts."""
        return self.sequences + self.prompts

    @property
    def rows(self) -> int:
        """Tokens that are sampled: those of each sequence, and one of each prompt."""
        return self.sequences * self.queries + self.prompts

    @property
    def phase(self) -> str:
        """``decode``, ``prefill`` or ``mixed``."""
        if not self.prompts:
            return "decode"
        return "mixed" if self.sequences else "prefill"

    @property
    def cached(self) -> int:
        """Tokens that are in the cache after the step."""
        decoding = self.sequences * (self.context + self.queries)
        return decoding + self.prompts * (self.before + self.chunk)

    @takes()
    def captured(self, tp: int) -> Batch:
        """Decoding in a captured graph: the smallest that holds it, with rows for nobody.

        vLLM captures 1, 2, 4 and the multiples of 8 (of 16 from 256 on) up to 512 rows. Where
        ranks share the rows of norms, vllm-ascend keeps the multiples of `tp` among them
        (platform.py, update_sizes_for_sequence_parallelism).
        """
        tokens = self.sequences * self.queries
        if self.phase != "decode" or tokens > _MOST_CAPTURED:
            return self
        small = [size for size in (1, 2, 4) if size >= tokens and not size % tp]
        step = 8 if tokens <= _FINE else 16
        step *= tp // gcd(step, tp)
        return replace(self, idle=min([*small, -(-tokens // step) * step]) - tokens)


def batch_of(phase: str, batch: int, context: int, *, chunk: int = 0, prompts: int = 1) -> Batch:
    """The batch of the command line: what `context` is depends on the phase.

    decode: tokens of each sequence so far. prefill: tokens of each prompt, or those before a
    `chunk` of it. mixed: `batch` sequences decode while a chunk of `prompts` others is read.
    """
    if phase == "decode":
        return Batch(batch, context)
    if phase == "prefill":
        return Batch(prompts=batch, chunk=chunk or context, before=context if chunk else 0)
    if phase == "mixed":
        return Batch(batch, context, prompts, chunk or 2048)
    raise ArgumentError(f"--phase {phase}", say("Say prefill, decode or mixed."))

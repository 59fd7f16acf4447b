"""How an engine schedules: what a step may hold, and who goes first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from npusim.values.errors import ArgumentError
from npusim.values.language import say
from npusim.values.takes import tells

SCHEDULES: Final = ("chunked", "prefill_first")
_MOST_TOKENS: Final = 1 << 20
_MOST_SEQUENCES: Final = 1 << 14


@tells
@dataclass(frozen=True)
class Policy:
    """The limits of one data-parallel group.

    ``chunked`` (vllm-ascend): a step holds a token of every running sequence, and of waiting
    prompts in their order as much as `max_tokens` leaves. ``prefill_first`` (MindIE): prompts have
    steps of their own, before any decoding goes on. Both keep the cache in blocks of `block`
    tokens, `kv_blocks` of them; where they run out, the sequence that came last gives its up and
    is computed anew. `prefix_share` of a prompt is found in the cache. `vllm serve` takes 2,048
    tokens and 256 sequences where it isn't told (vllm/engine/arg_utils.py, get_batch_defaults:
    vllm_ascend/platform.py doesn't say how much memory a product has).
    """

    max_sequences: int = 256
    max_tokens: int = 2048
    kv_blocks: int = 1 << 20
    block: int = 128
    schedule: str = "chunked"
    prefix_share: float = 0.0

    def __post_init__(self) -> None:
        if self.schedule not in SCHEDULES:
            raise ArgumentError(
                f"--schedule {self.schedule}",
                say("Say one of {schedules}.").format(schedules=", ".join(SCHEDULES)),
            )
        limits = (
            ("--max-sequences", self.max_sequences, 1, _MOST_SEQUENCES),
            ("--max-tokens", self.max_tokens, 1, _MOST_TOKENS),
            ("--prefix-share", self.prefix_share, 0, 0.999),
        )
        for name, value, least, most in limits:
            if not least <= value <= most:
                raise ArgumentError(f"{name} {value:g}", f"Say {least} to {most}.")

        if self.max_tokens < self.max_sequences:
            raise ArgumentError(
                say("steps of {max_tokens} tokens for {max_sequences} sequences").format(
                    max_tokens=self.max_tokens, max_sequences=self.max_sequences
                ),
                say("Choose --max-tokens no less than --max-sequences."),
            )

    @property
    def kv_tokens(self) -> int:
        """Tokens that the cache has room for."""
        return self.kv_blocks * self.block

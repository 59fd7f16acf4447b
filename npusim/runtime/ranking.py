"""Variants of a kernel by their time: what an autotuner asks before it goes to a card."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from npusim.values.errors import ArgumentError, NpusimError, brief
from npusim.values.takes import CALL, REAL, WHOLE, maybe, of, takes

if TYPE_CHECKING:
    from npusim.runtime.results import Result

Variant = Callable[[], "Result | float"]


@dataclass(frozen=True, slots=True)
class Ranked:
    """A variant with its time in microseconds, or why it doesn't run (infinitely long then).

    ``assumptions`` are those of its result.
    """

    name: str
    duration_us: float
    refusal: str = ""
    assumptions: tuple[str, ...] = ()

    @property
    def runs(self) -> bool:
        """Whether the chip would run it."""
        return not self.refusal


@takes(variants=of(Mapping), top=maybe(WHOLE))
def rank(variants: Mapping[str, Variant], *, top: int | None = None) -> list[Ranked]:
    """The variants, fastest first; those that the chip refuses come last, with the reason.

    A variant is called without arguments and returns a result (``lambda: npu.launch(...)``) or
    microseconds. ``top`` keeps so many of those that run. Raises ArgumentError for a ``top`` of
    less than one, and for what is no variant or takes no time.
    """
    if top is not None and top < 1:
        raise ArgumentError(f"top={top}", "Keep at least one variant.")
    found = [_timed(name, variant) for name, variant in variants.items()]
    found.sort(key=lambda each: each.duration_us)
    return found if top is None else [each for each in found if each.runs][:top]


def _timed(name: str, variant: Variant) -> Ranked:
    CALL(variant, f"the variant {brief(name)}")
    try:
        answer = variant()
    except NpusimError as error:
        return Ranked(name, inf, error.message)
    taken = getattr(answer, "duration_us", answer)
    assumptions = tuple(getattr(answer, "assumptions", ()))
    return Ranked(name, REAL(taken, f"the time of {brief(name)}"), assumptions=assumptions)

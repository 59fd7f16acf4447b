"""The class of an operator, by which times are summed up and deviations are shared."""

from __future__ import annotations

from npusim.operators.registry import band_class, prototype
from npusim.validation.work import family_of


def kind_of(op: str, engine: str) -> str:
    """The class of an operator: its kernel's, the engine's, or what its name says."""
    known = prototype(op)
    kind = known[0].band_class if known else band_class(op)
    return kind or engine or family_of(op)

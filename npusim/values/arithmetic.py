"""Whole numbers: rounding up to multiples."""

from __future__ import annotations


def round_up(value: int, step: int) -> int:
    """The least multiple of ``step`` that isn't below ``value``."""
    return -(-value // step) * step

"""How often indices name the same place, where nobody knows them.

Tables are looked up by words, users or goods. Few of these make up much of what occurs: the n-th
most frequent is as frequent as 1 / n (Zipf's law), and vocabularies number them in that order.
"""

from __future__ import annotations

from math import log

from numpy import euler_gamma


def most_used(places: int, together: float) -> float:
    """The share of all indices that name the most frequent ``together`` of so many places."""
    return min(1.0, _harmonic(max(1.0, together)) / _harmonic(places))


def _harmonic(number: float) -> float:
    """The sum of 1 / n up to a number, which needn't be whole."""
    return float(euler_gamma) + log(number) + 1 / (2 * number) - 1 / (12 * number * number)

"""Closed forms beside the fleet simulation: the first card count, and how often cards are short."""

from __future__ import annotations

import math

from npusim.values.errors import ArgumentError
from npusim.values.language import say


def cards_for_rate(
    rate_per_s: float, card_rate_per_s: float, target_utilisation: float = 1.0
) -> int:
    """The closed-form count: the fewest cards that carry the rate at the target utilisation."""
    if not card_rate_per_s > 0 or not rate_per_s >= 0:
        raise ArgumentError(
            say(
                "{rate_per_s:g} requests/s on cards that do {card_rate_per_s:g}: rates are positive"
            ).format(rate_per_s=rate_per_s, card_rate_per_s=card_rate_per_s)
        )
    if not 0 < target_utilisation <= 1:
        raise ArgumentError(
            say("target utilisation is {target_utilisation:g}; it lies between 0 and 1").format(
                target_utilisation=target_utilisation
            )
        )
    exact = rate_per_s / (card_rate_per_s * target_utilisation)
    # A quotient that is whole but for its last bits mustn't cost a card.
    return max(1, math.ceil(exact * (1 - 1e-12)))


def short_of_cards(cards: int, needed: int, mtbf_h: float, mttr_h: float) -> float:
    """The share of time in which fewer than `needed` cards work, each failing on its own."""
    down = mttr_h / (mtbf_h + mttr_h)
    enough = sum(
        math.comb(cards, failed) * down**failed * (1 - down) ** (cards - failed)
        for failed in range(cards - needed + 1)
    )
    return max(0.0, 1 - enough)

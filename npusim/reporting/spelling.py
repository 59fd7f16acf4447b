"""How numbers are spelled: as many digits as they are worth, the unit beside them."""

from __future__ import annotations

import math

from npusim.values.display import MILLISECONDS_FROM_US, latency, significant
from npusim.values.language import say

__all__ = [
    "MILLISECONDS_FROM_US",
    "count",
    "error_size",
    "latency",
    "not_simulated",
    "percent",
    "significant",
    "size",
]


def error_size(value: float) -> str:
    """An error, of which the order of magnitude is what counts."""
    return f"{value:.1e}" if math.isfinite(value) and value else significant(value)


def count(value: float) -> str:
    """A whole number with thousands separators."""
    return f"{round(value):,}"


def burden(power_w: float | None, price: float | None, currency: str | None) -> str:
    """What cards take, in brackets, as far as it is known."""
    takes = [] if power_w is None else [f"{count(power_w)} W"]
    takes += [] if price is None else [f"{count(price)} {currency}"]
    return f" ({', '.join(takes)})" if takes else ""


def percent(ratio: float) -> str:
    """A ratio as a percentage: whole from 1 % on, two digits below."""
    if not math.isfinite(ratio):
        return str(ratio)
    return f"{ratio * 100:,.0f} %" if ratio >= 0.01 else f"{significant(ratio * 100, 2)} %"


def size(value_bytes: float) -> str:
    """Bytes in the largest binary unit that keeps the number at or above 1."""
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if value_bytes >= factor:
            return f"{significant(value_bytes / factor)} {unit}"
    return f"{round(value_bytes)} B"


def not_simulated(share: float | None) -> str:
    """What a verdict says of the share of time that isn't simulated; None where none could be."""
    from npusim.model.results import DECIDED_UP_TO

    if share is None:
        return say("latencies as stated, not simulated")
    if share <= 0:
        return say("all of the time is simulated")
    text = say("{share} of the time isn't simulated").format(share=percent(share))
    return (
        say("{text}: not decided by simulation").format(text=text)
        if share > DECIDED_UP_TO
        else text
    )

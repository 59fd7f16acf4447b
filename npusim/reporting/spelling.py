"""How numbers are spelled: as many digits as they are worth, the unit beside them."""

from __future__ import annotations

import math

MILLISECONDS_FROM_US = 1000.0
"""From which on a time is read in milliseconds."""


def significant(value: float, digits: int = 3) -> str:
    """`value` rounded to `digits` significant digits, without an exponent: 1234.5 -> 1,230."""
    if not math.isfinite(value):
        return str(value)
    if value == 0:
        return "0"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    rounded = round(value, decimals)
    # 999.6 becomes 1000 in the line above, and then has one digit fewer behind the point
    decimals = digits - 1 - math.floor(math.log10(abs(rounded)))
    return f"{rounded:,.{max(decimals, 0)}f}"


def latency(duration_us: float, band_us: tuple[float, float] | None = None) -> str:
    """`123 us (105..150)`: a duration and its band without idle digits; from 1,000 us on in ms."""
    scale, unit = (1e3, "ms") if duration_us >= MILLISECONDS_FROM_US else (1.0, "us")
    text = f"{significant(duration_us / scale)} {unit}"
    if band_us is None:
        return text
    low, high = (significant(each / scale) for each in band_us)
    return f"{text} ({low}..{high})"


def error_size(value: float) -> str:
    """An error, of which the order of magnitude is what counts."""
    return f"{value:.1e}" if math.isfinite(value) and value else significant(value)


def count(value: float) -> str:
    """A whole number with thousands separators."""
    return f"{round(value):,}"


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
        return "latencies as stated, not simulated"
    text = f"{percent(share)} of the time isn't simulated"
    return f"{text}: not decided by simulation" if share > DECIDED_UP_TO else text

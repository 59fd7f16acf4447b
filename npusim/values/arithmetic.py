"""Numbers: rounding up to multiples, what divides one, and one over another."""

from __future__ import annotations

from collections.abc import Iterator
from math import copysign, inf, isqrt


def inverse(number: float) -> float:
    """One over a number; infinity of zero, as hosts in C++ have it."""
    return 1.0 / number if number else copysign(inf, number)


def round_up(value: int, step: int) -> int:
    """The least multiple of ``step`` that isn't below ``value``."""
    return -(-value // step) * step


def ceil_div(value: int, step: int) -> int:
    """How many steps reach a value."""
    return -(-value // step)


def greatest_divisor(number: int, most: int) -> int:
    """The greatest that divides a positive number and isn't above ``most``, which is at least 1."""
    return max(each for each in divisors(number) if each <= most)


def divisors(number: int) -> Iterator[int]:
    """What divides a positive number, from 1 up."""
    small: list[int] = []
    for factor in range(1, isqrt(number) + 1):
        if number % factor == 0:
            small.append(factor)
            yield factor
    yield from (number // factor for factor in reversed(small) if factor * factor < number)

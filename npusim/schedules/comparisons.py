"""Comparisons as arithmetic, for chips without masks of whole tiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.values.dtypes import FLOAT16, LEAST_NORMAL
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.schedules.formula import Formula, Operand, Term

_LARGE = 2.0**62


def step(f: Formula, x: Operand) -> Term:
    """1 where x > 0, else 0: cut off at the smallest number of its dtype and scaled up.

    Source: compare functions of the public operator sources (ops/built-in/tbe/impl/less.py).
    """
    x = f.tile(x)
    if not x.dtype.is_float:
        raise KernelError("compare", f"steps of {x.dtype} aren't modelled")
    if x.dtype is FLOAT16:
        return half_step(f, x)
    low = f.max(f.min(x, f.fill(LEAST_NORMAL, x.dtype)), f.fill(0.0, x.dtype))
    return f.mul(f.mul(f.mul(low, _LARGE), _LARGE), 4.0)


def half_step(f: Formula, x: Term) -> Term:
    """1 where x > 0, else 0, in float16."""
    low = f.max(f.min(x, 2.0**-24), 0.0)
    return f.mul(f.mul(low, 2.0**12), 2.0**12)

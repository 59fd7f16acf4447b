"""Writes reports/product_matrix.md: operator by product and dtype, with one typical time.

python reports/product_matrix.py
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from npusim import AclnnError, Device
from npusim.hardware import profile_names
from npusim.operators.registry import operator, operators
from npusim.values.dtypes import BFLOAT16, FLOAT, FLOAT16, DType

if TYPE_CHECKING:
    from npusim.operators.contract import Typical

DTYPES = (FLOAT, FLOAT16, BFLOAT16)
TARGET = Path(__file__).with_suffix(".md")


def typical_calls() -> dict[str, Typical]:
    """The operators that have a typical call, and the call."""
    found = (operator(name) for name in operators())
    return {each.name: each.typical for each in found if each.typical is not None}


def cell(soc: str, op: str, typical: Typical, dtype: DType) -> str:
    """Latency with its band in microseconds, or the code of the refusal."""
    try:
        result = Device(soc).estimate(op, **typical.in_dtype(dtype))
    except AclnnError as error:
        return f"{error.code}"
    low, high = result.band_us
    return f"{result.duration_us:.4g} ({low:.4g}..{high:.4g})"


def row(soc: str, op: str, typical: Typical) -> str:
    """One operator on one chip."""
    cells = (cell(soc, op, typical, dtype) for dtype in DTYPES)
    return f"| {soc} | {' | '.join(cells)} |"


def page() -> str:
    """The whole page."""
    lines = [
        "# What runs where, and how long it takes",
        "",
        "Estimates in microseconds with their 80 % bands, cold L2, from shapes alone. A number",
        "alone is the code of the refusal: 161002 the dtype isn't taken on this product, 561003",
        "the product doesn't offer the operator. Made by `python reports/product_matrix.py`.",
    ]
    for op, typical in typical_calls().items():
        lines += ["", f"## {op}", "", f"One call: {typical.words}.", ""]
        lines += [f"| SoC | {' | '.join(dtype.name for dtype in DTYPES)} |", "|---|---|---|---|"]
        lines += [row(soc, op, typical) for soc in profile_names()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")

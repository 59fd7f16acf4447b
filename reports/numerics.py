"""Writes docs/numerics.md: what operators give for NaN, infinities, signed zeros and extremes.

python reports/numerics.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from npusim import Device, load_profile
from npusim.operators import registry
from npusim.reporting.call.special import special_values

TARGET = Path(__file__).parent.parent / "docs" / "numerics.md"
CHIPS = ("Ascend910B3", "Ascend910A")
_ROWS = ("nan 1 2", "inf 1 2", "-inf 1 2", "inf -inf 1", "3e38 3e38 1", "-inf -inf -inf")
_OF_ROWS: dict[str, dict[str, object]] = {
    "ReduceSumD": {"axes": [1]},
    "ReduceMeanD": {"axes": [1]},
    "ReduceProdD": {"axes": [1]},
    "ReduceMaxD": {"axes": [1]},
    "ReduceMinD": {"axes": [1]},
    "SoftmaxV2": {"axes": [1]},
    "LogSoftmaxV2": {"axes": [1]},
    "LayerNormV3": {"gamma": np.ones(3, np.float32), "beta": np.zeros(3, np.float32)},
    "MatMulV3": {"x2": np.ones((3, 1), np.float16)},
}


def page() -> str:
    """The page: rules in words from the template, tables from runs."""
    before, _, _ = TARGET.read_text(encoding="utf-8").partition(_START)
    tables = [_table(chip, operands) for operands in (1, 2) for chip in CHIPS]
    return before + _START + "".join([*tables, *map(_rows_table, CHIPS)])


_START = (
    "<!-- Made by reports/numerics.py from runs: what stands below isn't written by hand. -->\n"
)


def _table(chip: str, operands: int) -> str:
    profile, rows = load_profile(chip), {}
    for op_type in registry.op_types():
        alias = registry.definition(op_type).name != op_type
        found = None if alias else special_values(op_type, profile)
        if found is not None and len(next(iter(found)).split(",")) == operands:
            rows[op_type] = list(found.values())
            words = list(found)
    what = "one tensor" if operands == 1 else "two tensors"
    return _markdown(f"Of {what}, {chip}", words, rows)


def _rows_table(chip: str) -> str:
    """What is made of each row of three numbers."""
    x = np.array([words.split() for words in _ROWS], np.float32)
    with np.errstate(over="ignore"):  # 3e38 is infinite there
        halves = x.astype(np.float16)
    rows = {}
    for op_type, arguments in _OF_ROWS.items():
        half = op_type.startswith("MatMul")  # the first generation multiplies halves
        name = registry.definition(op_type).inputs[0].name
        first = {name: halves if half else x}
        outputs = Device(chip).run(op_type, **first, **arguments).outputs or {}
        found = next(iter(outputs.values())).reshape(len(_ROWS), -1)
        rows[op_type] = [" ".join(f"{number:.4g}" for number in row) for row in found]
    return _markdown(f"Of rows, {chip}", list(_ROWS), rows)


def _markdown(title: str, words: list[str], rows: dict[str, list[str]]) -> str:
    head = f"| operator | {' | '.join(words)} |\n|---|{'---:|' * len(words)}\n"
    lines = [f"| {op} | {' | '.join(found)} |\n" for op, found in rows.items()]
    return f"\n### {title}\n\n{head}" + "".join(lines)


def write(target: Path = TARGET) -> None:
    """Make the page."""
    target.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET)

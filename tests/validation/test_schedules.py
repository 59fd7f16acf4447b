"""Random calls that operators take, and two schedules side by side on them."""

from __future__ import annotations

import csv
from io import StringIO
from typing import TYPE_CHECKING

import pytest

import npusim
from npusim.operators.registry import prototype
from npusim.reporting.renderers.html import to_markdown
from npusim.reporting.schedules import schedules_csv, schedules_json, schedules_page
from npusim.validation.schedules import Pair, agreement, compare
from npusim.values.dtypes import FLOAT, FLOAT16

if TYPE_CHECKING:
    from npusim.validation.schedules import Compared

DEVICE = npusim.Device("910b3")


def pair(own: str, other: str = "") -> Pair:
    """Two operators whose inputs are all in one of two dtypes."""
    known = prototype(own)
    assert known is not None
    count = len(known[1].inputs)
    return Pair(own, other or own, ((FLOAT,) * count, (FLOAT16,) * count))


def rows(own: str, other: str = "", count: int = 12) -> list[Compared]:
    return list(compare(pair(own, other), DEVICE, count, seed=3))


@pytest.mark.parametrize("op", ["Add", "LayerNormV3", "SoftmaxV2", "MatMulV3", "ConcatD", "Lerp"])
def test_calls_are_found_and_an_operator_is_as_itself(op: str) -> None:
    found = rows(op)
    assert len(found) == 12
    assert all(each.is_alike and each.ratio == 1 for each in found)
    shapes = {tuple(str(each) for each in row.arguments.values()) for row in found}
    assert len(shapes) > 8
    assert [each.arguments for each in rows(op)] == [each.arguments for each in found]


def test_what_differs_is_told() -> None:
    found = rows("Relu", "Gelu")
    told = agreement(found)
    assert told is not None
    assert told.calls == 12
    assert told.blocks < 1 or told.times < 1
    assert told.median_ratio < 1
    page = to_markdown(schedules_page(found, worst=2))
    assert "where they differ" in page.lower()
    (first, *_) = csv.DictReader(StringIO(schedules_csv(found)))
    assert first["op"] == "Gelu"
    assert int(first["blocks"]) >= 1
    assert float(first["ratio"]) == pytest.approx(found[0].ratio, rel=1e-3)
    numbers = schedules_json(found)
    assert numbers["operators"]["Gelu"]["median_ratio"] == told.median_ratio


def test_what_the_other_side_refuses_is_counted() -> None:
    found = rows("Sqrt", "BitwiseNot")
    assert agreement(found) is None
    assert all(each.other is None and each.reason for each in found)

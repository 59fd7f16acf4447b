"""Rules of the pages of plain interfaces, and what speaks for one that a page doesn't list."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from npusim import Device
from npusim.catalogue.apis import offer_of
from npusim.catalogue.facts import catalogue
from npusim.cli.arguments import read_assignments
from npusim.operators.resolve import resolve
from support.paths import DATA

TABLE = DATA / "plain_rules.yaml"
ROWS: list[dict[str, str]] = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
CHIPS = {"910": "Ascend910A", "310P": "Ascend310P3", "A2": "Ascend910B3"}
NINE_AXES = "[1,1,1,1,1,1,1,1,2]"
NULL, INVALID = 161001, 161002

FLOATS = "self=f32[16,32] mat2=f32[32,48] out=f32[16,48] cubeMathType="
HALVES = "self=bf16[2,16,32] mat2=bf16[2,32,48] out=bf16[2,16,48] cubeMathType="
ADDED = "self=f16[48] mat1=f16[16,32] mat2=f16[32,48] beta=1 alpha=1 out=f16[16,48] cubeMathType="
BLOCKS = "self=bf16[16,32] mat2=bf16[32,48]:FRACTAL_NZ out=bf16[16,48] cubeMathType="
ROW_BY_ROW = "self=f32[32] mat2=f32[32] out=f32[] cubeMathType="
# What cubeMathType may be, by product: page of each interface, hicann/ops-nn matmul.
MATH = [
    ("aclnnMm", FLOATS, {"910": "12", "310P": "12", "A2": "01234"}),
    ("aclnnMatmul", ROW_BY_ROW, dict.fromkeys(CHIPS, "01234")),  # it decides nothing
    ("aclnnBatchMatMul", HALVES, {"A2": "01234"}),  # 4 is computed as 0
    ("aclnnAddmm", ADDED, {"910": "012", "310P": "012", "A2": "0124"}),
    ("aclnnMatmulWeightNz", BLOCKS, {"A2": "014"}),
]


def status(family: str, name: str, text: str) -> Any:
    words = dict(word.split("=", 1) for word in text.replace("@9", NINE_AXES).split())
    listed = [f"{key}={value}" for key, value in words.items()]
    return Device(CHIPS[family]).check(name, **read_assignments(resolve(name, words), listed))


def changed(call: str, change: str) -> str:
    words = dict(word.split("=", 1) for word in f"{call} {change}".split())
    return " ".join(f"{key}={value}" for key, value in words.items())


@pytest.mark.parametrize("place", range(len(ROWS)), ids=[row["interface"] for row in ROWS])
def test_both_sides_of_each_rule(place: int) -> None:
    row = ROWS[place]
    products = row.get("products", " ".join(CHIPS)).split()
    family = products[place % len(products)]  # all of them over the table, each row on one
    wanted = {"": 0}
    wanted |= dict.fromkeys(filter(None, row.get("taken", "").split("; ")), 0)
    wanted |= dict.fromkeys(filter(None, row.get("refused", "").split("; ")), INVALID)
    wanted |= dict.fromkeys((f"{name}=null" for name in row.get("nulls", "").split()), NULL)
    name, call = row["interface"], row["call"]
    found = {change: status(family, name, changed(call, change)).code for change in wanted}
    assert found == wanted


@pytest.mark.parametrize(("name", "call", "taken"), MATH)
def test_what_products_multiply_in(name: str, call: str, taken: dict[str, str]) -> None:
    for family, numbers in taken.items():
        found = "".join(n for n in "012345" if status(family, name, call + n).ok)
        assert found == numbers, family


def test_files_of_a_release_are_no_proof() -> None:
    """Ger's kernel is in CANN 8.1 for 310P, Add's too: only of the second somebody says it runs."""
    alone = status("310P", "aclnnGer", "self=f32[4] vec2=f32[8] out=f32[4,8]")
    assert str(alone.verdict) == "unknown"
    assert "no public source says that they run there" in alone.message
    other = status("310P", "aclnnAdd", "self=f32[4] other=f32[4] alpha=1 out=f32[4]")
    assert other.ok
    assert "which run there according to" in other.message
    listed = status("A2", "aclnnGer", "self=f32[4] vec2=f32[8] out=f32[4,8]")
    assert listed.ok
    assert not listed.message
    assert Device(CHIPS["310P"]).estimate("aclnnGer", self="f32[4]", vec2="f32[8]").assumptions


@pytest.mark.parametrize("name", ["aclnnNeg", "aclnnExp", "aclnnLayerNorm", "aclnnPermute"])
def test_kernels_that_somebody_ran_are_proof(name: str) -> None:
    assert str(offer_of(catalogue(), name, "310P").answer) == "yes"

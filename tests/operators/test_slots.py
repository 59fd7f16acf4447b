"""Inputs of a profiler's row, with and without places for those that a call left out."""

from __future__ import annotations

import pytest

from npusim.operators.slots import in_slots
from npusim.operators.tasks import TaskSpec
from npusim.values.tensors import TensorSpec


def task(op: str, *inputs: tuple[str, tuple[int, ...]] | None) -> TaskSpec:
    given = tuple(None if each is None else TensorSpec(each[1], each[0]) for each in inputs)
    return TaskSpec(op, given, (TensorSpec((32, 1024), "bfloat16"),))


QUERY, KEYS = ("bfloat16", (128, 4, 128)), ("bfloat16", (999, 128, 128))
MASK, ENDS, PAGES = ("int8", (2048, 2048)), ("int64", (128,)), ("int32", (128, 32))
X, W = ("int8", (32, 4096)), ("int8", (4096, 1024))
COLUMNS, ROWS = ("bfloat16", (1024,)), ("float32", (32,))


@pytest.mark.parametrize(
    ("op", "given", "placed"),
    [
        # query, key, value, shift, mask; lengths are attributes of ours; pages behind scales
        ("FusedInferAttentionScore", (QUERY, KEYS, KEYS, MASK, ENDS, ENDS, PAGES),
         {0: QUERY, 1: KEYS, 2: KEYS, 4: MASK, 12: PAGES}),
        ("FusedInferAttentionScore",
         (QUERY, KEYS, KEYS, None, MASK, ENDS, ENDS, *[None] * 7, PAGES),
         {0: QUERY, 1: KEYS, 2: KEYS, 4: MASK, 12: PAGES}),
        ("FusedInferAttentionScore", (QUERY, KEYS, KEYS), {0: QUERY, 1: KEYS, 2: KEYS}),
        # x1, x2, scale, offset, bias, scales of rows: results in bfloat16 have no offset
        ("QuantBatchMatmulV3", (X, W, COLUMNS, ROWS), {0: X, 1: W, 2: COLUMNS, 5: ROWS}),
        ("QuantBatchMatmulV3", (X, W, COLUMNS, None, None, ROWS),
         {0: X, 1: W, 2: COLUMNS, 5: ROWS}),
        # what fits as it stands, or nowhere, is left alone
        ("AddRmsNorm", (X, W), {0: X, 1: W}),
        ("Add", (QUERY, QUERY), {0: QUERY, 1: QUERY}),
        ("FusedInferAttentionScore", (X, MASK, MASK, ("float64", (2, 3))),
         {0: X, 1: MASK, 2: MASK, 3: ("float64", (2, 3))}),
        ("Unheard", (QUERY, None, MASK), {0: QUERY, 2: MASK}),
    ],
)  # fmt: skip
def test_inputs_stand_where_the_operator_has_them(
    op: str,
    given: tuple[tuple[str, tuple[int, ...]] | None, ...],
    placed: dict[int, tuple[str, tuple[int, ...]]],
) -> None:
    found = in_slots(task(op, *given)).inputs
    expected = {at: TensorSpec(shape, kind) for at, (kind, shape) in placed.items()}
    assert {at: each for at, each in enumerate(found) if each is not None} == expected

"""Formulas: what is recorded, which buffers it takes, and how tiles of them are cut."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim.hardware import load_profile
from npusim.schedules.broadcast_tiling import PlaneTiling
from npusim.schedules.buffers import BufferPlan
from npusim.schedules.formula import Formula, Term, compute_dtype
from npusim.schedules.formula_kernel import FormulaKernel
from npusim.schedules.packing import PackedTiling
from npusim.values.dtypes import BFLOAT16, BOOL, FLOAT, FLOAT16, INT32
from support.tasks import CHIPS, kernels

A2 = load_profile("Ascend910B3")
FIRST = load_profile("Ascend910A")


def chain(length: int) -> tuple[Formula, Term]:
    formula = Formula(A2, FLOAT)
    value = formula.operand(FLOAT)
    for _ in range(length):
        value = formula.exp(value)
    return formula, value


def test_a_chain_needs_one_buffer_however_long() -> None:
    for length in (2, 3, 10):
        formula, result = chain(length)
        plan = BufferPlan.of(formula.steps, [result])
        assert plan.widths == [4]


def test_a_single_step_writes_its_result_where_it_is_stored() -> None:
    formula, result = chain(1)
    assert BufferPlan.of(formula.steps, [result]).widths == []


def test_values_that_are_alive_together_have_buffers_of_their_own() -> None:
    formula = Formula(A2, FLOAT)
    x = formula.operand(FLOAT)
    early, late = formula.exp(x), formula.ln(x)
    result = formula.add(early, late)
    plan = BufferPlan.of(formula.steps, [result])
    assert plan.places[early] != plan.places[late]
    assert plan.bytes_per_element == 8


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=25))
def test_no_value_is_overwritten_while_it_is_needed(pairs: list[tuple[int, int]]) -> None:
    formula = Formula(A2, FLOAT)
    values = [formula.operand(FLOAT)]
    for first, second in pairs:
        values.append(formula.add(values[first % len(values)], values[second % len(values)]))
    plan = BufferPlan.of(formula.steps, [values[-1]])
    for index, step in enumerate(formula.steps):
        place = plan.places.get(step.target)
        for other, held in plan.places.items():
            born = next(i for i, each in enumerate(formula.steps) if each.target is other)
            if other is not step.target and born < index < plan.last_use[other]:
                assert held != place


def test_scalar_forms_are_used_where_the_chip_has_them() -> None:
    def calls(profile: Any, kind: Any) -> list[str]:
        formula = Formula(profile, kind)
        formula.add(formula.operand(kind), 2.0)
        return [step.name for step in formula.steps]

    assert calls(A2, FLOAT) == ["adds"]
    assert calls(FIRST, INT32) == ["duplicate", "add"]  # vadds takes no integers there


def test_conversions_are_recorded_one_by_one() -> None:
    formula = Formula(FIRST, FLOAT)
    formula.cast(formula.operand(BOOL), FLOAT)
    assert [step.target.dtype for step in formula.steps] == [FLOAT16, FLOAT]


@pytest.mark.parametrize(
    ("kind", "half_in_float", "wanted"),
    [
        (FLOAT16, False, FLOAT16),
        (FLOAT16, True, FLOAT),
        (BFLOAT16, False, FLOAT),
        (BOOL, False, FLOAT16),
        (INT32, True, INT32),
    ],
)
def test_what_is_computed_in(kind: Any, half_in_float: bool, wanted: Any) -> None:
    assert compute_dtype(A2, kind, half_in_float=half_in_float) is wanted


def kernel(op: str, *shapes: tuple[int, ...], chip: str = "Ascend910A") -> FormulaKernel:
    arrays = [np.zeros(shape, np.float32) for shape in shapes]
    out = np.zeros(np.broadcast_shapes(*shapes), np.float32)
    (found,), _ = kernels(chip, op, arrays, [out])
    assert isinstance(found, FormulaKernel)
    return found


def test_short_ragged_rows_stay_packed() -> None:
    packed = kernel("Mul", (64, 80, 80, 3, 2), (3, 2))
    assert isinstance(packed.planes, PackedTiling)
    assert packed.planes.columns == 6
    aligned = kernel("BiasAdd", (64, 16, 20, 20, 16), (1, 16, 1, 1, 16))
    assert isinstance(aligned.planes, PlaneTiling)


def test_a_batch_is_dealt_out_whole() -> None:
    """Of 30 blocks that are launched for 64 images, as measured, 22 have work: 3 images each."""
    maximum = kernel("Maximum", (64, 80, 80, 3, 1, 2), (64, 1, 1, 1, 150, 2), chip="Ascend910B")
    assert isinstance(maximum.planes, PackedTiling)
    assert maximum.planes.units_per_core == 3 * 80 * 80 * 3
    assert maximum.block_dim == 30
    assert [maximum.planes.block_kind(block) > 0 for block in range(30)] == [True] * 22 + [
        False
    ] * 8


def test_few_long_rows_are_shared_by_the_cores() -> None:
    for chip in CHIPS:
        shared = kernel("Add", (2, 1_000_000), (2, 1), chip=chip)
        assert isinstance(shared.planes, PlaneTiling)
        assert shared.planes.parts > 1
        assert shared.block_dim <= load_profile(chip).cores.vector_cores


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([1, 2, 3, 17, 150]), min_size=1, max_size=4).filter(
        lambda sizes: prod(sizes) < 500_000
    ),
    st.lists(st.booleans(), min_size=4, max_size=4),
    st.sampled_from(CHIPS),
)
def test_every_element_belongs_to_one_block(full: list[int], kept: list[bool], chip: str) -> None:
    shape = tuple(full)
    other = tuple(size if keep else 1 for size, keep in zip(full, kept, strict=False))
    found = kernel("Add", shape, other, chip=chip)
    total = int(np.prod(shape))
    if found.plane.is_flat:
        assert sum(found.tiling.length(block) for block in range(found.block_dim)) == total
        return
    work: list[Any] = [found.planes.block_kind(block) for block in range(found.block_dim)]
    if isinstance(found.planes, PackedTiling):
        size = prod((found.planes.rows, found.planes.columns))
        assert sum(units * size for units in work) == total
    else:
        assert sum(rows * columns for rows, columns in work) == total

"""Which shapes the operands of a matrix product may have, as the attributes say they lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.operators.checks import invalid, sizes
from npusim.ops.matmul.cube_math import math_objection
from npusim.values.dtypes import INT32

if TYPE_CHECKING:
    from npusim.operators.contract import Call, Check, Finding
    from npusim.values.tensors import TensorSpec

Shape = tuple[int, ...]

PACKED = 8  # numbers of int4 in one of INT32
LONGEST_AXIS = 65535  # of a matrix, where it lies: pages of the interfaces


def product(
    first: str, second: str, bias: str, result: str, *, turned: tuple[str, str],
    packed: bool = False,
) -> Check:  # fmt: skip
    """161002 for matrices, a bias and a result that are no product; ``turned`` are the flags.

    ``packed`` ones in INT32 have numbers of int4.
    """

    def test(call: Call) -> Finding:
        given = dict(call.given(first, second, bias, result))
        if any(spec.is_in_blocks for spec in given.values()):
            return None  # as large as their storage, which is larger than the matrices
        for name in (first, second):
            if given[name].rank < 2:
                shape = sizes(given[name].shape)
                return f"Expected a matrix or a batch of them, but got {name} with sizes {shape}."
        (m, k), (inner, n) = (
            matrix_sizes(given[name], turned=bool(call.arguments.get(flag)), packed=packed)
            for name, flag in zip((first, second), turned, strict=True)
        )
        if k != inner:
            one, other = (f"{name} {sizes(given[name].shape)}" for name in (first, second))
            way = f"of {one} it is {k}, of {other} {inner}; {' and '.join(turned)} turn them."
            return f"The k-axis of the two inputs are different: {way}"
        batches = given[first].shape[:-2], given[second].shape[:-2]
        batch = max(batches, key=lambda shape: (len(shape), shape))
        if any(set(shape) - {1} and shape != batch for shape in batches):
            return f"{first} and {second} are batches of {' and '.join(map(sizes, batches))}."
        if bias in given and not _is_row(given[bias].shape, n):
            return f"{bias} should have {n} elements in a row, but has {sizes(given[bias].shape)}."
        if result in given and given[result].shape != (*batch, m, n):
            return f"{result} should be {sizes((*batch, m, n))}, not {sizes(given[result].shape)}."
        return None

    return invalid(f"{first} and {second} can't be multiplied, or {bias} added", test)


def matrix_sizes(spec: TensorSpec, *, turned: bool, packed: bool = True) -> tuple[int, int]:
    """Rows and columns of a matrix as it multiplies, of the numbers that INT32 packs too.

    They are packed along the axis whose elements lie one after the other.
    """
    rows, columns = spec.shape[-2:]
    if packed and spec.dtype is INT32:
        rows, columns = (rows * PACKED, columns) if spec.is_turned else (rows, columns * PACKED)
    return (columns, rows) if turned else (rows, columns)


def batches_turn(first: str, second: str) -> Check:
    """161002 for orders of axes that aren't offered, and batches that don't fit in them."""

    def test(call: Call) -> Finding:
        orders = (call.ints("permX1"), call.ints("permX2"), call.ints("permY"))
        offered = (((0, 1, 2), (1, 0, 2)), ((0, 1, 2), (0, 2, 1)), ((1, 0, 2),))
        for name, order, ways in zip(("permX1", "permX2", "permY"), orders, offered, strict=True):
            if order not in ways:
                return f"{name} should be {' or '.join(str(list(e)) for e in ways)}."
        given = dict(call.given(first, second))
        if any(spec.is_in_blocks for spec in given.values()):
            return None
        x, weight = (given[name].shape for name in (first, second))
        if len(weight) != len(x):
            return f"{second} should have three axes, but has sizes {sizes(weight)}."
        batch, _, inner = (x[axis] for axis in orders[0])
        many, rows, _ = (weight[axis] for axis in orders[1])
        parts = call.integer("batchSplitFactor")
        if (batch, inner) != (many, rows) or parts < 1 or batch % parts:
            return f"{batch} times {inner} and {many} times {rows} in {parts} parts don't fit."
        return None

    return invalid(f"{first} and {second} don't fit in these orders", test)


def batches_small(first: str, second: str) -> Check:
    """161002 for batches, columns and inner axes that an address of a load doesn't reach.

    Source: CheckShapeValid in aclnn_transpose_batch_mat_mul.cpp, of Atlas A2 and A3.
    """

    def test(call: Call) -> Finding:
        given = dict(call.given(first, second))
        if any(spec.is_in_blocks for spec in given.values()):
            return None
        turned, order = call.ints("permX1") == (1, 0, 2), call.ints("permX2")
        batch, inner, columns = (given[second].shape[axis] for axis in order)
        if max(batch, columns) > LONGEST_AXIS:
            return f"B and N should be at most {LONGEST_AXIS}, not {batch} and {columns}."
        if not turned and inner > LONGEST_AXIS:
            return f"K of {first} [B, M, K] should be at most {LONGEST_AXIS}, not {inner}."
        if not turned and order != (0, 1, 2):
            return f"permX1 should be [1, 0, 2] where permX2 is {list(order)}."
        alone = call.integer("batchSplitFactor") == 1 and not call.is_given("scale")
        if alone or (order == (0, 1, 2) and (not turned or batch * inner <= LONGEST_AXIS)):
            return None
        return (f"permX2 {list(order)} and B * K of {batch * inner} take no scale and a "
                "batchSplitFactor of 1.")  # fmt: skip

    return invalid(f"{first} and {second} are larger than these orders take", test)


def _is_row(shape: Shape, columns: int) -> bool:
    return bool(shape) and shape[-1] == columns and set(shape[:-1]) <= {1}


def math_type(*names: str) -> Check:
    """161002 for what the product can't compute in, as cubeMathType says of these matrices."""
    title = "the product can't compute what cubeMathType asks for"
    return invalid(title, lambda call: math_objection(call, *names))


def scales_fit(x1: str, x2: str, y: str, scale: str, bias: str, per_row: str) -> Check:
    """161002 for scales that aren't one for all columns or one for each; others have one each."""

    def test(call: Call) -> Finding:
        for _, spec in call.given(y):
            if spec.rank < 2:
                return f"{y} should have at least two axes, but has sizes {sizes(spec.shape)}."
            rows, columns = spec.numel // max(1, spec.shape[-1]), spec.shape[-1]
            wanted = {scale: (1, columns), bias: (columns,), per_row: (rows,)}
            for name, found in call.given(*wanted):
                if found.numel not in wanted[name]:
                    counts = " or ".join(map(str, wanted[name]))
                    has = f"but has sizes {sizes(found.shape)}"
                    return f"{name} should have {counts} elements, {has}."
        return None

    return invalid(f"{scale}, {bias} and {per_row} don't fit {x1} times {x2}", test)

"""TransposeBatchMatMul: products of a batch whose matrices lie beside each other in memory.

Rows of the left operand and of the result have one matrix's columns behind the other's, so that
nobody has to turn them. Source: ops-nn matmul/transpose_batch_mat_mul.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.ascendc.task import Task, made
from npusim.library.matmul import GmMatrix
from npusim.operators.results import numbers
from npusim.ops.matmul.cube_math import ALLOW_FP32_DOWN_PRECISION, USE_HF32
from npusim.ops.matmul.kernel import MatMul
from npusim.ops.matmul.operands import Problem
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from npusim.ascendc import Core, GlobalTensor, Kernel
    from npusim.ascendc.gm_slices import Place
    from npusim.hardware.profile import Profile
    from npusim.library.matmul import Product
    from npusim.ops.matmul.shapes import Share

Steps = tuple[int, int]  # elements from one matrix to the next, and from one row to the next

_AS_HF32 = (ALLOW_FP32_DOWN_PRECISION, USE_HF32)
_IN_ORDER, _ROWS_FIRST, _COLUMNS_FIRST = [0, 1, 2], [1, 0, 2], [0, 2, 1]


class BesideMatMul(MatMul):
    """c[b] = a[b] @ weight[b], where a and c lie as ``steps`` say."""

    def __init__(
        self,
        profile: Profile,
        op_type: str,
        operands: tuple[GlobalTensor, GlobalTensor, GlobalTensor],
        rows: int,
        steps: tuple[Steps, Steps],
        *,
        turned: bool = False,
        hf32: bool = False,
    ) -> None:
        a, weight, c = operands
        batch, depth, columns = weight.shape
        if turned:
            depth, columns = columns, depth
        like = made((batch, rows, depth), a.dtype), made((batch, rows, columns), c.dtype)
        problem = Problem.of(op_type, like[0], weight, like[1], (False, turned))
        super().__init__(profile, problem, op_type=op_type, hf32=hf32)
        self.left, self.result, self.steps = a, c, steps
        self.reads, self.writes = (a, weight), (c,)

    def product(self, core: Core, share: Share, index: Place) -> Product:
        found = super().product(core, share, index)
        (left, row), (right, line) = self.steps
        return found._replace(
            a=GmMatrix(self.left, ((index, left), (share.row, row)), row),
            c=GmMatrix(self.result, ((index, right), (share.row, line), (share.column, 1)), line),
        )


def transpose_batch_mat_mul(task: Task) -> tuple[Kernel, ...]:
    """x1 [M, B, K] or [B, M, K] by x2 [B, K, N]; y [M, B, N]."""
    x1, x2 = task.present(2)
    if any(each is not None for each in task.inputs[2:]):
        raise task.refused("a bias and scales aren't modelled")
    orders = [
        numbers(task.attributes.get(name)) or usual
        for name, usual in (("perm_x1", _IN_ORDER), ("perm_x2", _IN_ORDER), ("perm_y", _ROWS_FIRST))
    ]
    if task.whole_number("batch_split_factor", 1) != 1:
        raise task.refused("results in several parts aren't modelled")
    if task.profile.paths.l0c_to_gm is None:
        raise task.refused(f"{task.profile.name} has no kernel for it")
    turned = orders[1] == _COLUMNS_FIRST
    if len(x1.shape) != len(x2.shape) or len(x2.shape) != len(_IN_ORDER):
        raise task.unfit(f"{x1.shape} by {x2.shape}")
    batch, depth, columns = x2.shape
    if turned:
        depth, columns = columns, depth
    rows = x1.shape[0] if orders[0] == _ROWS_FIRST else x1.shape[1]
    wanted = (rows, batch, depth) if orders[0] == _ROWS_FIRST else (batch, rows, depth)
    if x1.shape != wanted:
        raise task.unfit(f"{x1.shape} by {x2.shape}")
    left = (depth, batch * depth) if orders[0] == _ROWS_FIRST else (rows * depth, depth)
    y = task.outputs[0] if task.outputs else made((rows, batch, columns), x1.dtype)
    hf32 = x1.dtype is FLOAT and task.whole_number("math_type", 0) in _AS_HF32
    return (
        BesideMatMul(
            task.profile, task.op_type, (x1, x2, y), rows,
            (left, (columns, batch * columns)), turned=turned, hf32=hf32,
        ),
    )  # fmt: skip

"""Products of matrices and vectors with what is added to them: what the host calls for them.

Each is a product, Mul where a factor isn't 1, and Add, as in hicann/ops-nn matmul (op_api).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npusim.ops.matmul.contract import matrices
from npusim.ops.matmul.cube_math import KEEP_DTYPE, USE_FP16
from npusim.ops.matmul.grouped_lists import listed_product
from npusim.ops.matmul.plan import product
from npusim.values.dtypes import DOUBLE, FLOAT16
from npusim.values.errors import KernelError
from npusim.values.formats import Format

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npusim.ascendc import GlobalTensor
    from npusim.operators.host import Host, ScalarValue


def matrix_vector(host: Host, matrix: GlobalTensor, vector: GlobalTensor, *, math_type: int) -> Any:
    """A matrix times a vector."""
    if not matrix.dtype.is_float or matrix.dtype is DOUBLE:
        return _folded(host, matrix, vector)
    column = vector.view(vector.numel, 1)
    return product(host.chain, matrix, column, math_type).view(matrix.shape[0])


def added_vector(
    host: Host, added: GlobalTensor, matrix: GlobalTensor, vector: GlobalTensor, *,
    alpha: ScalarValue = 1, beta: ScalarValue = 1, math_type: int,
) -> Any:  # fmt: skip
    """beta * added + alpha * (matrix @ vector)."""
    found = matrix_vector(host, matrix, vector, math_type=math_type)
    return _sum(host, added, found, beta, alpha)


def added_batches(
    host: Host, added: GlobalTensor, a: GlobalTensor, b: GlobalTensor, *,
    beta: ScalarValue = 1, alpha: ScalarValue = 1, math_type: int,
) -> Any:  # fmt: skip
    """beta * added + alpha * (a @ b), batch by batch."""
    return _sum(host, added, product(host.chain, a, b, math_type), beta, alpha)


def summed_batches(
    host: Host, added: GlobalTensor, a: GlobalTensor, b: GlobalTensor, *,
    beta: ScalarValue = 1, alpha: ScalarValue = 1, math_type: int,
) -> Any:  # fmt: skip
    """beta * added + alpha times the sum of all products."""
    several = product(host.chain, a, b, math_type)
    return _sum(host, added, host.run("ReduceSum", several, axes=[0], keep_dims=False), beta, alpha)


def general(
    host: Host, a: GlobalTensor, b: GlobalTensor, c: GlobalTensor, *, alpha: float = 1.0,
    beta: float = 1.0, turned_a: int = 0, turned_b: int = 0, math_type: int,
) -> Any:  # fmt: skip
    """alpha * (a @ b) + beta * c, with either matrix transposed."""
    found = product(host.chain, a, b, math_type, (bool(turned_a), bool(turned_b)))
    return _sum(host, c, found, beta, alpha)


def outer_product(host: Host, column: GlobalTensor, row: GlobalTensor) -> Any:
    """Every element of one vector times every one of another."""
    return host.together("Mul", column.view(column.numel, 1), row.view(1, row.numel))


def added_outer_product(
    host: Host, added: GlobalTensor, column: GlobalTensor, row: GlobalTensor, *,
    beta: ScalarValue = 1, alpha: ScalarValue = 1,
) -> Any:  # fmt: skip
    """beta * added + alpha times the outer product."""
    return _sum(host, added, outer_product(host, column, row), beta, alpha)


def _folded(host: Host, x: GlobalTensor, y: GlobalTensor) -> Any:
    """Sums of products along the last axis, for dtypes that the cube doesn't multiply."""
    products = host.together("Mul", x, y)
    return host.run("ReduceSum", products, axes=[len(x.shape) - 1], keep_dims=False)


def dot_product(host: Host, x: GlobalTensor, y: GlobalTensor) -> Any:
    """The sum of the products of two vectors, by the cube, or as such."""
    if not x.dtype.is_float or x.dtype.intrinsic not in host.profile.cube.dtypes:
        return _folded(host, x, y)
    if not x.numel:
        raise KernelError("Dot", "vectors without elements aren't modelled")
    row, column = x.view(1, x.numel), y.view(y.numel, 1)
    return product(host.chain, row, column, KEEP_DTYPE).view()


def quantised_product(
    host: Host, a: GlobalTensor, b: GlobalTensor, by_row: GlobalTensor | None, scale: GlobalTensor,
    out_scale: GlobalTensor | None = None, a_offset: GlobalTensor | None = None,
    offset: GlobalTensor | None = None, out_offset: GlobalTensor | None = None,
    bias: GlobalTensor | None = None, *, transpose_x1: bool, transpose_x2: bool,
) -> Any:  # fmt: skip
    """A product of whole numbers, scaled by column and by row."""
    del out_scale, a_offset  # null by the page
    if out_offset is not None:
        raise KernelError("QuantBatchMatmulV3", "yOffset isn't modelled")
    told, weight = host.told("out"), host.told("x2")
    if told is None:
        raise KernelError("QuantBatchMatmulV3", "the dtype of the result isn't known")
    if weight is not None and weight.stored != weight.shape and weight.is_turned:
        transpose_x2 = not transpose_x2  # a view of blocks that lie as they are
    return host.run(
        "QuantBatchMatmulV3", a, b, scale, offset, bias, by_row,
        outputs=(host.empty(told.shape, told.dtype),),
        transpose_x1=transpose_x1, transpose_x2=transpose_x2,
    )  # fmt: skip


_TOGETHER = (2, 3)  # splitItem: one result for all groups
_EACH = -1  # groupType: every tensor of a list is a group


def grouped_product(
    host: Host, x: list[GlobalTensor], weight: list[GlobalTensor], bias: list[GlobalTensor],
    scale: list[GlobalTensor], offset: list[GlobalTensor], factors: list[GlobalTensor],
    shifts: list[GlobalTensor], per_row: Sequence[GlobalTensor] = (),
    ends: GlobalTensor | None = None, *, split_item: int = 0, group_type: int = 0,
    group_list: Sequence[int] = (), group_list_type: int = 0,
) -> Any:  # fmt: skip
    """Rows of one tensor, or what is summed up, in groups, with matrices in one tensor."""
    lists = x, weight, bias, scale, offset, factors, shifts, per_row
    if group_type == _EACH or split_item not in _TOGETHER or any(len(each) > 1 for each in lists):
        if any(lists[3:]) or group_type > 0:
            problem = "lists of tensors with scales, or of what is summed up, aren't modelled"
            raise KernelError("GroupedMatmul", problem)
        lengths = {"group_list": list(group_list), "group_list_type": group_list_type}
        return listed_product(
            host, (x, weight, bias), ends, lengths, together=split_item in _TOGETHER,
            apart=group_type == _EACH,
        )  # fmt: skip
    told = host.told("out0") or host.told("y0")
    given = [each[0] if each else None for each in lists]
    said: dict[str, Any] = {"group_type": group_type, "group_list_type": group_list_type}
    if group_list:
        said["group_list"] = list(group_list)
    outputs = () if told is None else (host.empty(told.shape, told.dtype),)
    return host.run("GroupedMatmul", *given[:7], ends, given[7], outputs=outputs, **said)


def grouped_by_tensor(host: Host, *given: Any, **said: Any) -> Any:
    """The same where a tensor says where groups end."""
    return grouped_product(host, *given[:7], **{**said, "ends": given[7]})


def grouped_by_row(host: Host, *given: Any, **said: Any) -> Any:
    """The same with a scale for each row, and an activation that isn't modelled."""
    if any(given[9:]):
        raise KernelError("GroupedMatmul", "an activation behind it isn't modelled")
    return grouped_product(host, *given[:9], **said)


def packed_product(
    host: Host, a: GlobalTensor, b: GlobalTensor, bias: GlobalTensor | None, scale: GlobalTensor,
    *, turned_a: bool, turned_b: bool,
) -> Any:  # fmt: skip
    """A product of whole numbers by scales that are packed, into FLOAT16."""
    rows = a.shape[-1] if turned_a else a.shape[-2]
    columns = b.shape[-2] if turned_b else b.shape[-1]
    outer = max(a.shape[:-2], b.shape[:-2], key=len)
    return host.run(
        "QuantBatchMatmulV3", a, b, scale, None, bias,
        outputs=(host.empty((*outer, rows, columns), FLOAT16),), transpose_x1=turned_a,
        transpose_x2=turned_b,
    )  # fmt: skip


def turned_batches(
    host: Host, a: GlobalTensor, b: GlobalTensor, bias: GlobalTensor | None = None,
    scale: GlobalTensor | None = None, *, order_a: Sequence[int], order_b: Sequence[int],
    order: Sequence[int], math_type: int, parts: int,
) -> Any:  # fmt: skip
    """Products of batches, their axes turned before and behind: [parts, m, batch / parts * n].

    The device turns them while it loads and stores; weights in fractals, results in several parts
    and dtypes that differ are tasks of their own here.
    """
    del bias  # null by the page
    if scale is not None:
        raise KernelError("TransposeBatchMatMul", "scales aren't modelled")
    plain = b.format is not Format.FRACTAL_NZ and a.dtype is b.dtype
    if parts == 1 and plain and math_type != USE_FP16:
        return host.run(
            "TransposeBatchMatMul", a, b, perm_x1=list(order_a), perm_x2=list(order_b),
            perm_y=list(order), math_type=math_type,
        )  # fmt: skip
    told = host.told("x2")
    a = host.run("Transpose", a, perm=list(order_a)) if list(order_a) != [0, 1, 2] else a
    turned = list(order_b) == [0, 2, 1]
    whole = matrices(told) if told is not None and b.format is Format.FRACTAL_NZ else ()
    found = product(host.chain, a, b, math_type, (False, turned), whole)
    batch, rows, columns = found.shape
    if list(order) != [1, 0, 2]:
        return host.run("Transpose", found, perm=list(order))
    split = found.view(parts, batch // parts, rows, columns)
    y = host.run("Transpose", split, perm=[0, 2, 1, 3])
    if parts == 1:
        return y.view(rows, batch, columns)
    return y.view(parts, rows, batch // parts * columns)


def _sum(
    host: Host, added: GlobalTensor, found: GlobalTensor, beta: ScalarValue, alpha: ScalarValue
) -> Any:
    """beta * added + alpha * found; nothing is added where beta is 0."""
    if alpha != 1:
        found = host.together("Mul", found, alpha, dtype=found.dtype)
    if beta == 0:
        return found
    added = host.cast(added, found.dtype)
    if beta != 1:
        added = host.together("Mul", added, beta, dtype=found.dtype)
    return host.run("Add", added, found)

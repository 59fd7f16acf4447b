"""Matrix products as profilers record them: which tensor is what, and what has been fused to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from npusim.ascendc.task import Task, made
from npusim.operators.fusions import epilogue_of, parts_of
from npusim.ops.matmul.operands import Operand, Problem, Turned, result_shape
from npusim.ops.matmul.products import product_kernels
from npusim.values.errors import KernelError
from npusim.values.formats import Format

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor, Kernel

# What attributes say that an operand is turned, by operator.
_TURNED = (
    ("transpose_x1", "adj_x1", "transpose_a", "trans_a"),
    ("transpose_x2", "adj_x2", "transpose_b", "trans_b"),
)


def product(task: Task) -> tuple[Kernel, ...]:
    """x1, x2, a bias and perhaps an offset to y.

    Kernels that consist of several say that it is a ``part`` of one, and that it ``adds`` to y.
    """
    a, b, others = _operands(task)
    turned = _turned(task.attributes)
    c = task.outputs[0] if task.outputs else _made(a, b, turned)
    problem = Problem.of(task.op_type, a, b, c, turned)
    bias = next((each for each in others if _is_row(each, problem)), None)
    hf32 = bool(task.attributes.get("enable_hf32") or task.attributes.get("hf32"))
    part, adds = (bool(task.attributes.get(name)) for name in ("part", "adds"))
    return tuple(
        product_kernels(
            task.profile,
            problem,
            bias=bias,
            hf32=hf32,
            op_type=task.op_type,
            part=part,
            adds=adds,
        )
    )


_ADD = "Add"


def fused_product(task: Task) -> tuple[Kernel, ...]:
    """x1, x2, then a bias, single elements and matrices like those of the result."""
    a, b, others = _operands(task)
    if not task.outputs:
        raise task.refused("a record without a result")
    c = task.outputs[0]
    problem = Problem.of(task.op_type, a, b, c, _turned(task.attributes))
    bias = next((each for each in others if _is_row(each, problem)), None)
    rest = [each for each in others if each is not bias]
    lying = [replace(each, format=c.format) for each in rest]
    if any(each.shape and not _fits(each, c, problem) for each in lying):
        shapes = ", ".join(str(each.shape) for each in others)
        raise task.refused(f"operands {shapes} beside a product {c.shape}")
    parts = parts_of(task)[1]
    wanted = sum(part.operands - 1 for part in parts)
    if bias is not None and parts[0].op_type == _ADD and len(lying) < wanted:
        parts = parts[1:]  # adds the row, as the product does
    epilogue = epilogue_of(task.profile, c, parts, lying, task.outputs) if parts else None
    kernels = product_kernels(
        task.profile, problem, bias=bias, epilogue=epilogue, op_type=task.op_type
    )
    return tuple(kernels)


def _fits(tensor: GlobalTensor, c: GlobalTensor, problem: Problem) -> bool:
    """Whether it has a matrix for each product, its own or one that several share."""
    if tensor.shape == c.shape:
        return True
    return len(tensor.shape) > 1 and Operand.of(tensor).beside(problem.c) is not None


def _operands(task: Task) -> tuple[GlobalTensor, GlobalTensor, list[GlobalTensor]]:
    """Both operands, and what else there is."""
    a, b = task.present(2)
    return a, b, [each for each in task.inputs[2:] if each is not None]


def _turned(attributes: Mapping[str, object]) -> Turned:
    """What the attributes say; None where they are silent."""
    first, second = (
        next((bool(attributes[name]) for name in names if name in attributes), None)
        for names in _TURNED
    )
    return first, second


def _made(a: GlobalTensor, b: GlobalTensor, turned: Turned) -> GlobalTensor:
    """A result for a task that was recorded without one."""
    if Format.FRACTAL_NZ in (a.format, b.format):
        raise KernelError("MatMul", "a record of fractals without a result")
    shape = result_shape(a.shape, b.shape, turned)
    return made(shape, a.dtype)


def _is_row(tensor: GlobalTensor, problem: Problem) -> bool:
    """True for something that is added to all rows of a product, of one or of several matrices."""
    if not tensor.shape:
        return False
    *outer, columns = tensor.shape
    if not outer:
        return 0 < columns <= problem.n
    is_row = columns == problem.n and outer[-1] == 1
    return is_row and problem.batch % (tensor.numel // columns) == 0

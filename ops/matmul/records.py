"""Matrix products as profilers record them: which tensor is what, and what has been fused to it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from npusim.ascendc import GlobalTensor, GmBuffer
from npusim.ops.matmul.fusions import FUSIONS, Fusion
from npusim.ops.matmul.kernel import product_kernels
from npusim.ops.matmul.operands import Problem, result_shape
from npusim.values.errors import KernelError
from npusim.values.formats import Format

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from npusim.ascendc import Kernel
    from npusim.hardware.profile import Profile
    from npusim.ops.matmul.operands import Turned

    Tensors = tuple[GlobalTensor | None, ...]
    Builder = Callable[
        [Profile, Tensors, tuple[GlobalTensor, ...], Mapping[str, object]], list[Kernel]
    ]

# What attributes say that an operand is turned, by operator.
_TURNED = (
    ("transpose_x1", "adj_x1", "transpose_a", "trans_a"),
    ("transpose_x2", "adj_x2", "transpose_b", "trans_b"),
)


def _plain(
    op_type: str,
    profile: Profile,
    inputs: Tensors,
    outputs: tuple[GlobalTensor, ...],
    attributes: Mapping[str, object],
) -> list[Kernel]:
    """x1, x2, a bias and perhaps an offset to y."""
    a, b, others = _operands(op_type, inputs)
    turned = _turned(attributes)
    c = outputs[0] if outputs else _made(a, b, turned)
    problem = Problem.of(op_type, a, b, c, turned)
    bias = next((each for each in others if _is_row(each, problem)), None)
    hf32 = bool(attributes.get("enable_hf32") or attributes.get("hf32"))
    return product_kernels(profile, problem, bias=bias, hf32=hf32, op_type=op_type)


def _fused(
    op_type: str,
    fusion: Fusion,
    profile: Profile,
    inputs: Tensors,
    outputs: tuple[GlobalTensor, ...],
    attributes: Mapping[str, object],
) -> list[Kernel]:
    """x1, x2, then a bias, single elements and tensors like the result."""
    a, b, others = _operands(op_type, inputs)
    if not outputs:
        raise KernelError(op_type, "a record without a result")
    problem = Problem.of(op_type, a, b, outputs[0], _turned(attributes))
    bias = next((each for each in others if _is_row(each, problem)), None)
    numbers = [each for each in others if each.numel == 1 and not each.shape]
    tiles = [each for each in others if each.shape == outputs[0].shape]
    if len(tiles) + len(numbers) + (bias is not None) != len(others):
        shapes = ", ".join(str(each.shape) for each in others)
        raise KernelError(op_type, f"operands {shapes} beside a product {outputs[0].shape}")
    made = fusion.epilogue(profile, problem, tiles, numbers, outputs)
    return product_kernels(profile, problem, bias=bias, epilogue=made, op_type=op_type)


def _operands(
    op_type: str, inputs: Tensors
) -> tuple[GlobalTensor, GlobalTensor, list[GlobalTensor]]:
    """Both operands, and what else there is."""
    a, b, *others = (*inputs, None, None)[: max(2, len(inputs))]
    if a is None or b is None:
        raise KernelError(op_type, "a product has two operands")
    return a, b, [each for each in others if each is not None]


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
    nbytes = GlobalTensor(GmBuffer("", 0), a.dtype, shape).nbytes
    return GlobalTensor(GmBuffer("y", nbytes), a.dtype, shape)


def _is_row(tensor: GlobalTensor, problem: Problem) -> bool:
    """True for something that is added to all rows of a product, of one or of several matrices."""
    if not tensor.shape:
        return False
    *outer, columns = tensor.shape
    if not outer:
        return 0 < columns <= problem.n
    is_row = columns == problem.n and outer[-1] == 1
    return is_row and problem.batch % (tensor.numel // columns) == 0


_PLAIN = (
    "MatMul", "MatMulV2", "MatMulV3", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Gemm",
)  # fmt: skip
KERNELS: dict[str, Builder] = {
    **{name: partial(_plain, name) for name in _PLAIN},
    **{name: partial(_fused, name, fusion) for name, fusion in FUSIONS.items()},
}

"""The device tasks of aclnnMatmul, aclnnMm and aclnnBatchMatMul."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, prod
from typing import TYPE_CHECKING

from npusim.ascendc.task import Task
from npusim.operators.tasks import kernels_on
from npusim.ops.matmul.contract import matrices, result_shape
from npusim.ops.matmul.cube_math import arithmetic, arithmetic_of, operands
from npusim.ops.matmul.kernel import shape_of
from npusim.ops.matmul.operands import Problem
from npusim.ops.matmul.products import product_kernels
from npusim.ops.matmul.versions import version_of
from npusim.values.dtypes import FLOAT, DType
from npusim.values.errors import KernelError
from npusim.values.formats import Format
from npusim.values.promotion import promote

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor
    from npusim.operators.contract import Call
    from npusim.operators.task_chain import Chain

_MATRIX = 2  # axes


@dataclass(frozen=True, slots=True)
class _Matrix:
    """An operand, contiguous, and whether it lies there turned."""

    tensor: GlobalTensor
    turned: bool
    whole: tuple[int, ...] = ()  # the shape as it lies, where the tensor's is that of blocks

    @property
    def shape(self) -> tuple[int, ...]:
        """The matrices as they lie."""
        return self.whole or self.tensor.shape

    @property
    def outer(self) -> tuple[int, ...]:
        return self.shape[:-_MATRIX]

    @property
    def blocked(self) -> bool:
        return self.tensor.format is Format.FRACTAL_NZ

    def seen(self) -> tuple[int, int]:
        """Rows and columns as the caller sees them."""
        rows, columns = self.shape[-_MATRIX:]
        return (columns, rows) if self.turned else (rows, columns)


def build(call: Call, chain: Chain) -> None:
    """Casts, TransData where the chip wants fractals, the product, Cast, ViewCopy."""
    chain.finish("out", _product(call, chain, "out"))


def build_sum(call: Call, chain: Chain) -> None:
    """The product, scaled, and what is added to it, scaled."""
    alpha, beta = call.number("alpha"), call.number("beta")
    alone = alpha == 1 and beta == 0
    total = _product(call, chain, "out" if alone else "")
    if alpha != 1:
        total = _scaled(chain, total, alpha)
    if beta != 0:
        added = chain.cast(chain.input("self"), total.dtype)
        if beta != 1:
            added = _scaled(chain, added, beta)
        target = chain.output("out", total.dtype)
        chain.launch("Add", total, added, target)
        total = target
    chain.finish("out", total)


def _scaled(chain: Chain, tensor: GlobalTensor, factor: float) -> GlobalTensor:
    target = chain.empty(tensor.shape, tensor.dtype, f"{tensor.buffer.name}_scaled")
    chain.launch("Muls", tensor, target, value=factor)
    return target


def _product(call: Call, chain: Chain, output: str) -> GlobalTensor:
    """self @ mat2 where ``output`` is, or in an intermediate tensor."""
    kind, hf32 = arithmetic(call)
    a, b = (_operand(call, chain, name) for name in operands(call))
    if a.seen()[1] == 0:
        zeros = _target(call, chain, output, call.spec("out").dtype)
        chain.launch("Fill", zeros, value=0.0)
        return zeros
    a, b = (replace(each, tensor=_in_dtype(chain, each.tensor, kind)) for each in (a, b))
    wanted = call.spec("out").dtype
    out = _target(call, chain, output, FLOAT if wanted is FLOAT else kind)
    outer = result_shape(call)[: max(len(a.outer), len(b.outer))]
    _multiplied(chain, a, b, out.view(*outer, a.seen()[0], b.seen()[1]), hf32=hf32)
    return out


def _in_dtype(chain: Chain, tensor: GlobalTensor, kind: DType) -> GlobalTensor:
    """A tensor in the dtype that is multiplied, in blocks where it was."""
    return replace(chain.cast(tensor, kind), format=tensor.format)


def product(
    chain: Chain,
    a: GlobalTensor,
    b: GlobalTensor,
    math_type: int,
    turned: tuple[bool, bool] = (False, False),
    whole: tuple[int, ...] = (),
) -> GlobalTensor:
    """a @ b of matrices, or of as many matrices on both sides, as cubeMathType says.

    ``turned`` tells which of them lie transposed, ``whole`` the shape of b where it is in blocks.
    """
    common = promote(a.dtype, b.dtype) or FLOAT
    kind, hf32 = arithmetic_of(common, math_type, chain.profile.family)
    left = _Matrix(chain.cast(a, kind), turned[0])
    right = _Matrix(_in_dtype(chain, b, kind), turned[1], whole)
    shape = (*left.outer, left.seen()[0], right.seen()[1])
    c = chain.empty(shape, kind, "product")
    _multiplied(chain, left, right, c, hf32=hf32)
    return c


def _multiplied(chain: Chain, a: _Matrix, b: _Matrix, c: GlobalTensor, *, hf32: bool) -> None:
    """The product of two operands into ``c``, whose outer axes say how many there are."""
    outer = c.shape[:-_MATRIX]
    a, b = (_spread(chain, each, outer) for each in (a, b))
    several = prod(b.outer) > 1 or (prod(outer) > 1 and a.turned)
    generation: int = chain.profile.software.matmul_generation
    if not outer:  # batches of one matrix are MatMulV3's (batch_matmul_util.cpp of ops-nn)
        problem = Problem.of("MatMul", a.tensor, b.tensor, c, (a.turned, b.turned))
        generation = version_of(chain.profile, shape_of(problem, hf32, has_bias=False))
    name = f"{'BatchMatMul' if several else 'MatMul'}V{generation}"
    if chain.profile.cube.nd2nz_setup_cycles is None:
        _in_fractals(name, chain, a, b, c, hf32=hf32)
    else:
        _multiply(name, chain, a, b, c, hf32=hf32)


def _target(call: Call, chain: Chain, output: str, dtype: DType) -> GlobalTensor:
    """An output of the call, or an intermediate tensor like it."""
    if output:
        return chain.output(output, dtype)
    return chain.empty(result_shape(call), dtype, "product")


def _operand(call: Call, chain: Chain, name: str) -> _Matrix:
    """An input with at least two axes; a transposed view is taken as it lies."""
    spec = call.spec(name)
    turned = chain.turned_input(name)
    if turned is not None:
        whole = (*spec.shape[:-2], spec.shape[-1], spec.shape[-2])
        return _Matrix(turned, True, whole if turned.format is Format.FRACTAL_NZ else ())
    tensor = chain.input(name)
    if tensor.format is Format.FRACTAL_NZ:
        return _Matrix(tensor, False, matrices(spec))
    if spec.rank == 1:
        tensor = tensor.view(1, *spec.shape) if name == "self" else tensor.view(*spec.shape, 1)
    return _Matrix(tensor, False)


def _spread(chain: Chain, matrix: _Matrix, outer: tuple[int, ...]) -> _Matrix:
    """Matrices for all products, unless there is one for all of them."""
    if matrix.outer == outer or prod(matrix.outer) == 1:
        if matrix.outer == outer:
            return matrix
        rest = matrix.tensor.shape[len(matrix.outer) :]
        single = replace(matrix.tensor.view(*rest), format=matrix.tensor.format)
        return _Matrix(single, matrix.turned, matrix.whole[-_MATRIX:])
    if matrix.blocked:
        raise KernelError("MatMul", f"{matrix.outer} weights in FRACTAL_NZ for {outer} products")
    shape = (*outer, *matrix.tensor.shape[-_MATRIX:])
    wide = chain.empty(shape, matrix.tensor.dtype, f"{matrix.tensor.buffer.name}_wide")
    chain.launch("BroadcastTo", matrix.tensor, wide)
    return _Matrix(wide, matrix.turned)


def _multiply(
    name: str, chain: Chain, a: _Matrix, b: _Matrix, c: GlobalTensor, *, hf32: bool
) -> None:
    problem = Problem.of(name, a.tensor, b.tensor, c, (a.turned, b.turned))
    for kernel in product_kernels(chain.profile, problem, hf32=hf32, op_type=name):
        chain.queue(kernel)


def _in_fractals(
    name: str, chain: Chain, a: _Matrix, b: _Matrix, c: GlobalTensor, *, hf32: bool
) -> None:
    """The product between TransData tasks, for chips whose loads don't turn rows into fractals."""
    blocked = [
        each if each.blocked else replace(each, tensor=_to_fractals(chain, each.tensor))
        for each in (a, b)
    ]
    result = chain.empty(_fractals(chain, c), c.dtype, f"{c.buffer.name}_nz")
    result = replace(result, format=Format.FRACTAL_NZ)
    _multiply(name, chain, blocked[0], blocked[1], result, hf32=hf32)
    _turn(chain, replace(result, format=Format.ND), c)


def _to_fractals(chain: Chain, tensor: GlobalTensor) -> GlobalTensor:
    blocked = chain.empty(_fractals(chain, tensor), tensor.dtype, f"{tensor.buffer.name}_nz")
    _turn(chain, tensor, blocked)
    return replace(blocked, format=Format.FRACTAL_NZ)


def _fractals(chain: Chain, tensor: GlobalTensor) -> tuple[int, ...]:
    """The storage shape of a tensor in FRACTAL_NZ."""
    *outer, rows, columns = tensor.shape
    high = chain.profile.cube.fractal_m
    return (*outer, ceil(columns / high), ceil(rows / high), high, high)


def _turn(chain: Chain, source: GlobalTensor, target: GlobalTensor) -> None:
    for kernel in kernels_on(Task(chain.profile, "TransData", (source,), (target,))):
        chain.queue(kernel)

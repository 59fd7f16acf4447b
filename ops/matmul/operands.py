"""What a matrix product is of: the shapes of its operands, how they lie, and which are turned."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from math import ceil, prod
from typing import TYPE_CHECKING

from npusim.ascendc import Scalar
from npusim.library.operands import GmMatrix
from npusim.values.errors import KernelError, RefusedTaskError
from npusim.values.formats import FRACTAL, Format

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor
    from npusim.ascendc.gm_slices import Place
    from npusim.ascendc.loops import Index

# Whether each operand is turned; None where nobody says.
Turned = tuple[bool | None, bool | None]

_MATRIX_AXES = 2
_NZ_AXES = 4  # blocks of columns, blocks of rows, rows and columns of a fractal


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor as a batch of matrices: rows and columns as they lie in memory.

    In FRACTAL_NZ, matrices lie in blocks of ``lanes`` columns and are as large as their storage.
    ``over`` is the batch of the products that they are spread over, where that is another one.
    """

    tensor: GlobalTensor
    batch: tuple[int, ...]
    rows: int
    columns: int
    lanes: int = 0
    over: tuple[int, ...] = ()

    @classmethod
    def of(cls, tensor: GlobalTensor) -> Operand:
        """A contiguous tensor of at least two axes, plain or in fractals; raises KernelError."""
        shape = tensor.shape
        if tensor.strides is not None:
            raise KernelError("MatMul", f"{tensor.buffer.name} isn't contiguous")
        if tensor.format is Format.FRACTAL_NZ and len(shape) >= _NZ_AXES:
            *batch, blocks, high, rows, lanes = shape
            return cls(tensor, tuple(batch), high * rows, blocks * lanes, lanes)
        if len(shape) < _MATRIX_AXES:
            raise RefusedTaskError("MatMul", f"{tensor.buffer.name} {shape} is no matrix")
        *batch, rows, columns = shape
        return cls(tensor, tuple(batch), rows, columns)

    @property
    def matrices(self) -> int:
        """Number of matrices."""
        return prod(self.batch)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.tensor.dtype.itemsize

    def size(self, turned: bool) -> tuple[int, int]:
        """Rows and columns of a matrix, after turning it if that is asked for."""
        return (self.columns, self.rows) if turned else (self.rows, self.columns)

    def matrix(
        self, turned: bool, index: Place, first_row: Index = 0, first_column: Index = 0
    ) -> GmMatrix:
        """Matrix ``index`` of the batch, from one of its rows and columns on (as turned)."""
        if turned:
            first_row, first_column = first_column, first_row
        step = self.rows * self.lanes if self.lanes else self.columns
        places = self._batch_places(index)
        if self.lanes:
            places += [(first_row, self.lanes), (first_column, self.rows)]
        else:
            places += [(first_row, self.columns), (first_column, 1)]
        return GmMatrix(self.tensor, tuple(places), step, turned, self.lanes, row_by_row=True)

    def spread(self, over: tuple[int, ...]) -> Operand | None:
        """The same for products of another batch that take them again and again; else None."""
        if self.matrices == 1 or self.batch == over:
            return self
        padded = (1,) * (len(over) - len(self.batch)) + self.batch
        fits = len(padded) == len(over) and all(
            own in (1, size) for own, size in zip(padded, over, strict=True)
        )
        return replace(self, batch=padded, over=over) if fits else None

    def beside(self, made: Operand) -> Operand | None:
        """The same for products as large as its matrices, which share them; else None."""
        sizes = [(each.rows, each.columns, each.lanes) for each in (self, made)]
        return self.spread(made.batch) if sizes[0] == sizes[1] else None

    def _batch_places(self, index: Place) -> list[tuple[Place, int]]:
        """Where the matrix of a product begins."""
        step = self.rows * self.columns
        if self.matrices == 1:
            return []  # the same for every product
        if not self.over or isinstance(index, Scalar):  # whose products have one batch
            return [(index, step)]
        places: list[tuple[Place, int]] = []
        products, matrices = prod(self.over), self.matrices
        for own, size in zip(self.batch, self.over, strict=True):
            products, matrices = products // size, matrices // own
            if own > 1:
                places.append((index // products % size, matrices * step))
        return places


@dataclass(frozen=True, slots=True)
class Problem:
    """c = a @ b for each of ``batch`` matrices, (m, k) by (k, n); a and b turned or as they lie."""

    a: Operand
    b: Operand
    c: Operand
    m: int
    n: int
    k: int
    turned_a: bool
    turned_b: bool

    @property
    def batch(self) -> int:
        """Number of products."""
        return self.c.matrices

    @property
    def known(self) -> tuple[GlobalTensor, ...]:
        """What a network knows beforehand: b.

        Not where a is turned, as in gradients of weights, nor where b is of several matrices.
        """
        return () if self.turned_a or self.b.matrices > 1 else (self.b.tensor,)

    @classmethod
    def of(
        cls,
        op_type: str,
        a: GlobalTensor,
        b: GlobalTensor,
        c: GlobalTensor,
        turned: Turned = (None, None),
    ) -> Problem:
        """The product that these tensors are; None in ``turned`` leaves that to the shapes.

        Raises RefusedTaskError where no way of turning them fits.
        """
        left, right, result = (Operand.of(each) for each in (a, b, c))
        left, result = _joined(left, right, result, turned[0])
        problem = f"{a.shape} times {b.shape} isn't {c.shape}"
        spread = [each.spread(result.batch) for each in (left, right)]
        if spread[0] is None or spread[1] is None:
            raise RefusedTaskError(op_type, problem)
        left, right = spread[0], spread[1]
        choices = [(False, True) if each is None else (each,) for each in turned]
        for turned_a, turned_b in product(*choices):
            m, k = left.size(turned_a)
            inner, n = right.size(turned_b)
            fits = _same(k, inner, left, right) and _same(n, result.columns, left, right)
            if fits and m == result.rows:
                n = min(n, result.columns)
                return cls(left, right, result, m, n, min(k, inner), turned_a, turned_b)
        raise RefusedTaskError(op_type, problem)


def result_shape(a: tuple[int, ...], b: tuple[int, ...], turned: Turned) -> tuple[int, ...]:
    """The shape of a product of plain matrices where the record doesn't tell it."""
    choices = [(False, True) if each is None else (each,) for each in turned]
    for turned_a, turned_b in product(*choices):
        m, k = (a[-1], a[-2]) if turned_a else (a[-2], a[-1])
        inner, n = (b[-1], b[-2]) if turned_b else (b[-2], b[-1])
        if k == inner:
            return (*max(a[:-2], b[:-2], key=len), m, n)
    raise RefusedTaskError("MatMul", f"{a} and {b} have no axis in common")


def _joined(
    left: Operand, right: Operand, result: Operand, turned: bool | None
) -> tuple[Operand, Operand]:
    """A batch of left matrices with one on the right is a single taller matrix."""
    alone = right.matrices == 1 and left.matrices > 1 and not turned
    if not alone or left.lanes or result.lanes or left.columns not in (right.rows, right.columns):
        return left, result
    if left.rows != result.rows:
        return left, result
    count = left.matrices
    return (
        Operand(left.tensor, (), count * left.rows, left.columns),
        Operand(result.tensor, (), count * result.rows, result.columns),
    )


def _same(k: int, inner: int, a: Operand, b: Operand) -> bool:
    """Equal sums, up to the padding of operands in fractals."""
    if k == inner:
        return True
    if not (a.lanes or b.lanes):
        return False
    grain = max(a.lanes, b.lanes, FRACTAL)
    return ceil(k / grain) == ceil(inner / grain)

"""Decompositions of matrices by LAPACK's algorithms, as the device's AI CPUs compute them.

How many operations they take is textbook arithmetic (Golub and van Loan, Matrix Computations).
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.schedules.on_ai_cpu import OnAiCpu

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.task import Task

    Array = NDArray[Any]


def _matrices(task: Task, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a matrix or of several."""
    if len(shape) < 2:
        raise task.unfit(f"{shape} is no matrix")
    return shape


def _for_each(cost: Callable[[int, int], float]) -> Callable[[Task], float]:
    """Operations by the rows and columns of every matrix."""

    def operations(task: Task) -> float:
        *batch, rows, columns = _matrices(task, task.present(1)[0].shape)
        return prod(batch) * cost(rows, columns)

    return operations


def _cubic(share: float) -> Callable[[Task], float]:
    return _for_each(lambda n, _: share * n**3)


def _cholesky(x: Array, upper: bool) -> Array:
    lower: Array = np.linalg.cholesky(x)
    return lower.swapaxes(-1, -2).conj() if upper else lower


def _diagonal_filled(x: Array, fill_value: float, wrap: bool) -> Array:
    found = x.copy()
    np.fill_diagonal(found, fill_value, wrap)
    return found


def _inverse(x: Array, adjoint: bool) -> Array:
    found: Array = np.linalg.inv(x)
    return found.swapaxes(-1, -2).conj() if adjoint else found


def _qr(x: Array, full_matrices: bool) -> tuple[Array, Array]:
    q, r = np.linalg.qr(x, "complete" if full_matrices else "reduced")
    return q, r


def _svd(x: Array, full_matrices: bool, compute_uv: bool) -> tuple[Array, Array, Array]:
    """Without vectors asked for, they are zeros."""
    u, sigma, v = np.linalg.svd(x, full_matrices=full_matrices)
    v = v.swapaxes(-1, -2).conj()
    return (sigma, u, v) if compute_uv else (sigma, np.zeros_like(u), np.zeros_like(v))


def _solved(b: Array, a: Array, upper: bool, transpose: bool, unit: bool) -> Array:
    """What a triangle has to be multiplied with to give ``b``; its other half isn't read."""
    triangle = np.triu(a) if upper else np.tril(a)
    if unit:
        count = np.arange(a.shape[-1])
        triangle[..., count, count] = 1
    found: Array = np.linalg.solve(triangle.swapaxes(-1, -2) if transpose else triangle, b)
    return found


def _substitutions(task: Task) -> float:
    shape = _matrices(task, task.outputs[0].shape)
    return prod(shape) * shape[-2]


triangular_solve = OnAiCpu(
    "MatrixTriangularSolve",
    _solved,
    _substitutions,
    {"upper": False, "transpose": False, "unit": False},
).from_task
cholesky = OnAiCpu("Cholesky", _cholesky, _cubic(1 / 3), {"upper": False}).from_task
determinant = OnAiCpu("MatrixDeterminant", np.linalg.det, _cubic(2 / 3)).from_task
fill_diagonal = OnAiCpu(
    "FillDiagonal", _diagonal_filled, attributes={"fill_value": 0.0, "wrap": False}
).from_task
inverse = OnAiCpu("MatrixInverse", _inverse, _cubic(2.0), {"adjoint": False}).from_task
log_determinant = OnAiCpu(
    "LogMatrixDeterminant", lambda x: tuple(np.linalg.slogdet(x)), _cubic(2 / 3)
).from_task
qr = OnAiCpu(
    "Qr", _qr, _for_each(lambda m, n: 4.0 * m * n * min(m, n)), {"full_matrices": False}
).from_task
svd = OnAiCpu(
    "Svd",
    _svd,
    _for_each(lambda m, n: 14.0 * m * n * min(m, n) + 8.0 * min(m, n) ** 3),
    {"full_matrices": False, "compute_uv": True},
).from_task

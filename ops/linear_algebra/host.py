"""What the aclnn functions of matrices do on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor
    from npusim.operators.host import Host

_REDUCED, _COMPLETE = 0, 1  # modes of aclnnLinalgQr


def log_of_determinant(host: Host, x: GlobalTensor) -> Any:
    """The determinant's logarithm, which is no number below zero."""
    sign, size = host.run("LogMatrixDeterminant", x)
    return host.run("Add", host.run("Log", sign), size)


def solved(
    host: Host, b: GlobalTensor, a: GlobalTensor, *, upper: bool, transpose: bool, unit: bool
) -> Any:
    """Solutions of triangular systems, and the matrices as they were solved with."""
    found = host.run("MatrixTriangularSolve", b, a, upper=upper, transpose=transpose, unit=unit)
    whole = (*found.shape[:-2], *a.shape[-2:])
    if a.shape == whole:
        return found, a
    return found, host.run("BroadcastTo", a, outputs=(host.empty(whole, a.dtype),))


def decomposed(host: Host, x: GlobalTensor, *, some: bool) -> Any:
    """An orthogonal matrix, whole or with as many columns as rows are needed, and a triangle."""
    return host.run("Qr", x, full_matrices=not some)


def decomposed_by_mode(host: Host, x: GlobalTensor, *, mode: int) -> Any:
    """The same, by a mode."""
    if mode not in (_REDUCED, _COMPLETE):
        raise KernelError("Qr", f"mode = {mode} isn't modelled, only 0 and 1")
    return host.run("Qr", x, full_matrices=mode == _COMPLETE)

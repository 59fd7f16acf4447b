"""What a measured task is in its step, going by what else was measured there."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from npusim.operators.registry import band_class
from npusim.values.dtypes import dtype
from npusim.values.formats import Format

if TYPE_CHECKING:
    from npusim.operators.tasks import TaskSpec
    from npusim.values.tensors import TensorSpec

_OPTIMIZERS = "optimizer"  # operators of this class update parameters
_COPIES = "TensorMove"  # what is copied as it is, is kept
_PRODUCTS, _FOR_ANY_SHAPE = ("MatMul", "BatchMatMul"), "V3"
_OPERANDS = 2
Like = tuple[tuple[int, ...], str]
"""Shape and dtype."""


@dataclass(frozen=True, slots=True)
class Role:
    """What a task is in its step, as far as rows tell.

    It ``streams`` parameters of the step, their gradients or states, which were last used long ago;
    ``amid`` others, it finds L2 full of what these have modified. A step runs it in every layer
    where it is ``layered``, so that the cores still have some of its code; kernels that were
    compiled for its shapes are for ``one_shape``. ``cast_masks`` are operands of BOOL that AI CPUs
    have made of uint8 just before, for which AI cores have no kernel.
    """

    streams: bool = False
    amid: bool = False
    layered: bool = False
    one_shape: bool = False
    cast_masks: bool = False


ALONE = Role()
"""Of a task that no row says anything of."""


def updated_by(task: TaskSpec) -> Iterator[Like]:
    """What an optimizer's task updates; those that work on lists give back flat tensors."""
    if band_class(task.op_type) != _OPTIMIZERS:
        return
    made = {(tensor.numel, tensor.dtype) for tensor in task.outputs}
    yield from map(_like, task.outputs)
    for tensor in _given(task):
        if (tensor.numel, tensor.dtype) in made:
            yield _like(tensor)


def streams(task: TaskSpec, updated: Collection[Like]) -> bool:
    """Whether a task reads what its step's optimizers update, going by shapes and dtypes.

    What makes nothing but tensors as large and of the same dtype passes on gradients, which
    have just been made; weights are rounded, folded to norms, or looked up, and copied where the
    step is about to change them.
    """
    inputs = _given(task)
    read = [tensor for tensor in inputs if _like(tensor) in updated]
    if 2 * _nbytes(read) <= _nbytes(inputs):
        return False
    if task.op_type == _COPIES:
        return True
    least, kind = read[0].numel, read[0].dtype
    return any(tensor.numel < least or tensor.dtype is not kind for tensor in task.outputs)


def amid(task: TaskSpec, updated: Collection[Like]) -> bool:
    """Whether a task that reads what optimizers update runs among others that don't.

    It reads what they have made as well, or copies what they are about to change.
    """
    others = any(each.shape and _like(each) not in updated for each in _given(task))
    return others or task.op_type == _COPIES


def is_rounded(task: TaskSpec, updated: Collection[Like]) -> bool:
    """Whether a task changes the layout of a parameter that has just been rounded to half of it."""
    given = task.inputs[0] if task.op_type == "TransData" else None
    return given is not None and any(
        given.shape == shape and dtype(name).itemsize == 2 * given.dtype.itemsize
        for shape, name in updated
    )


def is_laid_out(task: TaskSpec) -> bool:
    """Whether a product of a graph compiler's takes weights that were laid out for it beforehand.

    It is then a kernel for one shape. Products of frameworks (MatMulV3) are made for any.
    """
    if not task.op_type.startswith(_PRODUCTS) or len(task.inputs) < _OPERANDS:
        return False
    x, weights = task.inputs[:_OPERANDS]
    fractals = (Format.FRACTAL_NZ, Format.FRACTAL_Z)
    laid_out = weights is not None and weights.format in fractals
    made_here = task.op_type.endswith(_FOR_ANY_SHAPE)
    return laid_out and x is not None and x.format not in fractals and not made_here


def _like(tensor: TensorSpec) -> Like:
    return tensor.shape, tensor.dtype.name


def _given(task: TaskSpec) -> list[TensorSpec]:
    return [tensor for tensor in task.inputs if tensor is not None]


def _nbytes(tensors: Collection[TensorSpec]) -> int:
    return sum(tensor.nbytes for tensor in tensors)

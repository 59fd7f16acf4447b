"""Gradients of convolutions as profilers record them: which tensor is what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.ops.convolution.filter_gradient import FilterGradient
from npusim.ops.convolution.geometry import Geometry
from npusim.values.dtypes import FLOAT
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor, Kernel
    from npusim.ascendc.task import Task
    from npusim.values.dtypes import DType

_PLANES = 5  # axes of a feature map in slices


def filter_gradient(task: Task) -> tuple[Kernel, ...]:
    """x and dy to dw, in either order; the size of the weights may stand between them."""
    first, second = _feature_maps(task)
    dw = task.outputs[0] if task.outputs else None
    if dw is None:
        raise task.refused("a record without a result")
    pairs = [(second, first), (first, second)]  # MindSpore says dy first, CANN x
    if task.op_type.endswith("D") or len(task.inputs) > len(pairs):
        pairs.reverse()
    x, dy, geometry = _fitting(task, pairs, dw)
    _check_dtypes(task, (x, dy), dw, FLOAT)
    hf32 = hf32_of(task, x)
    return (
        FilterGradient(task.profile, x, dy, dw, geometry.window, op_type=task.op_type, hf32=hf32),
    )


def hf32_of(task: Task, x: GlobalTensor) -> bool:
    """Whether float32 is multiplied as HF32: so PyTorch does by default (conv.allow_hf32)."""
    told = task.first("enable_hf32", "hf32")
    return x.dtype is FLOAT and (told is None or bool(told))


def _feature_maps(task: Task) -> list[GlobalTensor]:
    """The inputs that are feature maps."""
    found = [each for each in task.inputs if each is not None and len(each.shape) == _PLANES]
    if len(found) != 2:
        raise task.refused(f"{len(found)} feature maps in NC1HWC0, where x and dy are needed")
    return found


def _fitting(
    task: Task, pairs: list[tuple[GlobalTensor, GlobalTensor]], dw: GlobalTensor
) -> tuple[GlobalTensor, GlobalTensor, Geometry]:
    """The first order of feature maps that the weights fit."""
    problems = []
    for x, dy in pairs:
        try:
            return x, dy, Geometry.of(task.op_type, x, dw, dy, task.attributes)
        except KernelError as error:
            problems.append(error)
    raise problems[0]


def _check_dtypes(
    task: Task, factors: tuple[GlobalTensor, GlobalTensor], result: GlobalTensor, wanted: DType
) -> None:
    """Refuse what the cube doesn't multiply, and results in another dtype."""
    kinds = {each.dtype for each in factors}
    kind = factors[0].dtype
    lanes = task.profile.buffers.block_bytes // kind.itemsize
    if len(kinds) > 1 or not kind.is_float or kind.intrinsic not in task.profile.cube.dtypes:
        names = " and ".join(each.dtype.name for each in factors)
        raise task.refused(f"the cube of {task.profile.name} doesn't multiply {names} here")
    if result.dtype is not wanted:
        raise task.refused(f"a result in {result.dtype.name}, not {wanted.name}")
    if any(each.numel == 0 for each in factors):
        raise task.refused("tensors without elements aren't modelled")
    if any(each.shape[-1] != lanes for each in (*factors, result)):
        raise task.refused(f"slices of {kind.name} have {lanes} channels")

"""Gradients of convolutions as profilers record them: which tensor is what."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from npusim.library.epilogue import Epilogue, Side
from npusim.ops.convolution.filter_gradient import FilterGradient
from npusim.ops.convolution.geometry import Geometry
from npusim.ops.convolution.input_gradient import InputGradient
from npusim.ops.convolution.normalised import Normalisation
from npusim.schedules.formula import Formula
from npusim.values.dtypes import FLOAT, UINT8
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor, Kernel
    from npusim.ascendc.task import Task
    from npusim.hardware.profile import Profile
    from npusim.values.dtypes import DType

_BITS, _HALF = 8, 2  # of a byte, and bytes of a half type
_PLANES, _FRACTALS = 5, 4  # axes of a feature map in slices, and of a weight


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
    window, groups, name = geometry.window, geometry.groups, task.op_type
    return (
        FilterGradient(task.profile, x, dy, dw, window, op_type=name, hf32=hf32, groups=groups),
    )


def normalised_filter_gradient(task: Task) -> tuple[Kernel, ...]:
    """x, gradients, the normalised tensor and five numbers for each channel to dy and dw."""
    x, grads, normalised, *per_channel, dy, dw = task.present(8, 2)
    geometry = Geometry.of(task.op_type, x, dw, dy, task.attributes)
    _check_dtypes(task, (x, dy), dw, FLOAT)
    if any(each.shape != dy.shape or each.dtype is not dy.dtype for each in (grads, normalised)):
        raise task.refused(f"gradients and what was normalised are {dy.shape} in {dy.dtype}")
    channels = dy.shape[1] * dy.shape[-1]
    if any(each.numel != channels or each.dtype is not FLOAT for each in per_channel):
        raise task.refused(f"{channels} numbers in {FLOAT} are needed of each statistic")
    if geometry.groups > 1:
        raise task.refused("normalised gradients of groups aren't modelled")
    if task.profile.paths.ub_to_l1 is None:
        raise task.refused(f"{task.profile.name} has no way from UB to L1")
    epsilon = task.number("epsilon", Normalisation._field_defaults["epsilon"])
    diff_scale, diff_offset, scale, mean, variance = per_channel
    known = Normalisation(normalised, diff_scale, diff_offset, scale, mean, variance, epsilon)
    return (
        FilterGradient(
            task.profile,
            x,
            dy,
            dw,
            geometry.window,
            op_type=task.op_type,
            normalisation=(grads, known),
        ),
    )


def hf32_of(task: Task, x: GlobalTensor) -> bool:
    """Whether float32 is multiplied as HF32."""
    return x.dtype is FLOAT and bool(task.first("enable_hf32", "hf32"))


def input_gradient(task: Task) -> tuple[Kernel, ...]:
    """dy and the weight to dx, in either order; the size of dx before them, a bias behind.

    A transposed convolution is the same with other names.
    """
    dx = task.outputs[0] if task.outputs else None
    if dx is None:
        raise task.refused("a record without a result")
    dy, weight, sides, mask = _of_input_gradient(task, dx)
    geometry = Geometry.of(task.op_type, dx, weight, dy, task.attributes)
    _check_dtypes(task, (dy, weight), dx, dy.dtype)
    hf32 = hf32_of(task, dy)
    epilogue = None
    if sides or mask is not None:
        epilogue = _summed_and_masked(task.profile, dx, sides, mask)
    return (
        InputGradient(
            task.profile,
            dy,
            weight,
            dx,
            geometry,
            bias=_bias_of(task, dx),
            epilogue=epilogue,
            hf32=hf32,
            op_type=task.op_type,
        ),
    )


def _bias_of(task: Task, dx: GlobalTensor) -> GlobalTensor | None:
    """A row of numbers, not of sizes, among the inputs."""
    rows = [each for each in task.inputs if each is not None and len(each.shape) == 1]
    return next((each for each in rows if each.dtype.is_float or dx.dtype is each.dtype), None)


def _of_input_gradient(
    task: Task, dx: GlobalTensor
) -> tuple[GlobalTensor, GlobalTensor, list[GlobalTensor], GlobalTensor | None]:
    """dy, the weight, gradients that are added to dx, and the mask of what is kept of it."""
    given = [each for each in task.inputs if each is not None]
    maps = [each for each in given if len(each.shape) == _PLANES]
    weights = [each for each in given if len(each.shape) == _FRACTALS]
    masks = [each for each in maps if each.dtype.itemsize == 1]
    sums = [each for each in maps if each not in masks]
    fused = task.op_type.removeprefix("FusionOp_").split("_")[1:]
    counts = len(weights), len(sums), len(masks)
    if counts != (1, 1 + fused.count("AddN"), fused.count("ReluGradV2")):
        raise task.refused("feature maps in NC1HWC0 and a weight in FRACTAL_Z are needed")
    dy, *sides = sums
    bits = dx.numel // _BITS
    if any(each.shape != dx.shape or each.dtype is not dx.dtype for each in sides):
        raise task.refused(f"only tensors {dx.shape} in {dx.dtype} can be added to the gradient")
    if masks and (masks[0].numel != bits or dx.dtype.itemsize != _HALF):
        raise task.refused(f"a gradient in halves has a mask of {bits} bytes")
    return dy, weights[0], sides, masks[0] if masks else None


def _summed_and_masked(
    profile: Profile, dx: GlobalTensor, sides: list[GlobalTensor], mask: GlobalTensor | None
) -> Epilogue:
    """What is added to the gradient before it leaves UB, and what is kept of it."""
    formula = Formula(profile, dx.dtype)
    product = found = formula.operand(dx.dtype)
    terms = [Side(each, formula.operand(each.dtype)) for each in sides]
    for side in terms:
        found = formula.add(found, side.term)
    bits = None if mask is None else replace(mask, dtype=UINT8)
    return Epilogue(formula, product, tuple(terms), (Side(dx, found),), mask=bits)


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

"""The estimate to beat: published peaks, fixed efficiencies and a static cost.

Efficiencies 0.7 (compute) and 0.6 (memory) and static costs of 5 us (matrix) and 2 us (vector) are
those of Ascend/msmodeling's analytic model. It serves as a yardstick only.
"""

from __future__ import annotations

import math
from math import prod
from typing import TYPE_CHECKING

from npusim.values.formats import Format

if TYPE_CHECKING:
    from npusim.hardware import Profile
    from npusim.operators.tasks import TaskSpec
    from npusim.values.tensors import TensorSpec

COMPUTE_EFFICIENCY = 0.7
MEMORY_EFFICIENCY = 0.6
MATRIX_STATIC_US = 5.0
VECTOR_STATIC_US = 2.0

_MATRIX = ("MatMul", "Gemm", "Conv")
_CONVOLUTIONS = ("Conv2D", "Conv2d", "Conv3D", "Conv3DV2", "Conv2DV2", "Convolution")


def roofline_us(profile: Profile, task: TaskSpec) -> float:
    """Time of a task by traffic and arithmetic alone, in microseconds."""
    operands = [spec for spec in (*task.inputs, *task.outputs) if spec is not None]
    nbytes = sum(spec.nbytes for spec in operands)
    memory_us = nbytes / (profile.memory.hbm_nominal_gbps * MEMORY_EFFICIENCY * 1e3)
    matrix = any(word in task.op_type for word in _MATRIX)
    if not matrix:
        lanes = sum(spec.numel for spec in task.outputs) or sum(spec.numel for spec in operands)
        per_us = _vector_per_us(profile) * COMPUTE_EFFICIENCY
        return max(memory_us, lanes / per_us) + VECTOR_STATIC_US
    per_us = profile.cube_peak_tops("float16") * 1e6 * COMPUTE_EFFICIENCY
    return max(memory_us, _matrix_operations(task) / per_us) + MATRIX_STATIC_US


def _vector_per_us(profile: Profile) -> float:
    lanes = profile.vector.repeat_bytes / 4
    return lanes * profile.cores.vector_cores * profile.clock_mhz


def _matrix_operations(task: TaskSpec) -> float:
    """2 * m * n * k of a product of the first two inputs, by sizes: sqrt(|A| * |B| * |C|).

    A forward convolution sums over what the weights of one output channel hold.
    """
    inputs = [spec for spec in task.inputs if spec is not None][:2]
    if len(inputs) < 2 or not task.outputs:
        return 0.0
    if task.op_type in _CONVOLUTIONS:
        return 2.0 * prod(task.outputs[0].shape) * _summed_over(inputs[1])
    sizes = [prod(spec.shape) for spec in (*inputs, task.outputs[0])]
    return 2.0 * math.sqrt(prod(sizes))


def _summed_over(weights: TensorSpec) -> int:
    """Products behind one output of a convolution: NCHW weights, or fractals of 16 x C0."""
    if weights.format is Format.FRACTAL_Z:
        return weights.shape[0] * weights.shape[-1]
    return prod(weights.shape[1:])

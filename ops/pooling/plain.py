"""Pooling of plain images (NHWC), which the AI CPUs do for windows that no AI core takes.

Every pixel goes into all windows that have it, its channels a vector register at a time, in
float32. Source: TensorFlow's kernels, which are those of the AI CPUs (tf_kernel.json of CANN
8.1.RC1): core/kernels/pooling_ops_common.h, columns of channels by Eigen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ops.pooling.windows import windows_of
from npusim.schedules.on_ai_cpu import SIMPLE, OnAiCpu
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from npusim.ascendc import Kernel
    from npusim.ascendc.task import Task


def on_ai_cpu(task: Task, fold: Callable[..., NDArray[Any]]) -> tuple[Kernel, ...]:
    """y [n, h, w, c] = ``fold`` over the windows of x [N, H, W, C]; nothing is padded."""
    x, y = task.present(1, 1)
    high, wide = windows_of(task, x.shape[1:3], y.shape[1:3])

    def compute(values: NDArray[Any], **_: object) -> NDArray[Any]:
        windows = np.lib.stride_tricks.sliding_window_view(
            values, (high.window, wide.window), axis=(1, 2)
        )
        return fold(windows[:, :: high.stride, :: wide.stride], axis=(-2, -1))

    lanes = task.profile.ai_cpu.vector_bytes // FLOAT.itemsize
    operations = SIMPLE * y.numel * high.window * wide.window / lanes
    return OnAiCpu(task.op_type, compute, lambda _: operations).from_task(task)

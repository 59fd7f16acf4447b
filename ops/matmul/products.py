"""Which kernel a matrix product is: of whole sums or parts of them, of plain rows or fractals."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from npusim.ops.matmul import dealt_blocks, fractals_first
from npusim.ops.matmul.fractals_first import FractalsFirst
from npusim.ops.matmul.kernel import MatMul, shape_of
from npusim.ops.matmul.split_k import SplitMatMul, split_of
from npusim.ops.matmul.tiling import partition
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor, Kernel
    from npusim.hardware.profile import Profile
    from npusim.library.epilogue import Epilogue
    from npusim.ops.matmul.operands import Problem
    from npusim.ops.matmul.shapes import Partition, Shape

_THIRD = "MatMulV3"


def product_kernels(
    profile: Profile,
    problem: Problem,
    *,
    bias: GlobalTensor | None = None,
    epilogue: Epilogue | None = None,
    hf32: bool = False,
    op_type: str = "MatMul",
    part: bool = False,
    adds: bool = False,
) -> list[Kernel]:
    """The kernels of a product; KernelError for dtypes that the cube doesn't multiply.

    ``part`` of a kernel of several is one without barriers, ``adds`` adds to what c holds.
    """
    left, right = problem.a.tensor.dtype, problem.b.tensor.dtype
    if left is not right or left.intrinsic not in profile.cube.dtypes:
        raise KernelError(op_type, f"the cube of {profile.name} has no {left} times {right}")
    split = None
    if epilogue is None and not problem.c.lanes and not part:
        split = split_of(profile, shape_of(problem, hf32, bias is not None))
    if split is not None:
        return [SplitMatMul(profile, problem, split, bias=bias, hf32=hf32, op_type=op_type)]
    third = op_type == _THIRD and not part and not adds
    if third and epilogue is None and fractals_first.needed(profile, problem, hf32=hf32):
        return [FractalsFirst(profile, problem, bias=bias, hf32=hf32, op_type=op_type)]
    return [
        MatMul(
            profile,
            problem,
            bias=bias,
            epilogue=epilogue,
            hf32=hf32,
            op_type=op_type,
            tiling=_tiling_of(profile, op_type),
            adds=adds,
        )
    ]


def _tiling_of(profile: Profile, op_type: str) -> Callable[[Profile, Shape], Partition]:
    """How a kernel cuts its products: that of MatMulV3 on A2 deals blocks of one size."""
    dealt = op_type == _THIRD and profile.cores.style == "split"
    return dealt_blocks.partition if dealt else partition

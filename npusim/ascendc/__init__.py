"""The kernel language: Ascend C in Python.

Every intrinsic computes on its tile and appends its instruction.
"""

from npusim.ascendc.core import Core
from npusim.ascendc.gm import GlobalTensor, GmBuffer, GmSlice
from npusim.ascendc.intrinsics.vector import CmpMode
from npusim.ascendc.kernel import Kernel, Phases
from npusim.ascendc.loops import IndexArray, LoopIndex
from npusim.ascendc.queues import TBuf, TPipe, TPosition, TQue, TQueBind
from npusim.ascendc.rounding import RoundMode
from npusim.ascendc.tensors import LocalTensor, Scalar
from npusim.ascendc.tracing import trace

__all__ = [
    "CmpMode",
    "Core",
    "GlobalTensor",
    "GmBuffer",
    "GmSlice",
    "IndexArray",
    "Kernel",
    "LocalTensor",
    "LoopIndex",
    "Phases",
    "RoundMode",
    "Scalar",
    "TBuf",
    "TPipe",
    "TPosition",
    "TQue",
    "TQueBind",
    "trace",
]

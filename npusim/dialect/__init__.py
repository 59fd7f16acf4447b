"""The kernel language: Ascend C in Python.

Every intrinsic computes on its tile and appends its instruction.
"""

from npusim.dialect.core import Core
from npusim.dialect.gm import GlobalTensor, GmBuffer, GmSlice
from npusim.dialect.kernel import Kernel, Phases, trace
from npusim.dialect.local import LocalTensor, Scalar
from npusim.dialect.loops import IndexArray, LoopIndex
from npusim.dialect.pipe import TBuf, TPipe, TPosition, TQue, TQueBind
from npusim.dialect.rounding import RoundMode
from npusim.dialect.vector import CmpMode

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

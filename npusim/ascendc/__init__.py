"""The kernel language: Ascend C in Python.

Every intrinsic computes on its tile and appends its instruction.
"""

from npusim.ascendc.core import Core
from npusim.ascendc.decorated import kernel
from npusim.ascendc.events import Event
from npusim.ascendc.gm import GlobalTensor
from npusim.ascendc.gm_buffers import GmBuffer
from npusim.ascendc.gm_slices import GmSlice
from npusim.ascendc.intrinsics.vector import CmpMode
from npusim.ascendc.kernel import Kernel, Phases
from npusim.ascendc.loops import IndexArray, LoopIndex
from npusim.ascendc.queues import TBuf, TPipe, TPosition, TQue, TQueBind
from npusim.ascendc.rounding import RoundMode
from npusim.ascendc.scalars import Scalar
from npusim.ascendc.tensors import LocalTensor
from npusim.ascendc.tracing import trace
from npusim.engine.program import Pipe
from npusim.values.dtypes import BFLOAT16, FLOAT, FLOAT16, INT8, INT32, UINT8

__all__ = [
    "BFLOAT16",
    "FLOAT",
    "FLOAT16",
    "INT8",
    "INT32",
    "UINT8",
    "CmpMode",
    "Core",
    "Event",
    "GlobalTensor",
    "GmBuffer",
    "GmSlice",
    "IndexArray",
    "Kernel",
    "LocalTensor",
    "LoopIndex",
    "Phases",
    "Pipe",
    "RoundMode",
    "Scalar",
    "TBuf",
    "TPipe",
    "TPosition",
    "TQue",
    "TQueBind",
    "kernel",
    "trace",
]

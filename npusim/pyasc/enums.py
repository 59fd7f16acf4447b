"""Enumerations of pyasc, with the names and numbers of its public documentation."""

from __future__ import annotations

from enum import Enum, IntEnum

from npusim.engine.program import Pipe

_PIPES = {
    "S": Pipe.SCALAR,
    "V": Pipe.VECTOR,
    "M": Pipe.CUBE,
    "MTE1": Pipe.MTE1,
    "MTE2": Pipe.MTE2,
    "MTE3": Pipe.MTE3,
    "FIX": Pipe.FIXP,
}
_EVENTS = """
    MTE2_MTE1 MTE1_MTE2 MTE1_M M_MTE1 MTE2_V V_MTE2 MTE3_V V_MTE3 M_V V_M V_V MTE3_MTE1 MTE1_MTE3
    MTE1_V MTE2_M M_MTE2 V_MTE1 M_FIX FIX_M MTE3_MTE2 MTE2_MTE3 S_V V_S S_MTE2 MTE2_S S_MTE3 MTE3_S
    MTE2_FIX FIX_MTE2 FIX_S M_S FIX_MTE3 MTE1_FIX FIX_MTE1 FIX_FIX
"""


def _numbered(name: str, names: str) -> type[IntEnum]:
    """An enumeration whose members count up from zero."""
    return IntEnum(name, {each: number for number, each in enumerate(names.split())})  # type: ignore[return-value]


HardEvent = _numbered("HardEvent", _EVENTS)
PipeID = _numbered(
    "PipeID",
    "PIPE_S PIPE_V PIPE_M PIPE_MTE1 PIPE_MTE2 PIPE_MTE3 PIPE_ALL PIPE_MTE4 PIPE_MTE5 PIPE_V2 "
    "PIPE_FIX",
)
TPosition = _numbered("TPosition", "GM A1 A2 B1 B2 C1 C2 CO1 CO2 VECIN VECOUT VECCALC MAX")
CubeFormat = _numbered("CubeFormat", "ND NZ")
CMPMODE = _numbered("CMPMODE", "LT GT EQ LE GE NE")
RoundMode = _numbered(
    "RoundMode",
    "CAST_NONE CAST_RINT CAST_FLOOR CAST_CEIL CAST_ROUND CAST_TRUNC CAST_ODD",
)
SelMode = _numbered("SelMode", "VSEL_CMPMASK_SPR VSEL_TENSOR_SCALAR_MODE VSEL_TENSOR_TENSOR_MODE")
ReduceOrder = _numbered(
    "ReduceOrder", "ORDER_VALUE_INDEX ORDER_INDEX_VALUE ORDER_ONLY_VALUE ORDER_ONLY_INDEX"
)
DataFormat = _numbered("DataFormat", "ND NZ NCHW NC1HWC0 NHWC")
Hardware = _numbered("Hardware", "GM UB L1 L0A L0B L0C BIAS FIXBUF MAX")
MaskMode = _numbered("MaskMode", "NORMAL COUNTER")
MemDsbT = _numbered("MemDsbT", "ALL DDR UB SEQ")
LayoutMode = _numbered("LayoutMode", "NONE NORMAL BSNGD SBNGD BNGS1S2")
IterateOrder = _numbered("IterateOrder", "ORDER_M ORDER_N UNDEF")
ScheduleType = _numbered("ScheduleType", "INNER_PRODUCT OUTER_PRODUCT")
CO2Layout = _numbered("CO2Layout", "NZ ROW_MAJOR COLUMN_MAJOR")
QuantModes = _numbered(
    "QuantModes",
    "NoQuant F322F16 F322BF16 DEQF16 VDEQF16 QF322B8_PRE VQF322B8_PRE REQ8 VREQ8",
)
CacheLine = _numbered("CacheLine", "SINGLE_CACHE_LINE ENTIRE_DATA_CACHE")
DcciDst = _numbered("DcciDst", "CACHELINE_ALL CACHELINE_UB CACHELINE_OUT CACHELINE_ATOMIC")
BatchMode = _numbered(
    "BatchMode", "NONE BATCH_LESS_THAN_L1 BATCH_LARGE_THAN_L1 SINGLE_LARGE_THAN_L1"
)
MatrixTraverse = _numbered("MatrixTraverse", "NOSET FIRSTM FIRSTN")
TransposeType = _numbered(
    "TransposeType",
    "TRANSPOSE_TYPE_NONE TRANSPOSE_NZ2ND_0213 TRANSPOSE_NZ2NZ_0213 TRANSPOSE_NZ2NZ_012_WITH_N "
    "TRANSPOSE_NZ2ND_012_WITH_N TRANSPOSE_NZ2ND_012_WITHOUT_N TRANSPOSE_NZ2NZ_012_WITHOUT_N "
    "TRANSPOSE_ND2ND_ONLY TRANSPOSE_ND_UB_GM TRANSPOSE_GRAD_ND_UB_GM TRANSPOSE_ND2ND_B16 "
    "TRANSPOSE_NCHW2NHWC TRANSPOSE_NHWC2NCHW",
)
CacheMode = IntEnum(
    "CacheMode",
    {
        "CACHE_MODE_NORMAL": 0,
        "CACHE_MODE_DISABLE": 1,
        "CACHE_MODE_LAST": 2,
        "CACHE_MODE_PERSISTENT": 4,
    },
)
CacheRwMode = IntEnum("CacheRwMode", {"READ": 1, "WRITE": 2, "RW": 3})


class Backend(Enum):
    """Where a program says it wants to run; here both are the simulated chip."""

    Model = "Model"
    NPU = "NPU"


_PLATFORMS = """
    Ascend910B1 Ascend910B2 Ascend910B2C Ascend910B3 Ascend910B4 Ascend910B4-1 Ascend910_9362
    Ascend910_9372 Ascend910_9381 Ascend910_9382 Ascend910_9391 Ascend910_9392
"""
Platform = Enum(  # type: ignore[misc]
    "Platform", {each.replace("-", "_"): each for each in _PLATFORMS.split()}
)
KernelType = _numbered(
    "KernelType",
    "AIV_ONLY AIC_ONLY MIX_AIV_HARD_SYNC MIX_AIC_HARD_SYNC MIX_AIV_1_0 MIX_AIC_1_0 MIX_AIC_1_1 "
    "MIX_AIC_1_2",
)
DequantType = _numbered("DequantType", "SCALAR TENSOR")
MatrixMadType = _numbered("MatrixMadType", "NORMAL HF32 MXMODE")


def pipes_of(event: IntEnum) -> tuple[Pipe, Pipe]:
    """The pipe that sets an event, and the one that waits for it."""
    first, then = event.name.split("_")
    return _PIPES[first], _PIPES[then]


def pipe_of(pipe: IntEnum) -> Pipe:
    """The pipe that a PipeID names."""
    return _PIPES[pipe.name.removeprefix("PIPE_")]

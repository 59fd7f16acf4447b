"""The dtypes of aclnn tensors, and the one function that reads any spelling of them.

A dtype has four names in the Ascend world (operator pages FLOAT, error texts DT_FLOAT, torch
float32, host code ACL_FLOAT). All are accepted; the operator-page spelling is printed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from npusim.values.errors import DTypeError, brief
from npusim.values.language import say
from npusim.values.suggest import did_you_mean

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, eq=False)
class DType:
    """One aclDataType. Interned: compare with ``is`` or ``==``, use as a dictionary key.

    `acl` is the aclDataType number, `bits` the width of one element on the device, `intrinsic` the
    spelling in the intrinsic lists of a hardware profile.
    Source: hicann/runtime include/external/acl/acl_base_rt.h (numbers), hicann/opbase
    include/nnopbase/opdev/data_type_utils.h (widths).
    """

    name: str
    acl: int
    bits: int
    category: str
    intrinsic: str
    _numpy_name: str = ""

    @cached_property
    def itemsize(self) -> int:
        """Bytes of one element that stands alone (a 4-bit element rounds up to 1)."""
        return -(-self.bits // 8)

    @property
    def dt(self) -> str:
        """The spelling of error texts: ``DT_BFLOAT16``."""
        return f"DT_{self.name}"

    @property
    def is_float(self) -> bool:
        """True for every floating type, BF16 and the 8-bit ones included (NumPy would deny it)."""
        return self.category == "float"

    @cached_property
    def numpy(self) -> np.dtype[Any] | None:
        """The NumPy dtype (ml_dtypes where NumPy has none), or None when neither has it."""
        if not self._numpy_name:
            return None
        import numpy as np

        package, _, attribute = self._numpy_name.rpartition(".")
        if not package:
            return np.dtype(attribute)
        import ml_dtypes

        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, attribute))
        return found

    def nbytes(self, count: int) -> int:
        """Bytes of `count` packed elements."""
        return -(-count * self.bits // 8)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<DType {self.name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return dtype, (self.name,)


FLOAT = DType("FLOAT", 0, 32, "float", "float32", "float32")
FLOAT16 = DType("FLOAT16", 1, 16, "float", "float16", "float16")
INT8 = DType("INT8", 2, 8, "int", "int8", "int8")
INT32 = DType("INT32", 3, 32, "int", "int32", "int32")
UINT8 = DType("UINT8", 4, 8, "uint", "uint8", "uint8")
INT16 = DType("INT16", 6, 16, "int", "int16", "int16")
UINT16 = DType("UINT16", 7, 16, "uint", "uint16", "uint16")
UINT32 = DType("UINT32", 8, 32, "uint", "uint32", "uint32")
INT64 = DType("INT64", 9, 64, "int", "int64", "int64")
UINT64 = DType("UINT64", 10, 64, "uint", "uint64", "uint64")
DOUBLE = DType("DOUBLE", 11, 64, "float", "float64", "float64")
BOOL = DType("BOOL", 12, 8, "bool", "bool", "bool")
STRING = DType("STRING", 13, 128, "other", "string")
COMPLEX64 = DType("COMPLEX64", 16, 64, "complex", "complex64", "complex64")
COMPLEX128 = DType("COMPLEX128", 17, 128, "complex", "complex128", "complex128")
BFLOAT16 = DType("BFLOAT16", 27, 16, "float", "bfloat16", "ml_dtypes.bfloat16")
INT4 = DType("INT4", 29, 4, "int", "int4", "ml_dtypes.int4")
UINT1 = DType("UINT1", 30, 1, "uint", "uint1")
COMPLEX32 = DType("COMPLEX32", 33, 32, "complex", "complex32")
HIFLOAT8 = DType("HIFLOAT8", 34, 8, "float", "hifloat8")
FLOAT8_E5M2 = DType("FLOAT8_E5M2", 35, 8, "float", "float8_e5m2", "ml_dtypes.float8_e5m2")
FLOAT8_E4M3FN = DType("FLOAT8_E4M3FN", 36, 8, "float", "float8_e4m3fn", "ml_dtypes.float8_e4m3fn")
FLOAT8_E8M0 = DType("FLOAT8_E8M0", 37, 8, "float", "float8_e8m0", "ml_dtypes.float8_e8m0fnu")
FLOAT6_E3M2 = DType("FLOAT6_E3M2", 38, 6, "float", "float6_e3m2", "ml_dtypes.float6_e3m2fn")
FLOAT6_E2M3 = DType("FLOAT6_E2M3", 39, 6, "float", "float6_e2m3", "ml_dtypes.float6_e2m3fn")
FLOAT4_E2M1 = DType("FLOAT4_E2M1", 40, 4, "float", "float4_e2m1", "ml_dtypes.float4_e2m1fn")
FLOAT4_E1M2 = DType("FLOAT4_E1M2", 41, 4, "float", "float4_e1m2")

INT4_IN_INT32 = 8  # numbers of 4 bits that one of 32 holds
LEAST_NORMAL = 2.0**-126  # of FLOAT

DTYPES: tuple[DType, ...] = (
    FLOAT, FLOAT16, INT8, INT32, UINT8, INT16, UINT16, UINT32, INT64, UINT64, DOUBLE, BOOL, STRING,
    COMPLEX64, COMPLEX128, BFLOAT16, INT4, UINT1, COMPLEX32, HIFLOAT8, FLOAT8_E5M2, FLOAT8_E4M3FN,
    FLOAT8_E8M0, FLOAT6_E3M2, FLOAT6_E2M3, FLOAT4_E2M1, FLOAT4_E1M2,
)  # fmt: skip

# Spellings beyond the page name and the intrinsic name, lower case and without prefix.
# "i8" is absent on purpose: it is one byte in half of the world and eight bytes in NumPy.
_ALIASES: dict[str, DType] = {
    "fp32": FLOAT, "f32": FLOAT, "single": FLOAT,
    "fp16": FLOAT16, "f16": FLOAT16, "half": FLOAT16,
    "bf16": BFLOAT16,
    "fp64": DOUBLE, "f64": DOUBLE,
    "s8": INT8, "s16": INT16, "s32": INT32, "s64": INT64,
    "short": INT16, "int": INT32, "long": INT64,
    "u8": UINT8, "u16": UINT16, "u32": UINT32, "u64": UINT64,
    "bool_": BOOL,
    "c32": COMPLEX32, "chalf": COMPLEX32, "c64": COMPLEX64, "cfloat": COMPLEX64,
    "c128": COMPLEX128, "cdouble": COMPLEX128,
    "hif8": HIFLOAT8,
    "e5m2": FLOAT8_E5M2, "fp8_e5m2": FLOAT8_E5M2,
    "e4m3": FLOAT8_E4M3FN, "e4m3fn": FLOAT8_E4M3FN, "fp8_e4m3": FLOAT8_E4M3FN,
    "fp8_e4m3fn": FLOAT8_E4M3FN, "float8_e4m3": FLOAT8_E4M3FN,
    "float8_e8m0fnu": FLOAT8_E8M0, "e8m0": FLOAT8_E8M0, "fp8_e8m0": FLOAT8_E8M0,
    "float6_e3m2fn": FLOAT6_E3M2, "fp6_e3m2": FLOAT6_E3M2,
    "float6_e2m3fn": FLOAT6_E2M3, "fp6_e2m3": FLOAT6_E2M3,
    "float4_e2m1fn": FLOAT4_E2M1, "float4_e2m1fn_x2": FLOAT4_E2M1, "fp4_e2m1": FLOAT4_E2M1,
    "fp4_e1m2": FLOAT4_E1M2,
}  # fmt: skip

_BY_SPELLING: dict[str, DType] = {
    **{each.intrinsic: each for each in DTYPES},
    **{each.name.lower(): each for each in DTYPES},
    **_ALIASES,
}
_BY_ACL: dict[int, DType] = {each.acl: each for each in DTYPES}
_PREFIXES = ("acldatatype::", "ge::", "torch.", "numpy.", "np.", "ml_dtypes.", "acl_", "dt_")


def dtype(value: object) -> DType:
    """The `DType` behind any spelling: text, a NumPy, ml_dtypes or torch dtype or scalar type.

    Raises `DTypeError` with near misses for a spelling nobody uses, and for Python's ``float``,
    ``int`` and ``complex``, whose width is a matter of taste.
    """
    if isinstance(value, DType):
        return value
    if isinstance(value, str):
        return _from_text(value)
    # Identity, because NumPy's dtype float64 calls itself equal to float.
    if value is float or value is int or value is complex:
        hint = "Say 'float32', 'float64', 'int32' ..."
        raise DTypeError(
            say("Python's {name} is no dtype of a fixed width").format(name=value.__name__), hint
        )
    text = brief(value)
    if text.startswith("torch."):
        return _from_text(text)
    return _from_numpy(value)


def from_acl(number: int) -> DType:
    """The `DType` of an aclDataType number."""
    try:
        return _BY_ACL[number]
    except KeyError:
        raise DTypeError(
            say("aclDataType {number} is not a dtype that operators take").format(number=number)
        ) from None


def is_acl(number: int) -> bool:
    """Whether an aclDataType number is a dtype that operators take."""
    return number in _BY_ACL


@lru_cache(maxsize=256)
def _from_text(text: str) -> DType:
    spelling = text.strip().lower()
    for prefix in _PREFIXES:
        spelling = spelling.removeprefix(prefix)
    found = _BY_SPELLING.get(spelling)
    if found is None:
        hint = did_you_mean(spelling, _BY_SPELLING) or "Known: " + ", ".join(map(str, DTYPES)) + "."
        raise DTypeError(say("unknown dtype {text!r}").format(text=text), hint)
    return found


def _from_numpy(value: object) -> DType:
    import numpy as np

    try:
        # NumPy reads None as float64; here it is a forgotten argument.
        kind = None if value is None else np.dtype(value)  # type: ignore[call-overload]
    except (RecursionError, TypeError, ValueError):
        kind = None
    if kind is None:
        hint = say("Give a name such as 'float16', a NumPy dtype or ml_dtypes.bfloat16.")
        raise DTypeError(
            say("a value of type {kind} is not a dtype").format(kind=type(value).__name__), hint
        )
    return _of_numpy_dtype(kind)


@lru_cache(maxsize=64)
def _of_numpy_dtype(kind: np.dtype[Any]) -> DType:
    if not kind.isnative:
        raise DTypeError(
            say("NumPy dtype {kind} has the wrong byte order").format(kind=kind),
            say('Convert with array.astype(array.dtype.newbyteorder("=")).'),
        )
    found = _BY_SPELLING.get(kind.name)
    if found is not None and found.numpy == kind:
        return found
    hint = say("Convert it with array.astype.")
    if kind.kind == "V":
        hint = say("View it as what it holds, e.g. array.view(ml_dtypes.bfloat16).")
    raise DTypeError(
        say("no aclnn dtype corresponds to NumPy dtype {name!r}").format(name=kind.name), hint
    )

"""Which dtype two aclnn tensors are computed in, and which results may be stored in which output.

NumPy's rules differ (it refuses float16 with bfloat16, and widens int32 with float16), so the
table is written out.
"""

from __future__ import annotations

from npusim.values.dtypes import (
    BFLOAT16,
    BOOL,
    COMPLEX32,
    COMPLEX64,
    COMPLEX128,
    DOUBLE,
    FLOAT,
    FLOAT16,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    DType,
    dtype,
)
from npusim.values.errors import ArgumentError
from npusim.values.language import say

_SHORT: dict[str, DType] = {
    "f32": FLOAT, "f16": FLOAT16, "f64": DOUBLE, "bf16": BFLOAT16,
    "s8": INT8, "u8": UINT8, "s16": INT16, "u16": UINT16, "s32": INT32, "u32": UINT32,
    "s64": INT64, "u64": UINT64, "bool": BOOL,
    "c32": COMPLEX32, "c64": COMPLEX64, "c128": COMPLEX128,
}  # fmt: skip

# Tensor with tensor; "-" where the two don't combine. Source: hicann/ops-nn
# docs/zh/context/deduction_relationship.md (the page), table 1. The host code that ships beside it
# (hicann/opbase include/nnopbase/opdev/data_type_utils.h) has the same cells except that it makes
# bf16 + c32 a c64, and combines u16, u32, u64 with c64 and c128; we follow the page.
_TABLE = """
      f32  f16  f64  bf16 s8   u8   s16  u16  s32  u32  s64  u64  bool c32  c64  c128
f32   f32  f32  f64  f32  f32  f32  f32  -    f32  -    f32  -    f32  c64  c64  c128
f16   f32  f16  f64  f32  f16  f16  f16  -    f16  -    f16  -    f16  c32  c64  c128
f64   f64  f64  f64  f64  f64  f64  f64  -    f64  -    f64  -    f64  c128 c128 c128
bf16  f32  f32  f64  bf16 bf16 bf16 bf16 -    bf16 -    bf16 -    bf16 c32  c64  c128
s8    f32  f16  f64  bf16 s8   s16  s16  -    s32  -    s64  -    s8   c32  c64  c128
u8    f32  f16  f64  bf16 s16  u8   s16  -    s32  -    s64  -    u8   c32  c64  c128
s16   f32  f16  f64  bf16 s16  s16  s16  -    s32  -    s64  -    s16  c32  c64  c128
u16   -    -    -    -    -    -    -    u16  -    -    -    -    -    -    -    -
s32   f32  f16  f64  bf16 s32  s32  s32  -    s32  -    s64  -    s32  c32  c64  c128
u32   -    -    -    -    -    -    -    -    -    u32  -    -    -    -    -    -
s64   f32  f16  f64  bf16 s64  s64  s64  -    s64  -    s64  -    s64  c32  c64  c128
u64   -    -    -    -    -    -    -    -    -    -    -    u64  -    -    -    -
bool  f32  f16  f64  bf16 s8   u8   s16  -    s32  -    s64  -    bool c32  c64  c128
c32   c64  c32  c128 c32  c32  c32  c32  -    c32  -    c32  -    c32  c32  c64  c128
c64   c64  c64  c128 c64  c64  c64  c64  -    c64  -    c64  -    c64  c64  c64  c128
c128  c128 c128 c128 c128 c128 c128 c128 -    c128 -    c128 -    c128 c128 c128 c128
"""


def _read_table() -> dict[tuple[DType, DType], DType]:
    header, *rows = _TABLE.strip().splitlines()
    columns = header.split()
    table: dict[tuple[DType, DType], DType] = {}
    for row in rows:
        left, *cells = row.split()
        for right, cell in zip(columns, cells, strict=True):
            if cell != "-":
                table[_SHORT[left], _SHORT[right]] = _SHORT[cell]
    return table


PROMOTIONS: dict[tuple[DType, DType], DType] = _read_table()


def promote(*dtypes: object) -> DType | None:
    """The dtype in which these dtypes are computed together, or None when they don't combine.

    A dtype always combines with itself, also one that the table doesn't list.
    """
    if not dtypes:
        raise ArgumentError(say("promote() needs at least one dtype"))
    result, *others = map(dtype, dtypes)
    for other in others:
        if other is result:
            continue
        combined = PROMOTIONS.get((result, other))
        if combined is None:
            return None
        result = combined
    return result


def castable(src: object, dst: object) -> bool:
    """True when a result of dtype `src` may be stored in an output of dtype `dst`.

    Floats don't become integers, complex numbers don't become real, and only BOOL becomes BOOL.
    Source: hicann/opbase include/nnopbase/opdev/data_type_utils.h, conversion test; newer pages
    (hicann/ops-nn docs/zh/context/conversion_relationship.md) relax the first two in words only.
    """
    source, target = dtype(src), dtype(dst)
    if source.category == "complex" and target.category != "complex":
        return False
    if source.category == "float" and target.category in ("int", "uint"):
        return False
    return target is not BOOL or source is BOOL

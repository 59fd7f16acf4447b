"""What quantised products ask of their operands: dtypes that go together, scales, packed weights.

Source: hicann/ops-nn matmul/quant_batch_matmul_v3/docs/aclnnQuantMatmulV3.md,
aclnnQuantMatmulV4.md, aclnnQuantMatmulWeightNz.md,
matmul/quant_batch_matmul_v4/docs/aclnnQuantMatmulV5.md,
matmul/weight_quant_batch_matmul_v2/docs/aclnnWeightQuantBatchMatmulV2.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.operators.checks import invalid, sizes
from npusim.ops.matmul.checks import LONGEST_AXIS, matrix_sizes
from npusim.values.dtypes import BFLOAT16, FLOAT, INT4, INT8, INT32, INT64, UINT64
from npusim.values.formats import Format

if TYPE_CHECKING:
    from npusim.operators.contract import Call, Check, Finding
    from npusim.values.tensors import TensorSpec

_SMALLEST_GROUP = 32  # rows that share a scale
_GROUPS_IN_FRACTALS = (64, 128)  # of int4, by the page of aclnnWeightQuantBatchMatmulV2
_MOST_ROWS_PACKED = 96  # of x, with scales in 64 bits


def _families(rows: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    return dict.fromkeys(("A2", "A3"), rows)


# x1 x2 scale offset bias out
THIRD = {
    "310P": (
        "INT8 INT8 UINT64/INT64 - -/INT32 FLOAT16",
        "INT8 INT8 UINT64/INT64 -/FLOAT -/INT32 INT8",
    ),
    **_families((
        "INT8 INT8 UINT64/INT64 - -/INT32 FLOAT16",
        "INT8 INT8 UINT64/INT64 -/FLOAT -/INT32 INT8",
        "INT8 INT8 FLOAT/BFLOAT16 - -/INT32/BFLOAT16/FLOAT BFLOAT16",
        "INT4/INT32 INT4/INT32 UINT64/INT64 - -/INT32 FLOAT16",
        "INT8 INT8 FLOAT/BFLOAT16 - -/INT32 INT32",
    )),
}  # fmt: skip
# x1 x2 scale offset bias pertokenScale out; on 310P the text of the page has a row more
FOURTH = {
    "310P": (
        "INT8 INT8 UINT64/INT64 - -/INT32 - FLOAT16",
        "INT8 INT8 UINT64/INT64 -/FLOAT -/INT32 - INT8",
        "INT8 INT8 FLOAT - -/INT32 FLOAT FLOAT16",
    ),
    **_families((
        "INT8 INT8 UINT64/INT64 - -/INT32 - FLOAT16",
        "INT8 INT8 UINT64/INT64 -/FLOAT -/INT32 - INT8",
        "INT8 INT8 FLOAT/BFLOAT16 - -/INT32/BFLOAT16/FLOAT -/FLOAT BFLOAT16",
        "INT8 INT8 FLOAT - -/INT32/FLOAT16/FLOAT FLOAT FLOAT16",
        "INT4/INT32 INT4/INT32 UINT64/INT64 - -/INT32 - FLOAT16",
        "INT8 INT8 FLOAT/BFLOAT16 - -/INT32 - INT32",
        "INT4/INT32 INT4/INT32 FLOAT/BFLOAT16 - -/INT32/BFLOAT16/FLOAT FLOAT BFLOAT16",
        "INT4/INT32 INT4/INT32 FLOAT - -/INT32/FLOAT16/FLOAT FLOAT FLOAT16",
    )),
}  # fmt: skip
# x1 x2 x1Scale x2Scale x2Offset yOffset bias out
FIFTH = {
    "310P": ("INT8 INT8 FLOAT FLOAT - - -/INT32 FLOAT16",),
    **_families((
        "INT8 INT8 - UINT64/INT64 - - -/INT32 FLOAT16",
        "INT8 INT8 - UINT64/INT64 -/FLOAT - -/INT32 INT8",
        "INT8 INT8 -/FLOAT FLOAT/BFLOAT16 - - -/INT32/BFLOAT16/FLOAT BFLOAT16",
        "INT8 INT8 FLOAT FLOAT - - -/INT32/FLOAT16/FLOAT FLOAT16",
        "INT8 INT32 FLOAT UINT64/INT64 - FLOAT - FLOAT16/BFLOAT16",
        "INT4/INT32 INT4/INT32 - UINT64/INT64 - - -/INT32 FLOAT16",
        "INT8 INT8 - FLOAT/BFLOAT16 - - -/INT32 INT32",
        "INT4/INT32 INT4/INT32 FLOAT FLOAT/BFLOAT16 - - -/INT32/BFLOAT16/FLOAT BFLOAT16",
        "INT4/INT32 INT4/INT32 FLOAT FLOAT - - -/INT32/FLOAT16/FLOAT FLOAT16",
        "INT4 INT4 FLOAT FLOAT FLOAT16 - - BFLOAT16",
    )),
}  # fmt: skip
IN_FRACTALS = {
    "310P": (
        "INT8 INT8 - UINT64/INT64 - - -/INT32 FLOAT16",
        "INT8 INT8 - UINT64/INT64 -/FLOAT - -/INT32 INT8",
        "INT8 INT8 FLOAT FLOAT - - -/INT32 FLOAT16",
    ),
    **_families((
        "INT8 INT8 - UINT64/INT64 - - -/INT32 FLOAT16",
        "INT8 INT8 - UINT64/INT64 -/FLOAT - -/INT32 INT8",
        "INT8 INT8 -/FLOAT FLOAT/BFLOAT16 - - -/INT32/BFLOAT16/FLOAT BFLOAT16",
        "INT8 INT8 FLOAT FLOAT - - -/INT32/FLOAT16/FLOAT FLOAT16",
        "INT8 INT8 - FLOAT/BFLOAT16 - - -/INT32 INT32",
        "INT4/INT32 INT4/INT32 -/FLOAT BFLOAT16/FLOAT -/FLOAT - -/BFLOAT16 BFLOAT16",
        "INT4/INT32 INT4/INT32 -/FLOAT UINT64/FLOAT -/FLOAT - -/INT32 FLOAT16",
        "INT8 INT32 FLOAT UINT64 - FLOAT - FLOAT16/BFLOAT16",
    )),
}  # fmt: skip
# x weight antiquantScale antiquantOffset quantScale quantOffset bias y
WIDENED = {
    "310P": ("FLOAT16 INT8 FLOAT16 -/FLOAT16 - - -/FLOAT16 FLOAT16",),
    **_families((
        "FLOAT16 INT8/INT4/INT32 FLOAT16 -/FLOAT16 - - -/FLOAT16 FLOAT16",
        "BFLOAT16 INT8/INT4/INT32 BFLOAT16 -/BFLOAT16 - - -/FLOAT BFLOAT16",
        "FLOAT16 INT8/INT4/INT32 FLOAT16 -/FLOAT16 UINT64 -/FLOAT -/FLOAT16 INT8",
        "BFLOAT16 INT8/INT4/INT32 BFLOAT16 -/BFLOAT16 UINT64 -/FLOAT -/FLOAT INT8",
        "FLOAT16 INT8 UINT64/INT64 -/INT32 - - -/FLOAT16 FLOAT16",
    )),
}  # fmt: skip


def is_packed(spec: TensorSpec) -> bool:
    """Numbers of int4, one by one or eight in one of INT32."""
    return spec.dtype in (INT4, INT32)


def quantised(
    x1: str, x2: str, scale: str, offset: str, bias: str, per_row: str, out: str,
    *, turned: tuple[str, str],
) -> Check:  # fmt: skip
    """161002 for packed matrices that lie wrongly, long axes, and lines of another form."""

    def test(call: Call) -> Finding:
        given = dict(call.given(x1, x2, scale, offset, bias, per_row, out))
        a, b, by_column = given[x1], given[x2], given[scale]
        flags = [bool(call.arguments.get(name)) for name in turned]
        if is_packed(a) and flags[0]:
            return f"{turned[0]} should be false where {x1} has numbers of int4."
        if is_packed(a) and a.dtype is INT4 and a.shape[-1] % 2:
            return f"The last axis of {x1} {sizes(a.shape)} should be even: it has numbers of int4."
        plain = b.format is not Format.FRACTAL_NZ
        if is_packed(b) and plain and (b.rank != 2 or (b.dtype is INT4 and b.shape[-1] % 2)):
            return f"{x2} {sizes(b.shape)} has numbers of int4: two axes, the last of even length."
        free = a.dtype is b.dtype is INT8 and by_column.dtype in (FLOAT, BFLOAT16)
        if not (free and call.profile.family in ("A2", "A3")):
            for name, spec in ((x1, a), *(((x2, b),) if plain else ())):
                if spec.rank and spec.shape[-1] > LONGEST_AXIS:
                    return (
                        f"The last axis of {name} {sizes(spec.shape)} should be at most "
                        f"{LONGEST_AXIS}."
                    )
        if bias in given and given[bias].rank == 3 and out in given and given[out].rank != 3:
            return f"{bias} {sizes(given[bias].shape)} should have one axis, as {out} hasn't three."
        if bias in given and given[bias].rank not in (1, 3):
            return (
                f"{bias} should have 1 or 3 dimensions, but has sizes {sizes(given[bias].shape)}."
            )
        return None

    return invalid(f"{x1}, {x2}, {scale}, {bias} aren't those of a quantised product", test)


def widened(x: str, weight: str, scale: str, offset: str, bias: str, group: str) -> Check:
    """161002 for groups of rows, scales and axes that a widened weight can't have."""

    def test(call: Call) -> Finding:
        given = dict(call.given(x, weight, scale, offset, bias))
        a, b, line = given[x], given[weight], given[scale]
        for name in (x, weight) if call.profile.family in ("A2", "A3") else ():
            if given[name].rank != 2 and not given[name].is_in_blocks:
                return f"{name} should have 2 dimensions, but has sizes {sizes(given[name].shape)}."
        if a.is_empty or b.is_empty:
            return f"{x} {sizes(a.shape)} and {weight} {sizes(b.shape)} should have elements."
        size, k = call.arguments.get(group), a.shape[-1]
        if isinstance(size, int) and size and not _is_group(size, k):
            return (
                f"{group} should be 0 or a multiple of {_SMALLEST_GROUP} from {_SMALLEST_GROUP} to "
                f"{k - 1}, but is {size}."
            )
        in_fractals = b.format is Format.FRACTAL_NZ
        limited = in_fractals and is_packed(b) and call.profile.family in ("A2", "A3")
        if limited and size and size not in _GROUPS_IN_FRACTALS:
            allowed = " or ".join(map(str, _GROUPS_IN_FRACTALS))
            return (
                f"{group} should be {allowed} where {weight} is {b.dtype} in {b.format}, "
                f"but is {size}."
            )
        if k > LONGEST_AXIS:
            return f"k should be at most {LONGEST_AXIS}, but is {k}."
        if line.dtype in (UINT64, INT64) and a.shape[0] > _MOST_ROWS_PACKED:
            return f"With {scale} in {line.dtype} {x} has at most {_MOST_ROWS_PACKED} rows."
        if offset in given and given[offset].shape != line.shape:
            return (
                f"{offset} {sizes(given[offset].shape)} should be as {scale} {sizes(line.shape)}."
            )
        if in_fractals and b.is_in_blocks:
            return None
        n = matrix_sizes(b, turned=False)[1]
        return None if call.profile.family == "310P" else _line(scale, line, k, n, size)

    return invalid(f"{group}, {scale} and {offset} don't fit {x} and {weight}", test)


def _is_group(size: int, k: int) -> bool:
    return size % _SMALLEST_GROUP == 0 and _SMALLEST_GROUP <= size < k


def _line(name: str, line: TensorSpec, k: int, n: int, group: object) -> Finding:
    """One scale, one for each column, or one for each group of rows and column."""
    wanted: tuple[tuple[int, ...], ...] = ((1,), (1, 1), (n,), (1, n))
    if isinstance(group, int) and group:
        wanted = ((-(-k // group), n),)
    if line.shape in wanted:
        return None
    listed = " or ".join(map(sizes, wanted))
    return f"{name} should be {listed}, but has sizes {sizes(line.shape)}."

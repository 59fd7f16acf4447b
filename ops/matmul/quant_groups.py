"""Scales for groups of a quantised product, and whole blocks of its weight.

Source: hicann/ops-nn matmul/quant_batch_matmul_v4/docs/aclnnQuantMatmulV5.md (Atlas A2 and A3),
matmul/quant_batch_matmul_v3/docs/aclnnQuantMatmulWeightNz.md,
matmul/quant_matmul/docs/aclnnQuantMatmulV2.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.operators.checks import invalid, sizes
from npusim.ops.matmul.checks import PACKED, matrix_sizes
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import INT4, INT8, INT32
from npusim.values.formats import FRACTAL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from npusim.operators.contract import Call, Check, Finding
    from npusim.values.tensors import TensorSpec

_BITS, _MASK = 16, 0xFFFF  # of a group's size along each axis, in groupSize
_BLOCK, _GROUP = 128, 256  # numbers that share a scale: in both axes, or along k
_LONGEST = 29576  # k of x1 in INT8 beside x2 of four bits
_ALIGNED = {  # k and n by the dtype of x2
    INT8: (4 * _BLOCK, 256), INT32: (_GROUP, 1), INT4: (1024, 256),
}  # fmt: skip


def grouped_scales(x1: str, x2: str, left: str, right: str, shift: str) -> Check:
    """161002 for groups of another size than offered, and scales that aren't theirs."""

    def test(call: Call) -> Finding:
        size = call.integer("groupSize")
        if not size:
            return None
        if call.profile.family not in ("A2", "A3"):
            return f"groupSize should be 0 on {call.profile.name}, but is {size}."
        return next(_grouped(call, size, x1, x2, left, right, shift), None)

    return invalid(f"groupSize, {left} and {right} don't fit {x1} and {x2}", test)


def _grouped(
    call: Call, size: int, x1: str, x2: str, left: str, right: str, shift: str
) -> Iterator[str]:
    a, b = call.spec(x1), call.spec(x2)
    turned = bool(call.arguments.get("transposeX2"))
    m, k = matrix_sizes(a, turned=bool(call.arguments.get("transposeX1")))
    n = matrix_sizes(b, turned=turned)[1]
    told = tuple(size >> shift & _MASK for shift in (2 * _BITS, _BITS, 0))
    in_blocks = b.dtype is INT8
    wanted = (1, _BLOCK, _BLOCK) if in_blocks else (0, 0, _GROUP)
    if told != wanted:
        yield f"groupSize should have {list(wanted)} of m, n and k, but has {list(told)}."
    if call.arguments.get("transposeX1") or turned is (b.dtype is INT32):
        way = "x1 and x2 as they are" if b.dtype is INT32 else "x1 as it is and x2 turned"
        yield f"groups are offered for {way}."
    of_k, of_n = _ALIGNED.get(b.dtype, (1, 1))
    if k % of_k or n % of_n or (b.dtype is INT32 and k >= _LONGEST):
        yield f"k {k} and n {n} should be multiples of {of_k} and {of_n}."
    groups = -(-k // (_BLOCK if in_blocks else _GROUP))
    shapes = {
        left: (m, groups) if in_blocks else (m, 1),
        right: (-(-n // _BLOCK), groups) if in_blocks else (groups, n),
        shift: (groups, n),
    }
    for name, spec in call.given(*shapes):
        if spec.shape != shapes[name]:
            yield f"{name} should have sizes {sizes(shapes[name])}, but has {sizes(spec.shape)}."
    if left not in dict(call.given(left)):
        yield f"{left} should be given with groupSize."


def blocks_fit(x1: str, x2: str, out: str) -> Check:
    """161002 for blocks of a weight that aren't those of its matrix, or one of a row or column."""

    def test(call: Call) -> Finding:
        weight = call.spec(x2)
        turned = bool(call.arguments.get("transposeX2"))
        if not weight.is_in_blocks:
            shape = matrix_sizes(weight, turned=turned) if weight.rank > 1 else (1, 1)
            if min(shape) < 2:
                return f"{x2} {sizes(weight.shape)} in FRACTAL_NZ has one row or one column."
            return None
        k = matrix_sizes(call.spec(x1), turned=bool(call.arguments.get("transposeX1")))[1]
        results = [spec.shape[-1] for _, spec in call.given(out)]
        return _blocks(x2, weight, (k, *results), turned=turned)

    return invalid(f"the blocks of {x2} aren't those of its matrix", test)


def _blocks(name: str, weight: TensorSpec, sides: tuple[int, ...], *, turned: bool) -> Finding:
    """Rows of blocks lie along the axis that isn't the last of the matrix."""
    across, down, _, lanes = weight.shape[-4:]
    lanes *= PACKED if weight.dtype is INT32 else 1
    counted = (across * lanes, down * FRACTAL)  # the last axis, and the other
    k, n = counted if turned else counted[::-1]
    units = (lanes, FRACTAL) if turned else (FRACTAL, lanes)
    for what, side, found, unit in zip(("k", "n"), sides, (k, n), units, strict=False):
        if round_up(side, unit) != found:
            return f"{name} {sizes(weight.shape)} has blocks of {what} {found}, not of {side}."
    return None


def aligned_scale(scale: str, out: str) -> Check:
    """161002 for scales that aren't one for each column, filled up to whole 16."""

    def test(call: Call) -> Finding:
        for _, result in call.given(out):
            wanted = (round_up(result.shape[-1], FRACTAL),)
            for name, spec in call.given(scale):
                if spec.shape != wanted:
                    found = sizes(spec.shape)
                    return f"{name} should have sizes {sizes(wanted)}, but has {found}."
        return None

    return invalid(f"{scale} isn't one for each column of {out}, filled up", test)

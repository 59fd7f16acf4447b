"""What a matrix product computes in: dtypes, and what cubeMathType makes of them.

Source: hicann/ops-nn matmul/mat_mul_v3 and matmul/batch_mat_mul_v3 (pages and op_api).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from npusim.hardware.families import BF16_FAMILIES
from npusim.values.dtypes import BFLOAT16, FLOAT, FLOAT16, DType
from npusim.values.promotion import promote

if TYPE_CHECKING:
    from npusim.operators.contract import Call, Finding

KEEP_DTYPE, ALLOW_FP32_DOWN_PRECISION, USE_FP16, USE_HF32, USE_FP32_ADD = range(5)

Names = tuple[str, str]  # of the two matrices
OPERANDS: Names = ("self", "mat2")
ADDED: Names = ("mat1", "mat2")
_USUAL = "Use cubeMathType 1.", {"cubeMathType": ALLOW_FP32_DOWN_PRECISION}


class Arithmetic(NamedTuple):
    """What a call multiplies: the dtype, and whether the cube reads it as HF32."""

    dtype: DType
    hf32: bool


def operands(call: Call) -> Names:
    """What the two matrices of a call are named."""
    return ADDED if call.contract.name.startswith("aclnnAddmm") else OPERANDS


def arithmetic(call: Call) -> Arithmetic:
    """What the cube computes in: the common dtype, made smaller as cubeMathType allows.

    Chips without float32 in the cube take float16 where they may.
    """
    common = promote(*(spec.dtype for _, spec in call.given(*operands(call)))) or FLOAT
    chosen = ALLOW_FP32_DOWN_PRECISION if _of_rows(call) else call.integer("cubeMathType")
    return arithmetic_of(common, chosen, call.profile.family)


def _of_rows(call: Call) -> bool:
    """Whether two rows are multiplied, for which cubeMathType decides nothing."""
    return all(spec.rank == 1 for _, spec in call.given(*operands(call)))


def arithmetic_of(common: DType, chosen: int, family: str) -> Arithmetic:
    """The same from the common dtype, cubeMathType and the product family."""
    if chosen == USE_FP16 and common is not BFLOAT16:
        return Arithmetic(FLOAT16, hf32=False)
    if common is not FLOAT or chosen in (KEEP_DTYPE, USE_FP32_ADD):
        return Arithmetic(common, hf32=False)
    if family in BF16_FAMILIES:
        return Arithmetic(FLOAT, hf32=True)
    return Arithmetic(FLOAT16, hf32=False)


def multiplies_float(call: Call) -> bool:
    """True for chips whose cube takes float32."""
    return call.profile.family in BF16_FAMILIES


def mixed_halves(call: Call) -> Finding:
    """What products with BFLOAT16 object to in dtypes that aren't one."""
    kinds = {spec.dtype for _, spec in call.given(*operands(call))}
    if BFLOAT16 in kinds and len(kinds) > 1 and multiplies_float(call):
        found = ", ".join(f"{name} {spec.dtype.dt}" for name, spec in call.given(*operands(call)))
        return (
            f"The dtypes of {found} have no common type here.",
            "",
            {},
        )
    return None


def math_type(call: Call) -> Finding:
    """What the chip objects to in cubeMathType for the matrices of a call.

    It decides nothing for the product of two rows, nor what aclnnBatchMatMul makes of half types.
    """
    if _of_rows(call):
        return None
    is_ignored = call.contract.name == "aclnnBatchMatMul" and multiplies_float(call)
    if is_ignored and call.integer("cubeMathType") in (USE_FP16, USE_HF32):
        return None
    return math_objection(call, *operands(call))


def math_objection(call: Call, *names: str) -> Finding:
    """What the chip objects to in cubeMathType for matrices of these dtypes."""
    kinds = {spec.dtype for _, spec in call.given(*names)}
    if call.integer("cubeMathType") not in range(USE_FP32_ADD + 1):
        return f"cubeMathType should be in [0, 1, 2, 3, 4], but got {call.integer('cubeMathType')}."
    chosen, chip = call.integer("cubeMathType"), call.profile.name
    if not multiplies_float(call):
        if FLOAT in kinds and chosen == KEEP_DTYPE:
            return (
                f"The cube of {chip} doesn't multiply FLOAT, as cubeMathType {chosen} asks for.",
                "Use cubeMathType 1, which multiplies in FLOAT16.",
                {"cubeMathType": ALLOW_FP32_DOWN_PRECISION},
            )
        if chosen == USE_HF32 or (chosen == USE_FP32_ADD and names == ADDED):
            return f"cubeMathType {chosen} is not supported on {chip}.", *_USUAL
        return None
    if chosen == USE_FP16 and BFLOAT16 in kinds:
        return f"cubeMathType {chosen} doesn't take BFLOAT16.", *_USUAL
    if chosen == USE_HF32 and kinds != {FLOAT}:
        return f"cubeMathType {chosen} takes FLOAT only.", *_USUAL
    return None

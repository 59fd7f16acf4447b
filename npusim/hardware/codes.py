"""The dtype codes of the vendor's intrinsic lists: ``f322bf16r``, ``f32f16f16``, ``u16u16``.

The platform files spell dtypes in two ways: in full (``float16``) and as a code (``f16``).
Codes are strung together for instructions with several operands:

* ``f322bf16r``: a conversion from f32 to bf16, the last letter naming the rounding;
* ``f32f16f16``: result and two sources of a multiply-accumulate;
* ``f162f32``: in a multiply-accumulate list, sources and result;
* ``u16u16``: source and result of an instruction that doesn't change the dtype.
"""

from __future__ import annotations

import re

_KINDS = {"f": "float", "bf": "bfloat", "h": "hfloat", "s": "int", "u": "uint"}
_CODE = r"(bf16|f16|f32|h32|[su](?:2|4|8|16|32|64))"
_SINGLE = re.compile(_CODE)
_PAIR = re.compile(_CODE + _CODE)
_TRIPLE = re.compile(_CODE + _CODE + _CODE)
_CONVERSION = re.compile(_CODE + "2" + _CODE + "[a-z]?")
_SPELLED = re.compile(r"(?:b|h)?float(?:16|32)|u?int(?:2|4|8|16|32|64)")


def dtype_name(code: str) -> str:
    """The full spelling of a code (``bf16`` -> ``bfloat16``); anything else comes back as it is."""
    if not _SINGLE.fullmatch(code):
        return code
    letters = code.rstrip("0123456789")
    return _KINDS[letters] + code[len(letters) :]


def conversion(code: str) -> tuple[str, str] | None:
    """Source and destination dtype of a conversion such as ``f322bf16r``; None for other codes."""
    match = _CONVERSION.fullmatch(code)
    return (dtype_name(match[1]), dtype_name(match[2])) if match else None


def multiply_accumulate(code: str) -> tuple[str, str, str] | None:
    """Dtypes (a, b, accumulator) of forms like ``f32f16f16`` and ``f162f32``; None for others."""
    if match := _TRIPLE.fullmatch(code):
        return dtype_name(match[2]), dtype_name(match[3]), dtype_name(match[1])
    if match := _CONVERSION.fullmatch(code):
        source = dtype_name(match[1])
        return source, source, dtype_name(match[2])
    return None


def operand(code: str) -> str | None:
    """The dtype that all operands of an entry have (``f16``, ``u16u16``); None for mixed ones."""
    if _SPELLED.fullmatch(code):
        return code
    if _SINGLE.fullmatch(code):
        return dtype_name(code)
    match = _PAIR.fullmatch(code) or _TRIPLE.fullmatch(code)
    if match and len(set(match.groups())) == 1:
        return dtype_name(match[1])
    return None

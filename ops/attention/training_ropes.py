"""Limits of turned parts beside queries and keys in training (MLA).

Sources: pages aclnnFlashAttentionVarLenScoreV3.md and aclnnFlashAttentionUnpaddingScoreGradV3.md,
and V5 of both; ops-transformer aclnn_flash_attention_score.cpp (isSupportMultiInput, AnalysisInput:
heads that the host pads aren't taken with a rope).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.operators.checks import sizes
from npusim.ops.attention.limits import PARAM, Limit
from npusim.values.dtypes import BFLOAT16
from npusim.values.status import StatusCode

if TYPE_CHECKING:
    from npusim.operators.contract import Finding
    from npusim.ops.attention.asked import Asked

_HOST = "aclnn_flash_attention_score.cpp"
_PAGE = "aclnnFlashAttentionVarLenScoreV3.md"
_ROPES = ("queryrope", "keyrope")
_NEEDED = {"queryrope": "queryRope", "keyrope": "keyRope", "attenmask": "attenMaskOptional"}
_GRAIN, _WIDE_GRAIN, _WIDE, _UNPADDED = 16, 128, 196, 448  # columns
_PARTNERS = (64, 80, 88)  # columns for which values of fewer are padded
_NARROW, _SHORT, _FEW = 96, 1024, 160 * 1024  # columns, keys and queries that nobody pads
_ROPE_GRAIN = 8
_PREFIX_COMPRESSED = 6  # a sparse mode


def _together(a: Asked) -> Finding:
    if not any(a.arguments.get(a.name(word)) is not None for word in _ROPES):
        return None
    for word, name in _NEEDED.items():
        if word not in a.names:
            return f"Expected a value for argument {name} but instead found nullptr."
    return None


def _alone(a: Asked) -> Finding:
    if a.spec("queryrope") is None:
        return None
    if unfit := [a.name(word) for word in ("shift", "dropmask") if word in a.names]:
        return f"{unfit[0]} can't be given with a rope."
    for word in ("query", "key", "value", *_ROPES):
        if a.kind(word) not in (None, BFLOAT16):
            return f"{a.name(word)} should be BFLOAT16 with a rope, but is {a.kind(word)}."
    kept, mode = a.arguments.get(a.names.get("keepprob", "")), a.whole("sparsemode", 0)
    if isinstance(kept, int | float) and kept < 1:
        return f"{a.name('keepprob')} should be 1 with a rope, but is {kept}."
    if mode == _PREFIX_COMPRESSED:
        return f"{a.name('sparsemode')} can't be {mode} with a rope."
    return None


def _shapes(a: Asked) -> Finding:
    for word in _ROPES:
        of = word.removesuffix("rope")
        own, whole = a.shape(word), a.shape(of)
        if own is None or whole is None:
            return None
        if own[:-1] != whole[:-1]:
            return f"{a.name(word)} {sizes(own)} should be like {of} {sizes(whole)} but for D."
        if own[-1] > whole[-1] or own[-1] % _ROPE_GRAIN:
            wanted = f"a multiple of {_ROPE_GRAIN}, at most {whole[-1]}"
            return f"D of {a.name(word)} should be {wanted}, but is {own[-1]}."
    query, key = a.shape("queryrope"), a.shape("keyrope")
    if query and key and query[-1] != key[-1]:
        return f"D of both ropes should be the same, but they are {query[-1]} and {key[-1]}."
    return None


def _unpadded(a: Asked) -> Finding:
    columns, of_value = a.query.get("D"), a.value.get("D")
    if a.spec("queryrope") is None or not columns or not of_value:
        return None
    grain = _GRAIN if columns < _WIDE or columns == _UNPADDED else _WIDE_GRAIN
    padded = columns % grain or of_value % grain or (columns in _PARTNERS and of_value != columns)
    lengths = a.lengths
    short = bool(lengths) and max(k for _, k in lengths) <= _SHORT
    if short and columns < _NARROW and sum(q for q, _ in lengths) < _FEW:
        return None
    if not padded:
        return None
    return (f"D {columns} and {of_value} would be padded to {grain}, which a rope isn't for: "
            f"multiples of {grain} are taken.")  # fmt: skip


ROPES = (
    Limit(StatusCode.ACLNN_ERR_PARAM_NULLPTR, "a rope is given without the other, or a mask",
          _HOST, _together),
    Limit(PARAM, "a rope goes with a shift, dropout, prefixes or other dtypes", _HOST, _alone),
    Limit(PARAM, "ropes aren't like queries and keys", _PAGE, _shapes),
    Limit(PARAM, "D with a rope would be padded", _HOST, _unpadded),
)  # fmt: skip

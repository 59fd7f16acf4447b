"""Limits of the gradient of attention, beside those of its forward.

Sources: pages aclnnFlashAttention*ScoreGrad*.md; ops-transformer
flash_attention_score_grad_tiling_common.cpp (what the forward kept) and
flash_attention_score_grad_tiling_s1s2_bn2gs1s2.cpp (GetBaseShapeInfo).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.operators.checks import sizes
from npusim.ops.attention.call import LANES
from npusim.ops.attention.limits import LAUNCH, PARAM, Limit

if TYPE_CHECKING:
    from npusim.operators.contract import Finding
    from npusim.ops.attention.asked import Asked

_HOST = "aclnn_flash_attention_score_grad.cpp"
_COMMON = "flash_attention_score_grad_tiling_common.cpp"
_TILING = "flash_attention_score_grad_tiling_s1s2_bn2gs1s2.cpp"
_STATS = {"softmaxmax": "softmaxMaxOptional", "softmaxsum": "softmaxSumOptional"}
_TENSORS = ("query", "key", "value", "dy", "dq", "dk", "dv")


def _kinds(a: Asked) -> Finding:
    query = a.kind("query")
    for word in _TENSORS:
        kind = a.kind(word)
        if kind is not None and query is not None and kind is not query:
            return f"{a.name(word)} should be {query.name} like query, but is {kind.name}."
    return None


def _stats(a: Asked) -> Finding:
    """Maxima and sums: of packed sequences the interfaces take them as the queries are."""
    heads = a.query.get("N")
    for word, name in _STATS.items():
        if word not in a.names:
            return f"{name} of the forward can't be left out."
        shape = a.shape(word)
        tokens = a.query.get("T") if a.packed else a.query.get("S")
        wanted = (tokens, heads, LANES) if a.packed else (a.batch, heads, tokens, LANES)
        turned = a.packed and not a.interface.startswith("aclnn")
        if None in wanted or shape is None or shape == wanted or (turned and len(shape) == 3):
            continue
        return f"{a.name(word)} should be {sizes(tuple(map(int, wanted)))}, but has {sizes(shape)}."  # type: ignore[arg-type]
    return None


def _attention(a: Asked) -> Finding:
    query, kept = a.spec("query"), a.spec("attentionin")
    if query is None or kept is None:
        return None
    if kept.dtype is not query.dtype:
        name = a.name("attentionin")
        return f"{name} should be {query.dtype.name} like query, but is {kept.dtype.name}."
    if kept.shape[:-1] == query.shape[:-1]:
        return None
    given = sizes(kept.shape)
    return f"{a.name('attentionin')} {given} should be like query {sizes(query.shape)} but for D."


def _given(a: Asked) -> Finding:
    """dy is like query, value like key, but for fewer columns."""
    for first, second in (("query", "dy"), ("key", "value")):
        whole, part = a.shape(first), a.shape(second)
        if whole is None or part is None:
            continue
        if whole[:-1] != part[:-1] or part[-1] > whole[-1]:
            return (f"{a.name(second)} {sizes(part)} should be like {a.name(first)} "
                    f"{sizes(whole)} but for fewer columns.")  # fmt: skip
    return None


HOST = (Limit(PARAM, "query, key, value, dy and the gradients differ in dtype", _HOST, _kinds),)
GRADIENT = (
    Limit(LAUNCH, "dy isn't like query, or value like key", _TILING, _given),
    Limit(LAUNCH, "maxima or sums of the forward are missing or others", _COMMON, _stats),
    Limit(LAUNCH, "the attention of the forward isn't like query", _COMMON, _attention),
)

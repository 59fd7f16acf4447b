"""Limits of what is added to scores in training, and of what is dropped.

Pse types 0 and 1 add a shift, 2 and 3 slopes that the device makes one from. Of a shift for more
than 1,024 queries the last 1,024 rows are enough where attention is causal (alibi). Sources: pages
aclnnFlashAttention*.md; ops-transformer flash_attention_score_tiling_general.cpp
(AnalyzeOptionalInput, SetPseAlibiParams) and flash_attention_score_grad_tiling_s1s2_bn2gs1s2.cpp.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from npusim.operators.checks import sizes
from npusim.ops.attention.asked import FAR, Asked
from npusim.ops.attention.limits import LAUNCH, PARAM, Limit, instead
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from npusim.operators.contract import Finding

_HOST = "aclnn_flash_attention_score.cpp"
_TILING = "flash_attention_score_tiling_general.cpp"

ALIBI_ROWS = 1024
_SLOPES, _KINDS = (2, 3), 4  # pse types
_LEFT, _RIGHT, _BAND_LAST, _BAND_FIRST = 2, 3, 7, 8  # sparse modes


def _is_gradient(a: Asked) -> bool:
    return "Grad" in a.interface


def _kind_of_shift(a: Asked) -> Finding:
    slopes = a.whole("psetype", 1) in _SLOPES
    kind, wanted = a.kind("shift"), FLOAT if slopes else a.kind("query")
    if slopes and kind is None:
        return f"The slopes of {a.name('psetype')} 2 and 3 can't be left out."
    if kind is None or wanted is None or kind is wanted:
        return None
    return f"{a.name('shift')} should be {wanted.name}, but is {kind.name}."


def _shift(a: Asked) -> Finding:
    shape, kind = a.shape("shift"), a.whole("psetype", 1)
    if not 0 <= kind < _KINDS:
        return f"{a.name('psetype')} should be 0 to 3, but is {kind}."
    if shape is None:
        return f"{a.name('psetype')} {kind} needs a shift." if kind != 1 else None
    if not a.lengths:
        return None
    if kind in _SLOPES:
        return _slopes(a, shape)
    return _packed_shift(a, shape) if a.packed else _plain_shift(a, shape)


def _slopes(a: Asked, shape: tuple[int, ...]) -> Finding:
    name, kind = a.name("psetype"), a.whole("psetype", 1)
    heads, mode = a.query.get("N", 0), a.whole("sparsemode", 0)
    if shape not in ((heads,), (a.batch, heads)):
        forms = f"[{heads}] or [{a.batch}, {heads}]"
        return f"{a.name('shift')} should be {forms}, but has sizes {sizes(shape)}."
    if not a.packed:
        queries, keys = a.lengths[0]
        if queries == keys:
            return None
        return f"{name} {kind} is for as many keys as queries, not {keys} and {queries}."
    if mode == _BAND_LAST:
        return f"{name} {kind} isn't for sparseMode {mode}."
    if mode != _BAND_FIRST:
        return None
    starts = [next(iter(a.entries(word)), 0) for word in ("qstartidx", "kvstartidx")]
    (queries, keys), *others = a.lengths
    if queries + starts[0] != keys + starts[1] or any(q != k for q, k in others):
        return f"{name} {kind} with sparseMode {mode} is for as many keys as queries."
    return None


def _is_causal(a: Asked) -> bool:
    mode, queries = a.whole("sparsemode", 0), max(q for q, _ in a.lengths)
    far = a.whole("before", FAR) >= queries and a.whole("after", FAR) == 0
    return a.shape("attenmask") is not None and (mode in (_LEFT, _RIGHT) or (mode == 0 and far))


def _plain_shift(a: Asked, shape: tuple[int, ...]) -> Finding:
    queries, keys = a.lengths[0]
    heads, batch, name = a.query.get("N", 0), a.batch, a.name("shift")
    alibi = len(shape) == 4 and shape[2] == ALIBI_ROWS < queries
    rows = {1, queries} | ({ALIBI_ROWS} if alibi else set())
    one = len(shape) == 4 and shape[0] == 1 < batch and shape[2] == 1 < queries
    fits = len(shape) == 4 and shape[0] in (1, batch) and shape[2] in rows
    if not fits or (shape[1], shape[3]) != (heads, keys) or (one and _is_gradient(a)):
        forms = "[B, N, Sq, Skv], [B, N, 1, Skv], [1, N, Sq, Skv]"
        own = f"B {batch}, N {heads}, Sq {queries} and Skv {keys}"
        return f"{name} should be {forms} of {own}, but has sizes {sizes(shape)}."
    if alibi and queries != keys:
        return (f"{ALIBI_ROWS} rows of {name} are for as many keys as queries, not {keys} and "
                f"{queries}.")  # fmt: skip
    if alibi and not _is_causal(a):
        return f"{ALIBI_ROWS} rows of {name} are for causal attention: sparseMode 2 or 3, a mask."
    return None


def _packed_shift(a: Asked, shape: tuple[int, ...]) -> Finding:
    heads, batch, name = a.query.get("N", 0), a.batch, a.name("shift")
    mode, keys = a.whole("sparsemode", 0), max(k for _, k in a.lengths)
    if mode == _BAND_LAST:
        return f"{name} isn't for sparseMode {mode}."
    if any(not queries for queries, _ in a.lengths):
        return f"{name} can't be given with a sequence without queries."
    if mode == _BAND_FIRST and any(q != k for q, k in a.lengths):
        return f"{name} with sparseMode {mode} is for as many keys as queries in every sequence."
    if len(shape) == 1:
        forms = [heads * sum(k for _, k in a.lengths), heads * sum(q * k for q, k in a.lengths)]
        if shape[0] in forms:
            return None
        return f"{name} should have {forms[1]} elements, but has {shape[0]}."
    if shape not in ((1, heads, ALIBI_ROWS, keys), (batch, heads, ALIBI_ROWS, keys)):
        wanted = f"[1 or {batch}, {heads}, {ALIBI_ROWS}, {keys}] in {a.layout}"
        return f"{name} should be {wanted}, but has sizes {sizes(shape)}."
    if any(q != k for q, k in a.lengths) or not _is_causal(a):
        return (f"{ALIBI_ROWS} rows of {name} are for causal attention (sparseMode 2 or 3, a mask) "
                "with as many keys as queries in every sequence.")  # fmt: skip
    return None


def _dropped(a: Asked) -> Finding:
    shape, lengths = a.shape("dropmask"), a.lengths
    keep = a.arguments.get(a.names.get("keepprob", ""))
    if shape is None and _is_gradient(a) and isinstance(keep, int | float) and keep < 1:
        return f"{a.name('keepprob')} {keep} needs dropMaskOptional."
    if shape is None or not lengths:
        return None
    need = -(-a.query.get("N", 0) * sum(q * k for q, k in lengths) // 8)
    if prod(shape) >= need:
        return None
    name = a.name("dropmask")
    problem = f"{name} should have at least {need} bytes, a bit for each score, not {prod(shape)}."
    return problem, f"Give {name} {need} bytes.", instead(a, "dropmask", need)


KIND_OF_SHIFT = Limit(PARAM, "the shift isn't in the dtype of the query", _HOST, _kind_of_shift)
SHIFTS = (
    Limit(LAUNCH, "the shift has another shape or pse type", _TILING, _shift),
    Limit(LAUNCH, "the dropout mask has less than a bit for each score", _TILING, _dropped),
)

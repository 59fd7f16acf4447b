"""Limits of attention for inference with numbers of 8 or 4 bits, and of prefixes that are shared.

Keys and values of few bits are widened by scales, together (antiquantScale) or apart (key and
value); a result of 8 bits takes quantScale2. Sources: page aclnnFusedInferAttentionScoreV3.md;
ops-transformer prompt_flash_attention_tiling.cpp (several queries) and
incre_flash_attention_tiling*.cpp (one).
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from npusim.operators.checks import sizes
from npusim.ops.attention.asked import FAR, Asked
from npusim.ops.attention.limits import TILING, Limit
from npusim.values.dtypes import BFLOAT16, FLOAT, FLOAT16, INT4, INT8, INT32

if TYPE_CHECKING:
    from npusim.operators.contract import Finding
    from npusim.values.tensors import TensorSpec

    Shape = tuple[int, ...]

_PAGE = "aclnnFusedInferAttentionScoreV3.md"
_PROMPT, _INCRE = (f"{each}_flash_attention_tiling.cpp" for each in ("prompt", "incre"))

_FEW_BITS = (INT8, INT4, INT32)  # of keys: eight numbers of 4 bits in an INT32
_BY_CHANNEL, _BY_TOKEN, _BY_HEAD, _BY_TOKEN_AND_HEAD, _PAGED, _PAGED_HEADS = range(6)
_MOST_QUERIES = 16  # beside scales of key and value
_GRAIN, _NIBBLE_GRAIN = 32, 64  # columns
_RIGHT, _BAND = 3, 4  # sparse modes
_INNER = {
    "dequantscale1": "deqScale1", "quantscale1": "quantScale1", "dequantscale2": "deqScale2"
}  # fmt: skip
_APART = ("keyantiquantscale", "valueantiquantscale")
_OFFSETS = (
    ("quantscale2", "quantoffset2"), ("antiquantscale", "antiquantoffset"),
    ("keyantiquantscale", "keyantiquantoffset"),
    ("valueantiquantscale", "valueantiquantoffset"),
)  # fmt: skip


def _several(a: Asked) -> bool:
    return not a.single and not a.packed


def _kinds(a: Asked) -> Finding:
    query, key, out = a.kind("query"), a.kind("key"), a.kind("attentionout")
    if query is None or key is None:
        return None
    if query is INT8 and a.spec("queryrope") is None and (key is not INT8 or a.single):
        return f"INT8 queries are for several, and INT8 keys; key is {key.name}."
    if query is not INT8 and key is not query and key not in _FEW_BITS:
        return f"key should be {query.name} like query, or INT8, but is {key.name}."
    results = (FLOAT16, BFLOAT16, INT8) if query is INT8 else (query, INT8)
    if out is not None and out not in results:
        return f"attentionOut should be {query.name} like query, or INT8, but is {out.name}."
    return None


def _scales(a: Asked) -> Finding:
    """Scales of quantised queries and results."""
    query, out = a.kind("query"), a.kind("attentionout")
    if out is INT8 and a.spec("quantscale2") is None:
        return "An INT8 result needs quantScale2."
    if out is not None and out is not INT8 and a.spec("quantscale2") is not None:
        return f"quantScale2 is for an INT8 result, but attentionOut is {out.name}."
    if query is INT8 and a.spec("queryrope") is None:
        missing = [word for word in _INNER if a.spec(word) is None]
        return f"INT8 queries need {_INNER[missing[0]]}." if missing else None
    if given := [a.name(word) for word in _INNER if a.spec(word) is not None]:
        return f"{given[0]} is for INT8 queries, but query is {query.name if query else 'unknown'}."
    return None


def _offsets(a: Asked) -> Finding:
    for word, other in _OFFSETS:
        scale, offset = a.spec(word), a.spec(other)
        if offset is None:
            continue
        if scale is None:
            return f"{a.name(other)} is given without {word}."
        if (scale.shape, scale.dtype) != (offset.shape, offset.dtype):
            return f"{a.name(other)} should have the sizes and dtype of {a.name(word)}."
    return None


def _widened(a: Asked) -> Finding:
    key, query = a.kind("key"), a.kind("query")
    together, apart = a.spec("antiquantscale"), [a.spec(word) for word in _APART]
    if key is None or query is None or query is INT8 or a.spec("queryrope") is not None:
        return None
    if key not in _FEW_BITS:
        given = [a.name(word) for word in ("antiquantscale", *_APART) if a.spec(word)]
        return f"{given[0]} is for INT8 keys, but key is {key.name}." if given else None
    if together is None and None in apart:
        return f"{key.name} keys need antiquantScale, or scales of key and value."
    columns = a.query.get("D", 0)
    if key is not INT8:
        if None in apart:
            return f"{key.name} keys need scales of key and value, not antiquantScale."
        if columns % _NIBBLE_GRAIN or a.paged:
            return f"{key.name} keys are for D in multiples of {_NIBBLE_GRAIN}, without pages."
    return _apart(a) if None not in apart else _together(a)


def _heads_of_keys(a: Asked) -> int:
    return a.whole("keyheads", 0) or a.whole("heads", 0)


def _together(a: Asked) -> Finding:
    scale, query, mode = a.spec("antiquantscale"), a.kind("query"), a.whole("antiquantmode", 0)
    assert scale is not None
    assert query is not None
    name, heads, columns = a.name("antiquantscale"), _heads_of_keys(a), a.query.get("D", 0)
    if a.single and mode not in (_BY_CHANNEL, _BY_TOKEN):
        return f"{a.name('antiquantmode')} should be 0 or 1, but is {mode}."
    if _several(a) and query is not FLOAT16:
        return f"{name} is for FLOAT16 queries where there are several, not {query.name}."
    if a.single and mode == _BY_TOKEN:
        keys = a.key.get("S", 0)
        fits = len(scale.shape) == 3 and scale.shape[:2] == (2, a.batch) and scale.shape[2] >= keys
        if (not fits and not a.paged) or scale.dtype is not FLOAT:
            return f"{name} should be FLOAT [2, {a.batch}, {keys}], but is {_said(scale)}."
        return None
    forms: dict[str, Shape] = {
        "BNSD": (2, heads, 1, columns), "BSND": (2, heads, columns), "BSH": (2, heads * columns)
    }  # fmt: skip
    wanted = forms.get(a.axes, (2,))
    if scale.shape not in (wanted, (2,)) or scale.dtype is not query:
        return f"{name} should be {query.name} {sizes(wanted)} or [2], but is {_said(scale)}."
    return None


def _said(spec: TensorSpec) -> str:
    return f"{spec.dtype.name} {sizes(spec.shape)}"


def _apart(a: Asked) -> Finding:
    modes = [a.whole(word, 0) for word in ("keyantiquantmode", "valueantiquantmode")]
    allowed = range(6) if a.single else range(2)
    if any(mode not in allowed for mode in modes):
        return f"keyAntiquantMode and valueAntiquantMode should be 0 to {allowed[-1]}: {modes}."
    if modes[0] != modes[1] and not (a.single and modes == [_BY_CHANNEL, _BY_TOKEN]):
        return f"keyAntiquantMode and valueAntiquantMode should be the same, but are {modes}."
    if _several(a) and a.query.get("S", 0) > _MOST_QUERIES:
        return f"At most {_MOST_QUERIES} queries beside scales of key and value."
    if a.spec("querypaddingsize") or (_several(a) and a.spec("kvpaddingsize")):
        return "Scales of key and value aren't for padded sequences."
    if "key1" in a.arguments and _several(a):
        return "Scales of key and value aren't for a list of keys."
    for word, mode in zip(_APART, modes, strict=True):
        spec, query = a.spec(word), a.kind("query")
        assert spec is not None
        assert query is not None
        forms, kind = _forms(a, mode), query if mode in (_BY_CHANNEL, _BY_HEAD) else FLOAT
        found = tuple(spec.shape)
        trimmed = found[1:] if len(found) > 1 and found[0] == 1 and a.single else found
        if forms and found not in forms and trimmed not in forms:
            wanted = " or ".join(sizes(each) for each in forms)
            return f"{a.name(word)} should be {wanted} in mode {mode}, but has {sizes(found)}."
        if spec.dtype is not kind:
            return f"{a.name(word)} should be {kind.name} in mode {mode}, but is {spec.dtype.name}."
    return None


def _forms(a: Asked, mode: int) -> list[Shape]:
    """What scales of a mode are for; empty where tensors don't tell."""
    heads, columns, keys = _heads_of_keys(a), a.query.get("D", 0), a.key.get("S", 0)
    cache = a.shape("key") or ()
    size = a.whole("blocksize", 0)
    if mode == _BY_CHANNEL:
        own = [(heads, columns), (heads, 1, columns), (heads * columns,)]
        return [*own, (1,)] if a.single else own
    if mode in (_PAGED, _PAGED_HEADS):
        pages = cache[0] if a.paged and cache else 0
        own_ = (pages, heads, size) if mode == _PAGED_HEADS else (pages, size)
        return [own_] if pages else []
    if mode == _BY_HEAD:
        return [(heads,)]
    if a.paged or not keys:
        return []
    return [(a.batch, heads, keys)] if mode == _BY_TOKEN_AND_HEAD else [(a.batch, keys)]


def _result(a: Asked) -> Finding:
    scale, query, out = a.spec("quantscale2"), a.kind("query"), a.kind("attentionout")
    if out is not INT8 or scale is None or query is None:
        return None
    heads, columns = a.whole("heads", 0), a.value.get("D") or a.query.get("D", 0)
    name, count = a.name("quantscale2"), prod(scale.shape)
    if a.kind("key") in (INT4, INT32):
        return f"An INT8 result isn't for {a.kind('key')} keys."
    if count not in (1, heads * columns):
        return f"{name} should have 1 or {heads * columns} elements, but has {count}."
    if scale.dtype not in (FLOAT, query):
        wanted = "FLOAT or BFLOAT16" if query is BFLOAT16 else "FLOAT"
        return f"{name} should be {wanted}, but is {scale.dtype.name}."
    if count > 1:
        if a.spec("querypaddingsize") or a.spec("kvpaddingsize") or a.whole("softmaxlseflag", 0):
            return f"{name} by channels isn't for padded sequences and softmaxLse."
        if columns % _GRAIN:
            return f"{name} by channels is for D in multiples of {_GRAIN}, not {columns}."
    return _unseen_rows(a)


def _unseen_rows(a: Asked) -> Finding:
    """A result of 8 bits has no row that sees nothing, where its zero is another."""
    mode, given = a.whole("sparsemode", 0), a.shape("attenmask") is not None
    before, after = a.whole("before", FAR), a.whole("after", FAR)
    if mode == _BAND and min(before, after) < 0:
        return f"{a.name('before')} {before} and {a.name('after')} {after} aren't for INT8 results."
    if a.spec("quantoffset2") is None or not given or a.packed:
        return None
    queries, keys = a.query.get("S", 0), a.key.get("S", 0)
    beyond = keys - queries
    unseen = {
        0: queries - keys - before > 0 or after < 0,
        _RIGHT: beyond < 0,
        _BAND: before < 0 or after + beyond < 0,
    }.get(mode, False)
    if not unseen or a.single:
        return None
    return f"Rows that see nothing aren't for an INT8 result with {a.name('quantoffset2')}."


def _prefix(a: Asked) -> Finding:
    shapes = [a.shape(word) for word in ("keysharedprefix", "valuesharedprefix")]
    key, kind = a.shape("key"), a.kind("key")
    lengths = a.entries("actualsharedprefixlen")
    if shapes[0] is None or shapes[1] is None or key is None:
        return None
    if a.packed:
        return f"Shared prefixes aren't for {a.layout}."
    if "key1" in a.arguments:
        return "Shared prefixes aren't for a list of keys."
    if a.kind("query") is INT8 and kind is INT8:
        return "Shared prefixes aren't for INT8 queries, keys and values."
    if shapes[0] != shapes[1]:
        return f"Shared prefixes {sizes(shapes[0])} and {sizes(shapes[1])} should be the same."
    for word in ("keysharedprefix", "valuesharedprefix"):
        if a.kind(word) is not kind:
            return f"{a.name(word)} should be in the dtype of key."
    at = a.axes.index("S")
    wanted = tuple(1 if axis == 0 else size for axis, size in enumerate(key))
    if len(shapes[0]) != len(key) or any(
        own != other
        for axis, (own, other) in enumerate(zip(shapes[0], wanted, strict=True)) if axis != at
    ):  # fmt: skip
        return f"Shared prefixes should be like key {sizes(wanted)} but for S: {sizes(shapes[0])}."
    if lengths and (len(lengths) != 1 or not 0 <= lengths[0] <= shapes[0][at]):
        return f"actualSharedPrefixLen should be [0 to {shapes[0][at]}], but is {lengths}."
    return None


def _alone(a: Asked) -> Finding:
    """What packed sequences and latent heads don't take of all this."""
    if not (a.packed or a.latent):
        return None
    given = [a.name(word) for word in ("antiquantscale", *_APART, "quantscale1", "quantscale2",
             "keysharedprefix", "kvpaddingsize", "querypaddingsize") if a.spec(word)]  # fmt: skip
    if (given and not a.paged) or (given and a.latent):
        where = "latent heads (D 512)" if a.latent else a.layout
        return f"{given[0]} isn't for {where}."
    return None


SCALES = (
    Limit(TILING, "scales don't go with INT8", _PAGE, _scales),
    Limit(TILING, "query, key and attentionOut don't go together", _INCRE, _kinds),
    Limit(TILING, "an offset isn't like its scale", _PAGE, _offsets),
    Limit(TILING, "scales aren't for packed sequences and latent heads", _PAGE, _alone),
    Limit(TILING, "keys of few bits don't have the scales of their mode", _PAGE, _widened),
    Limit(TILING, "the scale of an INT8 result is another", _PROMPT, _result),
    Limit(TILING, "shared prefixes aren't like keys and values", _PROMPT, _prefix),
)

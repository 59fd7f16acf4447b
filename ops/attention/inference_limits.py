"""Limits of attention for inference on A2 and A3: prompts, and token by token.

Sources: pages aclnnFusedInferAttentionScore*.md, aclnnPromptFlashAttention*.md and
aclnnIncreFlashAttention*.md; ops-transformer attention, host tilings of these three
(prompt_flash_attention_tiling.cpp where there are several queries or they are packed,
incre_flash_attention_tiling*.cpp where there is one). Caches are in inference_caches.py, numbers of
few bits in inference_scales.py, and what a core of cube and vector unit takes in suited.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.operators.checks import sizes
from npusim.ops.attention.asked import FAR, Asked
from npusim.ops.attention.inference_caches import CACHES
from npusim.ops.attention.inference_scales import SCALES
from npusim.ops.attention.limits import TILING, Limit, instead
from npusim.values.dtypes import BFLOAT16, FLOAT16, INT8
from npusim.values.formats import Format

if TYPE_CHECKING:
    from npusim.operators.contract import Finding

_FUSED, _PROMPT, _INCRE = (
    f"{each}_tiling.cpp"
    for each in ("fused_infer_attention_score", "prompt_flash_attention", "incre_flash_attention")
)
_PAGE = "aclnnFusedInferAttentionScoreV3.md"

LAYOUTS = ("BSH", "BSND", "BNSD", "BNSD_BSND", "TND", "NTD_TND", "TND_NTD", "BNSD_NBSD",
           "BSND_NBSD", "BSH_NBSD")  # fmt: skip
_MOST_HEADS, _MOST_GROUP, _MOST_COLUMNS, _MOST_BATCH = 256, 64, 512, 65536
_MOST_PACKED, _MOST_ENDS = 2**20, 4096
_GRAIN, _BYTE_GRAIN = 16, 32  # columns of a head
_PACKED_COLUMNS = ((64, 64), (128, 128), (192, 192), (192, 128))  # of queries and of values
_LATENT, _TURNED_BESIDE = 512, 128
_LATENT_LAYOUTS = ("TND_NTD", "BNSD_NBSD", "BSND_NBSD", "BSH_NBSD")
_OUT_OF_ORDER = "BNSD_BSND"
_BY_ATB = 2  # innerPrecise, with keys in pages
_TRIANGLE, _ALL, _LEFT, _RIGHT, _BAND = 2048, 1, 2, 3, 4
_UNALIGNED_BATCH = 128


def _layout(a: Asked) -> Finding:
    shape = a.shape("query")
    if a.layout not in LAYOUTS or (shape is not None and len(shape) != len(a.axes)):
        given = sizes(shape or ())
        return f"{a.name('layout')} {a.layout} isn't supported for query with sizes {given}."
    if a.layout in _LATENT_LAYOUTS and not a.latent:
        return f"{a.name('layout')} {a.layout} is for D {_LATENT} with a rope."
    if a.layout == _OUT_OF_ORDER and a.single and "FusedInfer" in a.interface:
        return f"{a.name('layout')} {a.layout} isn't for single tokens."
    return None


def _heads(a: Asked) -> Finding:
    query, named, shared = a.query.get("N"), a.whole("heads", 0), a.whole("keyheads", 0)
    name, other = a.name("heads"), a.name("keyheads")
    if min(named, shared) < 0 or (a.names.get("heads") and not named):
        return f"{name} {named} and {other} {shared} should be above 0, the second at least 0."
    if "N" in a.axes and query and named and query != named:
        return f"{name} is {named}, but query has {query} heads."
    width = a.query.get("H")
    if width and named and width % named:
        return f"H {width} of query isn't a multiple of {name} {named}."
    if named > _MOST_HEADS:
        return f"{name} should be at most {_MOST_HEADS}, but is {named}."
    keys = a.key.get("N") if "N" in a.axes and not a.paged else shared or named
    if keys and "N" in a.axes and not a.packed and not a.paged and keys != (shared or named):
        return f"key has {keys} heads, but {other} says {shared or named}."
    if keys and named % keys:
        return f"{name} {named} should be divisible by {other} {keys}."
    if keys and named // keys > _MOST_GROUP and a.spec("queryrope") is None:
        return f"{name} / {other} should be at most {_MOST_GROUP}, but is {named // keys}."
    return None


def _sizes(a: Asked) -> Finding:
    columns, batch = a.query.get("D", 0), a.query.get("B", 0)
    if columns > _MOST_COLUMNS:
        return f"D should be at most {_MOST_COLUMNS}, but is {columns}."
    if batch > _MOST_BATCH:
        return f"B should be at most {_MOST_BATCH}, but is {batch}."
    if a.packed or a.spec("queryrope") is not None:
        return None
    key, value = a.key.get("D"), a.value.get("D")
    if key and columns and key != columns:
        return f"D of query is {columns}, that of key {key}: they should be the same."
    if key and value and value != key:
        return f"D of key is {key}, that of value {value}: they should be the same in {a.layout}."
    of_keys = a.key.get("B")
    one = "key1" not in a.arguments  # else a list with a tensor for each sequence
    if one and batch and of_keys and of_keys != batch and not a.paged:
        return f"query has {batch} sequences, key {of_keys}."
    return None


def _grain(a: Asked) -> Finding:
    columns = a.query.get("D", 0)
    if a.single or a.packed or not columns:
        return None
    kinds = {a.kind(word) for word in ("query", "key", "attentionout")}
    grain = _BYTE_GRAIN if INT8 in kinds else _GRAIN
    if columns % grain == 0:
        return None
    if "FusedInfer" in a.interface:
        return f"D should be aligned to {grain} elements, but is {columns}."
    if a.batch > _UNALIGNED_BATCH:
        return f"B should be at most {_UNALIGNED_BATCH} where D {columns} isn't aligned to {grain}."
    return None


def _counted(a: Asked) -> Finding:
    """One length for all sequences, or one for each."""
    if a.packed or not a.batch:
        return None
    for word, axis, sizes_of in (("ends", "S", a.query), ("keyends", "S", a.key)):
        found, name = a.entries(word), a.name(word)
        if word == "ends" and a.single:
            continue  # has no effect
        if found and len(found) != 1 and len(found) < a.batch:
            return (f"{name} should have 1 entry, or one for each of {a.batch} sequences, not "
                    f"{len(found)}.")  # fmt: skip
        most = sizes_of.get(axis)
        paged = word == "keyends" and a.paged
        for at, length in enumerate(found[: a.batch]):
            if length < 0 or (most is not None and not paged and length > most):
                upper = "above" if paged else f"at most {most}, and"
                return f"{name}[{at}] should be {upper} 0 or more, but is {length}."
    return None


def _packed(a: Asked) -> Finding:
    if not a.packed:
        return None
    for word in ("ends", "keyends"):
        ends = a.entries(word)
        if not ends:
            return f"{a.layout} needs where the sequences of queries and of keys end."
        if len(ends) > _MOST_ENDS:
            return f"{a.name(word)} should have at most {_MOST_ENDS} entries, not {len(ends)}."
        falls = any(b < first for first, b in zip([0, *ends], ends, strict=False))
        if min(ends) < 0 or (falls and not (word == "keyends" and a.paged)):
            return f"{a.name(word)} should not decrease, but is {ends}."
    queries, keys = a.entries("ends"), a.entries("keyends")
    if len(queries) != len(keys):
        return f"{len(queries)} sequences of queries, but {len(keys)} of keys."
    for name, size, last in (("query", a.query.get("T"), queries[-1]),
                             ("key", a.key.get("T"), keys[-1])):  # fmt: skip
        if size is not None and size != last:
            return f"T of {name} is {size}, but its sequences end at {last}: they should be equal."
        if size is not None and size > _MOST_PACKED:
            return f"T of {name} should be at most {_MOST_PACKED}, but is {size}."
    return None


def _packed_columns(a: Asked) -> Finding:
    query, key, value = (each.get("D") for each in (a.query, a.key, a.value))
    if not a.packed or None in (query, key, value) or query == _LATENT:
        return None
    if a.spec("queryrope") is not None:
        if {query, key, value} == {_TURNED_BESIDE}:
            return None
        return f"D should be {_TURNED_BESIDE} beside a rope in {a.layout}, but is {query}."
    if query != key or (query, value) not in _PACKED_COLUMNS:
        return (f"D of query, key and value should be 64, 128 or 192 in {a.layout}, or 192, 192 "
                f"and 128, but is {query}, {key} and {value}.")  # fmt: skip
    if value == _PACKED_COLUMNS[2][1] and a.query.get("N") != a.key.get("N"):
        return f"D {value} of value is for as many heads of key as of query in {a.layout}."
    if a.layout.startswith("NTD") and (query == _PACKED_COLUMNS[0][0] or value != 128):
        return f"D of value should be 128 in {a.layout}, but is {value}."
    return None


def _packed_kind(a: Asked) -> Finding:
    kind = a.kind("query")
    if not a.packed or kind in (None, BFLOAT16) or a.query.get("D") == _LATENT:
        return None
    assert kind is not None
    return (f"query should be BFLOAT16 in {a.layout}, but is {kind.name}.",
            "Cast query, key and value to BFLOAT16.", {})  # fmt: skip


def _longest(a: Asked) -> tuple[int, int]:
    """The least queries and keys of a mask of all scores."""
    keys = a.key.get("S", 0)
    table = a.shape("blocktable")
    if table is not None and len(table) == 2:
        size = max(1, a.whole("blocksize", 1))
        pages = table[1] if a.single else -(-max(a.entries("keyends"), default=0) // size)
        keys = pages * size
    elif a.single and a.entries("keyends"):
        keys = max(a.entries("keyends"))
    return a.query.get("S", 0), keys


def _mode(a: Asked) -> Finding:
    mode, name = a.whole("sparsemode", 0), a.name("sparsemode")
    if not 0 <= mode <= _BAND and not (a.single and a.spec("queryrope") is None):
        return f"{name} should be 0 to 4, but is {mode}."
    if a.packed and mode in (_ALL, _LEFT):
        return f"{name} should be 0, 3 or 4 in {a.layout}, but is {mode}."
    given = a.shape("attenmask") is not None
    if a.packed and given is not (mode in (_RIGHT, _BAND)):
        wanted = "0 without a mask, 3 or 4 with one"
        return f"{name} should be {wanted} in {a.layout}, but is {mode}."
    if not a.single and mode in (_ALL, _LEFT, _RIGHT, _BAND) and not given:
        return f"{name} {mode} needs {a.name('attenmask')}."
    return None


def _mask(a: Asked) -> Finding:
    shape, mode, name = a.shape("attenmask"), a.whole("sparsemode", 0), a.name("attenmask")
    if shape is None or (a.single and a.spec("queryrope") is not None):
        return None
    if len(shape) not in (2, 3, 4):
        return f"{name} should have 2 to 4 axes, but has sizes {sizes(shape)}."
    if mode in (_RIGHT, _BAND) or (mode == _LEFT and not a.single):
        flat = shape == (_TRIANGLE, _TRIANGLE)
        if flat or (not a.single and shape[-2:] == (_TRIANGLE,) * 2 and set(shape[:-2]) == {1}):
            return None
        wanted = f"{name} should have sizes [{_TRIANGLE}, {_TRIANGLE}] with sparseMode {mode}"
        return (f"{wanted}, but has {sizes(shape)}.", f"Give the compressed {name} [2048, 2048].",
                instead(a, "attenmask", _TRIANGLE, _TRIANGLE))  # fmt: skip
    if a.packed or not a.batch:
        return None
    queries, keys = _longest(a)
    if a.single:
        if shape[0] == a.batch and shape[-1] >= keys:
            return None
        wanted = f"[{a.batch}, 1, 1, {keys}]"
        problem = f"a row of at least {keys} for each of {a.batch} sequences, {wanted}"
        return (f"{name} should have {problem}, but has sizes {sizes(shape)}.",
                f"Give {name} as {wanted}.",
                instead(a, "attenmask", a.batch, 1, 1, keys))  # fmt: skip
    batch = shape[0] if len(shape) > 2 else 1
    if batch in (1, a.batch) and shape[-2] >= queries and shape[-1] >= keys:
        return None
    outer = (batch, 1) if batch == a.batch > 1 else ()
    wanted = sizes((*outer, queries, keys))
    problem = f"1 or {a.batch} masks of at least {queries} queries and {keys} keys"
    return (f"{name} should be {problem}, but has sizes {sizes(shape)}.",
            f"Expand {name} to {wanted}.",
            instead(a, "attenmask", *outer, queries, keys))  # fmt: skip


def _shift(a: Asked) -> Finding:
    spec = a.spec("shift")
    if spec is None:
        return None
    name, shape = a.name("shift"), spec.shape
    if a.packed:
        return f"{name} can't be given in {a.layout}."
    query = a.kind("query")
    if query is not None and spec.dtype is not (FLOAT16 if query is INT8 else query):
        return f"{name} should be in the dtype of query {query.name}, but is {spec.dtype.name}."
    queries, keys = _longest(a)
    heads = a.query.get("N", 0)
    if len(shape) != 4 or shape[0] not in (1, a.batch) or shape[1] != heads or (
        shape[2] < queries or shape[3] < keys
    ):  # fmt: skip
        wanted = f"[1 or {a.batch}, {heads}, at least {queries}, at least {keys}]"
        return f"{name} should be {wanted}, but has sizes {sizes(shape)}."
    return None


def _packed_rows(a: Asked) -> Finding:
    mode = a.whole("sparsemode", 0)
    if not a.packed or mode not in (_RIGHT, _BAND):
        return None
    before, after = a.whole("before", FAR), a.whole("after", FAR)
    for at, (queries, keys) in enumerate(a.lengths):
        if mode == _RIGHT and queries > keys:
            return f"Sequence {at} has {queries} queries and {keys} keys, fewer, with sparseMode 3."
        if mode == _BAND and (before + after < 0 or before < -queries or after < -keys):
            return f"preTokens {before} and nextTokens {after} leave no band in sequence {at}."
    return None


def _logarithms(a: Asked) -> Finding:
    given = a.shape("lse")
    if not a.whole("softmaxlseflag", 0) or not a.query:
        return None
    own = a.query
    wanted = (own.get("T"), own.get("N"), 1) if a.packed else (
        own.get("B"), own.get("N"), own.get("S"), 1)  # fmt: skip
    if given == wanted or "lse" not in a.names:
        return None
    return f"{a.name('lse')} should be {list(wanted)}, but has sizes {sizes(given or ())}."


def _tokens(a: Asked) -> Finding:
    """Several queries: what lies between tokens before and after is some of the scores."""
    mode, given = a.whole("sparsemode", 0), a.shape("attenmask") is not None
    before, after = a.whole("before", FAR), a.whole("after", FAR)
    padded = a.spec("querypaddingsize") or a.spec("kvpaddingsize")
    if a.single or a.packed or mode not in (0, _BAND) or not given or (mode == 0 and padded):
        return None
    limits = f"{a.name('before')} {before} and {a.name('after')} {after}"
    if (before < 0 and after < 0) or -after > before:
        return f"{limits} leave nothing between them."
    queries, keys = a.query.get("S", 0), a.key.get("S", 0)
    prefix = a.shape("keysharedprefix")
    if a.paged or prefix is not None or not queries or not keys:
        return None
    most = (queries, keys) if mode == 0 else (keys, queries)
    if -after >= most[0] or -before >= most[1]:
        return f"{limits} leave nothing of {queries} queries and {keys} keys."
    return None


def _precision(a: Asked) -> Finding:
    name = a.interface
    if "Prompt" in name:
        return None  # the host code warns, and looks at two bits
    found, most = a.whole("innerprecise", 0), 3
    tokens = a.single and a.layout != _OUT_OF_ORDER and not (a.paged and found == _BY_ATB)
    if "Incre" in name or a.latent or tokens:
        most = 1
    if 0 <= found <= most:
        return None
    return f"{a.name('innerprecise')} should be 0 to {most} here, but is {found}."


def _alone(a: Asked) -> Finding:
    queries = a.query.get("S")
    if queries in (None, 1) or "Incre" not in a.interface:
        return None
    return f"S of query should be 1, but is {queries}."


def _keys_alike(a: Asked) -> Finding:
    key, value = a.spec("key"), a.spec("value")
    if key is None or value is None or Format.FRACTAL_NZ in (key.format, value.format):
        return None
    if key.dtype is not value.dtype:
        return f"key is {key.dtype.name}, value {value.dtype.name}: they should be the same."
    if key.shape[:-1] != value.shape[:-1]:
        return f"key {sizes(key.shape)} and value {sizes(value.shape)} should be alike but for D."
    return None


INFERENCE = (
    Limit(TILING, "the layout isn't that of the query", _FUSED, _layout),
    Limit(TILING, "key and value differ", _PROMPT, _keys_alike),
    Limit(TILING, "S of query isn't 1", _INCRE, _alone),
    Limit(TILING, "heads don't fit: 256 at most, whole groups of 64 at most", _PROMPT, _heads),
    Limit(TILING, "B is above 65536, or D above 512 or not the same", _PROMPT, _sizes),
    Limit(TILING, "D isn't aligned to 16 (INT8: 32)", _FUSED, _grain),
    Limit(TILING, "packed sequences don't end where their tensors do", _PROMPT, _packed),
    Limit(TILING, "D of packed sequences isn't 64, 128, 192", _PROMPT, _packed_columns),
    Limit(TILING, "packed sequences aren't BFLOAT16", _PROMPT, _packed_kind),
    Limit(TILING, "lengths aren't one or one a sequence, within it", _PROMPT, _counted),
    *CACHES,
    Limit(TILING, "the sparse mode isn't 0 to 4, or its mask is missing", _PAGE, _mode),
    Limit(TILING, "the mask is smaller than the scores, or not the compressed one", _PROMPT, _mask),
    Limit(TILING, "a packed sequence has more queries than keys", _PAGE, _packed_rows),
    Limit(TILING, "the shift doesn't cover the scores", _PROMPT, _shift),
    Limit(TILING, "softmaxLse isn't [B, N, S, 1] or [T, N, 1]", _FUSED, _logarithms),
    Limit(TILING, "tokens before and after leave nothing to see", _PROMPT, _tokens),
    *SCALES,
    Limit(TILING, "innerPrecise isn't 0 to 3, or 0 and 1 for single tokens", _INCRE, _precision),
)

"""Limits of caches that attention for inference reads: pages, ropes beside keys, padding and lists.

Sources: page aclnnFusedInferAttentionScoreV3.md; ops-transformer prompt_flash_attention_tiling.cpp
where there are several queries or they are packed, incre_flash_attention_tiling*.cpp where there is
one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.operators.checks import sizes
from npusim.operators.contract import TensorArg
from npusim.ops.attention.limits import TILING, Limit
from npusim.values.dtypes import INT8, INT32

if TYPE_CHECKING:
    from npusim.operators.contract import Finding
    from npusim.ops.attention.asked import Asked

_FUSED, _PROMPT, _INCRE = (
    f"{each}_tiling.cpp"
    for each in ("fused_infer_attention_score", "prompt_flash_attention", "incre_flash_attention")
)
_PAGE = "aclnnFusedInferAttentionScoreV3.md"

_MOST_WIDTH = 65535
_GRAIN, _BYTE_GRAIN = 16, 32  # tokens of a page
_PROMPT_GRAIN, _MOST_PAGE = 128, 512
_LATENT, _TURNED, _TURNED_BESIDE = 512, 64, 128  # columns
_LATENT_PAGES, _MOST_LATENT_QUERIES = (16, 128), 16
_RIGHT, _BAND = 3, 4  # sparse modes
_MOST_LISTED = 256  # sequences
_BOTH = (
    ("queryrope", "keyrope", "queryRope", "keyRope"),
    ("keysharedprefix", "valuesharedprefix", "keySharedPrefix", "valueSharedPrefix"),
    ("keyantiquantscale", "valueantiquantscale", "keyAntiquantScale", "valueAntiquantScale"),
    ("keyantiquantoffset", "valueantiquantoffset", "keyAntiquantOffset", "valueAntiquantOffset"),
)  # fmt: skip


def _together(a: Asked) -> Finding:
    for first, second, *called in _BOTH:
        given = [a.spec(word) is not None for word in (first, second)]
        if any(given) and not all(given):
            there, missing = called if given[0] else reversed(called)
            return f"{there} is given, but {missing} is null."
    return None


def _pages(a: Asked) -> Finding:
    if not a.paged:
        return None
    table, size, shape = a.shape("blocktable"), a.whole("blocksize", 0), a.shape("key")
    lengths = a.entries("keyends")
    if a.kind("blocktable") is not INT32 or table is None or len(table) != 2:
        given = sizes(table or ())
        return f"{a.name('blocktable')} should be INT32 [B, pages], but has sizes {given}."
    if not lengths:
        return f"{a.name('blocktable')} needs actualSeqLengthsKv."
    if a.latent:
        fits = size in _LATENT_PAGES
        wanted = "16 or 128 beside a rope"
    elif a.single:
        grain = _BYTE_GRAIN if a.kind("key") is INT8 else _GRAIN
        fits, wanted = (
            0 < size <= _MOST_PAGE and not size % grain,
            f"aligned to {grain}, at most 512",
        )
    else:
        fits = 0 < size <= _MOST_PAGE and not size % _PROMPT_GRAIN
        wanted = "a multiple of 128, at most 512"
    if "blocksize" in a.names and not fits:
        return f"{a.name('blocksize')} should be {wanted}, but is {size}."
    if table[0] != a.batch and a.batch:
        wanted = f"a row for each of {a.batch} sequences"
        return f"{a.name('blocktable')} should have {wanted}, not {table[0]}."
    if "blocksize" not in a.names or shape is None or len(shape) not in (3, 4):
        return None
    return _cache(a, table, size, shape)


def _cache(a: Asked, table: tuple[int, ...], size: int, shape: tuple[int, ...]) -> Finding:
    """The pages themselves: [pages, tokens, H], or [pages, heads, tokens, D]."""
    lengths = a.entries("keyends")
    lengths = lengths * a.batch if len(lengths) == 1 else lengths[: a.batch]
    pages = [-(-each // size) for each in lengths]
    if table[1] < max(pages, default=0):
        wanted = f"{max(pages)} pages for each sequence"
        return f"{a.name('blocktable')} should have {wanted}, not {table[1]}."
    if shape[0] < sum(pages):
        return f"key should have at least {sum(pages)} pages for these lengths, not {shape[0]}."
    if len(shape) == 4 and a.axes in ("BSH", "BSND"):
        return f"key in pages should be [pages, blockSize, H] with {a.layout}, not {sizes(shape)}."
    heads, columns = a.whole("keyheads", 0) or a.whole("heads", 0), a.query.get("D", 0)
    page = (heads, size, columns) if len(shape) == 4 else (size, heads * columns)
    if columns and shape[1:] != page:
        return (
            f"key should be [pages, {str(list(page))[1:]} in pages, but has sizes {sizes(shape)}."
        )
    if len(shape) == 3 and shape[2] > _MOST_WIDTH:
        return f"H of key in pages should be at most {_MOST_WIDTH}, but is {shape[2]}."
    return None


def _ropes(a: Asked) -> Finding:
    query, key = a.shape("queryrope"), a.shape("keyrope")
    own, columns = a.shape("query"), a.query.get("D")
    if query is None or key is None or own is None or columns is None:
        return None
    if columns not in (_LATENT, _TURNED_BESIDE):
        return (
            f"D of query should be {_LATENT} or {_TURNED_BESIDE} beside a rope, but is {columns}."
        )
    if "D" in a.axes and query != (*own[:-1], _TURNED):
        wanted = sizes((*own[:-1], _TURNED))
        return f"{a.name('queryrope')} should have sizes {wanted}, but has {sizes(query)}."
    for word in ("queryrope", "keyrope"):
        of = word.removesuffix("rope")
        if a.kind(word) is not a.kind(of):
            return f"{a.name(word)} should be in the dtype of {of}."
    if columns == _LATENT and not a.paged:
        return f"D {_LATENT} beside a rope needs keys in pages (blockTable)."
    if columns == _TURNED_BESIDE and not a.packed:
        return f"D {_TURNED_BESIDE} beside a rope is for TND and NTD_TND, not {a.layout}."
    return None


def _latent(a: Asked) -> Finding:
    if not a.latent:
        return None
    mode, given = a.whole("sparsemode", 0), a.spec("attenmask") is not None
    queries = a.query.get("S", 0)
    if not a.packed and queries > 1 and a.entries("ends"):
        return f"{a.name('ends')} is for TND with several queries and D {_LATENT}."
    if queries > _MOST_LATENT_QUERIES:
        most = f"At most {_MOST_LATENT_QUERIES} queries of a sequence"
        return f"{most}, not {queries}, with D {_LATENT}."
    heads = a.whole("heads", 1)
    if heads & (heads - 1) or heads > 128:
        return (
            f"{a.name('heads')} should be a power of 2, at most 128, with D {_LATENT}, not {heads}."
        )
    if (a.whole("keyheads", 0) or heads) != 1 and heads > 1:
        return f"{a.name('keyheads')} should be 1 with D {_LATENT}."
    if not a.packed and queries == 1 and (mode not in (0, _BAND) or (given and mode == 0)):
        return f"sparseMode should be 0 without a mask for one query with D {_LATENT}."
    if not a.packed and queries > 1 and (mode not in (_RIGHT, _BAND) or not given):
        return f"sparseMode should be 3 with a mask for several queries with D {_LATENT}."
    if a.whole("softmaxlseflag", 0) or a.spec("shift") is not None:
        return f"softmaxLse and pseShift aren't for D {_LATENT} with a rope."
    return None


def _shifted_cache(a: Asked) -> Finding:
    """Padding on the left, and lists of keys, beside pages."""
    padded = [a.name(word) for word in ("querypaddingsize", "kvpaddingsize") if a.spec(word)]
    if padded and (a.paged or a.packed):
        return f"{padded[0]} isn't for {'keys in pages' if a.paged else a.layout}."
    if "key1" in a.arguments:
        latent = a.spec("queryrope") is not None
        if a.paged or a.packed or latent:
            where = "pages" if a.paged else "ropes" if latent else a.layout
            return f"A list of keys isn't for {where}."
        if a.batch > _MOST_LISTED:
            return f"At most {_MOST_LISTED} keys are listed, not {a.batch}."
    if a.spec("keysharedprefix") is not None and (a.paged or padded):
        return f"{a.name('keysharedprefix')} isn't for keys in pages or padded ones."
    for word in ("querypaddingsize", "kvpaddingsize"):
        if a.spec(word) and a.shape(word) != (1,):
            return f"{a.name(word)} should have one element, but has {sizes(a.shape(word) or ())}."
    for word, lengths in (("querypaddingsize", "ends"), ("kvpaddingsize", "keyends")):
        if a.spec(word) and not a.entries(lengths):
            return f"{a.name(word)} needs the lengths of the sequences."
    return None


def _listed(a: Asked) -> Finding:
    """Keys and values as a list: one sequence in each tensor, alike but for S."""
    if "key1" not in a.arguments or not a.batch:
        return None
    for word in ("key", "value"):
        found = [a.arguments.get(f"{word}{at}") for at in range(a.batch + 1)]
        shapes = [each.spec.shape for each in found if isinstance(each, TensorArg)]
        if len(shapes) != a.batch:
            return f"{word} should have a tensor for each of {a.batch} sequences."
        if any(len(each) != len(a.axes) or each[0] != 1 for each in shapes):
            return f"Each {word} of a list should have one sequence in {a.layout}."
        at = a.axes.index("S")
        if len({(*each[:at], *each[at + 1 :]) for each in shapes}) > 1:
            return f"The tensors of {word} should be alike but for S."
    return None


CACHES = (
    Limit(TILING, "one of two inputs that belong together is missing", _PAGE, _together),
    Limit(TILING, "padding or lists beside pages or packed sequences", _FUSED, _shifted_cache),
    Limit(TILING, "a list of keys isn't one sequence in each tensor", _FUSED, _listed),
    Limit(TILING, "pages don't fit: table, size, number", _INCRE, _pages),
    Limit(TILING, "ropes don't fit", _PROMPT, _ropes),
    Limit(TILING, "latent attention (D 512) asks for what it hasn't", _INCRE, _latent),
)

"""Limits of attention for training, forward and gradient.

Sources: pages aclnnFlashAttentionScore*.md, aclnnFlashAttentionVarLenScore*.md and those of their
gradients; ops-transformer attention/flash_attention_score (aclnn_flash_attention_score.cpp, 161002;
flash_attention_score_tiling_general.cpp, 561103) and attention/flash_attention_score_grad. What is
added to scores is in training_shifts.py, what only gradients ask in gradient_limits.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.operators.checks import sizes
from npusim.ops.attention.asked import FAR, Asked
from npusim.ops.attention.limits import LAUNCH, PARAM, Limit, instead
from npusim.ops.attention.training_shifts import KIND_OF_SHIFT, SHIFTS

if TYPE_CHECKING:
    from npusim.operators.contract import Finding

_HOST = "aclnn_flash_attention_score.cpp"
_TILING = "flash_attention_score_tiling_general.cpp"
_PAGE, _SINKS = "aclnnFlashAttentionScore.md", "aclnnFlashAttentionScoreV3.md"

LAYOUTS = {"BSH": 3, "SBH": 3, "BSND": 4, "BNSD": 4, "TND": 3}
_MOST_COLUMNS, _MOST_HEADS, _MOST_TOKENS, _MOST_BATCH = 768, 256, 2**20, 2 * 2**20
_MOST_PREFIXED = {False: 2048, True: 1024}  # sequences with prefixes, by whether they are packed
_MOST_PACKED = 20000  # sequences
_TRIANGLE, _PREFIX_ROWS = 2048, 3072
_ALL, _LEFT, _RIGHT, _BAND, _PREFIX, _PREFIXES, _LAST, _FIRST = range(1, 9)
_COMPRESSED = (_LEFT, _RIGHT, _BAND, _LAST, _FIRST)


def _heads_named(a: Asked) -> Finding:
    heads = a.whole("heads", 1)
    return None if heads > 0 else f"{a.name('heads')} should be above 0, but is {heads}."


def _layout(a: Asked) -> Finding:
    shape = a.shape("query")
    if a.layout in LAYOUTS and (shape is None or len(shape) == LAYOUTS[a.layout]):
        return None
    given = sizes(shape or ())
    return f"{a.name('layout')} {a.layout} isn't supported for query with sizes {given}."


def _columns(a: Asked) -> Finding:
    query, key, value = (each.get("D") for each in (a.query, a.key, a.value))
    if query and key and query != key:
        return f"D of query and key should be the same, but they are {query} and {key}."
    if key and value and key < value:
        return f"D of key should be at least that of value, but they are {key} and {value}."
    if query and query > _MOST_COLUMNS:
        return f"D should be at most {_MOST_COLUMNS}, but is {query}."
    return None


def _alike(a: Asked) -> Finding:
    query = a.kind("query")
    for word in ("key", "value", "attentionout"):
        kind = a.kind(word)
        if kind is not None and query is not None and kind is not query:
            return f"{a.name(word)} should be {query.name} like query, but is {kind.name}."
    return None


def _sink(a: Asked) -> Finding:
    shape, heads = a.shape("sink"), a.query.get("N")
    if shape is None or heads is None or shape == (heads,):
        return None
    return f"{a.name('sink')} should have a number for each of {heads} heads, not {sizes(shape)}."


def _shares_heads(a: Asked) -> Finding:
    query, key, value, named = (
        a.query.get("N"), a.key.get("N"), a.value.get("N"), a.whole("heads", 0)
    )  # fmt: skip
    width = a.query.get("H")
    if width is not None and named and width % named:
        return f"H {width} of query should be a multiple of {a.name('heads')} {named}."
    if query and named and query != named:
        return f"{a.name('heads')} is {named}, but query has {query} heads."
    if query and key and query % key:
        return f"{query} heads of query should be a multiple of {key} of key."
    if key == 0:
        return "key has no whole head."
    if key and value and key != value and "H" not in a.axes:
        return f"key has {key} heads and value {value}."
    return None


def _sizes_in_range(a: Asked) -> Finding:
    for axis, least, most in (
        ("N", 1, _MOST_HEADS), ("S", 1, _MOST_TOKENS), ("B", 1, _MOST_BATCH),
        ("T", 1, _MOST_TOKENS),
    ):  # fmt: skip
        for name, own in (("query", a.query), ("key", a.key)):
            if not least <= own.get(axis, least) <= most:
                return f"{axis} of {name} should be {least} to {most}, but is {own[axis]}."
    if a.entries("prefix") and a.batch > (most := _MOST_PREFIXED[a.packed]):
        return f"At most {most} sequences have prefixes, not {a.batch}."
    if a.packed and a.batch > _MOST_PACKED:
        return f"At most {_MOST_PACKED} sequences are packed, not {a.batch}."
    return None


def _kept(a: Asked) -> Finding:
    found = a.arguments.get(a.names.get("keepprob", ""))
    if not isinstance(found, int | float) or 0 < found <= 1:
        return None
    return f"{a.name('keepprob')} should be above 0 and at most 1, but is {found}."


def _packed(a: Asked) -> Finding:
    if not a.packed:
        return None
    lists = {word: a.ends(word) for word in ("ends", "keyends")}
    for word, ends in lists.items():
        if not ends:
            return f"{a.layout} needs the ends of its sequences in both lists of lengths."
        if any(b < a_ for a_, b in zip([0, *ends], ends, strict=False)):
            return f"{a.name(word)} should be where sequences end, none before another: {ends}."
    queries, keys = lists.values()
    if len(queries) != len(keys):
        return f"{len(queries)} sequences of queries, but {len(keys)} of keys."
    for name, size, last in (("query", a.query.get("T"), queries[-1]),
                             ("key", a.key.get("T"), keys[-1])):  # fmt: skip
        if size is not None and size < last:
            return f"The sequences of {name} end at {last}, but it has {size} tokens."
    return None


def _longest(a: Asked) -> tuple[int, int]:
    """Queries and keys of a mask of all scores."""
    lengths = a.lengths or [(0, 0)]
    return max(q for q, _ in lengths), max(k for _, k in lengths)


def _mask(a: Asked) -> Finding:
    shape, mode = a.shape("attenmask"), a.whole("sparsemode", 0)
    if shape is None or not a.lengths:
        return None
    queries, keys = _longest(a)
    batch, heads, name = a.batch, a.query.get("N", 0), a.name("attenmask")
    if len(shape) not in (2, 4):
        return f"{name} should have 2 or 4 axes, but has sizes {sizes(shape)}."
    if mode in _COMPRESSED or mode == _PREFIXES:
        rows = _PREFIX_ROWS if mode == _PREFIXES else _TRIANGLE
        flat = len(shape) == 2 or "Grad" in a.interface or shape[2:] == (queries, keys)
        if shape[-2:] == (rows, _TRIANGLE) and flat:
            return None
        wanted = f"{name} should have sizes [{rows}, {_TRIANGLE}] with sparseMode {mode}"
        return (f"{wanted}, but has {sizes(shape)}.",
                f"Give the compressed {name} [{rows}, {_TRIANGLE}].",
                instead(a, "attenmask", rows, _TRIANGLE))  # fmt: skip
    total = tuple(sum(each) for each in zip(*a.lengths, strict=True))
    if len(shape) == 2 and (shape == (queries, keys) or (a.packed and shape == total)):
        return None
    allowed = ((1, 1), (batch, 1), (batch, heads))
    if len(shape) == 4 and shape[2:] == (queries, keys) and shape[:2] in allowed:
        return None
    if a.packed:
        forms = f"[{queries}, {keys}]"
    else:
        forms = ", ".join(sizes((*each, queries, keys)) for each in reversed(allowed))
        forms = f"{forms} or [{queries}, {keys}]"
    problem = f"unsupported atten_mask shape: {name} should be {forms}, but has {sizes(shape)}."
    outer = shape[:2] if len(shape) == 4 and shape[:2] in allowed else ()
    mended = instead(a, "attenmask", *outer, queries, keys)
    return problem, f"Expand {name} to {sizes((*outer, queries, keys))}.", mended


def _mode(a: Asked) -> Finding:
    mode, most = a.whole("sparsemode", 0), _FIRST if a.packed else _PREFIXES
    if 0 <= mode <= most and not (a.packed and mode == _PREFIX):
        return None
    wanted = "0 to 4 and 6 to 8" if a.packed else "0 to 6"
    return f"{a.name('sparsemode')} should be {wanted} in {a.layout}, but is {mode}."


def _tokens(a: Asked) -> tuple[int, int]:
    return a.whole("before", FAR), a.whole("after", FAR)


def _band(a: Asked) -> Finding:
    """Between the limits of a band there is something to see."""
    mode = a.whole("sparsemode", 0)
    if a.shape("attenmask") is None or a.packed or mode not in (0, _BAND) or not a.lengths:
        return None
    queries, keys = _longest(a)
    before, after = _tokens(a)
    if mode == _BAND:  # counted from the lower right corner
        before, after = before + queries - keys, after + keys - queries
    sees = before >= 0 or (after >= -before and -before < keys)
    sees &= after >= 0 or (-after <= before and -after < queries)
    if sees and (before >= 0 or after >= 0):
        return None
    given = f"{a.name('before')} {_tokens(a)[0]} and {a.name('after')} {_tokens(a)[1]}"
    return f"{given} leave no valid data block for {queries} queries and {keys} keys."


def _packed_band(a: Asked) -> Finding:
    if a.shape("attenmask") is None or not a.packed:
        return None
    mode, (before, after) = a.whole("sparsemode", 0), _tokens(a)
    both = [(at, q, k) for at, (q, k) in enumerate(a.lengths) if q and k]
    if not both:
        return None
    banded = {_LAST: both[-1][0], _FIRST: both[0][0]}.get(mode)
    if mode == _BAND and (before < 0 or before + after < 0):
        return f"{a.name('before')} {before} and {a.name('after')} {after} leave no band."
    keys = {at: k for at, _, k in both}
    if banded is not None and before < keys[banded]:
        return f"{a.name('before')} {before} should reach all {keys[banded]} keys of its sequence."
    if mode == _LAST and after > 0:
        return f"{a.name('after')} should be at most 0 with sparseMode {mode}, but is {after}."
    for at, queries, own in both:
        room = min(after, 0) if mode != _BAND else after
        limited = mode == _BAND or at == banded
        late = queries - (after if mode == _BAND else room) > own if limited else (
            mode in (_RIGHT, _LAST) and queries > own)  # fmt: skip
        if late:
            return f"Sequence {at} has {queries} queries and {own} keys: a row sees nothing."
    return None


def _prefixes(a: Asked) -> Finding:
    mode, prefix = a.whole("sparsemode", 0), a.entries("prefix")
    if mode != _PREFIXES or a.shape("attenmask") is None or not a.lengths:
        return None
    if len(prefix) != a.batch:
        return f"prefix should have {a.batch} entries with sparseMode 6, not {len(prefix)}."
    for at, ((queries, keys), own) in enumerate(zip(a.lengths, prefix, strict=False)):
        least = max(0, keys - queries)
        if not least <= own <= keys:
            return f"prefix of sequence {at} should be {least} to {keys}, but is {own}."
    return None


def _prefix_mask(a: Asked) -> Finding:
    shape = a.shape("attenmask")
    if a.whole("sparsemode", 0) != _PREFIX or shape is None or a.batch <= 1:
        return None
    if len(shape) == 4 and shape[0] == a.batch:
        return None
    wanted = f"{a.name('attenmask')} should be [B, N, Sq, Skv] or [B, 1, Sq, Skv] with sparseMode 5"
    return f"{wanted}, but has sizes {sizes(shape)}."


HOST = (
    Limit(PARAM, "headNum isn't above 0", _HOST, _heads_named),
    Limit(PARAM, "query, key, value and the attention differ in dtype", _HOST, _alike),
    Limit(PARAM, "the layout isn't that of the query", _HOST, _layout),
    Limit(PARAM, "D of query, key and value isn't equal, falling and at most 768", _HOST, _columns),
    KIND_OF_SHIFT,
)
TRAINING = (
    Limit(LAUNCH, "keepProb isn't in (0, 1]", _TILING, _kept),
    Limit(LAUNCH, "heads of the query aren't a multiple of those of keys", _TILING, _shares_heads),
    Limit(LAUNCH, "sequences don't end within their tensors", _TILING, _packed),
    Limit(LAUNCH, "B, N, S or T is beyond its range", _PAGE, _sizes_in_range),
    Limit(LAUNCH, "the sparse mode isn't one of the layout", _TILING, _mode),
    *SHIFTS,
    Limit(LAUNCH, "the sink isn't a number for each head", _SINKS, _sink),
    Limit(LAUNCH, "the mask isn't one for all scores, or the compressed one", _TILING, _mask),
    Limit(LAUNCH, "tokens before and after leave nothing to see", _TILING, _band),
    Limit(LAUNCH, "a packed sequence has a query that sees nothing", _TILING, _packed_band),
    Limit(LAUNCH, "prefixes don't fit their sequences", _TILING, _prefixes),
    Limit(LAUNCH, "the mask of sparse mode 5 isn't one for each sequence", _TILING, _prefix_mask),
)

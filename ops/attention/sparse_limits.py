"""What sparse attention and its indexer take on A2 and A3.

Sources: pages aclnnSparseFlashAttention.md and aclnnLightningIndexer.md of ops-transformer
attention, and their host tilings, whose refusals an interface that is generated gives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from npusim.operators.checks import (
    attribute_in,
    invalid,
    not_null,
    same_dtype,
)
from npusim.operators.conditions import coded, when
from npusim.operators.shape_checks import fits
from npusim.values.dtypes import FLOAT
from npusim.values.status import StatusCode

if TYPE_CHECKING:
    from npusim.operators.contract import Call, Check, Finding

_TILING: Final = StatusCode.ACLNN_ERR_INNER_TILING_ERROR
_ALL_TOKENS = 2**63 - 1
_MOST_PAGE, _PAGE_GRAIN = 1024, 16
_MOST_BLOCK = 128
_MOST_KEPT, _THOUSAND, _MOST_ASKED = 2048, 1024, 8192
_MOST_LOGARITHM = 8  # 128 heads
_PACKED, _PADDED, _PAGED = "TND", "BSND", "PA_BSND"


def heads_are_a_power(query: str) -> Check:
    """Heads that share the only one of keys: 1, 2, 4 ... 128."""

    def test(call: Call) -> Finding:
        heads = call.spec(query).shape[-2]
        if heads in [1 << n for n in range(_MOST_LOGARITHM)]:
            return None
        return f"{query} should have 1, 2, 4, 8, 16, 32, 64 or 128 heads, but has {heads}."

    return invalid(f"heads of {query} aren't a power of two up to 128", test)


def same_layout(queries: str, keys: str) -> Check:
    """Keys lie as queries do, or in pages."""

    def test(call: Call) -> Finding:
        own, theirs = (call.arguments.get(each) for each in (queries, keys))
        if theirs in (_PAGED, own) or own is None or theirs is None:
            return None
        return f"{keys} should be {own} as {queries}, or {_PAGED}, but is {theirs}."

    return invalid(f"{keys} isn't {queries}, and no pages", test)


def pages_of(layout: str, key: str, table: str, block: str = "") -> Check:
    """Pages are of 16 to 1024 tokens, whole blocks of chosen ones, and a table says which."""

    def test(call: Call) -> Finding:
        if call.arguments.get(layout) != _PAGED:
            given = call.is_given(table)
            return f"{table} should be null where {layout} isn't {_PAGED}." if given else None
        size = call.spec(key).shape[1]
        if not 0 < size <= _MOST_PAGE or size % _PAGE_GRAIN:
            told = f"a multiple of {_PAGE_GRAIN} up to {_MOST_PAGE}"
            return f"{key} should have pages of {told} tokens, but has {size}."
        own = call.integer(block) if block and call.is_given(block) else 1
        if own > 0 and size % own:
            return f"pages of {size} tokens aren't whole blocks of {block} {own}."
        return None

    return invalid(f"pages of {key} aren't those that {layout} says", test)


def a_power_of_two(name: str) -> Check:
    """A number of tokens of a block."""

    def test(call: Call) -> Finding:
        size = call.integer(name)
        if 0 < size <= _MOST_BLOCK and not size & (size - 1):
            return None
        return f"{name} should be a power of two from 1 to {_MOST_BLOCK}, but is {size}."

    return invalid(f"{name} isn't a power of two", test)


def best_counted(name: str) -> Check:
    """So many keys as a device keeps."""

    def test(call: Call) -> Finding:
        count = call.integer(name)
        if 0 < count <= _MOST_KEPT or (
            count <= _MOST_ASKED and count > 0 and not count % _THOUSAND
        ):
            return None
        told = f"from 1 to {_MOST_KEPT}, or a multiple of {_THOUSAND} up to {_MOST_ASKED}"
        return f"{name} should be {told}, but is {count}."

    return invalid(f"{name} isn't a number of keys that are kept", test)


def weighed_as(query: str, weights: str) -> Check:
    """Weights are FLOAT, or as queries."""

    def test(call: Call) -> Finding:
        own, theirs = call.spec(query).dtype, call.spec(weights).dtype
        if theirs in (own, FLOAT):
            return None
        return f"{weights} should be {own.dt} as {query}, or DT_FLOAT, but is {theirs.dt}."

    return invalid(f"{weights} aren't as {query}, nor FLOAT", test)


def _tiling(*rows: tuple[Any, ...]) -> tuple[tuple[object, ...], ...]:
    return tuple((coded, _TILING, row) for row in rows)


def _lengths(layout: str, own: str, theirs: str) -> tuple[tuple[Any, ...], ...]:
    return (
        (when, "layout_query", (_PACKED,), (not_null, own)),
        (when, layout, (_PACKED, _PAGED), (not_null, theirs)),
        (when, layout, (_PAGED,), (not_null, "block_table")),
    )


_QUERIES, _KEYS = "actual_seq_lengths_query", "actual_seq_lengths_kv"

SPARSE = _tiling(
    (not_null, "query_rope", "key_rope"),
    (attribute_in, "layout_query", (_PADDED, _PACKED)),
    (attribute_in, "layout_kv", (_PADDED, _PACKED, _PAGED)),
    (same_layout, "layout_query", "layout_kv"),
    (attribute_in, "sparse_mode", (0, 3)),
    (a_power_of_two, "sparse_block_size"),
    (attribute_in, "pre_tokens", (_ALL_TOKENS,)),
    (attribute_in, "next_tokens", (_ALL_TOKENS,)),
    (attribute_in, "attention_mode", (2,)),
    (same_dtype, "query", "key", "value", "query_rope", "key_rope", "attention_out"),
    *_lengths("layout_kv", _QUERIES, _KEYS),
    (when, "layout_query", (_PADDED,),
     (fits, "query", "b s n 512", "query_rope", "b s n 64", "attention_out", "b s n 512",
      "sparse_indices", "b s 1 k", "block_table", "b p")),
    (when, "layout_query", (_PACKED,),
     (fits, "query", "t n 512", "query_rope", "t n 64", "attention_out", "t n 512",
      "sparse_indices", "t 1 k", _QUERIES, "b", "block_table", "b p")),
    (when, "layout_kv", (_PADDED,),
     (fits, "query", "b s n d", "key", "b t 1 512", "value", "b t 1 512", "key_rope", "b t 1 64")),
    (when, "layout_kv", (_PACKED,),
     (fits, "key", "t 1 512", "value", "t 1 512", "key_rope", "t 1 64", _QUERIES, "b",
      _KEYS, "b")),
    (when, "layout_kv", (_PAGED,),
     (fits, "key", "p c 1 512", "value", "p c 1 512", "key_rope", "p c 1 64")),
    (pages_of, "layout_kv", "key", "block_table", "sparse_block_size"),
    (heads_are_a_power, "query"),
)  # fmt: skip

INDEXER = _tiling(
    (attribute_in, "layout_query", (_PADDED, _PACKED)),
    (attribute_in, "layout_key", (_PADDED, _PACKED, _PAGED)),
    (same_layout, "layout_query", "layout_key"),
    (best_counted, "sparse_count"),
    (attribute_in, "sparse_mode", (0, 3)),
    (attribute_in, "pre_tokens", (_ALL_TOKENS,)),
    (attribute_in, "next_tokens", (_ALL_TOKENS,)),
    (when, "layout_key", (_PAGED,), (attribute_in, "return_value", (False,))),
    (same_dtype, "query", "key", "sparse_values"),
    (weighed_as, "query", "weights"),
    *_lengths("layout_key", _QUERIES, "actual_seq_lengths_key"),
    (when, "layout_query", (_PADDED,),
     (fits, "query", "b s n 128", "weights", "b s n", "sparse_indices", "b s 1 k",
      "block_table", "b p", {"told": {"k": "sparse_count"}, "within": {"n": range(1, 65)}})),
    (when, "layout_query", (_PACKED,),
     (fits, "query", "t n 128", "weights", "t n", "sparse_indices", "t 1 k", _QUERIES, "b",
      "block_table", "b p", {"told": {"k": "sparse_count"}, "within": {"n": range(1, 65)}})),
    (when, "return_value", (True,), (fits, "sparse_indices", "*all", "sparse_values", "*all")),
    (when, "layout_key", (_PADDED,), (fits, "query", "b s n d", "key", "b t 1 128")),
    (when, "layout_key", (_PACKED,),
     (fits, "key", "t 1 128", _QUERIES, "b", "actual_seq_lengths_key", "b")),
    (when, "layout_key", (_PAGED,), (fits, "key", "p c 1 128")),
    (pages_of, "layout_key", "key", "block_table"),
)  # fmt: skip

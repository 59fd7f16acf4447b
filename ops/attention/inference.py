"""Attention of inference: prompts, and token by token against a cache of keys and values.

A prompt is cut as for training, with rounds of 512 keys where heads or keys are few, none of which
is trimmed. Where heads have one query each, or a few (drafts that are verified), those that share
keys are the rows of one block, and the fewer there are the longer the rounds; keys of few heads are
split, but not those of packed sequences (TND). Latent attention (MLA) has a rope beside queries and
keys.
Source: ops-transformer attention/prompt_flash_attention and incre_flash_attention, host tiling;
fused_infer_attention_score op_host/flash_attention_infer_tiling.h and arch22/fia_tiling_nonquant*.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npusim.ascendc.task import Task, made
from npusim.library.asking import FLAGS, LIBRARY, ONE_BY_ONE
from npusim.operators.results import numbers
from npusim.ops.attention.blocks import ROWS
from npusim.ops.attention.call import Call, NotCoveredError, Shift
from npusim.ops.attention.heads import Heads
from npusim.ops.attention.kernel import Attention
from npusim.ops.attention.masks import Mask
from npusim.ops.attention.one_core import Cut, OneCoreAttention
from npusim.ops.attention.records import (
    backward_call,
    heads_of,
    layout_of,
    mask_of,
    optional,
    scale_of,
    training_call,
)
from npusim.ops.attention.single_tokens import TOKEN_KEYS
from npusim.ops.attention.split import SplitAttention, parts_of
from npusim.ops.attention.suited import unsuited
from npusim.values.arithmetic import divisors, round_up
from npusim.values.dtypes import FLOAT16, UINT8
from npusim.values.formats import FRACTAL

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor, Kernel
    from npusim.hardware.profile import Profile

__all__ = ["backward_call", "fused_call", "prompt_call", "training_call"]

_PROMPT_KEYS = 512  # of a round in high precision
_WIDE_COLUMNS = 200  # heads from which on a block has half as many rows
_TOKEN_KEYS = 8192  # of a round of one row
_LEAST_KEYS = 1024
_PACKED_KEYS = 512  # of packed sequences
_LATENT_KEYS = 512
_HALF_ROWS = 64
_ALL_WAYS = ("FusedInferAttentionScore",)  # one kernel for prompts and tokens
_BY_TOKENS = ("IncreFlashAttention", "PaddleGqaIncreFlashAttentionAiv")
_CUBE_KEYS = 256  # fewer are multiplied by the vector unit, where heads share no keys
_UB_SCORES = 10240  # of a round where heads share keys
_QUANTISED = (*range(5, 11), *range(15, 19), 23, 24)  # places of scales among the inputs
_PREFIXES, _ROPES, _SINK = (19, 20), (21, 22), 25


def prompt_flash_attention(task: Task) -> tuple[Kernel, ...]:
    """query, key, value, shift, mask; lengths are attributes."""
    return (kernel_of(task, prompt_call(task)),)


def fused_infer_attention_score(task: Task) -> tuple[Kernel, ...]:
    """As a prompt where there are several queries, else token by token; caches may be in pages."""
    return (kernel_of(task, fused_call(task)),)


def shared_heads(task: Task) -> tuple[Kernel, ...]:
    """query, key, value of a benchmark that names no more."""
    return (kernel_of(task, prompt_call(task)),)


def latent(task: Task) -> tuple[Kernel, ...]:
    """query, its rope, key, its rope, value."""
    query, query_rope, key, key_rope, value = task.present(5)
    return (kernel_of(task, _call(task, query, key, value, (query_rope, key_rope), 5)),)


def kernel_of(task: Task, call: Call) -> Kernel:
    """The kernel of a call, with the rounds that its tiling takes."""
    if task.profile.cores.style != "split":
        return _on_one_core(task, call)
    queries, wide = max(call.query.rows), call.columns
    together = _together(task, call)
    grouped = _one_token(call) or (call.grouped(together) if together > 1 else None)
    if call.rope is not None:
        return _latent_kernel(task, grouped or call)
    if grouped is not None and layout_of(task) == "TND" and queries <= ROWS:
        return _packed_kernel(task, grouped)
    if grouped is not None:
        most = max(_LEAST_KEYS, _TOKEN_KEYS >> (max(grouped.query.rows) - 1).bit_length())
        if grouped.mask.is_compressed:
            most = _LEAST_KEYS
        if grouped.key.pages is not None and grouped.key.pages.size < most:
            most -= most % grouped.key.pages.size
        parts = parts_of(task.profile, grouped) if max(grouped.query.rows) <= ROWS else 1
        if parts > 1:
            return SplitAttention(task.profile, grouped, parts, op_type=task.op_type, keys=most)
        return Attention(task.profile, grouped, op_type=task.op_type, keys=most, trimmed=False,
                         asking=ONE_BY_ONE, lanes=_lanes(task.profile, grouped))  # fmt: skip
    rows = _HALF_ROWS if wide >= _WIDE_COLUMNS and queries > _HALF_ROWS else ROWS
    prompts = Attention(task.profile, call, op_type=task.op_type, rows=rows, keys=_PROMPT_KEYS,
                        trimmed=False, asking=LIBRARY)  # fmt: skip
    packed = task.op_type in _ALL_WAYS and layout_of(task) == "TND"
    return _begun(prompts, task.profile) if packed else prompts


def _packed_kernel(task: Task, call: Call) -> Kernel:
    """Packed sequences go by the tiling of prompts, which splits no keys.

    A cluster's vector cores have half the rows of a block each, and messages are flags.
    """
    size = call.key.pages.size if call.key.pages else 1
    most = _PACKED_KEYS - _PACKED_KEYS % min(size, _PACKED_KEYS)
    return _begun(Attention(task.profile, call, op_type=task.op_type, keys=most, trimmed=False,
                            asking=FLAGS, shared=True), task.profile)  # fmt: skip


def _begun(kernel: Attention, profile: Profile) -> Attention:
    """Kernels of all ways in one take long to begin, where sequences are packed or keys latent."""
    kernel.begins_us = profile.launch.attention_us
    return kernel


def _latent_kernel(task: Task, call: Call) -> Kernel:
    """Blocks of up to 128 rows on a cluster, whose vector cores have half of them each."""
    given: dict[str, Any] = {
        "op_type": task.op_type, "keys": _LATENT_KEYS, "asking": FLAGS, "shared": True,
    }  # fmt: skip
    parts = parts_of(task.profile, call) if max(call.query.rows) <= ROWS else 1
    if parts > 1:
        return _begun(SplitAttention(task.profile, call, parts, **given), task.profile)
    return _begun(Attention(task.profile, call, trimmed=False, **given), task.profile)


def _on_one_core(task: Task, call: Call) -> Kernel:
    """As the tilings for chips whose cube and vector unit share a core have it."""
    profile, op_type = task.profile, task.op_type
    if (problem := unsuited(task, call)) is not None:
        raise task.refused(problem)
    if any(each.tensor.dtype is not FLOAT16 for each in (call.query, call.key, call.value)):
        raise task.refused("queries, keys and values other than FLOAT16 aren't modelled")
    if op_type not in _BY_TOKENS:
        return OneCoreAttention(profile, call, op_type=op_type, cut=Cut(ROWS, ROWS))
    grouped = _one_token(call) or call
    rows, layout = max(grouped.query.rows), layout_of(task)
    long = max(call.key.rows) >= _CUBE_KEYS
    by_cube = rows > 1 or call.key.pages is not None or (long and layout == "BNSD")
    keys = TOKEN_KEYS if rows == 1 else _UB_SCORES // rows // ROWS * ROWS
    cut = Cut(round_up(rows, FRACTAL), keys)
    return OneCoreAttention(profile, grouped, op_type=op_type, cut=cut, by_vector=not by_cube)


def _lanes(profile: Profile, call: Call) -> int | None:
    """One vector core for each cube core where that is enough, else all of them."""
    return 1 if 2 * call.query.heads * call.query.batch <= profile.cores.vector_cores else None


def prompt_call(task: Task) -> Call:
    """The call of PromptFlashAttention."""
    query, key, value = task.present(3)
    return _call(task, query, key, value)


def fused_call(task: Task) -> Call:
    """The call of FusedInferAttentionScore and IncreFlashAttention; raises KernelError."""
    given = dict(enumerate(task.inputs))
    if any(given.get(place) is not None for place in _QUANTISED):
        raise task.refused("quantised attention isn't modelled")
    if any(given.get(place) is not None for place in (*_PREFIXES, _SINK)):
        raise task.refused("prefixes that sequences share and learnable sinks aren't modelled")
    query, key, value = task.present(3)
    ropes = [each for place in _ROPES if (each := given.get(place)) is not None]
    if len(ropes) == 1:
        raise task.refused("queries and keys have a rope both, or neither")
    return _call(task, query, key, value, (ropes[0], ropes[1]) if ropes else None, 3)


def _call(
    task: Task,
    query: GlobalTensor,
    key: GlobalTensor,
    value: GlobalTensor,
    rope: tuple[GlobalTensor, GlobalTensor] | None = None,
    at: int = 3,
) -> Call:
    """``at`` is where a shift and a mask are given."""
    layout, heads = layout_of(task), heads_of(task, layout_of(task))
    own, theirs = (
        numbers(task.attributes.get(name))
        for name in ("actual_seq_lengths", "actual_seq_lengths_kv")
    )
    if "B" in layout and len(query.shape) == len(layout):  # further lengths don't count
        batch = query.shape[layout.index("B")]
        own, theirs = (each if each is None else each[:batch] for each in (own, theirs))
    q = Heads.of(query, layout, heads, own, own)
    named = task.whole_number("num_key_value_heads", 0) or heads
    table = _table(task)
    if table is not None:
        if not theirs:
            raise task.refused("a cache in pages needs the lengths of its sequences")
        k, v = (Heads.paged(each, named, table, theirs) for each in (key, value))
    else:
        shared = key.shape[layout.index("N")] if "N" in layout and len(key.shape) == len(
            layout) else named  # fmt: skip
        k, v = (Heads.of(each, layout, shared, theirs, theirs) for each in (key, value))
    if not all(k.rows):
        raise NotCoveredError(task.op_type, "sequences without keys, whose results are zeros")
    beside = None
    if rope is not None:
        of_keys = (
            Heads.of(rope[1], layout, k.heads, theirs, theirs)
            if table is None
            else Heads.paged(rope[1], named, table, theirs or ())
        )
        beside = Heads.of(rope[0], layout, heads, own, own), of_keys
    shape = query.shape if layout[-1] == "H" else (*query.shape[:-1], v.columns)
    out = task.outputs[0] if task.outputs else made(shape, query.dtype)
    if out.shape != shape:
        raise task.refused(f"a result of {out.shape}; {shape} comes out")
    lengths = tuple(zip(q.rows, k.rows, strict=False))
    columns = q.columns + (beside[0].columns if beside else 0)
    ends = own if layout == "TND" else None
    shift = optional(task, at)
    if shift is not None and shift.dtype is UINT8:  # a record without a slot for shifts
        shift, at = None, at - 1
    alone = max(q.rows, default=0) == 1 and optional(task, at + 1) is None  # sees every key
    mask = Mask.of(None, 0, (0, 0), lengths) if alone else mask_of(task, at + 1, lengths)
    return Call(q, k, v, Heads.of(out, layout, heads, ends, own), mask, scale_of(task, columns),
                None if shift is None else Shift(shift), rope=beside)  # fmt: skip


def _table(task: Task) -> GlobalTensor | None:
    """The table of pages: an input of two axes of INT32."""
    found = [each for each in task.inputs[5:] if each is not None and each.dtype.name == "INT32"]
    return found[0] if found else None


def _together(task: Task, call: Call) -> int:
    """How many heads that share keys are rows of one block, each with a few queries.

    As many as a block has room for, and of those the most that the group is a multiple of; with a
    rope all of them, and blocks have some of their rows. Prompts have one head in a block.
    """
    mask, most = call.mask, max(call.query.rows)
    if (
        task.op_type == "PromptFlashAttention"
        or call.shift
        or not (mask.tensor is None or mask.is_compressed)
    ):
        return 1
    if call.rope is not None:
        return call.group
    return max(each for each in divisors(call.group) if each == 1 or each * most <= ROWS)


def _one_token(call: Call) -> Call | None:
    """Heads that share keys as rows of one block, where each has a single query."""
    shape = () if call.mask.tensor is None else call.mask.tensor.shape
    own = any(size > 1 for size in (*shape[1:-1], *shape[-2:-1]))  # rows for heads or queries
    if max(call.query.rows) > 1 or own or call.shift is not None:
        return None
    return call.grouped(call.group)

"""A task of attention read as a call: layouts, heads and masks from what its record tells.

Attributes are called as the operator prototypes have them, or as benchmarks spell them. A layout
that nobody names follows from the shapes of maxima, or is the usual one for that number of axes.
"""

from __future__ import annotations

from dataclasses import replace
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc.task import Task, made
from npusim.operators.results import numbers
from npusim.ops.attention.asked import FAR, without_tail
from npusim.ops.attention.call import LANES, Call, Dropout, NotCoveredError, Shift
from npusim.ops.attention.gradient import AttentionGrad, Backward
from npusim.ops.attention.heads import LAYOUTS, Heads
from npusim.ops.attention.kernel import Attention
from npusim.ops.attention.masks import TRIANGLE, Mask, Sparse
from npusim.ops.attention.training_shifts import ALIBI_ROWS
from npusim.schedules.masks import BITS
from npusim.values.dtypes import BOOL, FLOAT, INT8, UINT8

if TYPE_CHECKING:
    from npusim.ascendc import GlobalTensor, Kernel
    from npusim.operators.host import Host

_OF_PROMPTS = ("PromptFlashAttention", "FusedInferAttentionScore")
_USUAL_COLUMNS = 128  # of a head, where nobody says how many heads there are
_MOST_COLUMNS = 768
_MULTIPLIED_FIRST = (0,)  # pse types whose shift is added to scaled scores
_GENERATED = (2, 3)  # pse types that take slopes instead of a shift
_PSE_AXES = 4
_PACKED_AXES = 3
_MASKS = (BOOL, INT8, UINT8)
_AS_INPUT = "same_as_input"
_STATS = (8, 9)  # maxima and sums among the gradient's inputs
_QUERY_ROPE, _SINK = 15, 17  # among the operator's inputs
_SINK_OF_GRADIENT, _ROPES_OF_GRADIENT = 12, (13, 14)
_PADDING_MASK = 5


def flash_attention_score(task: Task) -> tuple[Kernel, ...]:
    """query, key, value, shift, dropout mask, padding mask, mask; maxima, sums, softmax, out."""
    _refuse_sink(task, _SINK)
    return (Attention(task.profile, training_call(task), op_type=task.op_type),)


def flash_attention_score_grad(task: Task) -> tuple[Kernel, ...]:
    """The forward's tensors, dy behind value, maxima, sums, softmax and attention behind the mask.

    The results are dq, dk and dv.
    """
    _refuse_sink(task, _SINK_OF_GRADIENT)
    if any(optional(task, place) is not None for place in _ROPES_OF_GRADIENT):
        raise task.refused("gradients of turned parts (ropes) aren't modelled")
    return (AttentionGrad(task.profile, backward_call(task)),)


def unpadding_gradient(host: Host, *given: GlobalTensor | None, **said: Any) -> Any:
    """aclnnFlashAttentionUnpaddingScoreGradV4 and V5: maxima and sums may be as the queries are."""
    inputs = list(given)
    key, value = inputs[1:3]
    if key is not None and value is not None and key.shape != value.shape:
        problem = "columns of value other than those of key (the page says no, host code pads them)"
        raise NotCoveredError("FlashAttentionScoreGrad", problem)
    if said.get("softmax_in_layout") == _AS_INPUT:
        for place in _STATS:
            inputs[place] = host.run("Transpose", inputs[place], perm=[1, 0, 2])
    return host.run("FlashAttentionScoreGrad", *inputs, **said)


def backward_call(task: Task) -> Backward:
    """The call of a gradient; raises KernelError where its tensors don't fit together."""
    query, key, value, grad = task.present(4)
    others = (optional(task, place) for place in range(4, 8))
    kept = [optional(task, place) for place in (8, 9, 11)]
    if any(each is None for each in kept):
        raise task.refused("maxima, sums and the attention of the forward are needed")
    known = tuple(each for each in kept if each is not None)
    forward = replace(task, inputs=(query, key, value, *others), outputs=known)
    call = training_call(forward)
    if grad.shape != known[-1].shape:
        raise task.refused(f"a gradient of {grad.shape} for an attention of {known[-1].shape}")
    found = [each for each in task.outputs if each.shape][:3]
    results = found if len(found) == 3 else [
        made(each.shape, each.dtype, name)
        for each, name in ((query, "dq"), (key, "dk"), (value, "dv"))
    ]  # fmt: skip
    wanted = [each.shape for each in (query, key, value)]
    if [each.shape for each in results] != wanted:
        raise task.refused(f"gradients of {[each.shape for each in results]} for {wanted}")
    dq, dk, dv = results
    return Backward(call, replace(call.out, tensor=grad), (dq, dk, dv))


def training_call(task: Task) -> Call:
    """The call of a forward task; raises KernelError where its tensors don't fit together."""
    query, key, value = task.present(3)
    layout = layout_of(task)
    said = task.attributes.get("softmax_out_layout")
    if said not in (None, "", _AS_INPUT):
        problem = f"softmaxOutLayout {said!r} (the page has {_AS_INPUT} and an empty word)"
        raise NotCoveredError(task.op_type, problem)
    heads = heads_of(task, layout)
    columns = _columns(query, layout, heads)
    own = [
        without_tail(_listed(task, name) or []) or None
        for name in ("actual_seq_qlen", "actual_seq_kvlen")
    ]
    q = Heads.of(query, layout, heads, own[0])
    shared = _shared(key, layout, columns, heads)
    k, v = (Heads.of(each, layout, shared, own[1]) for each in (key, value))
    stats = [each for each in task.outputs if each.shape[-1:] == (LANES,) and each.dtype is FLOAT]
    maxima, sums = ((_of_rows(task, stats[at], q) if len(stats) > at else None) for at in range(2))
    out = out_of(task, q, v, layout)
    if q.columns > _MOST_COLUMNS:
        raise task.refused(f"heads of {q.columns} elements; {_MOST_COLUMNS} are covered")
    lengths = tuple(zip(q.rows, k.rows, strict=False))
    if optional(task, _PADDING_MASK) is not None:
        raise NotCoveredError(task.op_type, "a padding mask, which the pages reserve")
    shift = optional(task, 3)
    parts = [optional(task, _QUERY_ROPE + at) for at in range(2)]
    rope = [
        Heads.of(each, layout, like.heads, ends)
        for each, like, ends in zip(parts, (q, k), own, strict=True)
        if each is not None
    ]
    return Call(
        q, k, v, out,
        mask_of(task, 6, lengths),
        scale_of(task, q.columns),
        None if shift is None else _shift(task, shift, q, k),
        _dropout(task, q, k),
        maxima,
        sums,
        (rope[0], rope[1]) if len(rope) > 1 else None,
    )  # fmt: skip


def _refuse_sink(task: Task, place: int) -> None:
    """A number for each head; records of gradients have the lengths of sequences there."""
    sink = optional(task, place)
    if sink is not None and sink.dtype is FLOAT:
        raise task.refused("learnable sinks aren't modelled")


def layout_of(task: Task) -> str:
    """The layout that the task names, or that its tensors have."""
    named = task.first("input_layout", "inputLayout")
    if isinstance(named, str) and named:
        if named not in LAYOUTS:
            raise task.refused(f"layout {named}; {', '.join(LAYOUTS)} are covered")
        return named
    query = task.present(1)[0].shape
    stats = next((each.shape for each in task.outputs if each.shape[-1:] == (LANES,)), None)
    if len(query) == LAYOUTS["SBH"]:
        swapped = stats is not None and len(stats) == 4 and (stats[2], stats[0]) == query[:2]
        return "SBH" if swapped and query[0] != query[1] else "BSH"
    if len(query) < len("BNSD"):
        raise task.refused(f"a query of {len(query)} axes without a layout")
    if stats is not None:
        return "BNSD" if stats[1:3] == query[1:3] else "BSND"
    others = [each.shape for each in task.inputs[1:] if each is not None]
    # Beside queries there may be their ropes, which are narrower than keys.
    key = next((each for each in others if each[-1:] == query[-1:]), task.present(2)[1].shape)
    return _likely(query, key, _scores(task)) if len(key) == len("BNSD") else "BSND"


def _scores(task: Task) -> tuple[int, ...]:
    """Queries and keys that a mask is for; none without one."""
    masks = (each for each in task.inputs[3:] if each is not None and each.dtype in _MASKS)
    return next((each.shape[-2:] for each in masks if len(each.shape) > 1), ())


def _likely(query: tuple[int, ...], key: tuple[int, ...], scores: tuple[int, ...]) -> str:
    """The layout of four axes: a mask knows how many tokens there are.

    Without one there are fewer heads than tokens, fewer of keys than of queries, and no fewer keys
    than queries.
    """
    tokens = [axis for axis in (1, 2) if (query[axis], key[axis]) == scores]
    if len(tokens) == 1:
        return "BSND" if tokens == [1] else "BNSD"
    if query[1:3] == key[1:3]:
        return "BNSD" if query[1] < query[2] else "BSND"
    if query[2] == key[2]:
        return "BNSD" if key[1] < query[1] else "BSND"
    return "BSND" if query[2] % max(1, key[2]) == 0 else "BNSD"


def heads_of(task: Task, layout: str) -> int:
    """Heads of the queries."""
    query = task.present(1)[0].shape
    if not query:
        raise task.refused("a query without axes has no heads")
    named = task.first("head_num", "num_heads", "headNum", "numHeads")
    told = query[layout.index("N")] if "N" in layout and len(query) == len(layout) else None
    if isinstance(named, int) and named > 0:
        if told not in (None, named):
            raise task.refused(f"{query} in layout {layout} hasn't {named} heads")
        return named
    if told is not None:
        return told
    stats = next((each.shape for each in task.outputs if each.shape[-1:] == (LANES,)), None)
    if stats is not None and len(stats) == 4:
        return stats[1]
    return max(1, query[-1] // _USUAL_COLUMNS)


def scale_of(task: Task, columns: int) -> float:
    """The factor of scores; one over the root of the head's size where none is given."""
    named = task.first("scale_value", "scale", "scaleValue")
    given = isinstance(named, float | int) and named >= 0
    return float(named) if given else 1 / sqrt(columns)  # type: ignore[arg-type]


def mask_of(task: Task, place: int, lengths: tuple[tuple[int, int], ...]) -> Mask:
    """The mask of a task; a call that only says it is causal has the triangle made for it."""
    tensor = optional(task, place)
    mode = task.whole_number("sparse_mode", 0)
    if tensor is None and task.first("is_causal", "causal") is True:
        return Mask.of(_triangle(), Sparse.RIGHT_DOWN, (FAR, FAR), lengths)
    if tensor is not None and _tells_nothing(task) and tensor.shape[-2:] == lengths[0]:
        # Profilers print no attributes; what is trained with a mask of all scores is causal, while
        # prompts have one where no band of the operator's would do (vision encoders: padding).
        prompt = task.op_type in _OF_PROMPTS
        square = tensor.shape[-1] == tensor.shape[-2] and not prompt
        return Mask.of(tensor, mode, (FAR, 0 if square else FAR), lengths)
    before, after = (
        next((task.whole_number(name, FAR) for name in names if name in task.attributes), FAR)
        for names in (("pre_tockens", "pre_tokens"), ("next_tockens", "next_tokens"))
    )
    return Mask.of(tensor, mode, (before, after), lengths, _listed(task, "prefix") or ())


def _tells_nothing(task: Task) -> bool:
    return task.first("sparse_mode", "head_num", "num_heads", "input_layout", "scale_value") is None


def out_of(task: Task, query: Heads, value: Heads, layout: str) -> Heads:
    """The result: the last output, or one of its own."""
    shape = (*task.present(1)[0].shape[:-1], 0)
    last = value.columns if layout[-1] == "D" else value.columns * query.heads
    tensor = task.outputs[-1] if task.outputs else made((*shape[:-1], last), query.tensor.dtype)
    if tensor.shape != (*shape[:-1], last):
        raise task.refused(f"a result of {tensor.shape}; {(*shape[:-1], last)} comes out")
    ends = np.cumsum(query.rows).tolist() if layout == "TND" else None
    return Heads.of(tensor, layout, query.heads, ends, query.rows)


def _columns(query: GlobalTensor, layout: str, heads: int) -> int:
    return query.shape[-1] if layout[-1] == "D" else query.shape[-1] // max(1, heads)


def _shared(key: GlobalTensor, layout: str, columns: int, heads: int) -> int:
    """Heads of the keys."""
    if "N" in layout and len(key.shape) == len(layout):
        return key.shape[layout.index("N")]
    return max(1, key.shape[-1] // max(1, columns)) if heads else 1


def optional(task: Task, place: int) -> GlobalTensor | None:
    """An input that may be left out; records keep an empty slot for some."""
    found = task.inputs[place] if place < len(task.inputs) else None
    if found is None or not found.shape:
        return None
    return replace(found, dtype=UINT8) if found.dtype is BOOL else found


def _listed(task: Task, name: str) -> list[int] | None:
    return numbers(task.attributes.get(name)) or None


def _of_rows(task: Task, stats: GlobalTensor, query: Heads) -> Heads:
    """Maxima or sums: (batch, heads, queries, 8), or packed.

    Packed ones of a sequence lie head by head, whatever their shape says, unless they are asked
    for as the queries are; a gradient has the heads of all sequences one behind the other then.
    """
    if len(stats.shape) != _PACKED_AXES:
        return Heads.of(stats, "BNSD", query.heads)
    if stats.numel != query.heads * LANES * sum(query.rows):
        raise task.refused(f"{stats.shape} of {sum(query.rows)} tokens of {query.heads} heads")
    ends = np.cumsum((0, *query.rows)).tolist()
    if task.attributes.get("softmax_out_layout") == _AS_INPUT:
        return Heads.of(stats, "TND", query.heads, ends[1:])
    if task.attributes.get("softmax_in_layout") == _AS_INPUT:
        starts, apart = tuple(first * LANES for first in ends[:-1]), ends[-1] * LANES
        return Heads(stats, query.heads, LANES, query.rows, starts, apart, LANES)
    starts = tuple(first * LANES * query.heads for first in ends[:-1])
    own = tuple(rows * LANES for rows in query.rows)
    return Heads(stats, query.heads, LANES, query.rows, starts, own, LANES)


def _shift(task: Task, tensor: GlobalTensor, query: Heads, key: Heads) -> Shift:
    kind = task.whole_number("pse_type", 1)
    if kind in _GENERATED:
        problem = f"pse type {kind}, whose shifts are made of slopes, isn't modelled"
        raise NotCoveredError(task.op_type, problem)
    shape = tensor.shape
    wanted = max(query.rows), max(key.rows)
    if len(shape) == 1 or (len(shape) == _PSE_AXES and shape[2] == ALIBI_ROWS != wanted[0]):
        problem = f"a shift of {shape}, flat or of the last {ALIBI_ROWS} queries, isn't modelled"
        raise NotCoveredError(task.op_type, problem)
    if len(shape) != _PSE_AXES or shape[1:2] != (query.heads,) or shape[3] != wanted[1]:
        raise task.refused(f"a shift of {shape} for {query.heads} heads of {wanted} scores")
    if shape[0] not in (1, query.batch) or shape[2] not in (1, wanted[0]):
        raise task.refused(f"a shift of {shape} for {query.batch} sequences of {wanted} scores")
    return Shift(tensor, kind not in _MULTIPLIED_FIRST)


def _dropout(task: Task, query: Heads, key: Heads) -> Dropout | None:
    bits, keep = optional(task, 4), task.number("keep_prob", 1.0)
    if bits is None or keep >= 1.0:
        return None
    scores = query.heads * sum(q * k for q, k in zip(query.rows, key.rows, strict=True))
    if len(set(key.rows)) > 1 or key.rows[0] % BITS or len(set(query.rows)) > 1:
        problem = f"dropout of rows of {key.rows} scores; multiples of 8 are modelled"
        raise NotCoveredError(task.op_type, problem)
    if bits.numel * BITS < scores or not keep > 0:
        raise task.refused(f"{bits.numel} bytes of dropout, keeping {keep}, for {scores} scores")
    return Dropout(replace(bits, shape=(bits.numel,)), keep)


def _triangle() -> GlobalTensor:
    """The compressed mask that a caller makes for causal attention."""
    mask = made((TRIANGLE, TRIANGLE), UINT8, "mask")
    mask.buffer.data = np.triu(np.ones((TRIANGLE, TRIANGLE), np.uint8), 1).reshape(-1)
    return mask

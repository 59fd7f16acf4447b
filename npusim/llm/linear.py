"""Layers with a state instead of a cache: gated delta nets and lightning attention on one rank.

Decoding reads and writes the state of every sequence. Prompts are read in chunks of 64 tokens, by
one kernel where there is one, else as products within a chunk, and of every chunk with the state
that the ones before left. Kernels are
called as vllm-ascend brings them (csrc, ops/triton).
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Final

from npusim.llm.work import part, tensor
from npusim.values.dtypes import BFLOAT16, FLOAT, INT32

if TYPE_CHECKING:
    from npusim.llm.parts import State
    from npusim.llm.projections import Projections
    from npusim.llm.workload import Batch

_WIDEST, _MOST_HEADS = 128, 64  # of the kernel that reads prompts
_CHUNK: Final = 64  # tokens, as the kernels in Triton that vllm-ascend takes have it (ops/fla)


def linear_attention(to: Projections, state: State, hidden: int, batch: Batch, tp: int) -> None:
    """Projections, convolution, states and gates of one layer, before its exchange."""
    tokens, kind = batch.tokens, to.precision.activations
    heads = max(1, state.value_heads // tp)
    columns, out = ceil(state.columns / tp), heads * state.value_size
    to.product(tokens, hidden, columns + ceil(state.gates / tp))
    if state.widened:
        to.product(tokens, state.key_size, heads * state.key_size)
        to.product(tokens, state.key_size, out)
    if state.convolution:
        _convolve(to, state, batch, columns)
    if batch.sequences:
        _step(to, state, batch.sequences * batch.queries, heads, columns, tp)
    if batch.prompts and not _read(to, state, batch, heads, tp):
        chunks = batch.prompts * ceil(batch.chunk / _CHUNK) * heads
        _chunked(to, state, chunks)
    to.norm(tokens * heads, state.value_size)
    row = tensor(kind, tokens, out)
    curve = part("Swish" if state.kind == "delta" else "Sigmoid", (row,), (row,))
    to.work.run(curve, part("Mul", (row, row), (row,)))
    to.product(tokens, out, hidden)


def _step(to: Projections, state: State, sequences: int, heads: int, columns: int, tp: int) -> None:
    """A token of each sequence; kernels that npusim has none of are priced by their bytes."""
    kind = to.precision.activations
    kept = tensor(FLOAT, sequences, heads, state.key_size, state.value_size)
    given = tensor(kind, sequences, columns)
    made = tensor(kind, sequences, heads * state.value_size)
    keys = max(1, state.key_heads // tp)
    if state.kind == "delta" and kind is BFLOAT16 and heads % keys == 0:
        key, value = (
            tensor(kind, sequences, count, size)
            for count, size in ((keys, state.key_size), (heads, state.value_size))
        )
        states = tensor(kind, sequences, heads, state.value_size, state.key_size)
        each, decays = tensor(INT32, sequences), tensor(FLOAT, sequences, heads)
        inputs = (key, key, value, tensor(kind, sequences, heads), states, each, each, decays)
        to.work.run(part("RecurrentGatedDeltaRule", inputs, (value, states)))
        return
    to.work.first_of(
        [part("RecurrentGatedDeltaRule", (given, kept), (made, kept))],
        [part("recurrent_gated_delta_rule_310", (given, kept), (made, kept))],
    )


def _convolve(to: Projections, state: State, batch: Batch, columns: int) -> None:
    """A short causal convolution of every column, behind what it keeps of a sequence."""
    kind, decoding = to.precision.activations, not batch.prompts
    rows = tensor(kind, batch.tokens, columns)
    kept = tensor(kind, batch.texts, max(1, state.convolution - 1), columns)
    taps = tensor(kind, state.convolution, columns)
    ends, each = tensor(INT32, batch.texts + 1), tensor(INT32, batch.texts)
    given = (rows, taps, None, kept, ends, each, None if decoding else each)
    said = {"activationMode": 1, "runMode": int(decoding)}
    to.work.run(part("CausalConv1d", given, (rows, kept), weights=(taps,), **said))


def _read(to: Projections, state: State, batch: Batch, heads: int, tp: int) -> bool:
    """Prompts by the vendor's kernel, where it takes the heads; vllm-ascend asks it first.

    Source: vllm-ascend ops/gdn.py (_probe_fused_chunk), the kernel's host tiling.
    """
    kind, keys = to.precision.activations, max(1, state.key_heads // tp)
    wide = max(state.key_size, state.value_size)
    if state.kind != "delta" or kind is not BFLOAT16 or heads % keys or to.work.fixed_scales:
        return False
    if wide > _WIDEST or heads > _MOST_HEADS:
        return False
    tokens = batch.prompts * batch.chunk
    key, value = (
        tensor(kind, tokens, count, size)
        for count, size in ((keys, state.key_size), (heads, state.value_size))
    )
    states = tensor(kind, batch.prompts, heads, state.value_size, state.key_size)
    each, decays = tensor(INT32, batch.prompts), tensor(FLOAT, tokens, heads)
    inputs = (key, key, value, tensor(kind, tokens, heads), states, each, decays)
    to.work.run(part("ChunkGatedDeltaRule", inputs, (value, states)))
    return True


def _chunked(to: Projections, state: State, chunks: int) -> None:
    """Products of all chunks of all heads; a lightning layer has no delta to solve for."""
    kind, key, value = to.precision.activations, state.key_size, state.value_size
    rows, scores = tensor(kind, chunks, _CHUNK, key), tensor(kind, chunks, _CHUNK, _CHUNK)
    turned, given = tensor(kind, chunks, key, _CHUNK), tensor(kind, chunks, _CHUNK, value)
    kept = tensor(kind, chunks, key, value)
    within = [
        part("BatchMatMulV2", (rows, turned), (scores,)),
        part("BatchMatMulV2", (scores, given), (given,)),
    ]
    through = [
        part("BatchMatMulV2", (turned, given), (kept,)),
        part("BatchMatMulV2", (rows, kept), (given,)),
        part("Mul", (given, given), (given,)),
        part("Add", (given, given), (given,)),
    ]
    solved = [
        part("BatchMatMulV2", (rows, turned), (scores,)),
        part("Mul", (scores, scores), (scores,)),
        part("BatchMatMulV2", (scores, scores), (scores,), count=6),  # (I + A)^-1 by squares
        part("BatchMatMulV2", (scores, rows), (rows,)),
    ]
    to.work.run(*within, *([] if state.kind == "lightning" else solved), *through)

"""RecurrentGatedDeltaRule: a few tokens of each sequence through the state of a linear attention.

Heads of sequences are dealt to vector cores by their tokens. Of a head's state some rows are in UB
while its tokens pass: each takes what the state says of its key from its value, puts the rest back
along the key, and asks the new state by its query. The state after each token is stored where its
index says. Source: ops-transformer attention/recurrent_gated_delta_rule, host tiling and device
schedule.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from npusim.ascendc import Core, GlobalTensor, Kernel, RoundMode, TBuf, TPosition, TQue
from npusim.ascendc.loops import looked_up
from npusim.ascendc.task import Task, made
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import BFLOAT16, FLOAT
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from collections.abc import Hashable
    from typing import Any

    from numpy.typing import NDArray

    from npusim.ascendc import LocalTensor
    from npusim.ascendc.loops import Index
    from npusim.ascendc.scalars import Scalar
    from npusim.hardware.profile import Profile

MOST_TOKENS = 8  # of a sequence in a call
_HALF_BLOCK, _BLOCK = 8, 16
_ROW_OF_STATE = 12  # bytes of an element: as it comes and goes, in float32, and a product with it
_ROW = 12  # of a row beside that
_SPARE_BYTES = 128


class RecurrentGatedDeltaRule(Kernel):
    """out, state' = S q, S for S = a S (1 - b k k^T) + b v k^T, token after token of a sequence.

    ``lengths`` are the tokens of sequences, known or even; ``accepted`` how many tokens of the last
    call counted, whose state a sequence begins with.
    """

    op_type = "RecurrentGatedDeltaRule"

    def __init__(
        self,
        profile: Profile,
        tensors: tuple[GlobalTensor, GlobalTensor, GlobalTensor, GlobalTensor, GlobalTensor],
        lengths: GlobalTensor,
        indices: GlobalTensor,
        decay: GlobalTensor | None,
        accepted: GlobalTensor | None,
        outputs: tuple[GlobalTensor, GlobalTensor],
        *,
        scale: float,
    ) -> None:
        self.query, self.key, self.value, self.beta, self.state = tensors
        self.lengths, self.indices, self.decay, self.accepted = lengths, indices, decay, accepted
        (self.out, self.new), self.scale = outputs, scale
        (self.tokens, self.key_heads, self.keys), (_, self.heads, self.values) = (
            self.key.shape, self.value.shape,
        )  # fmt: skip
        self.block_dim = profile.cores.vector_cores
        self.rows = self._rows(profile.buffers.ub_bytes)
        given = (*tensors, lengths, indices, decay, accepted)
        self.reads = tuple(each for each in given if each is not None)
        self.writes = outputs
        self.units = self._dealt(self._tokens(lengths))

    def _rows(self, ub_bytes: int) -> int:
        """Rows of a state that are in UB at once."""
        heads, values, keys = (round_up(n, _BLOCK) for n in (self.heads, self.values, self.keys))
        used = MOST_TOKENS * (4 * keys + 2 * values + 6 * heads) + _SPARE_BYTES
        used += MOST_TOKENS * (8 * keys + 4 * values + 4 * heads)
        most = (ub_bytes - used) // (_ROW_OF_STATE * keys + _ROW) // _HALF_BLOCK * _HALF_BLOCK
        if most <= 0:
            raise KernelError(self.op_type, f"rows of states of {self.keys} don't fit into UB")
        return round_up(ceil(self.values / ceil(self.values / most)), _HALF_BLOCK)

    def _tokens(self, lengths: GlobalTensor) -> NDArray[np.int64]:
        if lengths.array is not None:
            return lengths.array.reshape(-1).astype(np.int64)
        ends = np.arange(lengths.numel + 1) * self.tokens // lengths.numel
        return np.diff(ends)

    def _dealt(self, tokens: NDArray[np.int64]) -> list[dict[int, list[tuple[int, int, int]]]]:
        """Heads of each core by their tokens: (sequence, its first token, head)."""
        average = max(1, ceil(int(tokens.sum()) * self.heads / self.block_dim))
        firsts = np.cumsum(tokens) - tokens
        found: list[dict[int, list[tuple[int, int, int]]]] = [{} for _ in range(self.block_dim)]
        load = core = 0
        for sequence, (first, count) in enumerate(zip(firsts, tokens, strict=True)):
            for head in range(self.heads):
                load += int(count)
                if count and core < self.block_dim:
                    own = found[core].setdefault(int(count), [])
                    own.append((sequence, int(first), head))
                if load >= average:
                    load, core = 0, core + 1
        return found

    def block_kind(self, block_idx: int) -> Hashable:
        return tuple((count, len(own)) for count, own in self.units[block_idx].items())

    def process(self, core: Core) -> None:
        """One head after the other."""
        size, wide = BFLOAT16.itemsize, FLOAT.itemsize
        names = ("q", "k", "v", "beta", "decay")
        self.ins = {name: TQue(TPosition.VECIN, 1, name) for name in names}
        self.floats = {name: TBuf(f"{name}_wide") for name in names[:4]}
        widths = (self.keys, self.keys, self.values, 1, 2)
        for name, width in zip(names, widths, strict=True):
            nbytes = MOST_TOKENS * round_up(width, _BLOCK)
            core.pipe.init_buffer(self.ins[name], 1, nbytes * size)
            if name in self.floats:
                core.pipe.init_buffer(self.floats[name], 1, nbytes * wide)
        self.state_in = TQue(TPosition.VECIN, 1, "state")
        self.state_out, self.attention = (TQue(TPosition.VECOUT, 1, n) for n in ("new", "out"))
        self.old, self.product, self.small = (TBuf(n) for n in ("old", "product", "small"))
        block = self.rows * round_up(self.keys, _BLOCK)
        for queue in (self.state_in, self.state_out):
            core.pipe.init_buffer(queue, 1, block * size)
        core.pipe.init_buffer(self.attention, 1, self.rows * size)
        for buffer in (self.old, self.product):
            core.pipe.init_buffer(buffer, 1, block * wide)
        core.pipe.init_buffer(self.small, 2, self.rows * wide)
        for count, own in self.units[core.get_block_idx()].items():
            table = np.array(own, np.int64)
            for turn in core.loop(len(own)):
                where = [looked_up(turn, table[:, at]) for at in range(3)]
                self._head(core, count, where[0], where[1], where[2], table, turn)

    def _head(
        self,
        core: Core,
        count: int,
        sequence: Index,
        first: Index,
        head: Index,
        table: NDArray[np.int64],
        turn: Index,
    ) -> None:
        """The tokens of a sequence through one head, some rows of its state after the other."""
        shared = looked_up(turn, table[:, 2] // (self.heads // self.key_heads))
        q, k = (
            self._taken(core, name, tensor, (first, shared, self.key_heads), count, self.keys)
            for name, tensor in (("q", self.query), ("k", self.key))
        )
        v = self._taken(core, "v", self.value, (first, head, self.heads), count, self.values)
        core.muls(q, q, self.scale)
        beta = self._taken(core, "beta", self.beta, (first, head, self.heads), count, 1)
        decay = self._decays(core, first, head, count)
        begin = self._begin(core, sequence, first)
        for row in range(0, self.values, self.rows):
            rows = min(self.rows, self.values - row)
            state = self.old.get(FLOAT, rows, self.keys)
            given = self.state_in.copy_in(self._place(self.state, begin, head, row, rows))
            core.cast(state, given)
            self.state_in.free_tensor(given)
            for token in range(count):
                scales = (
                    core.get_value(beta[token]),
                    None if decay is None else core.get_value(decay[token]),
                )
                vectors = k[token : token + 1], q[token : token + 1], v[token][row : row + rows]
                self._token(core, state, vectors, scales)
                index = core.load_scalar(self.indices.window(((first, 1), (token, 1)), (), ()))
                self._store(core, state, index, (first, token), head, row)
        if decay is not None:
            self.ins["decay"].free_tensor(decay)

    def _taken(
        self, core: Core, name: str, tensor: GlobalTensor, of: tuple[Index, Index, int],
        count: int, width: int,
    ) -> LocalTensor:  # fmt: skip
        """Rows of some tokens of a head, as float32."""
        first, head, heads = of
        places = ((first, heads * width), (head, width))
        source = tensor.window(places, (count, width), (heads * width, 1))
        given = self.ins[name].copy_in(source)
        found = core.cast(self.floats[name].get(FLOAT, count, width), given)
        self.ins[name].free_tensor(given)
        return found

    def _decays(self, core: Core, first: Index, head: Index, count: int) -> LocalTensor | None:
        if self.decay is None:
            return None
        places = ((first, self.heads), (head, 1))
        found = self.ins["decay"].copy_in(self.decay.window(places, (count, 1), (self.heads, 1)))
        return core.exp(found, found)

    def _begin(self, core: Core, sequence: Index, first: Index) -> Scalar:
        """Where the state is that a sequence begins with."""
        places: list[tuple[Any, int]] = [(first, 1)]
        if self.accepted is not None:
            accepted = core.load_scalar(self.accepted.window(((sequence, 1),), (), ()))
            places.append((accepted - 1, 1))
        return core.load_scalar(self.indices.window(tuple(places), (), ()))

    def _place(self, tensor: GlobalTensor, state: Scalar, head: Index, row: int, rows: int) -> Any:
        whole = self.values * self.keys
        places = ((state, self.heads * whole), (head, whole), (row, self.keys))
        return tensor.window(places, (rows, self.keys), (self.keys, 1))

    def _token(
        self,
        core: Core,
        state: LocalTensor,
        vectors: tuple[LocalTensor, LocalTensor, LocalTensor],
        scales: tuple[Scalar, Scalar | None],
    ) -> None:
        """The state after a token, and in ``small`` what it says of the query."""
        (key, query, value), (beta, decay) = vectors, scales
        rows = state.shape[0]
        product = self.product.get(FLOAT, rows, self.keys)
        delta, said = (self.small.get(FLOAT, rows, part=at) for at in range(2))
        if decay is not None:
            core.muls(state, state, decay)
        core.mul(product, state, key)
        core.reduce_sum(delta, product)
        core.sub(delta, value, delta)
        core.muls(delta, delta, beta)
        core.mul(product, core.broadcast_column(delta), key)
        core.add(state, state, product)
        core.mul(product, state, query)
        core.reduce_sum(said, product)

    def _store(
        self,
        core: Core,
        state: LocalTensor,
        index: Scalar,
        token: tuple[Index, int],
        head: Index,
        row: int,
    ) -> None:
        rows = state.shape[0]
        kept = self.state_out.alloc_tensor(BFLOAT16, rows, self.keys)
        self.state_out.copy_out(
            self._place(self.new, index, head, row, rows),
            core.cast(kept, state, RoundMode.CAST_RINT),
        )
        out = self.attention.alloc_tensor(BFLOAT16, rows)
        core.cast(out, self.small.get(FLOAT, rows, part=1), RoundMode.CAST_RINT)
        places = (
            *((each, self.heads * self.values) for each in token),
            (head, self.values),
            (row, 1),
        )
        self.attention.copy_out(self.out.window(places, (rows,), (1,)), out)


def recurrent_gated_delta_rule(task: Task) -> tuple[Kernel, ...]:
    """query, key, value, beta, state, lengths, places of states, decays, -, accepted tokens."""
    given = (*task.inputs, *[None] * 10)[:10]
    if any(each is None for each in given[:7]):
        raise task.refused("needs query, key, value, beta, state, lengths and places of states")
    query, key, value, beta, state, lengths, indices = (e for e in given[:7] if e is not None)
    if given[8] is not None:
        raise task.refused("decays of single elements of keys aren't supported")
    if value.shape[1] % key.shape[1]:
        raise task.unfit(f"{value.shape[1]} heads of values don't share {key.shape[1]} of keys")
    if lengths.array is not None and lengths.array.max(initial=0) > MOST_TOKENS:
        raise task.unfit(f"a sequence of more than {MOST_TOKENS} tokens")
    outputs = task.outputs or (made(value.shape, value.dtype, "out"), state)
    return (
        RecurrentGatedDeltaRule(
            task.profile, (query, key, value, beta, state), lengths, indices, given[7], given[9],
            (outputs[0], outputs[1] if len(outputs) > 1 else state),
            scale=task.number("scale_value", 1.0),
        ),
    )  # fmt: skip

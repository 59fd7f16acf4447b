"""ChunkGatedDeltaRule: whole prompts through the state of a linear attention, in chunks of 64.

Two chunks for each cluster are a group, of one sequence; groups come one after the other, in three
stages with all cores between them. First heads of chunks are dealt to clusters, four at a time:
vector cores have half a chunk each, decay it, and invert what its keys say of each other in blocks
of 32; the cube core puts these together, and makes from them what the chunk would leave alone. Then
clusters take heads, and pass the state through their chunks. Last, heads of chunks again: what
queries hear from keys of their own chunk is added. Source: ops-transformer
attention/chunk_gated_delta_rule, host tiling and device schedule (arch22).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from npusim.ascendc import Kernel
from npusim.ascendc.task import Task, made
from npusim.ops.recurrent.chunked_delta_cube import Products
from npusim.ops.recurrent.chunked_delta_vectors import Halves
from npusim.ops.recurrent.chunked_delta_work import CHUNK, TOGETHER, Part, Spaces
from npusim.values.dtypes import BFLOAT16, FLOAT

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from npusim.ascendc import Core, GlobalTensor
    from npusim.ascendc.cluster import CoreWait
    from npusim.engine.program import Barrier
    from npusim.hardware.profile import Profile

_CHUNKS = 2  # of a group for each cluster
_MOST_HEADS, _MOST_WIDE = 64, 128


class ChunkGatedDeltaRule(Kernel):
    """out, S = S q, S for S = a S (1 - b k k^T) + b v k^T, chunks of a sequence at a time.

    ``lengths`` are the tokens of sequences, known or even.
    """

    op_type = "ChunkGatedDeltaRule"
    is_mix = True

    def __init__(
        self,
        profile: Profile,
        tensors: tuple[GlobalTensor, GlobalTensor, GlobalTensor, GlobalTensor, GlobalTensor],
        lengths: GlobalTensor,
        decay: GlobalTensor | None,
        outputs: tuple[GlobalTensor, GlobalTensor],
        *,
        scale: float,
    ) -> None:
        self.query, self.key, self.value, self.beta, self.state = tensors
        self.lengths, self.decay, self.scale = lengths, decay, scale
        self.out, self.new = outputs
        (self.tokens, self.key_heads, self.keys), (_, self.heads, self.values) = (
            self.key.shape, self.value.shape,
        )  # fmt: skip
        self.block_dim = profile.cores.cube_cores
        self.reads = (*tensors, lengths, *(() if decay is None else (decay,)))
        self.writes = outputs
        longest = min(_CHUNKS * self.block_dim * CHUNK, -(-self.tokens // CHUNK) * CHUNK)
        self.group, self.longest = _CHUNKS * self.block_dim * CHUNK, longest
        self.spaces = self._spaces(longest)
        self.scratch = tuple(self.spaces)
        self.parts = self._parts()

    def _spaces(self, longest: int) -> Spaces:
        heads, keys, values, clusters = self.heads, self.keys, self.values, self.block_dim

        def group(columns: int, name: str) -> GlobalTensor:
            return made((heads, longest, columns), BFLOAT16, name)

        def own(columns: int, name: str) -> GlobalTensor:
            return made((clusters, TOGETHER, CHUNK, columns), BFLOAT16, name)

        return Spaces(
            made((heads, longest), FLOAT, "sums"), group(keys, "decayed"), group(values, "inner"),
            group(keys, "queries"), group(keys, "keys"), group(CHUNK, "heard"),
            made((2 * clusters, CHUNK, CHUNK), FLOAT, "mask"), own(keys, "own_decayed"),
            own(keys, "own_queries"), own(keys, "own_keys"), own(CHUNK, "own_products"),
            own(CHUNK, "own_inverse"), own(values, "own_values"), own(CHUNK, "own_heard"),
        )  # fmt: skip

    @property
    def workspace_bytes(self) -> int:
        """All of it."""
        return sum(each.nbytes for each in self.spaces)

    def _parts(self) -> list[Part]:
        """The groups of all sequences."""
        counts = np.diff(np.arange(self.lengths.numel + 1) * self.tokens // self.lengths.numel)
        if self.lengths.array is not None:
            counts = self.lengths.array.reshape(-1).astype(np.int64)
        found, first = [], 0
        for sequence, count in enumerate(counts.tolist()):
            for begin in range(0, count, self.group):
                length = min(self.group, count - begin)
                found.append(Part(sequence, first + begin, length, begin == 0, self.heads))
            first += count
        return found

    def block_kind(self, block_idx: int) -> Hashable:
        return tuple(each.kind(block_idx, self.block_dim) for each in self.parts)

    def process(self, core: Core) -> Iterator[Barrier | CoreWait]:
        """Group by group, all cores together between stages."""
        side: Products | Halves
        side = Products(core, self) if core.unit.kind == "cube" else Halves(core, self)
        side.begin()
        for part in self.parts:
            for stage in (side.alone, side.through, side.within):
                yield from stage(part)
                yield core.sync_all()


def chunk_gated_delta_rule(task: Task) -> tuple[Kernel, ...]:
    """query, key, value, beta, states, lengths, decays."""
    given = (*task.inputs, *[None] * 7)[:7]
    if any(each is None for each in given[:6]):
        raise task.refused("needs query, key, value, beta, states and lengths")
    query, key, value, beta, state, lengths = (e for e in given[:6] if e is not None)
    if task.profile.cores.style != "split":
        raise task.refused(f"{task.profile.name} has no kernel for it")
    heads, wide = value.shape[1], max(key.shape[2], value.shape[2])
    if heads % key.shape[1] or heads > _MOST_HEADS or wide > _MOST_WIDE:
        raise task.unfit(f"{heads} heads of {value.shape[2]} for {key.shape[1:]}")
    counts = lengths.array
    if counts is not None and (counts.min() < 0 or counts.sum() > query.shape[0]):
        raise task.unfit(f"sequences of {int(counts.sum())} in {query.shape[0]} tokens")
    outputs = task.outputs or (made(value.shape, value.dtype), made(state.shape, state.dtype))
    return (
        ChunkGatedDeltaRule(
            task.profile, (query, key, value, beta, state), lengths, given[6],
            (outputs[0], outputs[1]), scale=task.number("scale_value", 1.0),
        ),
    )  # fmt: skip

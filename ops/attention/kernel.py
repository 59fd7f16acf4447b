"""FlashAttentionScore and its relatives: one kernel for all of them.

Cube and vector cores of a cluster meet in workspace: scores of 128 rows and 1024 keys go to the
vector core, weights come back, products with the values go to the vector core again. The cube core
is one round ahead. Source: ops-transformer attention/flash_attention_score.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.ascendc import Core, Kernel
from npusim.library.asking import LIBRARY
from npusim.ops.attention.blocks import KEYS, ROWS, Dealing
from npusim.ops.attention.cube import CubeSide
from npusim.ops.attention.pipeline import Pipeline
from npusim.ops.attention.softmax import VectorSide
from npusim.ops.attention.spaces import Space, Spaces
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from npusim.ascendc.cluster import CoreWait
    from npusim.engine.program import Barrier
    from npusim.hardware.profile import Profile
    from npusim.library.asking import Asking
    from npusim.ops.attention.call import Call

    Steps = Iterator[Barrier | CoreWait]

_SLOTS = 2  # of workspace: one that is filled, one that is read
_GRAIN = 16  # rows that the workspace of a block is rounded up to
_SYSTEM_BYTES = 16 << 20  # of workspace that the vendor's library keeps for itself


class Attention(Kernel):
    """softmax(scale * q @ k.T) @ v for all heads of a call.

    Each vector core of a cluster has blocks of its own, or they have the rows of one ``shared``.
    """

    op_type: str = "FlashAttentionScore"
    is_mix = True

    def __init__(
        self,
        profile: Profile,
        call: Call,
        *,
        op_type: str = "FlashAttentionScore",
        rows: int = ROWS,
        keys: int = KEYS,
        trimmed: bool = True,
        asking: Asking = LIBRARY,
        lanes: int | None = None,
        shared: bool = False,
    ) -> None:
        self.op_type, self.call, self.asking = op_type, call, asking
        cores = profile.cores.cube_cores
        vectors = profile.cores.vector_cores // cores
        lanes, self.shares = 1 if shared else lanes or vectors, vectors if shared else 1
        self.dealing = Dealing(
            call.mask, call.lengths, call.query.heads, cores, rows, keys, lanes, trimmed
        )
        self.block_dim = len(self.dealing.stretches)
        self.spaces = self._spaces()
        given = (call.query, call.key, call.value, *(call.rope or ()))
        others = (call.mask.tensor, call.shift and call.shift.tensor,
                  call.dropout and call.dropout.bits,
                  call.key.pages and call.key.pages.table)  # fmt: skip
        self.reads = (*(each.tensor for each in given), *(each for each in others if each))
        kept = [each.tensor for each in (call.maxima, call.sums) if each is not None]
        self.writes = (*kept, call.out.tensor)
        self.scratch = tuple(space.tensor for space in self.spaces)

    def _spaces(self) -> Spaces:
        call, dealing = self.call, self.dealing
        keys = min(dealing.keys, max(keys for _, keys in dealing.lengths))
        wide, dtype = call.value.columns, call.query.tensor.dtype
        rows = min(dealing.rows, round_up(max(queries for queries, _ in dealing.lengths), _GRAIN))
        place = (self.block_dim, dealing.lanes)
        return Spaces(
            Space.of("scores", FLOAT, *place, _SLOTS, rows, keys),
            Space.of("weights", dtype, *place, _SLOTS, rows, keys),
            Space.of("outputs", FLOAT, *place, _SLOTS, rows, wide),
            Space.of("total", FLOAT, *place, 1, rows, wide),
        )

    @property
    def workspace_bytes(self) -> int:
        """What the host asks for, system workspace included."""
        return sum(tensor.nbytes for tensor in self.scratch) + _SYSTEM_BYTES

    def block_kind(self, block_idx: int) -> Hashable:
        """All clusters have about as much to do."""
        del block_idx
        return self.dealing.typical

    def process(self, core: Core) -> Steps:
        """The cube core's side, or a vector core's, between the first and the last messages."""
        lane = None if core.unit.kind == "cube" else core.get_sub_block_idx()
        yield from self.asking.begin(core, self.dealing.lanes)
        yield from self.pipeline(core, lane).run(self.dealing)

    def pipeline(self, core: Core, lane: int | None) -> Pipeline:
        """The order of a core's side."""
        given, asking = (core, self.call, self.dealing, self.spaces), self.asking
        if lane is None:
            shared = self.shares > 1
            cube = CubeSide(*given, messages=asking.a_product, shared=shared)
            return Pipeline(core, cube, None, ahead=asking.ahead)
        place, own = (lane, None) if self.shares > 1 else (0, lane)
        vector = VectorSide(*given, (place, self.shares))
        return Pipeline(core, vector, own, ahead=asking.ahead)

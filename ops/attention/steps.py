"""The steps of a cluster: on each lane a round of keys for a block of rows.

They are worked on one after the other for numbers; what is written down are loops over those that
are alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from npusim.ops.attention.masks import Spot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from npusim.ascendc import Core
    from npusim.ascendc.gm_slices import Place
    from npusim.ops.attention.blocks import Dealing, Repeated, Rows

Moves = tuple[tuple["Place", int], ...]


class Job(NamedTuple):
    """A round of a block: ``first`` and ``last`` of the block's rounds.

    ``slot`` is the workspace it uses, ``turn`` that of the block's sums. The loops ``down`` move it
    by so many rows, ``along`` by so many keys, ``over`` by so many blocks.
    """

    lane: int
    block: Rows
    key: int
    keys: int
    edges: tuple[str, ...]
    first: bool
    last: bool
    slot: int = 0
    turn: int = 0
    down: Moves = ()
    along: Moves = ()
    over: Moves = ()

    @property
    def rows(self) -> int:
        """Rows of the block."""
        return self.block.rows

    @property
    def spot(self) -> Spot:
        """Where its scores are."""
        where = self.block.sequence, self.block.head, self.block.row, self.key
        return Spot(*where, self.down, self.along)


Step = list[Job]


def own_steps(dealing: Dealing, cluster: int) -> Iterator[Step]:
    """All steps of a cluster, one after the other."""
    done = [0] * dealing.lanes
    for turn, number in enumerate(range(*dealing.stretches[cluster])):
        blocks = dealing.pair(number)
        rounds = [dealing.rounds(block) for block in blocks]
        for at in range(max(map(len, rounds))):
            step = []
            for lane, (block, own) in enumerate(zip(blocks, rounds, strict=True)):
                if at < len(own):
                    ends = at == 0, at == len(own) - 1
                    step.append(Job(lane, block, *own[at], *ends, done[lane] % 2, turn % 2))
                    done[lane] += 1
            yield step


class Typical:
    """What stands for the steps of a cluster: loops over first, middle and last rounds of blocks.

    The ``last`` step comes by itself, so that others can be ahead of it.
    """

    def __init__(self, dealing: Dealing) -> None:
        self._dealing = dealing
        self._kinds = dealing.typical
        self._blocks = dealing.pair(0)
        end = self._kinds[-1]
        self.last = self._step(end, end.last, end.first is None, True)

    def steps(self, core: Core) -> Iterator[Step]:
        """All steps but the last one."""
        before = 0
        for kind in self._kinds:
            each = max(1, kind.middle // kind.times)
            if kind.first is not None:
                for turn in core.loop(kind.times):
                    yield self._step(kind, kind.first, True, False, turn + before)
            for turn in core.loop(kind.middle):
                along = ((turn % each, self._dealing.keys),)
                block = turn // each + before
                yield self._step(kind, self._middle(kind), False, False, block, along)
            for turn in core.loop(kind.times - (kind is self._kinds[-1])):
                yield self._step(kind, kind.last, kind.first is None, True, turn + before)
            before += kind.times

    def _middle(self, kind: Repeated) -> tuple[int, tuple[str, ...]]:
        """A round of all keys; only a mask as large as the scores is read for all of them."""
        return self._dealing.keys, kind.last[1] if kind.last[1] == ("given",) else ()

    def _step(
        self,
        kind: Repeated,
        what: tuple[int, tuple[str, ...]],
        first: bool,
        last: bool,
        turn: Place = 0,
        along: Moves = (),
    ) -> Step:
        keys, edges = what
        over = ((turn, self._dealing.lanes),)
        down = ((turn, self._dealing.lanes * self._dealing.rows),)
        return [
            Job(lane, self._blocks[min(lane, len(self._blocks) - 1)]._replace(rows=rows), 0, keys,
                edges, first, last, 0, 0, down, along, over)
            for lane, rows in enumerate(kind.rows)
        ]  # fmt: skip

"""Kernels whose time is known: by what they are, the chip, and what L2 holds of their buffers.

What is kept of a run is a line of JSON: cycles, bytes, how busy the pipes of each group of cores
were, and what it leaves in L2. The same line serves other processes (`npusim.reading.run_store`).
Whoever wants to see instructions has the kernel traced and played once more.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from npusim.engine import CoreRecord, KernelRun, L2State, Traffic, Whole
from npusim.engine.program import Pipe, Unit
from npusim.values.contents import digest_of

if TYPE_CHECKING:
    from npusim.engine import Memo
    from npusim.runtime.streams import Described

_in_json = json.JSONEncoder(separators=(",", ":")).encode


class KnownRun:
    """What a memo knows of a kernel that meets a certain state of L2.

    ``again`` traces and plays it with the cache that it is given.
    """

    def __init__(
        self,
        memo: Memo | None,
        described: Described,
        l2: L2State,
        again: Callable[[L2State], KernelRun],
        *,
        exact: bool,
    ) -> None:
        self._memo, self._again, self._given = memo, again, described.given
        self._buffers = described.buffers
        self._key: bytes | None = None
        if memo is not None and memo.limit_bytes:
            held = [l2.resident_bytes(each) for each in self._buffers]
            self._key = bytes.fromhex(digest_of((described.key, exact, held, l2.traits)))

    def find(self, l2: L2State) -> KernelRun | None:
        """The run, with which ``l2`` is left as it leaves it; None where nobody knows."""
        line = None if self._memo is None or not self._key else self._memo.run(self._key)
        if line is None:
            return None
        try:
            asked, *told = json.loads(line)
            if asked and self._given:  # numbers that may be others
                return None
            run = self._of(told, l2)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError):  # not what we wrote
            return None
        for buffer, nbytes in run.touched.items():
            l2.touch(buffer, nbytes)
        return run

    def keep(self, run: KernelRun, *, asked: bool) -> KernelRun:
        """Keep what was found, by a kernel that has ``asked`` for numbers in memory or hasn't."""
        places = {buffer: place for place, buffer in enumerate(self._buffers)}
        unsure = (asked and self._given) or not run.touched.keys() <= places.keys()
        if self._memo is None or not self._key or unsure:
            return run
        traffic = run.traffic
        told = [
            asked,
            run.cycles, run.launch_cycles, run.jumped_cycles, run.memory_cycles,
            [traffic.read_bytes, traffic.written_bytes, traffic.hbm_bytes,
             traffic.l2_read_bytes, traffic.l2_written_bytes],
            [[places[buffer], nbytes] for buffer, nbytes in run.touched.items()],
            [
                [_ranges(each.blocks), each.unit.kind, each.unit.sub_block, each.end,
                 {str(pipe): cycles for pipe, cycles in each.busy.items()}]
                for each in run.records
            ],
        ]  # fmt: skip
        self._memo.keep_run(self._key, _in_json(told).encode())
        return run

    def _of(self, told: list[Any], l2: L2State) -> KernelRun:
        cycles, launch, jumped, memory, traffic, touched, records = told
        resident = {each: nbytes for each in self._buffers if (nbytes := l2.resident_bytes(each))}
        again = _Again(self._again, l2.holding(resident))
        return KernelRun(
            cycles,
            launch,
            tuple(
                CoreRecord(
                    _blocks(blocks),
                    Unit(kind, sub_block),
                    end,
                    {Pipe(pipe): cycles for pipe, cycles in busy.items()},
                    partial(again.whole, index),
                )
                for index, (blocks, kind, sub_block, end, busy) in enumerate(records)
            ),
            Traffic(*traffic),
            jumped,
            memory,
            {self._buffers[place]: nbytes for place, nbytes in touched},
        )


class _Again:
    """A kernel that is played once more, when somebody asks for its instructions."""

    def __init__(self, play: Callable[[L2State], KernelRun], state: L2State) -> None:
        self._play, self._state = play, state
        self._run: KernelRun | None = None

    def whole(self, index: int) -> Whole:
        """What is to know of a group of cores."""
        if self._run is None:
            self._run = self._play(self._state)
        return self._run.records[index].whole()


def _ranges(blocks: tuple[int, ...]) -> list[list[int]]:
    """Blocks as runs of neighbours: the first of each and the one behind its last."""
    if blocks and blocks[-1] - blocks[0] == len(blocks) - 1:  # as most are
        return [[blocks[0], blocks[-1] + 1]]
    found: list[list[int]] = []
    for block in blocks:
        if found and found[-1][1] == block:
            found[-1][1] = block + 1
        else:
            found.append([block, block + 1])
    return found


def _blocks(ranges: list[list[int]]) -> tuple[int, ...]:
    return tuple([block for first, end in ranges for block in range(first, end)])

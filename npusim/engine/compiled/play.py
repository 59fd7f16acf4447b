"""Kernels through the compiled player."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Mapping
from typing import TYPE_CHECKING, Self

from npusim.engine.compiled.layout import ENTRY, Layout, ResultStruct
from npusim.engine.compiled.library import library
from npusim.engine.timeline import Chunks, Entry, GroupPlayed, Played

if TYPE_CHECKING:
    from npusim.engine.machine import Machine, Treatment
    from npusim.engine.program import CoreGroup, Transfer

LOOK_AFTER = 1 << 16  # steps that are played of every kernel before anything is jumped over
_PLAYED, _PAUSED = 0, 1  # what the library returns; more where it can't go on
_ENTRIES = 1 << 16  # at once

Treatments = Mapping["Transfer", "Treatment"]


def play(groups: tuple[CoreGroup, ...], machine: Machine, treated: Treatments) -> Played:
    """Play the programs of all cores, as the reference does; very long ones with jumps."""
    if (loaded := library()) is not None:
        with _Playing(loaded, groups, machine, treated, entries=0) as playing:
            if playing.go() == _PLAYED:
                return playing.played()
    from npusim.engine import player as reference  # SimPy takes longer to import than most kernels

    return reference.play(groups, machine, treated)  # says what is wrong, or does without C


def replay(
    groups: tuple[CoreGroup, ...], machine: Machine, treated: Treatments, index: int
) -> Chunks:
    """Play a kernel once more, for what its group number ``index`` does one by one."""
    if (loaded := library()) is None:
        from npusim.engine import player as reference

        yield from reference.replay(groups, machine, treated, index)
        return
    with _Playing(loaded, groups, machine, treated, entries=_ENTRIES) as playing:
        while playing.go() == _PAUSED:
            yield playing.entries_of(index)
        yield playing.entries_of(index)


class _Playing:
    """A kernel that is being played; so many ``entries`` are noted down at once, if any.

    Only kernels that are played without a pause may be jumped through.
    """

    def __init__(
        self,
        loaded: ctypes.CDLL,
        groups: tuple[CoreGroup, ...],
        machine: Machine,
        treated: Treatments,
        *,
        entries: int,
    ) -> None:
        self._library = loaded
        self._layout = layout = Layout(groups, machine, treated)
        pipes, steps = len(layout.pipes), layout.first_step[-1]
        self._ends, self._busy = array("d", [0.0]) * len(groups), array("d", [0.0]) * pipes
        self._times, self._cycles = array("q", [0]) * steps, array("d", [0.0]) * steps
        self._entries = array("B", bytes(ENTRY.size * entries))
        arrays = self._ends, self._busy, self._times, self._cycles, self._entries
        self._kernel = layout.struct(0 if entries else LOOK_AFTER)
        self._result = ResultStruct(*(each.buffer_info()[0] for each in arrays), entries)

    def __enter__(self) -> Self:
        self._player = self._library.npusim_begin(
            ctypes.byref(self._kernel), ctypes.byref(self._result)
        )
        if not self._player:
            raise MemoryError
        return self

    def __exit__(self, *_: object) -> None:
        self._library.npusim_end(self._player)

    def go(self) -> int:
        """Go on to the end or until there is no room for entries; what the library returns."""
        self._result.entry_count = 0
        return int(self._library.npusim_go(self._player))

    def played(self) -> Played:
        """What there is to know of the whole kernel."""
        layout, busy = self._layout, self._busy
        groups = []
        for index, end in enumerate(self._ends):
            first, last = layout.pipes_of(index)
            steps = slice(layout.first_step[first], layout.first_step[last])
            groups.append(
                GroupPlayed(
                    end,
                    dict(zip(layout.pipes[first:last], busy[first:last], strict=True)),
                    self._times[steps],
                    self._cycles[steps],
                )
            )
        return Played(tuple(groups), self._result.jumped_cycles)

    def entries_of(self, index: int) -> list[Entry]:
        """What a group has done since it went on, in numbers of its own pipes and their steps."""
        first, last = self._layout.pipes_of(index)
        first_step = self._layout.first_step
        noted = memoryview(self._entries)[: self._result.entry_count * ENTRY.size]
        return [
            (pipe - first, step - first_step[pipe], start, end)
            for pipe, step, start, end in ENTRY.iter_unpack(noted)
            if first <= pipe < last
        ]

"""CausalConv1d: every channel of a sequence along its last few tokens, behind a state that is kept.

For tokens of decoding, sequences and tiles of channels are dealt to vector cores: the rows of a
state and those that are new are in UB together, and the last of them become the state. For prompts
tokens are dealt, over as many cores as there are, those with more channels than a tile by tiles
too: products that belong to later tokens are kept while one row after the other passes. An
operator of vLLM Ascend. Source: vllm-ascend csrc/moe/causal_conv1d, host tiling and device
schedule.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from npusim.ascendc import Core, GlobalTensor, Kernel, RoundMode, TBuf, TPosition, TQue
from npusim.ascendc.events import Event
from npusim.ascendc.loops import looked_up
from npusim.ascendc.queues import TQueBind
from npusim.ascendc.task import Task, made
from npusim.engine.program import Pipe
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from collections.abc import Hashable

    from numpy.typing import NDArray

    from npusim.ascendc import LocalTensor
    from npusim.ascendc.gm_slices import GmSlice, Place
    from npusim.ascendc.loops import Index
    from npusim.hardware.profile import Profile

TAPS = range(2, 5)
UPDATE: Final = 1  # run mode of decoding
_TILES = (4096, 2048, 1024, 512, 384, 192)  # channels, where sequences are dealt
_MOST, _GRAIN = 4096, 16
_PROMPT_BYTES = 46  # of a channel in UB: rows, results, taps and sums
_RESERVED_BYTES = 512
_HELD = 4  # new rows that UB has room for beside those of a state


class Piece(NamedTuple):
    """Some tokens of a sequence and some of its channels.

    ``place`` is that of the first token in its sequence; ``last`` pieces leave the state.
    """

    sequence: int
    first: int
    tokens: int
    place: int
    channel: int
    width: int
    last: bool


def update_tile(sequences: int, channels: int, cores: int) -> int:
    """Channels of a tile for which tasks are as few as there are cores, or as many as can be."""
    for exact in (True, False):
        found = [
            (sequences * ceil(channels / tile), tile)
            for tile in _TILES
            if not exact or channels % tile == 0
        ]
        enough = [each for each in found if each[0] >= cores]
        if enough:
            return min(enough, key=lambda each: each[0])[1]
        if found:
            return max(found, key=lambda each: (each[0], -each[1]))[1]
    raise ValueError(channels)


class CausalConv1d(Kernel):
    """y[t, c] = silu(bias[c] + sum of weight[j, c] * x[t - taps + 1 + j, c]).

    What lies before a sequence is in ``states`` [places, rows, channels], or nought. ``lengths``
    are the tokens of sequences.
    """

    op_type = "CausalConv1d"

    def __init__(
        self,
        profile: Profile,
        tensors: tuple[GlobalTensor, GlobalTensor, GlobalTensor],
        bias: GlobalTensor | None,
        lengths: NDArray[np.int64],
        places: GlobalTensor | None,
        begun: NDArray[np.bool_],
        results: tuple[GlobalTensor, GlobalTensor],
        *,
        update: bool,
        active: bool,
        skipped: NDArray[np.bool_],
    ) -> None:
        self.x, self.weight, self.states = tensors
        self.bias, self.places, self.lengths, self.begun = bias, places, lengths, begun
        (self.y, self.new), self.active, self.update = results, active, update
        self.taps, self.channels = self.weight.shape
        cores = profile.cores.vector_cores
        self.firsts = np.cumsum(lengths) - lengths
        self.tile, pieces = self._updates(cores) if update else self._prompts(profile, cores)
        self.pieces = [[each for each in own if not skipped[each.sequence]] for own in pieces]
        self.block_dim = max(1, len(self.pieces))
        most = max((each.tokens for own in self.pieces for each in own), default=0)
        room = 1 if self.tile == _MOST else _HELD
        self.held = most if update and most <= room else 0  # new rows that are in UB together
        given = (*tensors, bias, places)
        self.reads = tuple(each for each in given if each is not None)
        self.writes = results

    def _updates(self, cores: int) -> tuple[int, list[list[Piece]]]:
        """Sequences and tiles of channels, one after the other to each core."""
        tile = update_tile(len(self.lengths), self.channels, cores)
        tasks = [
            Piece(sequence, int(first), int(count), 0, channel,
                  min(tile, self.channels - channel), True)
            for sequence, (first, count) in enumerate(zip(self.firsts, self.lengths, strict=True))
            for channel in range(0, self.channels, tile)
        ]  # fmt: skip
        used = min(cores, len(tasks))
        return tile, [[each for each in tasks[core::used] if each.tokens] for core in range(used)]

    def _prompts(self, profile: Profile, cores: int) -> tuple[int, list[list[Piece]]]:
        """Stretches of tokens, cut where sequences end."""
        tile = self.channels
        if tile > _MOST:
            room = profile.buffers.ub_bytes - _RESERVED_BYTES
            tile = min(_MOST, room // _PROMPT_BYTES // _GRAIN * _GRAIN)
            parts = ceil(self.channels / tile)
            while parts < cores and cores % parts:
                parts += 1
            tile = min(tile, round_up(ceil(self.channels / parts), _GRAIN))
        parts = ceil(self.channels / tile)
        total = int(self.lengths.sum())
        each = ceil(total / max(1, cores // parts))
        return tile, [
            self._stretch(first, min(total, first + each), channel, tile)
            for first in range(0, total, each)
            for channel in range(0, self.channels, tile)
        ]

    def _stretch(self, begin: int, end: int, channel: int, tile: int) -> list[Piece]:
        found, width = [], min(tile, self.channels - channel)
        ends = self.firsts + self.lengths
        for sequence in np.flatnonzero((ends > begin) & (self.firsts < end)).tolist():
            first, last = max(begin, int(self.firsts[sequence])), min(end, int(ends[sequence]))
            place = first - int(self.firsts[sequence])
            found.append(
                Piece(sequence, first, last - first, place, channel, width, last == ends[sequence])
            )
        return found

    def _kinds(self, block: int) -> dict[tuple[int, int, int, bool, bool], list[Piece]]:
        """Pieces that are alike: tokens, channels, rows before, whether a state is read, and left.

        Rows before are those of x.
        """
        found: dict[tuple[int, int, int, bool, bool], list[Piece]] = {}
        for piece in self.pieces[block]:
            before = min(piece.place, self.taps - 1)
            reads = before < self.taps - 1 and bool(self.begun[piece.sequence])
            kind = (piece.tokens, piece.width, before, reads, piece.last)
            found.setdefault(kind, []).append(piece)
        return found

    def block_kind(self, block_idx: int) -> Hashable:
        if block_idx >= len(self.pieces):
            return None
        return tuple((kind, len(own)) for kind, own in self._kinds(block_idx).items())

    def process(self, core: Core) -> None:
        """Pieces that are alike in a loop."""
        if core.get_block_idx() >= len(self.pieces):
            return
        self._init(core)
        for kind, own in self._kinds(core.get_block_idx()).items():
            table = np.array([each[:6] for each in own], np.int64)
            if not self.update:
                self._load_taps(core, own[0].channel, kind[1])
            for turn in core.loop(len(own)):
                at = _At(*(looked_up(turn, table[:, column]) for column in (0, 1, 4)))
                if self.update:
                    self._load_taps(core, at.channel, kind[1])
                    if self.held:
                        self._together(core, at, kind[0], kind[1])
                        continue
                self._in_turn(core, at, kind)

    def _init(self, core: Core) -> None:
        kind, width, taps = self.x.dtype, min(self.tile, self.channels), self.taps
        self.ins, self.outs = TQue(TPosition.VECIN, 2, "x"), TQue(TPosition.VECOUT, 2, "y")
        self.wide, self.sums, self.rows = TBuf("taps"), TBuf("sums"), TBuf("rows")
        small, large = width * kind.itemsize, width * FLOAT.itemsize
        core.pipe.init_buffer(self.ins, 2, small)
        core.pipe.init_buffer(self.outs, 2, small)
        core.pipe.init_buffer(self.wide, taps + (self.bias is not None), large)
        core.pipe.init_buffer(self.sums, 2 if self.held else taps, large)
        self.moved = TQueBind(1, "state")
        if self.held:
            core.pipe.init_buffer(self.rows, taps - 1 + self.held, small)
        else:
            core.pipe.init_buffer(self.moved, 1, small)
        self.loaded = Event(core, Pipe.MTE2, Pipe.VECTOR)
        self.kept = Event(core, Pipe.MTE2, Pipe.MTE3)
        self.free = Event(core, Pipe.MTE3, Pipe.MTE2, set_before=True)
        self.read = Event(core, Pipe.VECTOR, Pipe.MTE2, set_before=True)

    def _load_taps(self, core: Core, channel: Index, width: int) -> None:
        """Weights of every tap, and the bias, as float32."""
        self.weights = []
        for tap in range(self.taps):
            source = self.weight.window(((tap, self.channels), (channel, 1)), (width,), (1,))
            self.weights.append(self._widened(core, source, self.wide.get(FLOAT, width, part=tap)))
        self.shift = None
        if self.bias is not None:
            source = self.bias.window(((channel, 1),), (width,), (1,))
            self.shift = self._widened(core, source, self.wide.get(FLOAT, width, part=self.taps))

    def _widened(self, core: Core, source: GmSlice, into: LocalTensor) -> LocalTensor:
        tile = self.ins.copy_in(source)
        core.cast(into, tile)
        self.ins.free_tensor(tile)
        return into

    def _state(self, core: Core, at: _At) -> Place:
        """Which state a sequence has."""
        if self.places is None:
            return at.sequence
        return core.load_scalar(self.places.window(((at.sequence, 1),), (), ()))

    def _row(self, tensor: GlobalTensor, at: _At, row: int, width: int) -> GmSlice:
        """Row of x or y, counted from the piece's first."""
        places = ((at.first, self.channels), (row * self.channels, 1), (at.channel, 1))
        return tensor.window(places, (width,), (1,))

    def _kept(self, tensor: GlobalTensor, slot: Place, row: int, at: _At, width: int) -> GmSlice:
        """Row of a state."""
        places = ((slot, tensor.shape[1] * self.channels), (row * self.channels, 1),
                  (at.channel, 1))  # fmt: skip
        return tensor.window(places, (width,), (1,))

    def _together(self, core: Core, at: _At, count: int, width: int) -> None:
        """A state's rows and new ones; each new one is multiplied with those before it."""
        before, slot = self.taps - 1, self._state(core, at)
        rows = [self.rows.get(self.x.dtype, width, part=at_) for at_ in range(before + count)]
        self.free.wait()
        self.read.wait()
        for row in range(before):
            core.copy_runs(rows[row], self._kept(self.states, slot, row, at, width))
        for row in range(count):
            core.copy_runs(rows[before + row], self._row(self.x, at, row, width))
        self.loaded.set()
        self.loaded.wait()
        self.kept.set()
        total, wide = (self.sums.get(FLOAT, width, part=part) for part in range(2))
        for token in range(count):
            if self.shift is not None:
                core.adds(total, self.shift, 0.0)
            for tap, weight in enumerate(self.weights):
                core.cast(wide, rows[token + tap])
                if tap or self.shift is not None:
                    core.mul_add_dst(total, wide, weight)
                else:
                    core.mul(total, wide, weight)
            self._store(core, at, token, total, wide)
        self.read.set()
        self.kept.wait()
        for row in range(before):
            core.copy_runs(self._kept(self.new, slot, row, at, width), rows[count + row])
        self.free.set()

    def _in_turn(self, core: Core, at: _At, kind: tuple[int, int, int, bool, bool]) -> None:
        """Row after row; what each adds to later tokens is kept."""
        count, width, _, reads, last = kind
        taps, slot = self.taps, self._state(core, at) if reads or last else 0
        parts = [self.sums.get(FLOAT, width, part=part) for part in range(taps)]
        *later, wide = parts
        self._begin(core, at, slot, kind, parts)
        for token in core.loop(count, sequential=True):
            places = ((at.first, self.channels), (token, self.channels), (at.channel, 1))
            row = self.ins.copy_in(self.x.window(places, (width,), (1,)))
            core.cast(wide, row)
            core.mul_add_dst(later[0], wide, self.weights[-1])
            if self.shift is not None:
                core.add(later[0], later[0], self.shift)
            tile = self.outs.alloc_tensor(self.y.dtype, width)
            core.cast(tile, self._activated(core, later[0], wide), RoundMode.CAST_RINT)
            self.outs.copy_out(self.y.window(places, (width,), (1,)), tile)
            core.cast(wide, row)
            self.ins.free_tensor(row)
            for place, each in enumerate(later):
                core.mul(each, wide, self.weights[taps - 2 - place])
                if place + 1 < len(later):
                    core.add(each, each, later[place + 1])
        if last:
            self._leave(at, slot, kind)

    def _begin(
        self,
        core: Core,
        at: _At,
        slot: Place,
        kind: tuple[int, int, int, bool, bool],
        parts: list[LocalTensor],
    ) -> None:
        """What rows before a piece add to its first tokens."""
        _, width, before, reads, _ = kind
        *later, wide = parts
        for each in later:
            core.duplicate(each, 0.0)
        for row in range(self.taps - 1):
            back = self.taps - 1 - row  # rows before the piece's first
            if back <= before:
                source = self._row(self.x, at, -back, width)
            elif reads:
                source = self._kept(self.states, slot, row + before, at, width)
            else:
                continue
            self._widened(core, source, wide)
            for place in range(row + 1):
                core.mul_add_dst(later[place], wide, self.weights[row - place])

    def _leave(self, at: _At, slot: Place, kind: tuple[int, int, int, bool, bool]) -> None:
        """The last rows become the state; before them those that were in it."""
        count, width, before, reads, _ = kind
        rows = self.taps - 1
        for row in range(rows):
            back = count + row - rows  # counted from the piece's first
            if back >= -before:
                source = self._row(self.x, at, back, width)
            elif reads:
                source = self._kept(self.states, slot, row + count + before, at, width)
            else:
                continue  # noughts, which no caller reads
            tile = self.moved.copy_in(source)
            self.moved.copy_out(self._kept(self.new, slot, row, at, width), tile)

    def _store(
        self, core: Core, at: _At, token: int, total: LocalTensor, spare: LocalTensor
    ) -> None:
        tile = self.outs.alloc_tensor(self.y.dtype, *total.shape)
        core.cast(tile, self._activated(core, total, spare), RoundMode.CAST_RINT)
        self.outs.copy_out(self._row(self.y, at, token, total.shape[0]), tile)

    def _activated(self, core: Core, x: LocalTensor, spare: LocalTensor) -> LocalTensor:
        if not self.active:
            return x
        core.muls(spare, x, -1.0)
        core.exp(spare, spare)
        core.adds(spare, spare, 1.0)
        return core.div(spare, x, spare)


class _At(NamedTuple):
    """Where a piece is."""

    sequence: Index
    first: Index
    channel: Index


def causal_conv1d(task: Task) -> tuple[Kernel, ...]:
    """x, weight, bias, states, ends of sequences, places of states, which of them count."""
    given = (*task.inputs, *[None] * 8)[:8]
    x, weight, bias, states, ends, places, begun, accepted = given
    if x is None or weight is None or states is None:
        raise task.refused("needs rows, taps and states")
    if task.profile.cores.style != "split":
        raise task.refused(f"{task.profile.name} has no kernel for it")
    taps, channels = weight.shape
    if taps not in TAPS or channels % _GRAIN or states.shape[1] < taps - 1:
        raise task.unfit(f"{taps} taps of {channels} channels with states {states.shape}")
    if accepted is not None:
        raise task.refused("tokens of drafts aren't modelled")
    update = task.whole_number("runMode", 0) == UPDATE
    lengths = _lengths(x, ends, update=update)
    count = len(lengths)
    told = None if begun is None else begun.array
    reads = np.full(count, begun is not None or update)
    if told is not None:
        reads = told.reshape(-1)[:count].astype(bool)
    skipped = np.zeros(count, bool)
    if places is not None and places.array is not None:
        skipped = places.array.reshape(count, -1)[:, 0] == task.whole_number("padSlotId", -1)
    outputs = (*task.outputs, *[None] * 2)[:2]
    y = outputs[0] or made(x.shape, x.dtype)
    return (
        CausalConv1d(
            task.profile, (x, weight, states), bias, lengths, places, reads,
            (y, outputs[1] or states), update=update,
            active=task.whole_number("activationMode", 0) == 1, skipped=skipped,
        ),
    )  # fmt: skip


def _lengths(x: GlobalTensor, ends: GlobalTensor | None, *, update: bool) -> NDArray[np.int64]:
    """Tokens of each sequence: one, as many as an axis says, or by where they begin."""
    if len(x.shape) > 2:
        return np.full(x.shape[0], x.shape[1], np.int64)
    if ends is None:
        return np.ones(x.shape[0], np.int64) if update else np.array([x.shape[0]], np.int64)
    if ends.array is not None:
        return np.asarray(np.diff(ends.array.reshape(-1).astype(np.int64)))
    count = ends.numel - 1
    return np.asarray(np.diff(np.arange(count + 1, dtype=np.int64) * x.shape[0] // count))

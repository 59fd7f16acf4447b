"""Weights of groups: between rows of output channels and packed groups, block-diagonal FRACTAL_Z.

A packed group is a product of its own: its input channels at every tap by its output channels, with
zeros where both aren't of the same group. Cores share the groups; up to 16 output channels of one
are loaded over zeros, turned twice by vnchwconv and stored tap by tap, nothing at the same time.
Back, they are taken out of the slices that their group has. Source: public operator sources
(nchw_2_fractal_z_g.py).
"""

from __future__ import annotations

from math import ceil, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc import Core, GlobalTensor, Kernel, TBuf, TPosition, TQue
from npusim.ascendc.costs import TURNED_LINES
from npusim.ascendc.loops import Index, looked_up, values_of
from npusim.engine.program import Pipe
from npusim.ops.convolution.geometry import pack_of
from npusim.schedules.tile_grid import Grid
from npusim.values.arithmetic import round_up
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.hardware.profile import Profile

_TURNED_BYTES = 32 * TURNED_LINES  # that a repeat of vnchwconv turns
_CLEARED = 248 * 128  # elements that are cleared in front of every load, twice


class GroupedWeight(Kernel):
    """packed = the weight (out channels, channels of a group, taps...) in FRACTAL_Z; or ``back``.

    Rows of fractals that belong to no output channel are left as they are (``leaves_rows``).
    """

    op_type = "TransData"
    generated = True

    def __init__(
        self,
        profile: Profile,
        plain: GlobalTensor,
        packed: GlobalTensor,
        groups: int,
        *,
        back: bool = False,
    ) -> None:
        outs, self.of, *kernel = plain.shape
        count, blocks, high, self.lanes = packed.shape
        self.taps, self.back, self.kind = prod(kernel), back, plain.dtype
        self.reads, self.writes = ((packed,), (plain,)) if back else ((plain,), (packed,))
        self.plain, self.packed = plain.view(plain.numel), packed.view(packed.numel)
        self.pack, self.out_of = pack_of(plain.shape, groups, self.lanes, high), outs // groups
        self.slices = ceil(self.pack * self.of / self.lanes)
        self.tap = blocks * high * self.lanes  # elements
        whole = ceil(groups / self.pack) * self.slices * self.taps
        if count != whole or plain.dtype is not packed.dtype:
            raise KernelError(
                self.op_type, f"{plain.shape} in {groups} groups isn't {packed.shape}"
            )
        self.leaves_rows = bool(self.pack * self.out_of % high or groups % self.pack)
        self.rows = min(TURNED_LINES, self.out_of)
        self.held = self._held(profile)
        cores = profile.cores.vector_cores
        self.division = self.grid = Grid((groups, self.out_of), (1, self.rows), cores)
        self.block_dim = self.grid.used_cores

    def process(self, core: Core) -> None:
        """Some output channels of a group after the other."""
        size, held = self.kind.itemsize, self.held
        wide = held * self.taps * self.rows * self.lanes * size
        narrow = self.rows * self._row_bytes(held)
        source, target = TQue(TPosition.VECIN, 1, "weight"), TQue(TPosition.VECOUT, 1, "turned")
        core.pipe.init_buffer(source, 1, wide if self.back else narrow)
        core.pipe.init_buffer(target, 1, narrow if self.back else wide)
        cleared = TBuf("cleared")
        core.pipe.init_buffer(cleared, 1, core.block_bytes)
        move = self._taken_out if self.back else self._put_in
        for piece in self.grid.pieces(core):
            group, out = piece.starts
            for first in range(0, 1 if self.back else self.slices, held):
                for _ in range(2):
                    core.record_vector("vector_dup", cleared.get(self.kind, 1), _CLEARED)
                move(core, source, target, (group, out, piece.shape[1]), first)

    def _held(self, profile: Profile) -> int:
        """Slices of a packed group that UB has room for; back, those that a group lies in."""
        room = profile.buffers.ub_bytes - 8 * _TURNED_BYTES
        self.block_bytes = profile.buffers.block_bytes
        groups = np.arange(self.pack) * self.of
        spanned = int(((groups + self.of - 1) // self.lanes - groups // self.lanes).max()) + 1
        for held in (spanned,) if self.back else range(self.slices, 0, -1):
            wide = held * self.lanes * self.taps * self.kind.itemsize
            if self.rows * (wide + self._row_bytes(held)) <= room:
                return held
        raise KernelError(self.op_type, f"{self.of} channels at {self.taps} taps don't fit into UB")

    def _channels(self, slices: int) -> int:
        """Channels of a group that so many slices have at most."""
        return self.of if self.back else min(self.of, slices * self.lanes)

    def _row_bytes(self, slices: int) -> int:
        """UB for an output channel's weights of so many slices."""
        nbytes = self._channels(slices) * self.taps * self.kind.itemsize
        return round_up(nbytes, self.block_bytes)

    def _plain_places(self, group: Index, out: Index) -> tuple[tuple[Index, int], ...]:
        """Where an output channel's weights are in the plain weight."""
        row = self.of * self.taps
        return (group, self.out_of * row), (out, row)

    def _packed_places(self, group: Index, out: Index) -> tuple[tuple[Index, int], ...]:
        """Where an output channel's row is in the packed weight."""
        step = self.slices * self.taps * self.tap
        return (
            (group // self.pack, step),
            (group % self.pack, self.out_of * self.lanes),
            (out, self.lanes),
        )

    def _turn(self, core: Core, made: Any, given: Any) -> None:
        """Two passes of vnchwconv."""
        nbytes = TURNED_LINES * self._channels(self.held) * self.taps * self.kind.itemsize
        for repeats in (
            ceil(nbytes / _TURNED_BYTES),
            made.numel // TURNED_LINES // self.lanes or 1,
        ):
            core.turn_lines(made, given, repeats)

    def _put_in(
        self, core: Core, source: TQue, target: TQue, where: tuple[Index, Index, int], first: int
    ) -> None:
        """Output channels of a group at all taps, for slices from ``first`` on."""
        group, out, rows = where
        slices = min(self.held, self.slices - first)
        channels, size = self._channels(slices), self.of * self.taps
        inside = np.arange(self.pack, dtype=np.int64) * self.of
        starts = np.clip(first * self.lanes - inside, 0, self.of - channels)
        start = looked_up(group % self.pack, starts)
        places = (*self._plain_places(group, out), (start, self.taps))
        rows_of = self.plain.window(places, (rows, channels * self.taps), (size, 1))
        given = source.copy_in(rows_of.by_rows(), (rows, channels * self.taps))
        made = target.alloc_tensor(self.kind, slices, self.taps, rows, self.lanes)
        self._turn(core, made, given)

        def diagonal(values: NDArray[Any]) -> NDArray[Any]:
            held = values.reshape(-1, rows, channels, self.taps)
            pack = np.broadcast_to(values_of(group) % self.pack, len(held))
            lanes = first * self.lanes + np.arange(slices * self.lanes)
            own = lanes - inside[pack][:, None]  # channels of the group
            exist = ((own >= 0) & (own < self.of))[:, None, :, None]
            taken = np.clip(own - starts[pack][:, None], 0, channels - 1)[:, None, :, None]
            found = np.where(exist, np.take_along_axis(held, taken, 2), 0)
            found = found.reshape(len(held), rows, slices, self.lanes, self.taps)
            return found.transpose(0, 2, 4, 1, 3).astype(values.dtype)

        core.arrange(made, given, how=diagonal)
        step = self.taps * self.tap
        places = (*self._packed_places(group, out), (first, step))
        shape, steps = made.shape, (step, self.tap, self.lanes, 1)
        target.copy_out(self.packed.window(places, shape, steps), made)
        source.free_tensor(given, by=Pipe.MTE3)

    def _taken_out(
        self, core: Core, source: TQue, target: TQue, where: tuple[Index, Index, int], _: int
    ) -> None:
        """Output channels of a group at all taps, out of the slices that have its channels."""
        group, out, rows = where
        step = self.taps * self.tap
        inside = np.arange(self.pack, dtype=np.int64) * self.of
        begins = np.minimum(inside // self.lanes, self.slices - self.held)
        begin = looked_up(group % self.pack, begins)
        shape = self.held, self.taps, rows, self.lanes
        places = (*self._packed_places(group, out), (begin, step))
        given = source.copy_in(self.packed.window(places, shape, (step, self.tap, self.lanes, 1)),
            shape)  # fmt: skip
        made = target.alloc_tensor(self.kind, rows, self.of * self.taps)
        self._turn(core, made, given)

        def own(values: NDArray[Any]) -> NDArray[Any]:
            held = values.reshape(-1, *shape).transpose(0, 3, 1, 4, 2)
            held = held.reshape(len(held), rows, self.held * self.lanes, self.taps)
            pack = np.broadcast_to(values_of(group) % self.pack, len(held))
            lanes = (inside - begins * self.lanes)[pack][:, None] + np.arange(self.of)
            return np.take_along_axis(held, lanes[:, None, :, None], 2)

        core.arrange(made, given, how=own)
        places, size = self._plain_places(group, out), self.of * self.taps
        target.copy_out(self.plain.window(places, (rows, size), (size, 1)).by_rows(), made)
        source.free_tensor(given, by=Pipe.MTE3)

"""Nearest pixels: every row of the result is one source row, its pixels picked or repeated in UB.

Whole multiples in the vector layout repeat runs of C0 channels and then the row; everything else
copies pixel by pixel. Source: public operator sources (resize_nearest_neighbor_v2_d.py).
"""

from __future__ import annotations

from math import ceil, prod
from typing import TYPE_CHECKING, Any

from npusim.ascendc import Core, GlobalTensor, Kernel, LocalTensor, TPosition, TQue
from npusim.ascendc.loops import Index, looked_up
from npusim.ops.resize.scales import FLOORED, Corners, Images, resized
from npusim.schedules.tile_grid import Grid
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.ascendc.task import Task
    from npusim.hardware.profile import Profile


class ResizeNearestNeighbor(Kernel):
    """out[..., h, w, :] = x[..., source of h, source of w, :]."""

    op_type = "ResizeNearestNeighbor"

    def __init__(
        self, profile: Profile, x: GlobalTensor, out: GlobalTensor, corners: Corners = FLOORED
    ) -> None:
        self.reads, self.writes = (x,), (out,)
        self.kind, self.corners = out.dtype, corners
        self.inside, self.outside = Images.pair(self.op_type, x, out)
        self.x, self.out = x.view(x.numel), out.view(out.numel)
        # Several source rows at a time where each stands for a whole number of rows.
        self.times = self._whole_times()
        room = profile.buffers.ub_bytes // (2 * self.buffer_num) // self.kind.itemsize
        block = profile.buffers.block_bytes // self.kind.itemsize
        if self.times * self.outside.width * self.outside.lanes + block > room:
            self.times = 0  # one row of the result at a time
        images = self.inside if self.times else self.outside
        rows = images.planes * images.height
        each = (self.times or 1) * self.outside.width * self.outside.lanes
        each = max(each, self.inside.width * self.inside.lanes)
        if each + block > room:
            raise KernelError(self.op_type, f"a row of {each} elements doesn't fit into UB")
        cores = profile.cores.vector_cores
        together = max(1, min((room - block) // each, ceil(rows / cores)))
        if not self.times:
            together = 1
        self.division = self.grid = Grid((rows,), (together,), min(cores, rows))
        self.block_dim = self.grid.used_cores
        self.row = each

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        return (cls(task.profile, *resized(task)),)

    def process(self, core: Core) -> None:
        """Load source rows, repeat their pixels and themselves, store."""
        together, size = self.grid.extent[0], self.kind.itemsize
        in_que = TQue(TPosition.VECIN, self.buffer_num, "rows")
        out_que = TQue(TPosition.VECOUT, self.buffer_num, "resized")
        source = self.inside.width * self.inside.lanes
        target = self.outside.width * self.outside.lanes
        core.pipe.init_buffer(in_que, self.buffer_num, together * source * size)
        core.pipe.init_buffer(
            out_que, self.buffer_num, together * (self.times or 1) * target * size
        )
        for piece in self.grid.pieces(core):
            rows, first = piece.shape[0], piece.starts[0]
            if self.times:
                cut = self.x.span(first * source, rows * source)
            else:
                cut = self.x.window(self._source(first), (source,), (1,))
            x = in_que.copy_in(cut)
            whole = rows * (self.times or 1) * target
            out = out_que.alloc_tensor(self.kind, whole)
            self._instructions(core, out, x, rows)
            core.arrange(out, x, how=self._how(rows))
            in_que.free_tensor(x)
            out_que.copy_out(self.out.span(first * (self.times or 1) * target, whole), out)

    def _instructions(self, core: Core, out: LocalTensor, x: LocalTensor, rows: int) -> None:
        lanes, size = self.inside.lanes, self.kind.itemsize
        nbytes = lanes * size
        if nbytes % core.block_bytes == 0:
            blocks = nbytes // core.block_bytes
            across = ceil(self.outside.width / self.inside.width)
            for _ in core.loop(rows):
                for _ in core.loop(across):  # a run for every source pixel
                    bursts = min(self.inside.width, self.outside.width)
                    core.move_bursts(out, x, bursts, blocks, stride=across * blocks)
                if self.times:
                    line = ceil(self.outside.width * nbytes / core.block_bytes)
                    for _ in core.loop(max(1, self.times - 1)):
                        core.move_bursts(out, out, 1, line)
            return
        core.wait_vector()
        core.move_elements(out, x, rows * (self.times or 1) * self.outside.width * lanes)

    def _how(self, rows: int) -> Any:
        columns = self.corners.nearest(self.inside.width, self.outside.width)
        width, lanes, times = self.inside.width, self.inside.lanes, self.times or 1

        def resize(values: Any) -> Any:
            stack = values.shape[:-1]
            picked = values.reshape(*stack, rows, 1, width, lanes)[..., columns, :]
            shape = (*stack, rows, times, len(columns), lanes)
            spread = picked if times == 1 else picked.repeat(times, axis=-3)
            return spread.reshape(*shape[: len(stack)], prod(shape[len(stack) :]))

        return resize

    def _whole_times(self) -> int:
        """How many rows of the result every source row makes, 0 where they aren't equally many."""
        times, rest = divmod(self.outside.height, self.inside.height)
        wanted = [row // times for row in range(self.outside.height)] if not rest else []
        found = self.corners.nearest(self.inside.height, self.outside.height).tolist()
        return times if wanted == found else 0

    def _source(self, row: Index) -> tuple[tuple[Index, int], ...]:
        """Where the source row of a row of the result is: looked up by its number."""
        inside, outside = self.inside, self.outside
        row_size = inside.width * inside.lanes
        table = self.corners.nearest(inside.height, outside.height)
        found = looked_up(row % outside.height, table)
        return ((row // outside.height, inside.height * row_size), (found, row_size))

"""Gradients of LayerNorm's gamma and beta: sums over all rows, column by column.

In FRACTAL_NZ a slice of 16 columns is a block's work. Otherwise cores share the rows, as many of
them as divide their number, and add into results that another task has cleared. Either way a tile
is summed up before the next one is loaded: the tensor compiler's schedule of tuple sums gives no
buffer a second one.
Source: operator sources (impl/layer_norm_beta_gamma_backprop_v2.py); public tensor compiler
(unify_schedule/vector/tuple_reduce); block counts of recorded kernels.
"""

from __future__ import annotations

from collections.abc import Hashable
from math import prod
from typing import TYPE_CHECKING

from npusim.ascendc import (
    Core,
    GlobalTensor,
    GmSlice,
    Kernel,
    LocalTensor,
    RoundMode,
    TBuf,
    TPosition,
    TQue,
)
from npusim.ascendc.folds import SUM
from npusim.schedules.rows.formats import is_fractal
from npusim.schedules.rows.layouts import UB_SHARE
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT
from npusim.values.errors import KernelError
from npusim.values.formats import FRACTAL

if TYPE_CHECKING:
    from npusim.ascendc.loops import Index
    from npusim.hardware.profile import Profile

_SMALL = 4  # rows of sums beside the tiles


class LayerNormBetaGammaBackpropV2(Kernel):
    """pd_gamma = sum(dy * x_normalised), pd_beta = sum(dy), in float32."""

    op_type = "LayerNormBetaGammaBackpropV2"

    def __init__(
        self,
        profile: Profile,
        grads: GlobalTensor,
        normalised: GlobalTensor,
        gamma_grad: GlobalTensor,
        beta_grad: GlobalTensor,
    ) -> None:
        self.inputs = (grads, normalised)
        self.results = (gamma_grad, beta_grad)
        self.reads, self.writes = self.inputs, self.results
        columns = gamma_grad.numel
        if not columns or grads.numel % columns or grads.numel != normalised.numel:
            raise KernelError(self.op_type, f"{grads.shape} has no rows of {columns}")
        self.columns, self.rows = columns, grads.numel // columns
        self.fractal = is_fractal(grads) and prod(grads.shape[:-3]) * FRACTAL == columns
        self.width = FRACTAL if self.fractal else columns
        cores = profile.cores.vector_cores
        self.block_dim = columns // self.width if self.fractal else self._row_parts(cores)
        self.share = self.rows if self.fractal else self.rows // self.block_dim
        self.adds_into = () if self.fractal else self.results
        width = sum(
            each.dtype.itemsize + (0 if each.dtype is FLOAT else FLOAT.itemsize)
            for each in self.inputs
        )
        block = profile.buffers.block_bytes // min(each.dtype.itemsize for each in self.inputs)
        self.padded = round_up(self.width, block)
        room = profile.buffers.ub_bytes * UB_SHARE - _SMALL * self.padded * FLOAT.itemsize
        limit = int(room / (width + FLOAT.itemsize))
        if limit < self.padded:
            raise KernelError(self.op_type, f"rows of {columns} don't fit into UB")
        self.tile_rows = min(self.share, limit // self.padded)

    def _row_parts(self, cores: int) -> int:
        """The largest number of cores that share the rows evenly."""
        most = range(min(cores, self.rows), 0, -1)
        return next(parts for parts in most if self.rows % parts == 0)

    def block_kind(self, block_idx: int) -> Hashable:
        del block_idx  # they are all alike
        return self.share

    def process(self, core: Core) -> None:
        elements = self.tile_rows * self.padded
        self.queues, self.wides = [], []
        for tensor, name in zip(self.inputs, ("dy", "x"), strict=True):
            queue, wide = TQue(TPosition.VECIN, 1, name), TBuf(f"{name}32")
            core.pipe.init_buffer(queue, 1, elements * tensor.dtype.itemsize)
            if tensor.dtype is not FLOAT:
                core.pipe.init_buffer(wide, 1, elements * FLOAT.itemsize)
            self.queues.append(queue)
            self.wides.append(wide)
        self.product, self.parts = TBuf("product"), TBuf("parts")
        core.pipe.init_buffer(self.product, 1, elements * FLOAT.itemsize)
        core.pipe.init_buffer(self.parts, 2, self.width * FLOAT.itemsize)
        self.out_que = TQue(TPosition.VECOUT, 1, "sums")
        core.pipe.init_buffer(self.out_que, 1, 2 * self.padded * FLOAT.itemsize)
        width, block = self.width, core.get_block_idx()
        sums = self.out_que.alloc_tensor(FLOAT, 2, width)
        core.duplicate(sums, 0.0)
        start = 0 if self.fractal else block * self.share
        for first, rows in core.tiles(start, self.share, self.tile_rows, accumulates=True):
            tiles = [
                self._load(core, index, self._piece(tensor, block, first, rows))
                for index, tensor in enumerate(self.inputs)
            ]
            self._add_up(core, sums, tiles, rows)
            for queue, tile, tensor in zip(self.queues, tiles, self.inputs, strict=True):
                if tensor.dtype is FLOAT:
                    queue.free_tensor(tile)
        self.out_que.enque(sums)
        self.out_que.deque(sums)
        if not self.fractal:
            core.set_atomic_add(self.block_dim)
        column = block * width if self.fractal else 0
        for index, result in enumerate(self.results):
            core.copy_runs(result.view(result.numel).span(column, width), sums[index])
        core.set_atomic_none()
        self.out_que.free_tensor(sums)

    def _add_up(self, core: Core, sums: LocalTensor, tiles: list[LocalTensor], rows: int) -> None:
        parts = [self.parts.get(FLOAT, self.width, part=index) for index in (0, 1)]
        product = self.product.get(FLOAT, *tiles[0].shape)
        core.mul(product, *tiles)
        terms = (product, tiles[0])
        if self.fractal:
            flat = (term.view(rows * self.width) for term in terms)
            core.fold_lanes(SUM, *zip(parts, flat, strict=True))
        else:
            for part, term in zip(parts, terms, strict=True):
                core.add_up_rows(part, term)
        for index, part in enumerate(parts):
            core.accumulate(SUM, sums[index], part)

    def _load(self, core: Core, index: int, piece: GmSlice) -> LocalTensor:
        loaded = self.queues[index].copy_in(piece)
        if loaded.dtype is FLOAT:
            return loaded
        wide = core.cast(self.wides[index].get(FLOAT, *loaded.shape), loaded, RoundMode.CAST_NONE)
        self.queues[index].free_tensor(loaded)
        return wide

    def _piece(self, tensor: GlobalTensor, block: int, first: Index, rows: int) -> GmSlice:
        flat, width = tensor.view(tensor.numel), self.width
        if self.fractal:
            places = ((block, self.rows * width), (first, width))
            return flat.window(places, (rows * width,), (1,))
        piece = flat.window(((first, width),), (rows, width), (width, 1))
        return piece.by_rows() if self.padded > width and rows > 1 else piece

"""UpsampleNearestExact2dGrad on one row of pixels: gradient columns summed up by matrix products.

A vector core of every cluster makes a selection matrix of zeros and ones, slide by slide, and hands
it to the cube core through global memory; that multiplies the gradient with it. All in float32.
Source: ops-cv image/upsample_nearest_exact2d_grad, kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc import (
    Core,
    GlobalTensor,
    GmBuffer,
    Kernel,
    LocalTensor,
    RoundMode,
    TBuf,
    TPosition,
    TQue,
)
from npusim.ascendc.cluster import CoreWait
from npusim.engine.program import Barrier, Pipe
from npusim.library.matmul import GmMatrix, Matmul
from npusim.library.matmul_tiling import MatmulTiling
from npusim.ops.upsample_nearest_exact1d_backward.tiling import Share, Slide, Tiling, tile
from npusim.values.dtypes import FLOAT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.gm_slices import Place
    from npusim.ascendc.task import Task
    from npusim.hardware.profile import Profile

# Flags between vector core 0 and the cube core: a matrix is there, a product is wanted, it is done.
_MATRIX, _CALL, _DONE = 0, 1, 2
_WORKER = 0  # the vector core that makes the matrices; the others only come to the barrier

Steps = Iterator[Barrier | CoreWait]


class UpsampleNearestExact2dGrad(Kernel):
    """out[r, i] = sum of grad[r, l] over the columns l that were copied from column i.

    ``grad`` is (rows, length), ``out`` (rows, size); ``scale`` is the forward factor, 0 takes it
    from the sizes.
    """

    op_type = "UpsampleNearestExact2dGrad"
    is_mix = True

    def __init__(
        self, profile: Profile, grad: GlobalTensor, out: GlobalTensor, *, scale: float
    ) -> None:
        rows, length = grad.shape
        self.tiling = tile(profile, rows, length, out.shape[1], scale)
        self.grad, self.out = grad, out
        self.block_dim = self.tiling.block_dim
        elements = self.block_dim * self.tiling.selection_elements
        buffer = GmBuffer("selection", elements * FLOAT.itemsize)
        self.selection = GlobalTensor(buffer, FLOAT, (elements,))
        self.reads, self.writes, self.scratch = (grad,), (out,), (self.selection,)
        block = profile.buffers.block_bytes // FLOAT.itemsize
        self._whole = _alike(self.tiling, block)

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        """A record of the 2-D operator; images of one row of pixels are covered."""
        grad, out = task.present(1, 1)
        shapes = [grad.shape, out.shape]
        if out.dtype is not FLOAT or any(shape[2:3] != (1,) for shape in shapes):
            raise task.refused(f"shapes {shapes}: only rows of float32 are covered")
        rows = prod(grad.shape[:3])
        scale = task.attributes.get("scales_w", 0.0)
        kernel = cls(
            task.profile,
            grad.view(rows, grad.shape[3]),
            out.view(rows, out.shape[3]),
            scale=scale if isinstance(scale, float) else 0.0,
        )
        return (kernel,)

    @property
    def workspace_bytes(self) -> int:
        """What the host asks for, system workspace included."""
        return self.tiling.workspace_bytes

    def block_kind(self, block_idx: int) -> Hashable:
        """Rows to copy, or the part of a remaining slide; whole slides are alike everywhere."""
        if self.tiling.copies:
            return self._copied_rows(block_idx)
        share = self.tiling.tail(block_idx)
        return None if share is None else (self._typical_tail(share.slide), share.rows)

    def process(self, core: Core) -> Steps:
        """A worker for the slides on the cube core and one vector core; SyncAll for everybody."""
        if core.get_sub_block_idx() != _WORKER:
            yield core.sync_all()
            return
        worker = _Multiplier(core, self) if core.unit.kind == "cube" else _Selector(core, self)
        if not self.tiling.copies:
            yield from self._sum_up(core, worker.slide)
        yield core.sync_all()
        if self.tiling.copies:
            yield from worker.copy(self._copied_rows(core.get_block_idx()))

    def _sum_up(self, core: Core, do: Callable[[Share, Place], Steps]) -> Steps:
        """Every slide of a block; those that differ by little are written down as one loop."""
        block = core.get_block_idx()
        own = partial(self._own_slides, block, do)
        typical = own if core.reference else partial(self._typical_slides, core, do)
        yield from core.separate_steps(typical, own)

    def _typical_slides(self, core: Core, do: Callable[[Share, Place], Steps]) -> Steps:
        """What stands for the slides of a block."""
        for slide, count in self._whole:
            for turn in core.loop(count):
                yield from do(Share(slide, 0, self.tiling.rows), turn)
        tail = self.tiling.tail(core.get_block_idx())
        if tail is not None:
            yield from do(tail._replace(slide=self._typical_tail(tail.slide)), 0)

    def _own_slides(self, block: int, do: Callable[[Share, Place], Steps]) -> Steps:
        """The slides of a block, one after the other."""
        tail = self.tiling.tail(block)
        whole = [Share(slide, 0, self.tiling.rows) for slide in self.tiling.whole(block)]
        for share in whole if tail is None else (*whole, tail):
            yield from do(share, 0)

    def _typical_tail(self, slide: Slide) -> Slide:
        """A slide that stands for all remaining ones as wide as ``slide``."""
        alike = [other for other in self.tiling.tails if other.width == slide.width]
        return Slide(0, slide.width, 0, max(other.k for other in alike))

    def _copied_rows(self, block: int) -> int:
        """Rows that a block copies."""
        each = self.tiling.rows_per_core
        return min(each, self.tiling.rows - block * each)


class _Selector:
    """Vector core: makes selection matrices, and calls the cube core for each product."""

    def __init__(self, core: Core, kernel: UpsampleNearestExact2dGrad) -> None:
        self._core, self._kernel = core, kernel
        slide = kernel.tiling.slide
        self._bufs = [TBuf(name) for name in ("centre", "low", "high")]
        for buffer in self._bufs:
            core.pipe.init_buffer(buffer, 1, slide * FLOAT.itemsize)
        self._matrix_que = TQue(TPosition.VECOUT, 1, "selection")
        elements = kernel.tiling.selection_elements
        core.pipe.init_buffer(self._matrix_que, 1, elements * FLOAT.itemsize)

    def slide(self, share: Share, _turn: Place) -> Steps:
        """The selection matrix of a slide; then wait until the cube core is done with it."""
        tiling = self._kernel.tiling
        self._make_matrix(share.slide, tiling.scale, tiling.length)
        yield self._core.cross_core_wait_flag(_DONE)

    def copy(self, rows: int) -> Steps:
        """A matrix of a single one, and a call of the cube core for each row."""
        core = self._core
        self._make_matrix(Slide(0, 1, 0, 1), 1.0, 1)
        for _ in core.loop(rows, at_once=rows):
            core.cross_core_set_flag(_CALL, Pipe.SCALAR)
            yield core.cross_core_wait_flag(_DONE)

    def _make_matrix(self, slide: Slide, scale: float, length: int) -> None:
        core, kernel = self._core, self._kernel
        low = self._window_edges(1, slide.first, scale, length)
        high = self._window_edges(2, slide.first + 1, scale, length)
        core.get_value(low, 0)
        core.get_value(high, slide.width - 1)
        elements = kernel.tiling.selection_elements
        matrix = self._matrix_que.alloc_tensor(FLOAT, elements)
        core.duplicate(matrix, 0.0)
        self._set_ones(matrix, low, high, slide)
        self._matrix_que.enque(matrix)
        target = kernel.selection.span(core.get_block_idx() * elements, elements)
        core.data_copy(target, self._matrix_que.deque(matrix))
        core.cross_core_set_flag(_MATRIX, Pipe.MTE3)
        self._matrix_que.free_tensor(matrix)

    def _window_edges(self, buffer: int, first: int, scale: float, length: int) -> LocalTensor:
        """min(ceil(i * scale - 1/2), length) for the columns from ``first``, a slide of them."""
        core = self._core
        width = self._kernel.tiling.slide
        edges, rounded = self._bufs[buffer].get(FLOAT, width), self._bufs[0].get(FLOAT, width)
        core.arith_progression(edges, first)
        core.muls(edges, edges, scale)
        core.adds(edges, edges, -0.5)
        core.cast(rounded, edges, RoundMode.CAST_CEIL)
        return core.mins(edges, rounded, length)

    def _set_ones(
        self, matrix: LocalTensor, low: LocalTensor, high: LocalTensor, slide: Slide
    ) -> None:
        """matrix[l, i] = 1 where gradient column l is in the window of i, one store each.

        The scalar unit reads both ends of each window, then stores along it.
        """
        core = self._core
        for _ in core.loop(slide.width):
            core.get_value(low)
            core.get_value(high)
            core.scalar_alu("sub", 2)
            core.scalar_loop()
        places = None
        if core.numerics:
            ends = high.values(core.depth)[..., : slide.width]
            start = low.values(core.depth)[..., :1]
            places = _places(start, ends, slide.width, slide.k)
        core.set_values(matrix, places, 1.0, slide.k)


class _Multiplier:
    """Cube core: multiplies the gradient with selection matrices, straight into the output."""

    def __init__(self, core: Core, kernel: UpsampleNearestExact2dGrad) -> None:
        self._core, self._kernel = core, kernel
        tiling, profile = kernel.tiling, core.profile
        m, n, k = (1, tiling.size, 1) if tiling.copies else (tiling.rows, tiling.slide, tiling.k)
        blocks = MatmulTiling.of(profile, FLOAT, m, n, k)
        self._matmul = Matmul(core, blocks, FLOAT, FLOAT, k)
        start = core.get_block_idx() * tiling.selection_elements
        self._selection = ((start, 1),)

    def slide(self, share: Share, turn: Place) -> Steps:
        """out[rows, slide] = grad[rows, start : start + k] @ selection."""
        core, kernel = self._core, self._kernel
        (first, width, start, k), row, rows = share
        yield core.cross_core_wait_flag(_MATRIX, sub_block=_WORKER)
        size, length = kernel.tiling.size, kernel.tiling.length
        out = GmMatrix(kernel.out, ((row, size), (first, 1), (turn, width)), size)
        grad = GmMatrix(kernel.grad, ((row, length), (start, 1), (turn, k)), length)
        selection = GmMatrix(kernel.selection, self._selection, width)
        self._matmul.multiply(out, grad, selection, rows, width, k)
        core.cross_core_set_flag(_DONE, Pipe.FIXP, sub_block=_WORKER)

    def copy(self, rows: int) -> Steps:
        """out[row] = [[1]] @ grad[row], row by row."""
        core, kernel = self._core, self._kernel
        size = kernel.tiling.size
        first = core.get_block_idx() * kernel.tiling.rows_per_core * size
        yield core.cross_core_wait_flag(_MATRIX, sub_block=_WORKER)
        one = GmMatrix(kernel.selection, self._selection, 1)
        for row in core.loop(rows):
            yield core.cross_core_wait_flag(_CALL, sub_block=_WORKER)
            place = ((first, 1), (row, size))
            out, grad = (GmMatrix(tensor, place, size) for tensor in (kernel.out, kernel.grad))
            self._matmul.multiply(out, one, grad, 1, size, 1)
            core.cross_core_set_flag(_DONE, Pipe.FIXP, sub_block=_WORKER)


def _places(start: NDArray[Any], ends: NDArray[Any], width: int, k: int) -> NDArray[np.intp]:
    """Where the ones are: row l of the matrix has one, in the column whose window l is in."""
    rows = np.arange(k)
    columns = (ends[..., None] <= start[..., None] + rows).sum(axis=-2)
    inside = columns < width  # a matrix of zeros has a row all the same
    return np.asarray((rows * width + columns)[inside], np.intp)


def _alike(tiling: Tiling, block: int) -> tuple[tuple[Slide, int], ...]:
    """How the slides that cores do by themselves are recorded: (typical slide, number of them).

    Slides take the same time while k fills as many blocks of ``block`` elements. Cores don't all
    have equally many of each sort; every one is given as many of the larger sorts as any has.
    """
    each = tiling.slides_per_core
    if not each or tiling.copies:
        return ()
    ks = np.array([slide.k for slide in tiling.all_slides[: each * tiling.cores]])
    sorts = -(-ks // block)
    result, given = [], 0
    for sort in np.unique(sorts)[::-1]:
        most = int((sorts >= sort).reshape(tiling.cores, each).sum(axis=1).max())
        if most > given:
            k = int(ks[sorts == sort].max())
            result.append((Slide(0, tiling.slide, 0, k), most - given))
            given = most
    return tuple(result)

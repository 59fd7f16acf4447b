"""Concatenation and stacking: every input is a box of the result.

Kernels compiled for one shape put rows of a few elements together with vnchwconv: lines of all
inputs side by side, then back. Source: public operator sources (concat_last_dim.py; for any widths
that aren't whole blocks the later tensor compiler, whose tiling is op_tiling/concat_dsl.cc). The
kernel for all shapes turns whole groups of rows, however few there are, and moves whole blocks side
by side in UB.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc import Core, GlobalTensor, Kernel, LocalTensor, TPosition, TQue
from npusim.ascendc.costs import TURNED_LINES
from npusim.ascendc.task import Task, made
from npusim.ops.data_movement.boxed import BoxesCopy
from npusim.ops.data_movement.join_tiling import JoinTiling, TurnedRows
from npusim.schedules.rows.folds import planes
from npusim.schedules.rows.shares import RowShare
from npusim.values.dtypes import FLOAT16
from npusim.values.errors import RefusedTaskError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.loops import Index
    from npusim.hardware.profile import Profile

_PLANE = TURNED_LINES * TURNED_LINES  # halves that vnchwconv turns at a time
LINED_WIDTHS = (1, 2, 4, 8)  # elements of a row that lines can be made of
_TURNED_BYTES = (2, 4, 8)  # of elements that are made of halves
_LINED_COUNTS = (2, 4, 8, 16)


class Interleaved(Kernel):
    """dst[row] = the rows of all parts side by side; an absent part is zeros.

    ``widths`` are the elements of a row of each part, equal ones if it is left out. ``lined``
    are the rows of the kernel for all shapes, which turns whole groups of them.

    A tile is turned by vnchwconv part by part into lines, and all lines together back again.
    """

    op_type = "Concat"
    generated = True
    depth = 2

    def __init__(
        self,
        profile: Profile,
        parts: Sequence[GlobalTensor | None],
        dst: GlobalTensor,
        widths: Sequence[int] = (),
        lined: TurnedRows | None = None,
    ) -> None:
        self.reads = tuple(part for part in parts if part is not None)
        self.writes = (dst,)
        self.widths = tuple(widths) or (dst.shape[-1] // len(parts),) * len(parts)
        self.width, rows = sum(self.widths), dst.numel // sum(self.widths)
        self.parts = [None if part is None else part.view(part.numel) for part in parts]
        self.dst = dst.view(dst.numel)
        halves = dst.dtype.itemsize // FLOAT16.itemsize
        room = profile.buffers.ub_bytes // 2 // self.depth // FLOAT16.itemsize
        # Rows that fill planes where their widths are alike and so many fit, else some in each of
        # the lines.
        most = room // ((2 * self.width + max(self.widths)) * halves)
        filling = max(TURNED_LINES, _PLANE // (self.widths[0] * halves))
        each = filling if filling <= most else TURNED_LINES
        tile = max(1, most // each) * each
        dealt = RowShare.of(rows, profile.cores.vector_cores, tile, each)
        if lined is not None:
            dealt, self.depth = lined.share, 1
        self.lined = lined
        self.division = self.share = dealt
        self.block_dim = self.share.cores

    def process(self, core: Core) -> None:
        share, itemsize = self.share, self.dst.dtype.itemsize
        self.in_que = TQue(TPosition.VECIN, self.depth, "part")
        self.out_que = TQue(TPosition.VECOUT, self.depth, "rows")
        core.pipe.init_buffer(self.in_que, self.depth, share.tile * max(self.widths) * itemsize)
        core.pipe.init_buffer(self.out_que, self.depth, share.tile * self.width * itemsize)
        for first, rows in share.tiles(core):
            self._tile(core, first, rows)

    def _tile(self, core: Core, first: Index, rows: int) -> None:
        kind = self.dst.dtype
        out = self.out_que.alloc_tensor(kind, rows * self.width)
        padded = rows if self.lined is None else self.lined.padded(rows)
        sizes = [padded * width * kind.itemsize for width in self.widths]
        repeats = [planes(nbytes) for nbytes in sizes]
        # Where each of the lines takes rows that follow each other, they lie so far apart.
        aparts = [0 if self.lined is None else nbytes // TURNED_LINES for nbytes in sizes]
        if None in self.parts:
            core.duplicate(out, 0.0)
        begin = 0
        given = zip(self.parts, self.widths, repeats, aparts, strict=True)
        for part, width, turned, apart in given:
            if part is not None:
                x = self.in_que.copy_in(part.span(first * width, rows * width))
                core.turn_lines(out, x, turned, apart_bytes=apart)
                self._place(core, out, x, begin, width)
                self.in_que.free_tensor(x)
            begin += width
        for turned in repeats:
            core.turn_lines(out, out, turned, apart_bytes=sum(aparts))
        cut = self.dst.span(first * self.width, rows * self.width)
        self.out_que.copy_out(cut, out)

    def _place(self, core: Core, out: LocalTensor, x: LocalTensor, begin: int, width: int) -> None:
        if core.numerics:
            depth = core.depth
            target, values = out.target(depth, whole=False), x.values(depth)
            rows = target.reshape(*target.shape[:-1], -1, self.width)
            rows[..., begin : begin + width] = values.reshape(*values.shape[:-1], -1, width)


class SideBySide(Kernel):
    """dst[row] = the rows of all parts side by side, whole blocks of them.

    Tiles of rows follow each other in device memory on both sides; the vector unit moves them in
    UB, where each part has a buffer of its own and the result another.
    """

    op_type = "Concat"
    generated = True

    def __init__(
        self,
        parts: Sequence[GlobalTensor],
        dst: GlobalTensor,
        widths: Sequence[int],
        share: RowShare,
    ) -> None:
        self.reads, self.writes = tuple(parts), (dst,)
        self.parts = [part.view(part.numel) for part in parts]
        self.dst, self.widths, self.width = dst.view(dst.numel), widths, sum(widths)
        self.division = self.share = share
        self.block_dim = share.cores

    def process(self, core: Core) -> None:
        tile, kind = self.share.tile, self.dst.dtype
        in_ques = [TQue(TPosition.VECIN, 1, "part") for _ in self.parts]
        out_que = TQue(TPosition.VECOUT, 1, "rows")
        for queue, width in zip(in_ques, self.widths, strict=True):
            core.pipe.init_buffer(queue, 1, tile * width * kind.itemsize)
        core.pipe.init_buffer(out_que, 1, tile * self.width * kind.itemsize)
        apart = self.width * kind.itemsize // core.block_bytes
        for first, rows in self.share.tiles(core):
            out = out_que.alloc_tensor(kind, rows * self.width)
            given = list(zip(in_ques, self.parts, self.widths, strict=True))
            loaded = [
                queue.copy_in(part.span(first * width, rows * width))
                for queue, part, width in given
            ]
            for x, width in zip(loaded, self.widths, strict=True):
                blocks = width * kind.itemsize // core.block_bytes
                core.move_bursts(out, x, rows, blocks, stride=apart)
            core.arrange(out, *loaded, how=partial(_joined, rows))
            for (queue, _, _), x in zip(given, loaded, strict=True):
                queue.free_tensor(x)
            out_que.copy_out(self.dst.span(first * self.width, rows * self.width), out)


def _joined(rows: int, *parts: NDArray[Any]) -> NDArray[Any]:
    """Their rows side by side, behind the axes of the loops."""
    lines = [part.reshape(*part.shape[:-1], rows, part.shape[-1] // rows) for part in parts]
    return np.concatenate(lines, axis=-1)


class Concat(BoxesCopy):
    """Tensors one after the other along an axis."""

    op_type = "Concat"

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        if not task.outputs:
            raise task.refused("the shape of the result isn't known")
        out = task.outputs[0]
        parts = [x for x in task.inputs if x is not None and len(x.shape) == len(out.shape)]
        parts = [x for x in parts if x.dtype is out.dtype]
        found = task.first(*_AXIS_NAMES)
        axis = joined_axis(task.op_type, [x.shape for x in parts], out.shape, found)
        return (cls._of(task.profile, parts, out, axis),)

    @classmethod
    def _of(
        cls, profile: Profile, parts: list[GlobalTensor], out: GlobalTensor, axis: int
    ) -> Kernel:
        if profile.software.compiled_for_shape and can_interleave(parts, out, axis):
            return Interleaved.called(cls.op_type)(profile, parts, out)
        widths = [prod(part.shape[axis:]) for part in parts]
        if is_ragged(profile, widths, out):
            return Interleaved.called(cls.op_type)(profile, parts, out, widths)
        if not profile.software.compiled_for_shape and len(parts) > 1:
            tiling = JoinTiling.of(profile, prod(out.shape[:axis]), widths, out.dtype.itemsize)
            if out.dtype.itemsize in _TURNED_BYTES and (lined := tiling.turned) is not None:
                return Interleaved.called(cls.op_type)(profile, parts, out, widths, lined)
            if (share := tiling.whole) is not None:
                return SideBySide.called(cls.op_type)(parts, out, widths, share)
        boxes = zip(parts, cut_along(out, axis, parts), strict=True)
        return cls(profile, tuple(boxes), tuple(parts), (out,))


class Pack(Concat):
    """Tensors of one shape along a new axis."""

    op_type = "Pack"

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        parts = [x for x in task.inputs if x is not None]
        if not parts:
            raise task.refused("nothing to stack")
        given, shape = task.attributes.get("axis"), parts[0].shape
        known = task.outputs[0].shape if task.outputs else ()
        axis = stacked_axis(task.op_type, shape, len(parts), known, given)
        whole = (*shape[:axis], len(parts), *shape[axis:])
        out = task.outputs[0].view(*whole) if task.outputs else made(whole, parts[0].dtype)
        thin = [x.view(*shape[:axis], 1, *shape[axis:]) for x in parts]
        return (cls._of(task.profile, thin, out, axis),)


_AXIS_NAMES = ("concat_dim", "axis", "dim", "N_dim")


def along(tensor: GlobalTensor, axis: int, start: int, size: int) -> GlobalTensor:
    """The part of a tensor that begins at ``start`` of one axis."""
    steps = tensor.steps
    shape = (*tensor.shape[:axis], size, *tensor.shape[axis + 1 :])
    return replace(tensor, shape=shape, start=tensor.start + start * steps[axis], strides=steps)


def cut_along(
    tensor: GlobalTensor, axis: int, parts: Sequence[GlobalTensor]
) -> Iterator[GlobalTensor]:
    """The tensor cut into pieces that are as long as ``parts`` along one axis."""
    start = 0
    for part in parts:
        yield along(tensor, axis, start, part.shape[axis])
        start += part.shape[axis]


def can_interleave(parts: Sequence[GlobalTensor], out: GlobalTensor, axis: int) -> bool:
    """True for parts whose short rows the vendor's schedule puts together with vnchwconv."""
    if axis != len(out.shape) - 1 or len(parts) < 2 or out.dtype.itemsize not in (2, 4):
        return False
    widths = {part.shape[-1] for part in parts}
    factor = out.dtype.itemsize // FLOAT16.itemsize
    enough = parts[0].numel * factor >= _PLANE
    if len(widths) > 1 or not enough:
        return False
    width = widths.pop()
    lined = width in LINED_WIDTHS and len(parts) in _LINED_COUNTS
    return lined and out.shape[-1] * factor <= TURNED_LINES


def is_ragged(profile: Profile, widths: Sequence[int], out: GlobalTensor) -> bool:
    """True for rows of parts that aren't whole blocks, short enough to be turned side by side.

    16 lines of a block for every element of a joined row have room in half of UB, and all cores
    have rows for their lines.
    """
    itemsize, block = out.dtype.itemsize, profile.buffers.block_bytes
    rows = out.numel // max(1, sum(widths))
    if not profile.software.turns_ragged_rows or itemsize not in (2, 4) or len(widths) < 2:
        return False
    ragged = any(width * itemsize % block for width in widths)
    short = sum(widths) * TURNED_LINES * block <= profile.buffers.ub_bytes // 2
    return (
        ragged and short and min(widths) > 0 and rows >= TURNED_LINES * profile.cores.vector_cores
    )


def joined_axis(
    op_type: str,
    parts: Sequence[tuple[int, ...]],
    whole: tuple[int, ...],
    given: object = None,
) -> int:
    """The axis along which ``parts`` make up ``whole``, the first where several would do."""
    if not parts:
        raise RefusedTaskError(op_type, "no parts")
    axes = range(len(whole))
    if isinstance(given, int) and whole and -len(whole) <= given < len(whole):
        axes = range(given % len(whole), given % len(whole) + 1)
    for axis in axes:
        rest = {(*part[:axis], *part[axis + 1 :]) for part in parts}
        total = sum(part[axis] for part in parts)
        if rest == {(*whole[:axis], *whole[axis + 1 :])} and total == whole[axis]:
            return axis
    raise RefusedTaskError(op_type, f"{list(parts)} don't make up {whole}")


def stacked_axis(
    op_type: str, part: tuple[int, ...], count: int, whole: tuple[int, ...], given: object
) -> int:
    """Where the new axis is: as given, or the first place that explains the shape."""
    rank = len(part) + 1
    if isinstance(given, int) and -rank <= given < rank:
        return given % rank
    for axis in range(rank):
        if (*part[:axis], count, *part[axis:]) == whole:
            return axis
    raise RefusedTaskError(op_type, f"{count} tensors {part} don't make up {whole}")

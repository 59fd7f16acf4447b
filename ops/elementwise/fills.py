"""Tensors of one number: filled once in UB, stored as often as needed."""

from __future__ import annotations

from collections.abc import Hashable
from math import ceil, prod
from typing import TYPE_CHECKING, Any, ClassVar

from npusim.ascendc import Core, GlobalTensor, GmBuffer, Kernel, TBuf, TPosition, TQue
from npusim.engine.program import Pipe
from npusim.schedules.elementwise import FlatTiling, flat_tiling
from npusim.schedules.rows.shares import RowShare
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT, FLOAT16
from npusim.values.errors import KernelError, RefusedTaskError
from npusim.values.formats import C0

if TYPE_CHECKING:
    from npusim.ascendc.scalars import Scalar
    from npusim.ascendc.task import Task
    from npusim.hardware.profile import Profile


_ZEROS_BYTES = 48 << 10  # that AtomicAddrClean makes on every core, and stores as often as needed
# What kernels of the float status fill: 150 repeats, whose blocks lie 8 apart.
_UNREAD_HALVES, _UNREAD_APART = 150 * 128, 8
_WHOLE = 0.75  # of the blocks that a whole tensor takes: fewer are for something else
_PADDING_BYTES = 32  # behind what is cleared: 147,456 bytes are recorded on 4 cores, not on 3


class Fill(Kernel):
    """out = value everywhere; the value may be a tensor of one element."""

    op_type = "Fill"
    generated = True

    def __init__(self, profile: Profile, out: GlobalTensor, *, value: float | GlobalTensor) -> None:
        self.output, self.value = out, value
        self.reads, self.writes = (value,) if isinstance(value, GlobalTensor) else (), (out,)
        self.division = self.tiling = self.tile(profile, out)
        self.block_dim = self.tiling.block_dim

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        """The kernel for a recorded task."""
        if not task.outputs:
            raise task.refused("the shape of the result isn't known")
        given = task.inputs[1] if len(task.inputs) > 1 else None  # behind the shape
        value = task.number("value", 0.0) if given is None else given
        return (cls(task.profile, task.outputs[0], value=value),)

    def tile(self, profile: Profile, out: GlobalTensor) -> FlatTiling:
        """How the tensor is dealt out to cores."""
        least = profile.launch.elementwise_core_bytes
        return flat_tiling(profile, out.numel, out.dtype.itemsize, 1, least_bytes=least)

    def filled(self, block: int) -> int:
        """Elements that a block fills in UB."""
        return min(self.tiling.tile, self.tiling.length(block))

    def process(self, core: Core) -> None:
        """The work of one block."""
        tiling, block = self.tiling, core.get_block_idx()
        queue = TQue(TPosition.VECOUT, 1, "fill")
        longest = self.filled(block)
        core.pipe.init_buffer(queue, 1, longest * self.output.dtype.itemsize)
        filled = queue.alloc_tensor(self.output.dtype, longest)
        value = self.value
        if isinstance(value, GlobalTensor):
            core.duplicate(filled, self._loaded(core, value))
        else:
            core.duplicate(filled, value)
        queue.enque(filled)
        queue.deque(filled)
        for first, length in tiling.tiles(core):
            core.copy_runs(self.output.span(first, length), filled[:length])
        queue.free_tensor(filled)

    def _loaded(self, core: Core, value: GlobalTensor) -> Scalar:
        """The value by way of UB, as every operand of a generated kernel.

        Fills with a tensor's number are 0.1 us of MTE2 in profiles of 910B2.
        """
        queue = TQue(TPosition.VECIN, 1, "value", consumer=Pipe.SCALAR)
        core.pipe.init_buffer(queue, 1, core.block_bytes)
        tile = queue.alloc_tensor(value.dtype, 1)
        core.copy_runs(tile, value.view(1).span(0, 1))
        queue.enque(tile)
        number = core.get_value(queue.deque(tile))
        queue.free_tensor(tile)
        return number


class ZerosLike(Fill):
    """A fill with a number of its own, shaped like an input that isn't read."""

    op_type = "ZerosLike"
    number = 0.0

    def __init__(self, profile: Profile, *tensors: GlobalTensor) -> None:
        if not any(tensor.numel for tensor in tensors):
            raise RefusedTaskError(self.op_type, "no tensor to fill")
        super().__init__(profile, tensors[-1], value=self.number)

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        return super(Fill, cls).from_task(task)


class OnesLike(ZerosLike):
    """out = 1 everywhere."""

    op_type = "OnesLike"
    number = 1.0


class NPUClearFloatStatus(Kernel):
    """The eight flags of the overflow detection, cleared by every core in turn.

    Before that every core fills a buffer that nobody reads, several times, block by block in two
    bank groups. Cores store into one line, so they wait for each other. No flag is ever raised
    here. Source: public operator sources (impl/n_p_u_clear_float_status.py,
    n_p_u_get_float_status.py).
    """

    op_type: str = "NPUClearFloatStatus"
    loads: ClassVar[bool] = True  # whether every core loads the flags, though it doesn't use them
    fills: ClassVar[int] = 6

    def __init__(self, profile: Profile, flags: GlobalTensor, out: GlobalTensor) -> None:
        self.flags, self.out, self.reads, self.writes = flags, out, (flags,), (out,)
        self.block_dim = profile.cores.vector_cores

    def block_kind(self, block_idx: int) -> Hashable:
        """How much the block has to do."""
        del block_idx
        return None

    def process(self, core: Core) -> None:
        """The work of one block."""
        if self.loads:
            given = TBuf("given")
            core.pipe.init_buffer(given, 1, self.flags.nbytes)
            flags = self.flags.view(self.flags.numel)
            core.copy_runs(given.get(flags.dtype, flags.numel), flags.span(0, flags.numel))
        unread = TBuf("unread")
        core.pipe.init_buffer(unread, 1, _UNREAD_HALVES * FLOAT16.itemsize)
        for fill in range(self.fills):
            tile = unread.get(FLOAT16, _UNREAD_HALVES)
            core.duplicate(tile, float(fill), apart_bytes=_UNREAD_APART * core.block_bytes)
        queue = TQue(TPosition.VECOUT, 1, "flags")
        core.pipe.init_buffer(queue, 1, self.out.nbytes)
        cleared = core.duplicate(queue.alloc_tensor(self.out.dtype, self.out.numel), 0.0)
        target = self.out.view(self.out.numel).span(0, self.out.numel)
        core.set_store_sharers(self.block_dim)
        queue.copy_out(target, cleared)
        core.set_atomic_none()


class NPUGetFloatStatus(NPUClearFloatStatus):
    """The same flags, of a register that every core looks at."""

    op_type: str = "NPUGetFloatStatus"
    loads = False
    fills = 7


class AtomicAddrClean(ZerosLike):
    """Zeros in what the next kernel adds to; the task's record names a tensor of that kernel.

    Every core makes 48 KB of zeros, however little it clears. They get whole multiples of that: as
    many as an equal share needs, then as few cores as that leaves work for. Source: public operator
    source (impl/atomic_addr_clean.py).
    """

    op_type = "AtomicAddrClean"

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        """The kernel for a recorded task."""
        given = [tensor for tensor in (*task.inputs, *task.outputs) if tensor is not None]
        if not given:
            raise task.unfit("no tensor to clear")
        blocks = task.whole_number("block_dim", 0)
        return (cls(task.profile, _cleared(task.profile, given[0], blocks)),)

    def tile(self, profile: Profile, out: GlobalTensor) -> FlatTiling:
        """How the tensor is dealt out to cores."""
        itemsize, cores = out.dtype.itemsize, profile.cores.vector_cores
        nbytes = out.nbytes + _PADDING_BYTES
        per_core = round_up(ceil(nbytes / cores), _ZEROS_BYTES)
        tile = min(_ZEROS_BYTES // itemsize, out.numel)
        blocks = ceil(nbytes / per_core)  # the last may have nothing but what stands behind
        return FlatTiling(out.numel, per_core // itemsize, tile, blocks, double_buffer=False)

    def filled(self, block: int) -> int:
        """All of the zeros."""
        del block
        return _ZEROS_BYTES // self.output.dtype.itemsize


def _cleared(profile: Profile, tensor: GlobalTensor, blocks: int) -> GlobalTensor:
    """What is cleared for a consumer whose record shows ``tensor``, on so many ``blocks``.

    Consumers add to the whole of it (gradients of overlapping windows) or to something small (sums
    of a batch or layer normalisation), which the record doesn't name but the number of blocks tells
    that were launched: one for 48 KB. Where nobody knows it (0), atomic addition exists for
    float32, and a float16 feature map in NC1HWC0 stands for the two sums per channel that the batch
    normalisation on it adds up.
    """
    if blocks:
        whole = AtomicAddrClean(profile, tensor).block_dim
        if blocks >= _WHOLE * whole:
            return tensor
        count = max(1, blocks * _ZEROS_BYTES - _PADDING_BYTES) // FLOAT.itemsize
        told = blocks > 1 or tensor.dtype is FLOAT  # two sums are no more than a block's
        if told and count * FLOAT.itemsize < tensor.nbytes:
            return GlobalTensor(GmBuffer("sums", count * FLOAT.itemsize), FLOAT, (count,))
    if tensor.dtype is FLOAT16 and len(tensor.shape) == 5 and tensor.shape[-1] == C0:
        shape = (2, tensor.shape[1], C0)
        return GlobalTensor(GmBuffer("sums", prod(shape) * FLOAT.itemsize), FLOAT, shape)
    return tensor


class Range(Kernel):
    """out[i] = start + i * delta, a share of it by every core. ``limit`` says how long out is.

    Cores beyond the last share are started too, and the scalar unit makes as much as an instruction
    covers. Source: public operator sources (dynamic/range.py).
    """

    op_type = "Range"

    def __init__(
        self,
        profile: Profile,
        start: GlobalTensor,
        limit: GlobalTensor,
        delta: GlobalTensor,
        out: GlobalTensor,
    ) -> None:
        if out.dtype is not FLOAT:
            raise KernelError(self.op_type, f"results of {out.dtype} aren't modelled, only FLOAT")
        self.start, self.delta, self.out = start.view(1), delta.view(1), out.view(out.numel)
        self.reads, self.writes = (start, limit, delta), (out,)
        block = profile.buffers.block_bytes // out.dtype.itemsize
        tile = profile.buffers.ub_bytes // 2 // out.dtype.itemsize // block * block
        cores, apart = profile.cores.vector_cores, profile.has("data_move_pad")
        self.division = self.share = RowShare.of(out.numel, cores, tile, 1 if apart else block)
        self.block_dim = min(cores, out.numel)

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        """Start, limit and step; how long the result is, only their numbers would tell."""
        start, limit, delta = task.present(3)
        if not task.outputs:
            raise task.refused("the shape of the result isn't known")
        return (cls(task.profile, start, limit, delta, task.outputs[0]),)

    def numbers(self, core: Core) -> tuple[Any, Any]:
        """The first number and the step."""
        first, step = (core.load_scalar(each.span(0, 1)) for each in (self.start, self.delta))
        return first, step

    def process(self, core: Core) -> None:
        """Counting up, times the step, plus where a tile begins."""
        share = self.share
        first, step = self.numbers(core)
        queue = TQue(TPosition.VECOUT, 1, "range")
        core.pipe.init_buffer(queue, 1, share.tile * FLOAT.itemsize)
        for place, count in share.tiles(core):
            tile = queue.alloc_tensor(FLOAT, count)
            core.arith_progression(tile, 0.0, unit=core.costs.repeat_elements(FLOAT.itemsize))
            begin = core.to_float(core.counter(place)) * step + first
            core.adds(tile, core.muls(tile, tile, step), begin)
            queue.copy_out(self.out.span(place, count), tile)


class LinSpace(Range):
    """So many numbers evenly from start to stop, which scalar units make a step of."""

    op_type = "LinSpace"

    def __init__(
        self,
        profile: Profile,
        start: GlobalTensor,
        stop: GlobalTensor,
        num: GlobalTensor,
        out: GlobalTensor,
    ) -> None:
        super().__init__(profile, start, num, stop, out)
        self.reads = (start, stop, num)

    def numbers(self, core: Core) -> tuple[Any, Any]:
        """The first number and what lies between two."""
        first, last = super().numbers(core)
        return first, (last - first) * (1 / max(1, self.out.numel - 1))

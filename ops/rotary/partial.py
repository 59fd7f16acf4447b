"""InplacePartialRotaryMul: a slice of every row is turned by angles, the rest stays as it is.

Neighbours are exchanged by a gather, in float32, and odd ones get a sign. Tokens are dealt to cores
with all of their heads: evenly cut where the angles are of tokens and a slice is one repeat at
most, else as the rotary operator deals them, by heads too where UB has no room for those of a
token. Source: vllm-ascend csrc/attention/inplace_partial_rotary_mul, host tiling of A2 and A3 and
device schedule.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from npusim.ascendc import Core, GlobalTensor, Kernel, RoundMode, TBuf, TPosition, TQue
from npusim.ascendc.queues import footprint_bytes
from npusim.operators.results import numbers
from npusim.ops.rotary.kernel import neighbours_of
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT, INT32

if TYPE_CHECKING:
    from collections.abc import Hashable
    from typing import Any

    from numpy.typing import NDArray

    from npusim.ascendc import GmSlice, LocalTensor
    from npusim.ascendc.loops import Index
    from npusim.ascendc.task import Task
    from npusim.hardware.profile import Profile

_WRITTEN = 8  # offsets that the scalar unit writes; the others are sums of these
_ONE_REPEAT = 64  # numbers in float32
_TENSORS = 3  # rows and both angles: what the general tiling counts for each head


class InplacePartialRotaryMul(Kernel):
    """x[..., first : first + width] = x cos + exchanged(x) sin, neighbour by neighbour.

    ``x`` (A, B, N, D), angles (A, 1 or B, 1, width) in x's dtype or float32.
    """

    op_type = "InplacePartialRotaryMul"

    def __init__(
        self,
        profile: Profile,
        x: GlobalTensor,
        cos: GlobalTensor,
        sin: GlobalTensor,
        out: GlobalTensor,
        *,
        first: int,
    ) -> None:
        self.x, self.angles, self.out, self.first = x, (cos, sin), out, first
        self.reads, self.writes = (x, cos, sin), (out,)
        self.length, self.width = x.shape[-1], cos.shape[-1]
        self.tokens = cos.numel // self.width
        self.heads = x.numel // self.length // self.tokens
        cores, size = profile.cores.vector_cores, x.dtype.itemsize
        block = profile.buffers.block_bytes
        self.even = self._cut_evenly(profile)
        if self.even:
            self.tile, self.beside = self.even, self.heads
            self.per_core = ceil(self.tokens / cores)
            self.block_dim = ceil(self.tokens / self.per_core)
            return
        row = round_up(self.width, block // size)
        tensors = _TENSORS if self.heads > 1 else _TENSORS + 1  # the result is one beside a head
        each = row * tensors * (size + FLOAT.itemsize * (x.dtype is not FLOAT))
        room = profile.buffers.ub_bytes - self.heads * row * FLOAT.itemsize
        self.tile, self.beside = max(1, room // (each * self.heads)), self.heads
        if room < each * self.heads:
            most = profile.buffers.ub_bytes // (each + row * FLOAT.itemsize)
            self.tile, self.beside = 1, min(self.heads, most)
        self.block_dim = min(self.tokens, cores)

    def _cut_evenly(self, profile: Profile) -> int:
        """Tokens at a time of the kernel for slices of one repeat, 0 where it isn't taken."""
        (_, second, third, _), angles = self.x.shape, self.angles[0].shape
        lanes = profile.buffers.block_bytes // self.x.dtype.itemsize
        alone = angles[1] == 1 and 1 in (second, third)
        if not alone or self.width % lanes or self.width > _ONE_REPEAT:
            return 0
        count = self.heads * self.width
        room = profile.buffers.ub_bytes // FLOAT.itemsize - count
        return min(
            ceil(self.tokens / profile.cores.vector_cores),
            max(0, room // (4 * count + 4 * self.width)),
        )

    def _share(self, block: int) -> tuple[int, int]:
        """The first token of a core, and how many it has."""
        if self.even:
            first = block * self.per_core
            return first, min(self.per_core, self.tokens - first)
        each, more = divmod(self.tokens, self.block_dim)
        return block * each + min(block, more), each + (block < more)

    def block_kind(self, block_idx: int) -> Hashable:
        return self._share(block_idx)[1]

    def process(self, core: Core) -> None:
        """Tile by tile."""
        start, count = self._share(core.get_block_idx())
        tile, depth = min(self.tile, count), 2 if self.even else 1
        self.queues = {
            name: TQue(TPosition.VECOUT if name == "y" else TPosition.VECIN, depth, name)
            for name in ("x", "cos", "sin", "y")
        }
        self.wide, offsets = {name: TBuf(f"wide_{name}") for name in self.queues}, TBuf("offsets")
        for name, queue in self.queues.items():
            angles = name in ("cos", "sin")
            kind = self.angles[0].dtype if angles else self.x.dtype
            shape = (tile, 1 if angles else self.beside, self.width)
            nbytes = footprint_bytes(kind, shape, core.block_bytes)
            core.pipe.init_buffer(queue, depth, nbytes)
            if kind is not FLOAT:
                nbytes *= FLOAT.itemsize // kind.itemsize
                core.pipe.init_buffer(self.wide[name], 1, nbytes)
        places = self.beside * self.width
        core.pipe.init_buffer(offsets, 1, round_up(places * INT32.itemsize, core.block_bytes))
        core.emit_scalar("st_ub", stores=_WRITTEN, turns=_WRITTEN, detail="offsets")
        for name in ("vadds", "vmuls"):
            core.record_vector(name, offsets.get(INT32, places), places)
        for token, number in core.tiles(start, count, tile):
            for head, heads in core.tiles(0, self.heads, self.beside):
                self._turn(core, (token, number), (head, heads))

    def _part(self, tensor: GlobalTensor, token: tuple[Index, int], head: tuple[Index, int]) -> Any:
        length = self.length
        places = ((self.first, 1), (token[0], self.heads * length), (head[0], length))
        shape = (token[1], head[1], self.width)
        return tensor.view(tensor.numel).window(places, shape, (self.heads * length, length, 1))

    def _widened(self, core: Core, name: str, source: GmSlice) -> LocalTensor:
        tile = self.loaded[name] = self.queues[name].copy_in(source)
        if tile.dtype is FLOAT:
            return tile
        return core.cast(self.wide[name].get(FLOAT, *tile.shape), tile)

    def _turn(self, core: Core, token: tuple[Index, int], head: tuple[Index, int]) -> None:
        self.loaded: dict[str, LocalTensor] = {}
        x = self._widened(core, "x", self._part(self.x, token, head).by_rows())
        width, places = self.width, ((token[0], self.width),)
        cos, sin = (
            self._widened(
                core,
                name,
                each.view(each.numel).window(places, (token[1], 1, width), (width, width, 1)),
            )
            for name, each in zip(("cos", "sin"), self.angles, strict=True)
        )
        y = self.queues["y"].alloc_tensor(self.out.dtype, *x.shape)
        total = y if y.dtype is FLOAT else self.wide["y"].get(FLOAT, *x.shape)
        core.mul(total, x, cos)
        core.record_vector("vgather", x, head[1] * width, rows=token[1])
        core.arrange(x, x, how=neighbours_of)
        core.mul(x, x, sin)
        core.record_vector("vmuls", x, x.numel)
        core.arrange(x, x, how=_signed)
        core.add(total, total, x)
        for name, tile in self.loaded.items():
            self.queues[name].free_tensor(tile)
        if y is not total:
            core.cast(y, total, RoundMode.CAST_RINT)
        self.queues["y"].copy_out(self._part(self.out, token, head).by_rows(), y)


def _signed(values: NDArray[Any]) -> NDArray[Any]:
    signs = np.ones(values.shape[-1], np.float32)
    signs[::2] = -1
    return np.asarray(values * signs)


def inplace_partial_rotary_mul(task: Task) -> tuple[Kernel, ...]:
    """x, cos and sin; mode 1 and the slice that is turned."""
    x, cos, sin = task.present(3)
    if task.profile.cores.style != "split":
        raise task.refused(f"{task.profile.name} has no kernel for it")
    told = numbers(task.attributes.get("partial_slice")) or [0, 0]
    first, end = (*told, 0, 0)[:2]
    width = end - first
    if len(x.shape) != 4 or cos.shape != sin.shape or cos.shape[-1] != width or width % 2:
        raise task.unfit(f"{x.shape} from {first} to {end} turned by {cos.shape}")
    if not 0 <= first < end <= x.shape[-1]:
        raise task.unfit(f"elements {first} to {end} of rows of {x.shape[-1]}")
    if task.whole_number("mode", 0) != 1:
        raise task.unfit("only neighbours are turned, which is mode 1")
    out = task.outputs[0] if task.outputs else x
    kernel = InplacePartialRotaryMul(task.profile, x, cos, sin, out, first=first)
    if not kernel.beside:
        raise task.unfit(f"a row of {width} doesn't fit into UB")
    if not kernel.even and cos.dtype is not x.dtype:
        raise task.unfit("angles in float32 where a slice isn't one repeat of a token alone")
    return (kernel,)

"""Rotary position embeddings: y = x cos + turned(x) sin, row by row.

Halves are exchanged by copies inside UB, neighbours by a gather; the sign goes to the sine, once
for each of its rows. Rows that don't fill blocks of 32 bytes are padded to them, halves each for
itself, and instructions go through the padding. bfloat16, and what is gathered, is worked on in
float32. Queries and keys of a token are one task: it is dealt out to cores by tokens, as many at a
time as UB holds. Source: ops-transformer posembedding/apply_rotary_pos_emb and
rotary_position_embedding, host tiling and device schedules.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from npusim.ascendc import Core, GlobalTensor, Kernel, LocalTensor, TBuf, TPosition, TQue
from npusim.ascendc.task import Task, made
from npusim.library.repeated import RepeatElements
from npusim.operators.host import constant
from npusim.operators.registry import builder, kernel_class
from npusim.schedules.tile_grid import Grid, Piece, whole_axes
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import BFLOAT16, FLOAT, INT32, INT64, DType
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.gm_slices import GmSlice
    from npusim.hardware.profile import Profile

HALF, INTERLEAVED = 0, 1
_MODES = {"half": HALF, "interleave": INTERLEAVED, "interleaved": INTERLEAVED}
_SEED = 8  # offsets of a gather that the scalar unit writes; the others are sums of these


@dataclass(frozen=True)
class _Pair:
    """A tensor of rows, and where they go when they are turned."""

    x: GlobalTensor
    y: GlobalTensor


class Rotary(Kernel):
    """Rows of (..., D) turned by the angles of cos and sin, which broadcast to them.

    Shapes: four axes, the last one D, which is even; cos and sin alike, 1 or as long as x
    elsewhere. ``mode`` 0 turns elements i and i + D / 2, 1 elements 2 i and 2 i + 1.
    """

    op_type = "RotaryPositionEmbedding"
    backward = False
    results: ClassVar[int] = 2  # tiles of them that leave one after the other

    def __init__(
        self,
        profile: Profile,
        *tensors: GlobalTensor,
        mode: int = HALF,
    ) -> None:
        *xs, cos, sin = tensors[: (len(tensors) + 2) // 2]
        ys = tensors[len(xs) + 2 :]
        self.profile, self.mode = profile, mode
        self.reads, self.writes = (*xs, cos, sin), ys
        self.kind, self.length = xs[0].dtype, xs[0].shape[-1]
        self._check(xs, cos, sin)
        gathers = mode == INTERLEAVED
        self.wide: DType = FLOAT if gathers or self.kind is BFLOAT16 else self.kind
        half = self.length // 2
        lanes = profile.buffers.block_bytes // self.kind.itemsize
        self.is_ragged = bool((self.length if gathers else half) % lanes)
        # How a row lies in UB: ragged halves each begin at a block.
        self.row = (2, half) if self.is_ragged and not gathers else (self.length,)
        self.padded = self.length // self.row[-1] * round_up(self.row[-1], lanes)
        axes = _groups(xs[0].shape[:-1], cos.shape[:-1])
        if len(xs) > 1 and not axes[-1][1]:
            axes = axes[:-1] or [(1, True)]  # what shares its angles is worked on together
        self.sizes = tuple(size for size, _ in axes)
        outer = prod(self.sizes)
        self.pairs = [
            _Pair(*(each.view(*self.sizes, each.numel // outer // self.length, *self.row)
                    for each in pair))
            for pair in zip(xs, ys, strict=True)
        ]  # fmt: skip
        own = tuple(size if turns else 1 for size, turns in axes)
        self.angles = tuple(each.view(*own, 1, *self.row) for each in (cos, sin))
        self.each = [pair.x.shape[len(self.sizes)] for pair in self.pairs]
        self.rows = sum(self.each)
        self.division = self.grid = self._grid()
        self.block_dim = self.grid.used_cores

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        """One tensor, cos and sin; beside a gradient what was turned, for gradients of angles."""
        x, cos, sin = task.present(3)
        if len(task.inputs) > 3 and task.inputs[3] is not None:
            more = "gradients of angles" if cls.backward else "matrices that turn rows"
            raise task.refused(f"{more} aren't modelled")
        y = task.outputs[0] if task.outputs else made(x.shape, x.dtype)
        return (cls(task.profile, x, cos, sin, y, mode=task.whole_number("mode", HALF)),)

    def block_kind(self, block_idx: int) -> Hashable:
        return self.grid.block_kind(block_idx)

    def process(self, core: Core) -> None:
        """Angles of a tile, then its queries and its keys."""
        self._reserve(core)
        for piece in self.grid.pieces(core):
            cos, sin = (
                self._widened(core, place, self._cut(angles, piece), place)
                for place, angles in zip(("cos", "sin"), self.angles, strict=True)
            )
            self._sign(core, sin)
            for pair in self.pairs:
                self._turn(core, pair, piece, cos, sin)
            for name in ("cos", "sin"):
                self.queues[name].free_tensor(self.loaded[name])

    # -- tiles -------------------------------------------------------------------------------------

    def _grid(self) -> Grid:
        """As many outer rows at a time as UB holds, dealt out evenly."""
        room = self.profile.buffers.ub_bytes - 2 * self.profile.buffers.block_bytes
        limit = int(room // self._bytes_per_row())
        if not limit:
            problem = f"{self.rows} rows of {self.length} elements don't fit into UB"
            raise KernelError(self.op_type, problem)
        cores = self.profile.cores.vector_cores
        return Grid(self.sizes, whole_axes(self.sizes, limit, cores), cores)

    def _bytes_per_row(self) -> int:
        """What a token, or a row with an angle of its own, takes: queues of two, three buffers."""
        size, wide = self.kind.itemsize, self.wide.itemsize
        casts = self.kind is not self.wide
        most = max(self.each)
        offsets = INT32.itemsize * (self.mode == INTERLEAVED)
        tile = (2 + self.results) * size + (2 + casts) * wide + offsets
        return self.padded * (most * tile + 4 * size + 2 * casts * wide)

    def _reserve(self, core: Core) -> None:
        elements = prod(self.grid.extent) * self.padded
        most = max(self.each)
        sizes = {"x": most * elements, "cos": elements, "sin": elements}
        self.queues = {name: TQue(TPosition.VECIN, 2, name) for name in sizes}
        self.queues["y"] = TQue(TPosition.VECOUT, self.results, "y")
        self.loaded: dict[str, LocalTensor] = {}
        for name, count in {**sizes, "y": sizes["x"]}.items():
            depth = self.results if name == "y" else 2
            core.pipe.init_buffer(self.queues[name], depth, count * self.kind.itemsize)
        self.buffers = {name: TBuf(name) for name in ("turned", "product")}
        if self.kind is not self.wide:
            self.buffers |= {f"wide {name}": TBuf(f"wide {name}") for name in sizes}
        for name, buffer in self.buffers.items():
            count = sizes.get(name.removeprefix("wide "), sizes["x"])
            core.pipe.init_buffer(buffer, 1, count * self.wide.itemsize)
        if self.mode == INTERLEAVED:
            self._write_offsets(core, sizes["x"])

    def _write_offsets(self, core: Core, count: int) -> None:
        """Where the gather finds each element's neighbour: a few, then sums of those."""
        offsets = TBuf("offsets")
        core.pipe.init_buffer(offsets, 1, count * INT32.itemsize)
        tile = offsets.get(INT32, count)
        core.emit_scalar("st_ub", stores=_SEED, turns=_SEED, detail="offsets")
        core.record_vector("vadds", tile, count)
        core.record_vector("vmuls", tile, count)
        core.arrange(tile, how=lambda: (np.arange(count) ^ 1) * FLOAT.itemsize)
        tile.check_write()

    def _widened(self, core: Core, name: str, source: GmSlice, queue: str) -> LocalTensor:
        """A tile of memory in the type that is computed in."""
        tile = self.loaded[name] = self.queues[queue].copy_in(source)
        if self.kind is self.wide:
            return tile
        wide = self.buffers[f"wide {name}"].get(self.wide, *tile.shape)
        core.cast(self._run(wide), self._run(tile))
        return wide

    def _run(self, tile: LocalTensor) -> LocalTensor:
        """A tile for instructions that go through the padding of its rows too."""
        return tile.as_run(self._count(tile)) if self.is_ragged else tile

    def _count(self, tile: LocalTensor) -> int:
        """Elements of a tile with the padding of its rows."""
        return tile.numel // self.length * self.padded

    def _sign(self, core: Core, sin: LocalTensor) -> None:
        """The sine with the sign of what it is multiplied by."""
        core.record_vector("vmuls", sin, self.padded // 2, rows=sin.numel // self.length)
        signs = self._signs()
        core.arrange(sin, sin, how=lambda values: values * signs)

    def _turn(
        self, core: Core, pair: _Pair, piece: Piece, cos: LocalTensor, sin: LocalTensor
    ) -> None:
        """One tile of rows."""
        x = self._widened(core, "x", self._cut(pair.x, piece), "x")
        turned = self.buffers["turned"].get(self.wide, *x.shape)
        product = self.buffers["product"].get(self.wide, *x.shape)
        self._exchange(core, turned, x)
        y = self.queues["y"].alloc_tensor(self.kind, *x.shape)
        a, b, c, to = (self._run(each) for each in (turned, product, x, y))
        core.mul(a, a, self._run(sin))
        core.mul(b, c, self._run(cos))
        if self.kind is self.wide:
            core.add(to, a, b)
        else:
            core.cast(to, core.add(b, a, b))
        self.queues["x"].free_tensor(self.loaded["x"])
        self.queues["y"].copy_out(self._cut(pair.y, piece), y)

    def _cut(self, tensor: GlobalTensor, piece: Piece) -> GmSlice:
        """The rows of a piece, all of a token; angles that are shared come once."""
        places = len(piece.starts)
        shared = [size == 1 for size in tensor.shape[:places]]
        starts = tuple(
            (0 if once else start, step)
            for once, start, step in zip(shared, piece.starts, tensor.steps, strict=False)
        )
        sizes = tuple(1 if once else size for once, size in zip(shared, piece.shape, strict=True))
        found = tensor.window(starts, (*sizes, *tensor.shape[places:]), tensor.steps)
        return found.by_rows() if self.is_ragged else found

    def _exchange(self, core: Core, dst: LocalTensor, src: LocalTensor) -> None:
        """Every element in the place of the one that it is turned with."""
        if self.mode == INTERLEAVED:
            core.record_vector("vgather", dst, self._count(dst))
            core.arrange(dst, src, how=neighbours_of)
        else:
            blocks = self.padded // 2 * self.wide.itemsize // core.block_bytes
            for _ in range(2):
                core.move_bursts(dst, src, src.numel // self.length, blocks)
            core.arrange(dst, src, how=self._halves_exchanged)
        dst.check_write()

    def _halves_exchanged(self, values: NDArray[Any]) -> NDArray[Any]:
        if self.row == (self.length,):
            return np.roll(values, self.length // 2, axis=-1)
        return values[..., ::-1, :]

    def _signs(self) -> NDArray[Any]:
        signs = np.ones(self.length, self.wide.numpy)
        signs[slice(None, None, 2) if self.mode == INTERLEAVED else slice(self.length // 2)] = -1
        return (-signs if self.backward else signs).reshape(self.row)

    def _check(self, xs: list[GlobalTensor], cos: GlobalTensor, sin: GlobalTensor) -> None:
        if self.mode not in (HALF, INTERLEAVED):
            raise KernelError(self.op_type, f"mode {self.mode} isn't modelled")
        if cos.shape != sin.shape or any(
            len(x.shape) != len(cos.shape) or x.shape[-1] != self.length for x in xs
        ):
            raise KernelError(self.op_type, f"angles {cos.shape} for {xs[0].shape}")
        if len({each.dtype for each in (*xs, cos, sin)}) > 1:
            raise KernelError(self.op_type, "tensors and angles of different dtypes")
        if cos.shape[-1] != self.length or self.length % 2:
            raise KernelError(self.op_type, f"rows of {self.length} elements can't be turned")


class RotaryGrad(Rotary):
    """The gradient of x: turned back by the same angles, whose sines come first.

    dx = dy cos + turned(dy sin), which is dy cos - turned(dy) turned(sin).
    """

    op_type = "RotaryPositionEmbeddingGrad"
    backward = True

    @classmethod
    def from_task(cls, task: Task) -> tuple[Kernel, ...]:
        """dy, cos and sin; with x the angles have gradients too, of which there is no kernel."""
        if len(task.inputs) > 3 and task.inputs[3] is not None and task.inputs[3].shape:
            raise task.refused("gradients of the angles aren't modelled")
        return super().from_task(task)

    def _sign(self, core: Core, sin: LocalTensor) -> None:
        """The sine of each element's partner, with its sign."""
        core.record_vector("vmuls", sin, self.padded // 2, rows=sin.numel // self.length)
        signs = self._signs()
        partners = neighbours_of if self.mode == INTERLEAVED else self._halves_exchanged
        core.arrange(sin, sin, how=lambda values: partners(values) * signs)


class ApplyRotaryPosEmb(Rotary):
    """Queries (B, S, N, D) and keys (B, S, M, D) turned in place by angles (B, S, 1, D)."""

    op_type = "ApplyRotaryPosEmb"
    results = 1


def apply_rotary(task: Task) -> tuple[Kernel, ...]:
    """Queries, keys, cos and sin of every token; or angles by position, as frameworks have them."""
    query, key, cos, sin = task.present(4)
    said = task.first("rotary_mode", "rotaryMode", "mode")
    mode = _MODES.get(str(said), HALF if said is None else -1)
    if mode < 0:
        raise task.refused(f"rotary mode {said!r}; there are half and interleave")
    if len(cos.shape) == 2:
        return _by_position(task, mode)
    outputs = task.outputs or (query, key)
    return (ApplyRotaryPosEmb(task.profile, query, key, cos, sin, *outputs[:2], mode=mode),)


def _by_position(task: Task, mode: int) -> tuple[Kernel, ...]:
    """Angles (S, D / 2) repeated for both elements of a pair, then for every sequence.

    Layout 1 has heads in front of positions, which are exchanged first and back again.
    """
    tensors = task.present(4)
    tasks: list[Kernel] = []

    def launch(op_type: str, *given: GlobalTensor) -> GlobalTensor:
        tasks.append(kernel_class(op_type)(task.profile, *given))
        return given[-1]

    turned = task.whole_number("layout", 0) == 1
    order = (0, 2, 1, 3)
    query, key = tensors[:2]
    if turned:
        query, key = (
            launch("Transpose", each.permuted(order), made(_exchanged(each), each.dtype))
            for each in (query, key)
        )
    batch, positions, _, length = query.shape
    angles = []
    for given in tensors[2:]:
        row = made((positions, length), given.dtype)
        if mode == HALF:
            tasks += builder("ConcatD")(
                Task(task.profile, "ConcatD", (given, given), (row,), {"concat_dim": 1})
            )
        else:
            # How often an element comes is a tensor, spread over the axis first.
            launch("BroadcastTo", constant([2], INT64), made((length // 2,), INT64))
            tasks.append(RepeatElements(task.profile, given, row))
        row = row.view(1, positions, 1, length)
        if batch > 1:
            row = launch("BroadcastTo", row, made((batch, positions, 1, length), row.dtype))
        angles.append(row)
    results = tuple(made(each.shape, each.dtype) for each in (query, key))
    if not turned and task.outputs:
        results = task.outputs[:2]
    tasks.append(ApplyRotaryPosEmb(task.profile, query, key, *angles, *results, mode=mode))
    if turned:
        for place, each in enumerate(results):
            whole = task.outputs[place] if task.outputs else made(_exchanged(each), each.dtype)
            launch("Transpose", each.permuted(order), whole)
    return tuple(tasks)


def _exchanged(tensor: GlobalTensor) -> tuple[int, ...]:
    a, b, c, d = tensor.shape
    return a, c, b, d


def _groups(shape: tuple[int, ...], angles: tuple[int, ...]) -> list[tuple[int, bool]]:
    """Axes of the rows and whether each has angles of its own, alike neighbours as one."""
    found: list[tuple[int, bool]] = []
    for size, own in zip(shape, angles, strict=True):
        if size == 1:
            continue
        if found and found[-1][1] == (own > 1):
            found[-1] = (found[-1][0] * size, own > 1)
        else:
            found.append((size, own > 1))
    return found or [(1, True)]


def neighbours_of(values: NDArray[Any]) -> NDArray[Any]:
    """Elements 2 i and 2 i + 1 exchanged."""
    pairs = values.reshape(*values.shape[:-1], -1, 2)
    return pairs[..., ::-1].reshape(values.shape)

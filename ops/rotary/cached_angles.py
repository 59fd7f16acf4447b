"""RopeWithSinCosCache: heads of queries and keys turned by angles of a cache, by token.

Tokens are dealt out to cores, as many at a time as UB holds. A token's cosines and sines are rows
of a cache, which the scalar unit finds by the token's position, or by three positions for sections
of the row (mrope). Every instruction waits for all before it. A strided view is made contiguous
first, which the vendor's kernel does without. Source: ops-transformer
posembedding/rope_with_sin_cos_cache, host tiling and device schedule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from npusim.ascendc import Core, GlobalTensor, Kernel, LocalTensor, RoundMode, TBuf, TPosition, TQue
from npusim.ascendc.task import Task, made
from npusim.schedules.bounds import fault_outside
from npusim.values.dtypes import FLOAT, INT32
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from numpy.typing import NDArray

    from npusim.ascendc.loops import Index, LoopIndex
    from npusim.hardware.profile import Profile

_TILES = {True: 8, False: 10}  # of turned elements in float32 for a token: host tiling


class Style(NamedTuple):
    """How heads are turned: elements of one, whether halves or neighbours, sections of a row."""

    head: int
    halves: bool
    sections: tuple[int, ...] = ()


class RopeWithSinCosCache(Kernel):
    """query and key [tokens, heads * head], of each head the first elements turned.

    Shapes: positions [tokens], or [3, tokens] with sections; cache [rows, turned], the cosines of
    a row before its sines.
    """

    def __init__(
        self,
        profile: Profile,
        given: tuple[GlobalTensor, GlobalTensor, GlobalTensor, GlobalTensor],
        results: tuple[GlobalTensor, GlobalTensor],
        style: Style,
    ) -> None:
        self.positions, query, key, self.cache = given
        self.pairs = tuple(zip((query, key), results, strict=True))
        self.reads, self.writes, self.style = given, results, style
        self.tokens, self.turned, self.kind = query.shape[0], self.cache.shape[1], query.dtype
        self.heads = [each.shape[1] // style.head for each in (query, key)]
        self._check(profile)
        cores = profile.cores.vector_cores
        bytes_per_token = max(self.heads) * FLOAT.itemsize
        bytes_per_token *= self.turned * _TILES[style.halves] + style.head
        self.at_once = int(profile.buffers.ub_bytes // bytes_per_token)
        if not self.at_once:
            raise KernelError(self.op_type, f"{max(self.heads)} heads are more than UB holds")
        self.block_dim = min(self.tokens, cores)
        self.each, self.longer = divmod(self.tokens, self.block_dim)

    def _check(self, profile: Profile) -> None:
        block, size = profile.buffers.block_bytes, self.kind.itemsize
        whole = self.turned % 2 == 0 and not (self.turned // 2 * size) % block
        if not whole or (self.style.head * size) % block or self.turned > self.style.head:
            problem = f"{self.turned} of {self.style.head} elements of a head aren't modelled"
            raise KernelError(self.op_type, problem)
        if self.style.sections and sum(self.style.sections) != self.turned // 2:
            problem = f"sections {list(self.style.sections)} of a row of {self.turned // 2} angles"
            raise KernelError(self.op_type, problem)

    def _count(self, block: int) -> int:
        return self.each + (block < self.longer)

    def block_kind(self, block_idx: int) -> Hashable:
        return self._count(block_idx)

    def process(self, core: Core) -> None:
        """Some tokens at a time, their queries and then their keys."""
        fault_outside(core, self.op_type, self.positions, self.cache.shape[0])
        block = core.get_block_idx()
        count = self._count(block)
        self._reserve(core, min(count, self.at_once))
        start = block * self.each + min(block, self.longer)
        for first, some in core.tiles(start, count, self.at_once):
            for place in range(len(self.pairs)):
                self._turn(core, place, first, some)

    def _reserve(self, core: Core, count: int) -> None:
        rows, size = count * max(self.heads), self.kind.itemsize
        sizes = dict.fromkeys(("x", "swapped", "signs", "angles"), rows * self.turned * 4)
        sizes |= {"part": rows * self.turned * size, "line": self.turned * 4}
        sizes |= {f"section{n}": self.turned // 2 * size for n in range(len(self.style.sections))}
        if not self.style.halves:
            sizes |= {"gathered": rows * self.turned * 4, "places": self.turned * INT32.itemsize}
        self.buffers = {name: TBuf(name) for name in sizes}
        for name, nbytes in sizes.items():
            core.pipe.init_buffer(self.buffers[name], 1, nbytes)
        self.given, self.row = (TQue(TPosition.VECIN, 1, name) for name in ("heads", "row"))
        self.out = TQue(TPosition.VECOUT, 1, "out")
        for queue in (self.given, self.out):
            core.pipe.init_buffer(queue, 1, rows * self.style.head * size)
        core.pipe.init_buffer(self.row, 1, self.turned * size)

    def _turn(self, core: Core, place: int, first: Index, count: int) -> None:
        """The queries or the keys of some tokens."""
        heads, head, turned = self.heads[place], self.style.head, self.turned
        source, target = self.pairs[place]
        window = ((first, heads * head),), (count, heads, head), (heads * head, head, 1)
        given = self.given.copy_in(source.window(*window))
        core.pipe_barrier()
        shape, half = (count, heads, turned), turned // 2
        x, swapped = (self.buffers[name].get(FLOAT, *shape) for name in ("x", "swapped"))
        self._bring(core, x, given)
        for _ in range(2):
            core.move_bursts(swapped, x, count * heads, self._blocks(half, 4, core))
            core.pipe_barrier()
        _arrange(core, swapped, x, how=lambda values: np.roll(values, half, axis=-1))
        if place == 0:
            self._signs(core, count)
        angles = self._angles(core, first, shape, 0)
        core.mul(x, angles, x)
        core.pipe_barrier()
        core.record_vector("vmul", swapped, swapped.numel)
        _arrange(core, swapped, swapped, how=self._signed)
        core.pipe_barrier()
        angles = self._angles(core, first, shape, half)
        core.mul(swapped, angles, swapped)
        core.pipe_barrier()
        core.add(x, swapped, x)
        core.pipe_barrier()
        out = self.out.alloc_tensor(self.kind, count, heads, head)
        self._take_away(core, out, x, given)
        self.given.free_tensor(given)
        self.out.copy_out(target.window(*window), out)
        core.pipe_barrier()

    # -- heads ---------------------------------------------------------------------------------

    def _bring(self, core: Core, x: LocalTensor, given: LocalTensor) -> None:
        """What is turned, in float32 and in halves."""
        rows, turned = x.rows, self.turned
        part = self.buffers["part"].get(self.kind, *x.shape)
        core.move_bursts(part, given, rows, self._blocks(turned, self.kind.itemsize, core))
        _arrange(core, part, given, how=lambda values: values[..., :turned])
        core.pipe_barrier()
        wide = x if self.style.halves else self.buffers["gathered"].get(FLOAT, *x.shape)
        if self.kind is FLOAT:
            core.move(wide, part)
        else:
            core.cast(wide, part)
        core.pipe_barrier()
        if not self.style.halves:
            for _ in core.loop(rows):
                for _ in range(2):  # elements at even places, then those at odd ones
                    core.record_vector("vreducev2", x, turned)
                    core.pipe_barrier()
            _arrange(core, x, wide, how=_in_halves)

    def _take_away(self, core: Core, out: LocalTensor, x: LocalTensor, given: LocalTensor) -> None:
        """Turned elements in the order and type of the heads, and behind them the others."""
        rows, turned, size = x.rows, self.turned, self.kind.itemsize
        done = x
        if not self.style.halves:
            places = self.buffers["places"].get(INT32, turned)
            core.emit_scalar("st_ub", stores=turned, turns=turned // 2, detail=places.buffer)
            done = self.buffers["gathered"].get(FLOAT, *x.shape)
            for _ in core.loop(rows):
                core.record_vector("vgather", done, turned)
                core.pipe_barrier()
            _arrange(core, done, x, how=_side_by_side)
        part = self.buffers["part"].get(self.kind, *x.shape)
        if self.kind is FLOAT:
            core.move(part, done)
        else:
            core.cast(part, done, RoundMode.CAST_RINT)
        core.pipe_barrier()
        for width in filter(None, (turned, self.style.head - turned)):
            core.move_bursts(out, part, rows, self._blocks(width, size, core))
            core.pipe_barrier()
        _arrange(
            core,
            out,
            part,
            given,
            how=lambda turns, heads: np.concatenate((turns, heads[..., turned:]), axis=-1),
        )

    # -- angles --------------------------------------------------------------------------------

    def _angles(self, core: Core, first: Index, shape: tuple[int, ...], column: int) -> LocalTensor:
        """Cosines or sines of every token, those of a row's halves alike, for each of its heads."""
        count, heads, turned = shape
        angles = self.buffers["angles"].get(FLOAT, *shape)
        for token in core.loop(count):
            row = self._row(core, first, token, column)
            line = self.buffers["line"].get(FLOAT, 1, turned // 2)
            if self.kind is FLOAT:
                core.move(line, row)
            else:
                core.cast(line, row)
            core.pipe_barrier()
            core.move_bursts(line, line, 1, self._blocks(turned // 2, 4, core))
            core.pipe_barrier()
            own = angles[token]
            core.record_vector("vadds", own, turned, rows=heads)
            _arrange(core, own, line, how=lambda values: _repeated(values, heads))
            self.row.free_tensor(row)
        core.pipe_barrier()
        return angles

    def _row(self, core: Core, first: Index, token: LoopIndex, column: int) -> LocalTensor:
        """The part of the cache that a token's positions name."""
        half, sections = self.turned // 2, self.style.sections or (self.turned // 2,)
        row = self.row.alloc_tensor(self.kind, 1, half)
        pieces, done = [], 0
        for number, width in enumerate(sections):
            places = ((first, 1), (token, 1), (number * self.tokens, 1))
            position = core.load_scalar(self.positions.window(places, (), ()))
            core.pipe_barrier()
            source = self.cache.window(
                ((position, self.turned), (column + done, 1)), (1, width), (self.turned, 1)
            )
            piece = row
            if self.style.sections:
                piece = self.buffers[f"section{number}"].get(self.kind, 1, width)
            core.copy_runs(piece, source)
            core.pipe_barrier()
            pieces.append(piece)
            done += width
        for piece in pieces if self.style.sections else ():
            core.record_vector("vadds", row, piece.numel)
            core.pipe_barrier()
        if self.style.sections:
            _arrange(core, row, *pieces, how=lambda *found: np.concatenate(found, axis=-1))
        self.row.enque(row)
        return self.row.deque(row)

    def _signs(self, core: Core, count: int) -> None:
        """Minus one for the first half of every head's turned elements, one for the second."""
        rows, turned = count * max(self.heads), self.turned
        signs = self.buffers["signs"].get(FLOAT, rows, turned)
        for _ in range(2):
            core.record_vector("vector_dup", signs, turned // 2)
        core.record_vector("vadds", signs, turned, rows=rows)
        core.pipe_barrier()

    def _signed(self, values: NDArray[Any]) -> NDArray[Any]:
        found = values.copy()
        found[..., : self.turned // 2] *= np.float32(-1)
        return found

    @staticmethod
    def _blocks(elements: int, itemsize: int, core: Core) -> int:
        return elements * itemsize // core.block_bytes


def _arrange(
    core: Core,
    dst: LocalTensor,
    *sources: LocalTensor,
    how: Callable[..., NDArray[Any]],
) -> None:
    """What the instructions before have brought to a tile, which may be read now."""
    core.arrange(dst, *sources, how=how)
    dst.check_write()


def _in_halves(values: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate((values[..., ::2], values[..., 1::2]), axis=-1)


def _side_by_side(values: NDArray[Any]) -> NDArray[Any]:
    first, second = np.split(values, 2, axis=-1)
    return np.stack((first, second), axis=-1).reshape(values.shape)


def _repeated(values: NDArray[Any], heads: int) -> NDArray[Any]:
    """A row (1, n) twice, for each of the heads."""
    return np.repeat(np.concatenate((values, values), axis=-1), heads, axis=-2)


def rope_with_sin_cos_cache(task: Task) -> tuple[Kernel, ...]:
    """Positions, queries, keys and the cache; numbers of heads follow from the size of one."""
    positions, query, key, cache = task.present(4)
    head = task.whole_number("headSize", 0)
    told = task.first("mropeSection")
    sections = tuple(told) if isinstance(told, list | tuple) and told and told[0] else ()
    rows = (len(sections),) if sections else ()
    fits = head > 0 and not any(each.shape[-1] % head for each in (query, key))
    if not fits or len(sections) not in (0, 3) or len(query.shape) != 2 or len(cache.shape) != 2:
        raise task.refused(f"queries {query.shape} and keys {key.shape} of heads of {head}")
    if positions.shape != (*rows, query.shape[0]) or key.shape[0] != query.shape[0]:
        raise task.refused(f"positions {positions.shape} of {query.shape[0]} tokens")
    if not query.numel or not key.numel:
        raise task.refused("queries and keys without elements aren't modelled")
    ours = [made(each.shape, each.dtype) for each in (query, key)]
    results = (*task.outputs, *ours[len(task.outputs) :])[:2]
    style = Style(head, task.attributes.get("isNeoxStyle", True) is not False, sections)
    given = positions, query, key, cache
    return (RopeWithSinCosCache(task.profile, given, (results[0], results[1]), style),)

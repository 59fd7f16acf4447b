"""The cube core's side of ChunkGatedDeltaRule: products of chunks, and of chunks with states."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.ascendc.events import Event
from npusim.engine.program import Pipe
from npusim.library.matmul import Matmul
from npusim.library.matmul_tiling import MatmulTiling
from npusim.library.operands import GmMatrix
from npusim.ops.recurrent.chunked_delta_work import (
    ADDED,
    CHUNK,
    DECAYED,
    HEARD,
    INVERSE,
    PRODUCTS,
    READ,
    ROWS,
    TOGETHER,
    VALUES,
    WRITTEN,
)
from npusim.values.dtypes import BFLOAT16

if TYPE_CHECKING:
    from collections.abc import Iterator

    from npusim.ascendc import Core, GlobalTensor
    from npusim.ascendc.cluster import CoreWait
    from npusim.engine.program import Barrier
    from npusim.ops.recurrent.chunked_delta_work import Call, Part, Place

    Steps = Iterator[Barrier | CoreWait]

_BASE, _HALF = 128, CHUNK // 2


class Products:
    """One object of the Matmul library, for blocks of 128, nothing of it doubled in L1."""

    def __init__(self, core: Core, kernel: Call) -> None:
        self.core, self.of = core, kernel
        tiling = MatmulTiling(_BASE, _BASE, _BASE, _BASE, False, False, 1, depth_1=1, depth_0=1)
        self.matmul = Matmul(core, tiling, BFLOAT16, BFLOAT16, _BASE)

    def begin(self) -> None:
        """Nothing."""

    def _own(self, space: GlobalTensor, place: int, at: int = 0) -> GmMatrix:
        """A matrix of the cluster's own workspace, from an element on."""
        columns = space.shape[-1]
        slot = self.core.get_block_idx() * TOGETHER + place
        return GmMatrix(space, ((slot * CHUNK * columns + at, 1),), columns)

    def _group(self, space: GlobalTensor, place: Place) -> GmMatrix:
        """A chunk's matrix of the group's workspace."""
        columns = space.shape[-1]
        starts = ((place.head, self.of.longest * columns), (place.chunk, CHUNK * columns))
        return GmMatrix(space, starts, columns)

    @staticmethod
    def _turned(matrix: GmMatrix) -> GmMatrix:
        return GmMatrix(matrix.tensor, matrix.start, matrix.step, True)

    def alone(self, part: Part) -> Steps:
        """What chunks say without a state: four heads of chunks at a time."""
        core, of, spaces, run = self.core, self.of, self.of.spaces, self.matmul.multiply
        for places in part.together(core, of.block_dim):
            yield core.cross_core_wait_flag(ROWS)
            for slot, _ in enumerate(places):
                keys = self._own(spaces.own_keys, slot)
                products = self._own(spaces.own_products, slot)
                run(products, keys, self._turned(keys), CHUNK, CHUNK, of.keys)
            core.cross_core_set_flag(PRODUCTS, Pipe.FIXP)
            for slot, place in enumerate(places):
                queries, keys = (
                    self._own(each, slot) for each in (spaces.own_queries, spaces.own_keys)
                )
                heard = self._group(spaces.heard, place)
                run(heard, queries, self._turned(keys), place.tokens, place.tokens, of.keys)
            core.cross_core_set_flag(HEARD, Pipe.FIXP)
            yield core.cross_core_wait_flag(INVERSE)
            for slot, _ in enumerate(places):
                self._invert(slot)
            yield core.cross_core_wait_flag(DECAYED)
            for slot, place in enumerate(places):
                run(self._group(spaces.decayed, place), self._own(spaces.own_inverse, slot),
                    self._own(spaces.own_decayed, slot), CHUNK, of.keys, CHUNK)  # fmt: skip
            yield core.cross_core_wait_flag(VALUES)
            for slot, place in enumerate(places):
                run(self._group(spaces.inner, place), self._own(spaces.own_inverse, slot),
                    self._own(spaces.own_values, slot), CHUNK, of.values, CHUNK)  # fmt: skip

    def _invert(self, slot: int) -> None:
        """The block below the inverted ones: between them, with the sign that it has got."""
        space = self.of.spaces.own_inverse
        first, below, last = (
            self._own(space, slot, at) for at in (0, _HALF * CHUNK, _HALF * CHUNK + _HALF)
        )
        for a, b in ((below, first), (last, below)):
            self.matmul.multiply(below, a, b, _HALF, _HALF, _HALF)
            self._stored()

    def _stored(self) -> None:
        """Loads from here on wait for what was stored before."""
        done = Event(self.core, Pipe.FIXP, Pipe.MTE2)
        done.set()
        done.wait()

    def _out(self, part: Part, place: Place) -> GmMatrix:
        """A chunk's rows of a head among the results."""
        of = self.of
        row = of.heads * of.values
        starts = (
            (part.first * row, 1), (place.chunk, CHUNK * row), (place.head, of.values),
        )  # fmt: skip
        return GmMatrix(of.out, starts, row)

    def _state(self, tensor: GlobalTensor, part: Part, place: Place) -> GmMatrix:
        of = self.of
        whole = of.values * of.keys
        starts = ((part.sequence * of.heads * whole, 1), (place.head, whole))
        return GmMatrix(tensor, starts, of.keys)

    def _added(self, c: GmMatrix, a: GmMatrix, b: GmMatrix, m: int, n: int, k: int) -> None:
        self.core.set_atomic_add()
        self.matmul.multiply(c, a, b, m, n, k)
        self.core.set_atomic_none()

    def through(self, part: Part) -> Steps:
        """States through chunks: what they say of keys and queries, and what is added to them."""
        core, of, spaces = self.core, self.of, self.of.spaces
        for place, fresh in part.states(core, of.block_dim):
            old = self._state(of.state if fresh else of.new, part, place)
            new, inner = self._state(of.new, part, place), self._group(spaces.inner, place)
            turned = self._turned(old)
            self._added(inner, self._group(spaces.decayed, place), turned, place.tokens,
                        of.values, of.keys)  # fmt: skip
            self.matmul.multiply(self._out(part, place), self._group(spaces.queries, place),
                                 turned, place.tokens, of.values, of.keys)  # fmt: skip
            core.cross_core_set_flag(READ, Pipe.FIXP)
            yield core.cross_core_wait_flag(WRITTEN)
            keys = self._group(spaces.keys, place)
            self._added(new, self._turned(inner), keys, of.values, of.keys, place.tokens)
            self._stored()
            core.cross_core_set_flag(ADDED, Pipe.FIXP)

    def within(self, part: Part) -> Steps:
        """What queries hear from keys of their own chunk."""
        core, of = self.core, self.of
        for place in part.single(core, of.block_dim):
            yield core.cross_core_wait_flag(WRITTEN)
            self._added(self._out(part, place), self._own(of.spaces.own_heard, 0),
                        self._group(of.spaces.inner, place), place.tokens, of.values,
                        place.tokens)  # fmt: skip
            core.cross_core_set_flag(ADDED, Pipe.FIXP)

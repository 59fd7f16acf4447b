"""Products: the cube core multiplies, and hands over to the vector cores by way of global memory.

The two kinds of cores meet in the order of the program: the vector cores store an operand and set
a flag, the cube core multiplies, stores the product and sets another, and nobody runs ahead of
what it waits for. Products that only loops add to and stores take away stay in L0C.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc import FLOAT, GlobalTensor, LocalTensor, Pipe, TPosition
from npusim.triton import numbers
from npusim.triton.held import GlobalPiece, Loan, Tile
from npusim.triton.tiles import Tiles
from npusim.values.arithmetic import round_up
from npusim.values.errors import BufferOverflowError

if TYPE_CHECKING:
    from collections.abc import Generator

    from npusim.ascendc import GmSlice
    from npusim.ascendc.cluster import CoreWait
    from npusim.engine.program import Barrier
    from npusim.triton.mlir import Operation, Value
    from npusim.values.dtypes import DType

    Steps = Generator[Barrier | CoreWait, None, list[Any]]
    Fetched = Generator[Barrier | CoreWait, None, Tile]

_MATRIX = 2  # axes
_WIDEST = 256  # columns and rows of a step of the cube


class Products(Tiles):
    """The cube side of a player."""

    def product(self, operation: Operation) -> Steps:
        """One product: (m, k) by (k, n), perhaps one for each of a batch."""
        if self.core.unit.kind == "cube":
            yield from self._multiply(operation)
        else:
            yield from self._serve(operation)
        return []

    # On the vector cores.

    def _serve(self, operation: Operation) -> Steps:
        """Hand operands over that the vector cores made, and fetch the product if they need it."""
        for place, value in enumerate(operation.ins):
            if self.program.is_vectors(value):
                self._hand_over(operation, place, value)
        if self.program.crosses(operation.results[0]):
            tile = yield from self._fetch(operation, operation.results[0])
            start = operation.outs[0]
            if not self.program.starts_at_zero(operation):
                added = self.tile(start)
                whole = self.result(
                    operation,
                    lambda: self.array(tile) + self.array(added),
                    [tile],
                )
                if self.core.recording and whole.local is not None:
                    with self.core.schedules():
                        sources = [self.local(each) for each in (tile, added)]
                        self.vector.elements(("vadd",), whole.local, sources)
                if tile.loan is not None:
                    tile.loan.give_back()
        return []

    def _hand_over(self, operation: Operation, place: int, value: Value) -> None:
        tile = self.tile(value)
        stored, _ = self.program.handed(value)
        crossing = self.launch.crossing(operation, place)
        if self.core.recording:
            with self.core.schedules():
                self.local(tile)
                shape = self.own_shape(stored, tile.shape)
                if not self.alone:
                    target = self._workspace(crossing, tile.dtype, shape)
                    self.take_away((operation, place), target, tile.dtype, shape)
        self.core.cross_core_set_flag(crossing.flag, Pipe.MTE3)
        if self.core.numerics and self.stores:
            self.launch.leave(self.core, crossing, self.array(tile))

    def _fetch(self, operation: Operation, value: Value) -> Fetched:
        crossing = self.launch.crossing(operation, -1 - operation.results.index(value))
        tile = yield from self._arrived(crossing, value)
        if self.core.recording:
            own = self.own_shape(value, tile.shape)
            queue = self.queue(crossing, TPosition.VECIN, self._slot_bytes(tile.dtype, own))
            with self.core.schedules():
                tile.local = queue.alloc_tensor(tile.dtype, *own)
                if not self.alone:
                    self.core.copy_runs(tile.local, self._workspace(crossing, tile.dtype, own))
            tile.loan = Loan(queue, tile.local)
        self.give_tile(value, tile)
        return tile

    def _arrived(self, crossing: Any, value: Value) -> Fetched:
        """A tile that the other kind of core has stored, and no place for it yet."""
        yield self.core.cross_core_wait_flag(crossing.flag)
        tile = Tile(numbers.DTYPES[value.type.element], value.type.shape or ())
        if self.core.numerics:
            tile.array = self.launch.take(self.core, crossing)
        return tile

    def _workspace(self, crossing: Any, dtype: DType, shape: tuple[int, ...]) -> GmSlice:
        """A region of the workspace for a tile, the same one in every turn of a loop."""
        buffer = self.launch.workspace
        held = buffer.nbytes // dtype.itemsize
        first = self.launch.workspace_at(self.core, crossing) // dtype.itemsize
        steps = tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))
        return GlobalTensor(buffer, dtype, (held,)).window(((first, 1),), shape, steps)

    # On the cube core.

    def _multiply(self, operation: Operation) -> Steps:
        operands = []
        for place, value in enumerate(operation.ins):
            if self.program.is_vectors(value):
                tile = yield from self._receive(operation, place, value)
            else:
                tile = self.tile(value)
            operands.append(tile)
        result, start = operation.results[0], operation.outs[0]
        stays = self.program.is_carried(start) or self.program.goes_on(operation)
        target = self.env[start.number] if stays else None
        adds = isinstance(target, Tile)
        if not isinstance(target, Tile):
            target = self._sums(operation, result)
        elif target.loan is not None:
            target.loan.holders += 1
        if self.core.recording:
            with self.core.schedules():
                self._steps(operation, operands, target, adds=adds)
        if self.core.numerics:
            self._compute(operands, target, adds=adds)
        for place, value in enumerate(operation.ins):
            loan = operands[place].loan
            if self.program.is_vectors(value) and loan is not None:
                loan.give_back()
        self.give_tile(result, target)
        if self.program.crosses(result):
            self._leave(operation, target, result)
        return []

    def _receive(self, operation: Operation, place: int, value: Value) -> Fetched:
        """An operand that the vector cores have stored."""
        crossing = self.launch.crossing(operation, place)
        stored, turned = self.program.handed(value)
        tile = yield from self._arrived(crossing, stored)
        if self.core.recording:
            dtype, shape = tile.dtype, tile.shape
            size = self._slot_bytes(dtype, shape)
            queue = self.queue((operation, place), TPosition.A1, size)
            with self.core.schedules():
                tile.local = queue.alloc_tensor(dtype, *shape)
                self.core.data_copy_nd2nz(tile.local, self._workspace(crossing, dtype, shape))
            tile.loan = Loan(queue, tile.local, by=Pipe.MTE1)
            self.ready(tile.loan)
        if turned:
            tile.turned, tile.shape = True, value.type.shape or ()
            tile.array = None if tile.array is None else tile.array.swapaxes(-1, -2)
        return tile

    def _sums(self, key: object, value: Value) -> Tile:
        """Room in L0C for a product."""
        dtype = numbers.DTYPES[value.type.element]
        shape = value.type.shape or ()
        tile = Tile(dtype, shape)
        if self.core.recording:
            need = self.core.costs.fractal_bytes(dtype.itemsize, shape, result=True)
            room = self.core.capacity_bytes("L0C")
            if need > room:
                raise BufferOverflowError(
                    self.program.name, f"L0C with a product {list(shape)} {dtype}", need, room,
                    "Use smaller blocks: BLOCK_M x BLOCK_N sums of 4 bytes have to fit.",
                )  # fmt: skip
            depth = 2 if 2 * need <= room and self.loops else 1
            queue = self.queue_of((key, "sums"), TPosition.CO1, depth, need)
            with self.core.schedules():
                tile.local = queue.alloc_tensor(dtype, *shape)
            tile.loan = Loan(queue, tile.local, by=Pipe.CUBE)
        return tile

    def _steps(
        self, operation: Operation, operands: list[Tile], target: Tile, *, adds: bool
    ) -> None:
        """Loads into L0 and products, in steps that L0 holds twice."""
        left, right = operands
        m, k = left.shape[-2:]
        n = right.shape[-1]
        size = left.dtype.itemsize
        core, cube = self.core, self.core.profile.cube
        deep = max(1, core.block_bytes // size)
        rows, columns = min(m, _WIDEST), min(n, _WIDEST)
        room = min(
            core.capacity_bytes("L0A") // 2 // (round_up(rows, cube.fractal_m) * size),
            core.capacity_bytes("L0B") // 2 // (round_up(columns, cube.fractal_n) * size),
        )
        step = max(deep, min(round_up(k, deep), room // deep * deep))
        hf32 = operation.has('"hf32"')
        kind = FLOAT if target.dtype.is_float else target.dtype
        for _ in range(prod(left.shape[:-2])):
            for i in range(0, m, rows):
                for j in range(0, n, columns):
                    high, wide = min(rows, m - i), min(columns, n - j)
                    sums = self._part(target.local, kind, (high, wide), "L0C")
                    for first in range(0, k, step):
                        here = min(step, k - first)
                        a = self._into_l0(left, (high, here), TPosition.A2)
                        b = self._into_l0(right, (here, wide), TPosition.B2)
                        core.mmad(sums, a[1], b[1], accumulate=adds or first > 0, hf32=hf32)
                        for queue, tile in (a, b):
                            queue.free_tensor(tile)

    def _into_l0(self, source: Tile, shape: tuple[int, int], position: TPosition) -> Any:
        core = self.core
        memory = "L0A" if position is TPosition.A2 else "L0B"
        half = core.capacity_bytes(memory) // 2
        queue = self.queue_of(memory, position, 2, half, memory.lower())
        tile = queue.alloc_tensor(source.dtype, *shape)
        lying = (shape[1], shape[0]) if source.turned else shape
        core.load_data(
            tile, self._part(source.local, source.dtype, lying, "L1"), transpose=source.turned
        )
        queue.enque(tile)
        return queue, queue.deque(tile)

    def _part(
        self, whole: LocalTensor | None, dtype: DType, shape: tuple[int, ...], memory: str
    ) -> LocalTensor:
        slot = whole.slot if whole is not None else memory
        return LocalTensor(self.core, dtype, shape, memory.lower(), slot, depth=0, memory=memory)

    def _compute(self, operands: list[Tile], target: Tile, *, adds: bool) -> None:
        left, right = (self.array(each) for each in operands)
        wide = np.float32 if target.dtype.is_float else np.float64
        found = np.matmul(left.astype(wide), right.astype(wide))
        found = found.astype(target.dtype.numpy)
        target.array = target.array + found if adds and target.array is not None else found

    def _leave(self, operation: Operation, tile: Tile, value: Value) -> None:
        """Hand a product over to the vector cores."""
        crossing = self.launch.crossing(operation, -1 - operation.results.index(value))
        if self.core.recording:
            with self.core.schedules():
                if tile.loan is not None:
                    self.ready(tile.loan)
                whole = self._workspace(crossing, tile.dtype, tile.shape)
                self.core.fixpipe(whole, self._part(tile.local, tile.dtype, tile.shape, "L0C"))
        self.core.cross_core_set_flag(crossing.flag, Pipe.FIXP)
        if self.core.numerics:
            self.launch.leave(self.core, crossing, self.array(tile))

    def fix(self, operation: Operation, target: GlobalPiece, tile: Tile) -> None:
        """L0C to global memory, converted on the way."""
        self.check_inside(operation, target)
        if self.core.recording and target.numel:
            with self.core.schedules():
                if tile.loan is not None:
                    self.ready(tile.loan)
                kind = FLOAT if tile.dtype.is_float else tile.dtype
                self.core.fixpipe(
                    self.gm_slice(target), self._part(tile.local, kind, target.sizes, "L0C")
                )
        if self.core.numerics and target.numel:
            target.array()[...] = self.array(tile).reshape(target.sizes)

    def enter_loop(self, operation: Operation, carried: list[Any]) -> None:
        """Sums that a loop carries begin in L0C."""
        if self.core.unit.kind != "cube":
            return
        for place, argument in enumerate(operation.regions[0].arguments[1:]):
            if self.program.is_carried(argument):
                tile = self._sums((operation, place), argument)
                if self.core.numerics:
                    tile.array = np.zeros(tile.shape, tile.dtype.numpy)
                carried[place] = tile

    def leave_loop(self, operation: Operation) -> Steps:
        """Sums that the vector cores need are handed over behind the loop."""
        for value in operation.results:
            if not (self.program.is_carried(value) and self.program.crosses(value)):
                continue
            if self.core.unit.kind == "cube":
                self._leave(operation, self.env[value.number], value)
            else:
                yield from self._fetch(operation, value)
        return []

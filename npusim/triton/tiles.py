"""Operations on tiles in UB: loads and stores, elements, reductions, order, single elements."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc import GlobalTensor, LocalTensor, Pipe, TPosition, TQue
from npusim.triton import atomics, calls, generic, numbers, reductions
from npusim.triton.held import UNKNOWN, GlobalPiece, Loan, LocalPiece, Tile
from npusim.triton.scalar import Scalars, number_of, predicate_of
from npusim.triton.vector import VectorWork, new_tile
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from npusim.ascendc import Core, GmSlice, LoopIndex
    from npusim.triton.kernel import TritonKernel
    from npusim.triton.mlir import Operation, Value
    from npusim.values.dtypes import DType

_CASTS = frozenset(
    "extf truncf sitofp uitofp fptosi fptoui extsi extui trunci index_cast".split()  # fmt: skip
)
_PIECES = (
    "memref.subview", "memref.reinterpret_cast", "memref.cast", "builtin.unrealized_conversion_cast"
)  # fmt: skip
_UNUSED = -1


class Tiles(Scalars):
    """The vector side of a player."""

    core: Core
    kernel: TritonKernel
    vector: VectorWork
    loops: int
    moves: list[tuple[LoopIndex, dict[object, int]]]

    def begin(self, kernel: TritonKernel, core: Core) -> None:
        """What is known before the first operation."""
        self.core, self.kernel = core, kernel
        self.vector = VectorWork(core)
        self.loops = 0
        self.moves = []
        self.queues: dict[object, TQue] = {}

    def is_mine(self, operation: Operation) -> bool:
        """Whether this core does an operation: the cube core of a mix serves products alone."""
        if operation.name in _PIECES:
            return True
        on_cube = operation in self.program.on_cube
        return on_cube == (self.core.unit.kind == "cube")

    def needs_data(self, operation: Operation) -> KernelError:
        """The error for a decision that shapes don't tell."""
        return self.refuse(
            operation,
            "what it does depends on what is in its tensors",
            "Launch it with tensors that have numbers, e.g. in npusim exec.",
        )

    def play_tile(self, operation: Operation) -> None:
        """One operation that has tiles or memory for operands or results."""
        dialect, _, name = operation.name.partition(".")
        if operation.name in _BY_NAME:
            _BY_NAME[operation.name](self, operation)
        elif dialect == "arith" and name in numbers.BINARY:
            self._elements(operation, numbers.BINARY[name])
        elif dialect == "math" and name in numbers.UNARY:
            self._elements(operation, numbers.UNARY[name])
        elif dialect == "arith" and name in numbers.UNARY:
            self._elements(operation, numbers.UNARY[name])
        elif dialect == "arith" and name in _CASTS:
            if self.core.unit.kind == "cube":
                self._recast_product(operation, name)
            else:
                self._cast(operation, name)
        elif operation.name in ("call", "func.call"):
            calls.play(self, operation)
        elif operation.name in _PIECES:
            self._piece(operation)
        else:
            raise self.unknown(operation)

    def unknown(self, operation: Operation, what: str = "") -> KernelError:
        """The error for an operation that isn't simulated."""
        return self.refuse(
            operation, f"{what or operation.name} isn't simulated", "Write it with others."
        )

    # Tiles.

    def new(
        self, dtype: DType, shape: tuple[int, ...], array: NDArray[Any] | None = None, **more: Any
    ) -> Tile:
        """A tile that the vector unit writes."""
        local = new_tile(self.core, dtype, shape, "tile") if self.core.recording else None
        return Tile(dtype, shape, array, local, **more)

    def tile(self, value: Value) -> Tile:
        """The tile that a value is."""
        found = self.env[value.number]
        if isinstance(found, LocalPiece):
            found = found.tile
        if not isinstance(found, Tile):
            raise KernelError(
                self.program.name, f"{value.name}, which other cores compute, is used on this one"
            )
        if found.loan is not None and found.loan.queue.position is not TPosition.CO1:
            self.ready(found.loan)
        return found

    def shape_of(self, value: Value, *likes: Tile) -> tuple[int, ...]:
        """The shape of a result; sizes that only the run knows are those of its operands."""
        shape = value.type.shape or ()
        if _UNUSED not in shape:
            return shape
        return next(each.shape for each in likes)

    def array(self, tile: Tile) -> NDArray[Any]:
        """The numbers of a tile, of its whole shape."""
        if tile.array is None:
            filled = 0 if tile.number is None else tile.number
            tile.array = np.full(tile.shape, filled, tile.dtype.numpy)
        return tile.array

    def operand(self, tile: Tile) -> Any:
        """As :meth:`array`, or the one number that all elements are."""
        if tile.array is None and tile.is_number:
            return np.asarray(tile.number, tile.dtype.numpy)[()]
        return self.array(tile)

    def local(self, tile: Tile) -> LocalTensor:
        """The tile for instructions; one number is filled in where an instruction needs a tile."""
        if tile.local is None:
            tile.local = new_tile(self.core, tile.dtype, tile.shape, "tile")
            if tile.is_number:
                self.vector.fill(tile.local)
            else:
                self.core.filled(tile.local)
        return tile.local

    def give_tile(self, value: Value, tile: Tile) -> None:
        """The result of an operation."""
        self.env[value.number] = tile

    def own_shape(self, value: Value, shape: tuple[int, ...]) -> tuple[int, ...]:
        """What of a tile this vector core works on, where the two of a block share the rows."""
        return shape

    # Memory.

    def queue(self, key: object, position: TPosition, nbytes: int) -> TQue:
        """The queue of an operation: two slots within a loop where the compiler doubles buffers."""
        if key not in self.queues:
            doubled = self.loops > 0 and self.program.options.get("multibuffer", True) is not False
            made = TQue(position, 1 + doubled, str(position).lower())
            size = max(self.core.block_bytes, -(-nbytes // self.core.block_bytes) * self.core.block_bytes)
            made.attach(self.core, 1 + doubled, size)
            self.queues[key] = made
        return self.queues[key]

    def ready(self, loan: Loan) -> None:
        """Those who read a slot wait until it is filled."""
        if not loan.ready and loan.local is not None and self.core.recording:
            loan.queue.enque(loan.local)
            loan.queue.deque(loan.local)
            loan.ready = True

    def _alloc(self, operation: Operation) -> None:
        value = operation.results[0]
        dtype = numbers.DTYPES[value.type.element]
        shape = tuple(self.numbers(operation.operands)) or (value.type.shape or ())
        if _UNUSED in shape or len(shape) != len(value.type.shape or ()):
            raise self.unknown(operation, "an allocation of a size that depends on the run")
        tile = Tile(dtype, shape)
        if self.core.numerics:
            tile.array = np.zeros(shape, dtype.numpy)
        if self.core.recording:
            position = TPosition.A1 if self.core.unit.kind == "cube" else TPosition.VECIN
            queue = self.queue(operation, position, self._slot_bytes(dtype, shape))
            with self.core.schedules():
                tile.local = queue.alloc_tensor(dtype, *shape)
            unread = Pipe.MTE1 if self.core.unit.kind == "cube" else Pipe.VECTOR
            tile.loan = Loan(queue, tile.local, by=unread)
        whole = tuple(slice(0, size) for size in shape)
        self.env[value.number] = LocalPiece(tile, whole, shape)

    def _slot_bytes(self, dtype: DType, shape: tuple[int, ...]) -> int:
        if self.core.unit.kind == "cube" and len(shape) > 1:
            return self.core.costs.fractal_bytes(dtype.itemsize, shape)
        *rows, last = shape or (1,)
        block = self.core.block_bytes
        return prod(rows) * (-(-last * dtype.itemsize // block) * block)

    def _piece(self, operation: Operation) -> None:
        held = self.env[operation.operands[0].number]
        if not isinstance(held, LocalPiece) or operation.name != "memref.subview":
            self.play_scalar(operation)
            return
        offsets, sizes, steps = map(self.numbers, operation.lists)
        if UNKNOWN in (*offsets, *sizes) or any(step != 1 for step in steps):
            raise self.unknown(operation, "a piece of a tile whose place depends on the run")
        cut = tuple(
            slice(each.start + offset, each.start + offset + size)
            for each, offset, size in zip(held.cut, offsets, sizes, strict=True)
        )
        if held.tile.loan is not None:
            held.tile.loan.holders += 1
        self.env[operation.results[0].number] = LocalPiece(held.tile, cut, sizes)

    def _to_tensor(self, operation: Operation) -> None:
        found = self.env[operation.operands[0].number]
        if not isinstance(found, LocalPiece):
            raise self.unknown(operation, "a tensor that is global memory")
        if found.tile.loan is not None:
            found.tile.loan.holders += 1
        self.env[operation.results[0].number] = found.tile

    def _to_memref(self, operation: Operation) -> None:
        tile = self.tile(operation.operands[0])
        if tile.loan is not None:
            tile.loan.holders += 1
        whole = tuple(slice(0, size) for size in tile.shape)
        self.env[operation.results[0].number] = LocalPiece(tile, whole, tile.shape)

    def gm_slice(self, piece: GlobalPiece) -> GmSlice:
        """A piece of global memory for a copy, which loops move."""
        held = piece.buffer.nbytes // piece.dtype.itemsize
        whole = GlobalTensor(piece.buffer, piece.dtype, (held,))
        places: list[Any] = [(piece.offset, 1)]
        for index, moves in self.moves:
            moved = moves.get(piece.moved_by, 0)
            if moved:
                places.append((index, moved))
        return whole.window(tuple(places), piece.sizes, piece.strides)

    def check_inside(self, operation: Operation, piece: GlobalPiece) -> None:
        """Refuse what goes beyond a tensor: on the card it reads or overwrites others."""
        if piece.offset is UNKNOWN:
            raise self.needs_data(operation)
        first, end = piece.reach()
        held = piece.buffer.nbytes // piece.dtype.itemsize
        if first < 0 or end > held:
            raise self.refuse(
                operation,
                f"elements {first} to {end - 1} of {piece.buffer.name} are touched, which has "
                f"{held}",
                "Mask what lies beyond the tensor (mask=..., boundary_check=...).",
            )

    def _copy(self, operation: Operation) -> None:
        source, target = (self.env[each.number] for each in operation.operands)
        if isinstance(source, GlobalPiece) and isinstance(target, LocalPiece):
            self._load(operation, source, target)
        elif isinstance(source, LocalPiece) and isinstance(target, GlobalPiece):
            self._store(operation, target, source.tile, source.cut)
        elif isinstance(source, LocalPiece) and isinstance(target, LocalPiece):
            if self.core.numerics:
                target.array()[...] = source.array()
            if self.core.recording and target.tile.local and source.tile.local:
                with self.core.schedules():
                    self.vector.move(target.tile.local, source.tile.local)
        elif source is UNKNOWN or target is UNKNOWN:
            raise self.needs_data(operation)
        else:
            raise self.unknown(operation, "a copy from global memory to global memory")

    def _load(self, operation: Operation, source: GlobalPiece, target: LocalPiece) -> None:
        if not source.numel:
            return
        self.check_inside(operation, source)
        tile, core = target.tile, self.core
        if core.numerics:
            target.array()[...] = source.array()
        if core.recording and tile.local is not None:
            part = tile.local.same_place(*target.sizes)
            part.tile = tile.local.tile
            with core.schedules():
                self.bring(part, self.gm_slice(source))

    def bring(self, part: LocalTensor, source: GmSlice) -> None:
        """Global memory to UB; the cube core turns rows into fractals on the way to L1."""
        if self.core.unit.kind == "cube" and len(part.shape) > 1:
            self.core.data_copy_nd2nz(part, source)
        else:
            self.core.copy_runs(part, source)

    def _materialize(self, operation: Operation) -> None:
        target = self.env[operation.operands[1].number]
        if target is UNKNOWN:
            raise self.needs_data(operation)
        tile = self.tile(operation.operands[0])
        if isinstance(target, LocalPiece):
            if self.core.numerics:
                target.array()[...] = self.array(tile)
            return
        if self.core.unit.kind == "cube":
            self.fix(operation, target, tile)
        else:
            self._store(operation, target, tile, ())

    def fix(self, operation: Operation, target: GlobalPiece, tile: Tile) -> None:
        """A product leaves the cube core."""
        raise NotImplementedError

    def _store(
        self, operation: Operation, target: GlobalPiece, tile: Tile, cut: tuple[slice, ...]
    ) -> None:
        if not target.numel:
            return
        self.check_inside(operation, target)
        core = self.core
        if core.recording:
            with core.schedules():
                self.local(tile)
                self.take_away(operation, self.gm_slice(target), tile.dtype, target.sizes)
        if core.numerics and self.stores:
            target.array()[...] = self.array(tile)[cut].reshape(target.sizes)

    @property
    def stores(self) -> bool:
        """Whether this core's stores count: both vector cores of a block compute all of it."""
        return not self.core.unit.sub_block

    def take_away(
        self, key: object, target: GmSlice, dtype: DType, shape: tuple[int, ...]
    ) -> None:
        """UB to global memory, when the vector unit has done what it was given."""
        queue = self.queue(key, TPosition.VECOUT, self._slot_bytes(dtype, shape))
        out = queue.alloc_tensor(dtype, *shape)
        queue.enque(out)
        self.core.copy_runs(target, queue.deque(out))
        queue.free_tensor(out)

    # Elements.

    def result(
        self, operation: Operation, compute: Callable[[], Any], likes: Sequence[Tile], index: int = 0
    ) -> Tile:
        """A new tile with what is computed, if the run has numbers."""
        value = operation.results[index]
        dtype = numbers.DTYPES[value.type.element]
        shape = self.shape_of(value, *likes)
        array = None
        if self.core.numerics:
            with np.errstate(all="ignore"):
                found = np.asarray(compute())
            if found.dtype != dtype.numpy:
                found = found.astype(dtype.numpy)
            array = np.broadcast_to(found, shape) if found.shape != shape else found
        tile = self.new(dtype, shape, array)
        self.give_tile(value, tile)
        return tile

    def _elements(self, operation: Operation, row: numbers.Row) -> None:
        tiles = [self.tile(each) for each in operation.operands]
        if all(each.is_number for each in tiles):
            self._fold_numbers(operation, row.compute, tiles)
            return
        tile = self.result(
            operation, lambda: row.compute(*map(self.operand, tiles)), tiles
        )
        if self.core.recording and tile.local is not None:
            with self.core.schedules():
                names, sources = self._with_number(operation.name, row, tiles)
                self.vector.elements(names, tile.local, [self.local(each) for each in sources])

    def _fold_numbers(self, operation: Operation, compute: Callable[..., Any], tiles: list[Tile]) -> None:
        """An operation on numbers that fill tiles is one of the scalar unit."""
        value = operation.results[0]
        dtype = numbers.DTYPES[value.type.element]
        number: Any = UNKNOWN
        if not any(each.number is UNKNOWN for each in tiles):
            with np.errstate(all="ignore"):
                found = compute(*(np.asarray(each.number, each.dtype.numpy)[()] for each in tiles))
            number = np.asarray(found).astype(dtype.numpy)[()]
        self.give_tile(value, Tile(dtype, self.shape_of(value, *tiles), number=number))

    def _with_number(
        self, name: str, row: numbers.Row, tiles: list[Tile]
    ) -> tuple[tuple[str, ...], list[Tile]]:
        """The instructions where an operand is one number: the chip takes it from a register."""
        if len(tiles) == 2 and row.with_number:
            left, right = tiles
            if right.is_number:
                return (row.with_number,), [left]
            if left.is_number:
                turned = name in ("arith.subf", "arith.subi")
                return (("vmuls", "vadds") if turned else (row.with_number,)), [right]
        shift = name in ("arith.shli", "arith.shrsi", "arith.shrui")
        return row.instructions, tiles[:1] if shift and tiles[-1].is_number else tiles

    def _cast(self, operation: Operation, name: str) -> None:
        source = self.tile(operation.operands[0])
        kinds = operation.operands[0].type.element, operation.results[0].type.element
        if source.is_number:
            self._fold_numbers(
                operation, lambda each: numbers.converted(np.asarray(each), *kinds, name), [source]
            )
            return
        tile = self.result(
            operation, lambda: numbers.converted(self.array(source), *kinds, name), [source]
        )
        self.converted(tile, source)

    def _recast_product(self, operation: Operation, name: str) -> None:
        """A product in another dtype: the fixpipe converts it on its way out."""
        source = self.tile(operation.operands[0])
        kinds = operation.operands[0].type.element, operation.results[0].type.element
        tile = Tile(numbers.DTYPES[kinds[1]], source.shape, local=source.local)
        if self.core.numerics:
            tile.array = numbers.converted(self.array(source), *kinds, name)
        self.share(tile, source)
        self.give_tile(operation.results[0], tile)

    def converted(self, tile: Tile, source: Tile) -> None:
        """Write down the conversion of a tile."""
        if self.core.recording and tile.local is not None:
            with self.core.schedules():
                self.vector.convert(tile.local, self.local(source))

    def _bitcast(self, operation: Operation) -> None:
        source = self.tile(operation.operands[0])
        kind = numbers.DTYPES[operation.results[0].type.element].numpy
        tile = Tile(numbers.DTYPES[operation.results[0].type.element], source.shape)
        if self.core.numerics:
            tile.array = self.array(source).view(kind)
        if self.core.recording:
            own = self.local(source)
            tile.local = own.same_place(*tile.shape, dtype=tile.dtype)
        self.share(tile, source)
        self.give_tile(operation.results[0], tile)

    def share(self, tile: Tile, source: Tile) -> None:
        """A tile shows the memory of another."""
        tile.loan = source.loan
        if tile.loan is not None:
            tile.loan.holders += 1

    def _compare(self, operation: Operation) -> None:
        tiles = [self.tile(each) for each in operation.operands]
        predicate, floats = predicate_of(operation), operation.name == "arith.cmpf"
        if all(each.is_number for each in tiles):
            self._fold_numbers(
                operation, lambda a, b: numbers.compared(predicate, a, b, floats=floats), tiles
            )
            return
        tile = self.result(
            operation,
            lambda: numbers.compared(predicate, *map(self.operand, tiles), floats=floats),
            tiles,
        )
        if self.core.recording and tile.local is not None:
            with self.core.schedules():
                mode = numbers.COMPARISONS[predicate][1]
                sources = [self.local(each) for each in tiles if not each.is_number]
                self.vector.compare(mode, tile.local, sources)

    def _select(self, operation: Operation) -> None:
        test = self.env[operation.operands[0].number]
        left, right = (self.tile(each) for each in operation.operands[1:])
        if not isinstance(test, Tile):
            if test is UNKNOWN:
                raise self.needs_data(operation)
            chosen = left if test else right
            if chosen.loan is not None:
                chosen.loan.holders += 1
            self.give_tile(operation.results[0], chosen)
            return
        tile = self.result(
            operation,
            lambda: np.where(*map(self.operand, (test, left, right))),
            [test, left, right],
        )
        if self.core.recording and tile.local is not None:
            with self.core.schedules():
                if left.is_number:
                    self.local(left)
                sources = [self.local(each) for each in (left, right) if each.local or not each.is_number]
                self.vector.elements(("vsel",), tile.local, sources)

    def _constant(self, operation: Operation) -> None:
        value = operation.results[0]
        dtype, shape = numbers.DTYPES[value.type.element], value.type.shape or ()
        inside = operation.text.split("dense<", 1)[1].rsplit(">", 2)[0].split("> :")[0]
        if "[" not in inside:
            number = number_of(inside.strip(), value.type.element)
            self.give_tile(value, Tile(dtype, shape, number=number))
            return
        words = inside.replace("[", " ").replace("]", " ").split(",")
        found = [number_of(each.strip(), value.type.element) for each in words]
        self.give_tile(value, self.new(dtype, shape, np.array(found, dtype.numpy).reshape(shape)))

    def _fill(self, operation: Operation) -> None:
        number = self.env[operation.ins[0].number]
        target = operation.outs[0]
        held = self.env[target.number]
        if isinstance(held, LocalPiece):
            if self.core.numerics:
                held.array()[...] = number
            if self.core.recording and held.tile.local is not None:
                with self.core.schedules():
                    self._fill_before_load(held)
            return
        shape = self.shape_of(target, *([held] if isinstance(held, Tile) else []))
        tile = Tile(numbers.DTYPES[target.type.element], shape, number=number)
        if operation.results:
            self.give_tile(operation.results[0], tile)

    def _fill_before_load(self, piece: LocalPiece) -> None:
        local = piece.tile.local
        assert local is not None
        if self.core.unit.kind == "cube":
            path = self.core.costs.path("gm_to_l1")
            if path is not None:
                nbytes = piece.tile.numel * piece.tile.dtype.itemsize
                cycles = self.core.costs.on_chip(path, nbytes)
                self.core.recorder.emit(Pipe.MTE2, "create_cbuf_matrix", cycles, detail="zeros")
            return
        self.vector.fill(local)
        self.core.recorder.link(Pipe.VECTOR, Pipe.MTE2)

    def _empty(self, operation: Operation) -> None:
        value = operation.results[0]
        sizes = iter(self.numbers(operation.operands))
        shape = tuple(next(sizes) if each == _UNUSED else each for each in value.type.shape or ())
        if UNKNOWN in shape:
            raise self.needs_data(operation)
        self.give_tile(value, Tile(numbers.DTYPES[value.type.element], shape))

    # Order.

    def _broadcast(self, operation: Operation) -> None:
        source = self.tile(operation.ins[0])
        added = operation.lists[-1]
        shape = operation.results[0].type.shape or ()
        if source.is_number:
            self.give_tile(operation.results[0], Tile(source.dtype, shape, number=source.number))
            return
        around = tuple(1 if axis in added else size for axis, size in enumerate(shape))
        tile = self.result(
            operation, lambda: np.broadcast_to(self.array(source).reshape(around), shape), [source]
        )
        self.moved(tile, source)

    def moved(self, tile: Tile, source: Tile) -> None:
        """Write down that elements are copied within UB."""
        if self.core.recording and tile.local is not None:
            with self.core.schedules():
                self.vector.move(tile.local, self.local(source))

    def _transpose(self, operation: Operation) -> None:
        source = self.tile(operation.ins[0])
        order = tuple(int(each) for each in operation.lists[-1])  # type: ignore[arg-type]
        shape = tuple(source.shape[axis] for axis in order)
        if source.is_number:
            self.give_tile(operation.results[0], Tile(source.dtype, shape, number=source.number))
            return
        if self.core.unit.kind == "cube":
            turned = Tile(source.dtype, shape, local=source.local, turned=not source.turned)
            if self.core.numerics:
                turned.array = self.array(source).transpose(order)
            self.share(turned, source)
            self.give_tile(operation.results[0], turned)
            return
        tile = self.result(operation, lambda: self.array(source).transpose(order), [source])
        if not (self.core.recording and tile.local is not None):
            return
        with self.core.schedules():
            if order[-1] == len(order) - 1:
                self.vector.move(tile.local, self.local(source))
            else:
                self.vector.turn(tile.local, self.local(source))

    def _reshape(self, operation: Operation) -> None:
        source = self.tile(operation.operands[0])
        shape = operation.results[0].type.shape or ()
        if _UNUSED in shape:
            sizes = self.numbers(operation.lists[-1]) if operation.lists else ()
            shape = tuple(sizes) if len(sizes) == len(shape) else _completed(shape, source.numel)
        tile = Tile(source.dtype, shape, number=source.number)
        if self.core.numerics and source.array is not None:
            tile.array = source.array.reshape(shape)
        elif self.core.numerics and not source.is_number:
            tile.array = self.array(source).reshape(shape)
        if self.core.recording and source.local is not None:
            tile.local = source.local.same_place(*shape)
            tile.local.tile = source.local.tile
        self.share(tile, source)
        self.give_tile(operation.results[0], tile)

    def _cut(self, operation: Operation) -> None:
        source = self.tile(operation.operands[0])
        offsets, sizes, steps = map(self.numbers, operation.lists)
        if UNKNOWN in (*offsets, *sizes):
            raise self.needs_data(operation)
        kept = operation.results[0].type.shape or ()
        shape = _without_ones(sizes, len(kept))
        if source.is_number:
            self.give_tile(operation.results[0], Tile(source.dtype, shape, number=source.number))
            return
        cut = tuple(
            slice(first, first + (size - 1) * step + 1, step) if size else slice(0, 0)
            for first, size, step in zip(offsets, sizes, steps, strict=True)
        )
        tile = Tile(source.dtype, shape)
        if self.core.numerics:
            tile.array = self.array(source)[cut].reshape(shape)
        if self.core.unit.kind == "cube":
            tile.local = source.local
            self.share(tile, source)
        elif self.core.recording:
            whole = self.local(source)
            if self._is_start(operation, offsets, steps):
                tile.local = whole.same_place(*shape)
                tile.local.tile = whole.tile
                self.share(tile, source)
            else:
                tile.local = new_tile(self.core, source.dtype, shape, "tile")
                with self.core.schedules():
                    self.vector.move(tile.local, whole)
        self.give_tile(operation.results[0], tile)

    def _is_start(
        self, operation: Operation, offsets: Sequence[int], steps: Sequence[int]
    ) -> bool:
        """Whether a part is only a shorter view: of the first elements, for a store."""
        users = self.program.users.get(operation.results[0], [])
        stored = all(each.name == "bufferization.materialize_in_destination" for each in users)
        return (stored or not any(offsets)) and all(each == 1 for each in steps)

    def _put(self, operation: Operation) -> None:
        """insert_slice: a tile with a part of it replaced."""
        part, whole = (self.tile(each) for each in operation.operands[:2])
        offsets, sizes, steps = map(self.numbers, operation.lists)
        if UNKNOWN in (*offsets, *sizes):
            raise self.needs_data(operation)
        cut = tuple(
            slice(first, first + (size - 1) * step + 1, step) if size else slice(0, 0)
            for first, size, step in zip(offsets, sizes, steps, strict=True)
        )

        def placed() -> NDArray[Any]:
            found = self.array(whole).copy()
            found[cut] = self.array(part).reshape(sizes)
            return found

        tile = self.result(operation, placed, [whole])
        if self.core.recording and tile.local is not None:
            with self.core.schedules():
                self.core.filled(tile.local)
                piece = LocalTensor(
                    self.core, part.dtype, part.shape, "tile", tile.local.slot, depth=0
                )
                self.vector.move(piece, self.local(part))

    def _concat(self, operation: Operation) -> None:
        parts = [self.tile(each) for each in operation.operands]
        axis = int(operation.text.split("dim(", 1)[1].split(")", 1)[0])
        tile = self.result(
            operation, lambda: np.concatenate([self.array(each) for each in parts], axis), parts
        )
        for part in parts:
            self.moved(tile, part)

    # Single elements.

    def extract(self, operation: Operation) -> None:
        """One element of a tile as a number of the scalar unit."""
        value = operation.results[0]
        if not self.is_mine(operation) and self.core.unit.kind == "cube":
            self.env[value.number] = UNKNOWN
            return
        source = self.tile(operation.operands[0])
        places = self.numbers(operation.lists[-1]) if operation.lists else ()
        number: Any = UNKNOWN
        if source.is_number:
            number = source.number
        elif self.core.numerics and UNKNOWN not in places:
            found = self.array(source)[places]
            floats = source.dtype.is_float
            number = found if floats else (bool(found) if found.dtype == np.bool_ else int(found))
        if self.core.recording and not source.is_number:
            with self.core.schedules():
                self.core.wait_vector()
                self.core.emit_scalar("ld_ub", loads=1, detail="tile")
        self.env[value.number] = number

    def load_element(self, operation: Operation) -> None:
        """Write down that the scalar unit loads an element of global memory."""
        if self.core.recording:
            with self.core.schedules():
                self.core.load_lines(1)

    def _insert(self, operation: Operation) -> None:
        number = self.env[operation.operands[0].number]
        whole = self.tile(operation.operands[1])
        places = self.numbers(operation.lists[-1])

        def placed() -> NDArray[Any]:
            found = self.array(whole).copy()
            found[places] = number
            return found

        tile = self.result(operation, placed, [whole])
        if self.core.recording and tile.local is not None:
            with self.core.schedules():
                self.core.emit_scalar("st_ub", stores=1, detail="tile")
                self.core.filled(tile.local)

    def _store_element(self, operation: Operation) -> None:
        number, piece = (self.env[each.number] for each in operation.operands[:2])
        places = self.numbers(operation.lists[0])
        if not isinstance(piece, GlobalPiece) or UNKNOWN in places:
            raise self.unknown(operation, "a store of one element to UB")
        one = piece.cut(tuple(places), (1,) * len(places), (1,) * len(places))
        self.check_inside(operation, one)
        if self.core.recording:
            with self.core.schedules():
                self.core.emit_scalar("st_gm", stores=1, detail=piece.buffer.name)
        if self.core.numerics and self.stores:
            one.array()[...] = number

    def _generic(self, operation: Operation) -> None:
        if operation.has("GenericAtomic"):
            atomics.play(self, operation)
        else:
            generic.play(self, operation)

    def _wide_product(self, operation: Operation) -> None:
        """Both halves of products of integers."""
        left, right = (self.tile(each) for each in operation.operands)
        bits = numbers.INTEGER_BITS[operation.results[0].type.element]
        signed = operation.name == "arith.mulsi_extended"

        def product() -> NDArray[Any]:
            pair = [np.asarray(self.operand(each)) for each in (left, right)]
            if not signed:
                pair = [each.view(f"u{each.dtype.itemsize}") for each in pair]
            wide = [each.astype(object if bits > 32 else (np.int64 if signed else np.uint64)) for each in pair]
            return np.asarray(wide[0] * wide[1])

        mask = (1 << bits) - 1
        kind = np.dtype(f"u{bits // 8}")
        low = self.result(
            operation, lambda: (product() & mask).astype(kind).view(f"i{bits // 8}"), [left, right]
        )
        high = self.result(
            operation, lambda: (product() >> bits & mask).astype(kind).view(f"i{bits // 8}"),
            [left, right], 1,
        )  # fmt: skip
        if self.core.recording and low.local is not None and high.local is not None:
            with self.core.schedules():
                self.vector.by_scalar("mul_extended", low.local, 2)
                self.core.filled(high.local)

    def _fused(self, operation: Operation) -> None:
        self._elements(operation, numbers.FUSED)

    def _power(self, operation: Operation) -> None:
        self._elements(operation, numbers.POWER)

    def _nothing(self, operation: Operation) -> None:
        """An operation that tells the compiler something."""

    def _reduce(self, operation: Operation) -> None:
        reductions.play(self, operation)


def _completed(shape: tuple[int, ...], elements: int) -> tuple[int, ...]:
    known = prod(each for each in shape if each != _UNUSED)
    return tuple(elements // known if each == _UNUSED else each for each in shape)


def _without_ones(sizes: tuple[int, ...], axes: int) -> tuple[int, ...]:
    """Sizes without as many axes of one as a result lacks."""
    kept = list(sizes)
    for axis in reversed(range(len(kept))):
        if len(kept) > axes and kept[axis] == 1:
            del kept[axis]
    return tuple(kept)


_BY_NAME: dict[str, Callable[[Any, Operation], None]] = {
    "memref.alloc": Tiles._alloc,
    "memref.copy": Tiles._copy,
    "memref.store": Tiles._store_element,
    "bufferization.to_tensor": Tiles._to_tensor,
    "bufferization.to_memref": Tiles._to_memref,
    "bufferization.materialize_in_destination": Tiles._materialize,
    "bufferization.alloc_tensor": Tiles._empty,
    "tensor.empty": Tiles._empty,
    "arith.constant": Tiles._constant,
    "arith.cmpi": Tiles._compare,
    "arith.cmpf": Tiles._compare,
    "arith.select": Tiles._select,
    "arith.bitcast": Tiles._bitcast,
    "arith.mulsi_extended": Tiles._wide_product,
    "arith.mului_extended": Tiles._wide_product,
    "math.fma": Tiles._fused,
    "math.powf": Tiles._power,
    "linalg.fill": Tiles._fill,
    "linalg.broadcast": Tiles._broadcast,
    "linalg.transpose": Tiles._transpose,
    "linalg.reduce": Tiles._reduce,
    "linalg.generic": Tiles._generic,
    "tensor.expand_shape": Tiles._reshape,
    "tensor.collapse_shape": Tiles._reshape,
    "tensor.reshape": Tiles._reshape,
    "tensor.extract_slice": Tiles._cut,
    "tensor.insert_slice": Tiles._put,
    "tensor.concat": Tiles._concat,
    "tensor.insert": Tiles._insert,
    "annotation.mark": Tiles._nothing,
    "memref.dealloc": Tiles._nothing,
}

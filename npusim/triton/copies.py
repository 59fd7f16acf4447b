"""Tiles in UB and L1, and the copies between them and global memory."""

from __future__ import annotations

import sys
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc import GlobalTensor, LocalTensor, Pipe, TPosition, TQue
from npusim.triton import numbers
from npusim.triton.held import UNKNOWN, GlobalPiece, Loan, LocalPiece, Tile
from npusim.triton.scalar import NeedsNumbersError, Scalars
from npusim.triton.vector import VectorWork, new_tile
from npusim.values.arithmetic import round_up
from npusim.values.errors import KernelError
from npusim.values.sites import site_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from npusim.ascendc import Core, GmSlice, LoopIndex
    from npusim.triton.launch import Launch
    from npusim.triton.mlir import Operation, Value
    from npusim.values.dtypes import DType

PIECES = (
    "memref.subview", "memref.reinterpret_cast", "memref.cast", "builtin.unrealized_conversion_cast"
)  # fmt: skip
UNSAID = -1  # a size that only the run tells


class Copies(Scalars):
    """The part of a player that has tiles, and brings them in and out."""

    core: Core
    launch: Launch
    vector: VectorWork
    loops: int
    moves: list[tuple[LoopIndex, dict[object, int]]]

    def begin(self, launch: Launch, core: Core) -> None:
        """What is known before the first operation."""
        self.core, self.launch = core, launch
        self.vector = VectorWork(core)
        self.loops = 0
        self.moves = []
        self.queues: dict[object, TQue] = {}
        self.lines: set[tuple[int, int] | None] = set()  # of global memory, in the scalar's cache
        self.before: dict[int, NDArray[Any]] = {}  # memory before it was compared and swapped
        self.shared = launch.shared if core.unit.kind == "vector" else {}
        self.alone = not launch.shared and core.unit.sub_block == 1

    def is_mine(self, operation: Operation) -> bool:
        """Whether this core does an operation: the cube core of a mix serves products alone."""
        if operation.name in PIECES:
            return True
        on_cube = operation in self.program.on_cube
        return on_cube == (self.core.unit.kind == "cube")

    def needs_data(self, operation: Operation) -> KernelError:
        """The error for a decision that shapes don't tell."""
        return self.refuse(
            operation,
            "what it does depends on what is in its tensors",
            "Launch it with tensors that have numbers, e.g. in npusim exec.",
            NeedsNumbersError,
        )

    def unknown(self, operation: Operation, what: str = "") -> KernelError:
        """The error for an operation that isn't simulated."""
        return self.refuse(
            operation, f"{what or operation.name} isn't simulated", "Write it with others."
        )

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
        if UNSAID not in shape:
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

    def result(
        self,
        operation: Operation,
        compute: Callable[[], Any],
        likes: Sequence[Tile],
        index: int = 0,
        *,
        is_known: bool = False,
    ) -> Tile:
        """A new tile with what is computed, if the run has numbers or all that it needs is known.

        A run without numbers knows single elements that the scalar unit has put into tiles.
        """
        value = operation.results[index]
        dtype = numbers.DTYPES[value.type.element]
        shape = self.shape_of(value, *likes)
        array = None
        if self.core.numerics or is_known:
            with np.errstate(all="ignore"):
                found = np.asarray(compute())
            if found.dtype != dtype.numpy:
                found = found.astype(dtype.numpy)
            array = np.broadcast_to(found, shape) if found.shape != shape else found
        tile = Tile(dtype, shape, array)
        if self.core.recording:
            tile.local = new_tile(self.core, dtype, self.own_shape(value, shape), "tile")
        self.give_tile(value, tile)
        return tile

    def share(self, tile: Tile, source: Tile) -> None:
        """A tile shows the memory of another."""
        tile.loan = source.loan
        if tile.loan is not None:
            tile.loan.holders += 1

    def own_rows(self, whole: int, size: int) -> tuple[int, int]:
        """Of ``size`` rows of a tile of ``whole``: this core's first one, and how many."""
        half = -(-whole // 2)
        first = half if self.core.unit.sub_block else 0
        return min(first, size), max(0, min(size - first, whole - half if first else half))

    def own_shape(self, value: Value, shape: tuple[int, ...]) -> tuple[int, ...]:
        """What of a tile this vector core works on, where the two of a block share the rows."""
        axis = self.shared.get(value)
        if axis is None:
            return shape
        rows = max(1, self.own_rows(shape[axis], shape[axis])[1])
        return (*shape[:axis], rows, *shape[axis + 1 :])

    def own_piece(self, value: Value, piece: GlobalPiece) -> GlobalPiece:
        """What of a piece of global memory this vector core copies."""
        axis = self.shared.get(value)
        if axis is None or axis >= len(piece.sizes):
            return piece
        whole = (value.type.shape or piece.sizes)[axis]
        first, rows = self.own_rows(whole if whole > 0 else piece.sizes[axis], piece.sizes[axis])
        offsets = tuple(first if each == axis else 0 for each in range(len(piece.sizes)))
        sizes = tuple(rows if each == axis else n for each, n in enumerate(piece.sizes))
        return piece.cut(offsets, sizes, (1,) * len(sizes))

    def queue(self, key: object, position: TPosition, nbytes: int) -> TQue:
        """The queue of an operation: two slots within a loop where the compiler doubles buffers."""
        doubled = self.loops > 0 and self.program.options.get("multibuffer", True) is not False
        block = self.core.block_bytes
        return self.queue_of(key, position, 1 + doubled, round_up(max(1, nbytes), block))

    def queue_of(
        self, key: object, position: TPosition, depth: int, nbytes: int, name: str = ""
    ) -> TQue:
        """The queue that is kept under a key, made with so many slots when first asked for."""
        if key not in self.queues:
            made = TQue(position, depth, name or str(position).lower())
            made.attach(self.core, depth, nbytes)
            self.queues[key] = made
        return self.queues[key]

    def ready(self, loan: Loan) -> None:
        """Those who read a slot wait until it is filled."""
        if not loan.ready and loan.local is not None and self.core.recording:
            loan.queue.enque(loan.local)
            loan.queue.deque(loan.local)
            loan.ready = True

    def alloc(self, operation: Operation) -> None:
        """Room for a tile: a slot of the operation's queue."""
        value = operation.results[0]
        dtype = numbers.DTYPES[value.type.element]
        shape = tuple(self.numbers(operation.operands)) or (value.type.shape or ())
        if UNSAID in shape or len(shape) != len(value.type.shape or ()):
            raise self.unknown(operation, "an allocation of a size that depends on the run")
        tile = Tile(dtype, shape)
        if self.core.numerics:
            tile.array = np.zeros(shape, dtype.numpy)
        if self.core.recording:
            position = TPosition.A1 if self.core.unit.kind == "cube" else TPosition.VECIN
            queue = self.queue(operation, position, self._slot_bytes(dtype, shape))
            with self.core.schedules():
                tile.local = queue.alloc_tensor(dtype, *self.own_shape(value, shape))
            unread = Pipe.MTE1 if self.core.unit.kind == "cube" else Pipe.VECTOR
            tile.loan = Loan(queue, tile.local, by=unread)
        whole = tuple(slice(0, size) for size in shape)
        self.env[value.number] = LocalPiece(tile, whole, shape)

    def _slot_bytes(self, dtype: DType, shape: tuple[int, ...]) -> int:
        if self.core.unit.kind == "cube" and len(shape) > 1:
            return self.core.costs.fractal_bytes(dtype.itemsize, shape)
        *rows, last = shape or (1,)
        block = self.core.block_bytes
        return prod(rows) * round_up(last * dtype.itemsize, block)

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

    def to_tensor(self, operation: Operation) -> None:
        """What has been copied into a tile's memory, as a tile."""
        found = self.env[operation.operands[0].number]
        if not isinstance(found, LocalPiece):
            raise self.unknown(operation, "a tensor that is global memory")
        if found.tile.loan is not None:
            found.tile.loan.holders += 1
        self.env[operation.results[0].number] = found.tile

    def to_memref(self, operation: Operation) -> None:
        """A tile as memory."""
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
        if not piece.numel:
            return
        first, end = piece.reach()
        held = piece.buffer.nbytes // piece.dtype.itemsize
        if first < 0 or end > held:
            raise self.refuse(
                operation,
                f"elements {first} to {end - 1} of {piece.buffer.name} are touched, which has "
                f"{held}",
                "Mask what lies beyond the tensor (mask=..., boundary_check=...).",
            )

    def copy(self, operation: Operation) -> None:
        """A copy between global memory and a tile."""
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
        tile, core = target.tile, self.core
        beyond = self._is_beyond(operation, source)
        if core.numerics:
            before = self.before.pop(operation.operands[0].number, None)
            if before is None:
                before = self._with_what_lies_behind(source) if beyond else source.array()
            target.array()[...] = before
        if core.recording and tile.local is not None:
            own = self.own_piece(operation.operands[1], source)
            part = tile.local.same_place(*own.sizes)
            part.tile = tile.local.tile
            if own.numel and not self.alone:
                with core.schedules():
                    self.bring(part, self.gm_slice(own))

    def _is_beyond(self, operation: Operation, piece: GlobalPiece) -> bool:
        """Whether a load goes beyond its tensor, which is told once for each line.

        The card loads what lies there, unless nothing does; a kernel that doesn't store what comes
        of it is right all the same.
        """
        if piece.offset is UNKNOWN:
            raise self.needs_data(operation)
        first, end = piece.reach()
        held = piece.buffer.nbytes // piece.dtype.itemsize
        if first >= 0 and end <= held:
            return False
        self.tell_beyond(operation, piece, first, end, held)
        return True

    def tell_beyond(
        self, operation: Operation, piece: GlobalPiece, first: int, end: int, held: int
    ) -> None:
        """Say once of an operation that it loads what lies beyond a tensor."""
        if operation in self.launch.told:
            return
        self.launch.told.add(operation)
        line = site_of(operation.line.file, operation.line.line)
        sys.stderr.write(
            f"note: kernel {self.program.name}, {line}: elements {first} to {end - 1} of "
            f"{piece.buffer.name} are loaded, which has {held}: what lies beyond is taken for "
            "0 here; mask the load\n"
        )

    def _with_what_lies_behind(self, piece: GlobalPiece) -> NDArray[Any]:
        """The numbers of a piece, 0 where it leaves its tensor."""
        data = piece.data
        if data is None:
            raise KernelError(self.program.name, f"{piece.buffer.name} has no numbers")
        places: Any = piece.offset
        for axis, (size, step) in enumerate(zip(piece.sizes, piece.strides, strict=True)):
            around = [1] * len(piece.sizes)
            around[axis] = size
            places = places + (np.arange(size) * step).reshape(around)
        inside = (places >= 0) & (places < data.size)
        return np.where(inside, data[np.where(inside, places, 0)], data.dtype.type(0))

    def bring(self, part: LocalTensor, source: GmSlice) -> None:
        """Global memory to UB; the cube core turns rows into fractals on the way to L1."""
        if self.core.unit.kind == "cube" and len(part.shape) > 1:
            self.core.data_copy_nd2nz(part, source)
        else:
            self.core.copy_runs(part, source)

    def materialize(self, operation: Operation) -> None:
        """A tile stored to memory."""
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
                own = self.own_piece(operation.operands[0], target)
                if own.numel and not self.alone:
                    whole = self.program.whole_shape(operation.operands[0])
                    self.take_away(operation, self.gm_slice(own), tile.dtype, own.sizes, whole)
        if core.numerics and self.stores:
            target.array()[...] = self.array(tile)[cut].reshape(target.sizes)

    @property
    def stores(self) -> bool:
        """Whether this core's stores count: both vector cores of a block compute all of it."""
        return not self.core.unit.sub_block

    def take_away(
        self,
        key: object,
        target: GmSlice,
        dtype: DType,
        shape: tuple[int, ...],
        whole: tuple[int, ...] = (),
    ) -> None:
        """UB to global memory, when the vector unit has done what it was given.

        ``whole`` is the shape of which ``shape`` is what this run stores.
        """
        nbytes = max(self._slot_bytes(dtype, each) for each in (shape, whole) if UNSAID not in each)
        queue = self.queue(key, TPosition.VECOUT, nbytes)
        out = queue.alloc_tensor(dtype, *shape)
        queue.enque(out)
        self.core.copy_runs(target, queue.deque(out))
        queue.free_tensor(out)

    def _fill_before_load(self, piece: LocalPiece) -> None:
        local = piece.tile.local
        if local is None:
            return
        if self.core.unit.kind == "cube":
            path = self.core.costs.path("gm_to_l1")
            if path is not None:
                nbytes = piece.tile.numel * piece.tile.dtype.itemsize
                cycles = self.core.costs.on_chip(path, nbytes)
                self.core.recorder.emit(Pipe.MTE2, "create_cbuf_matrix", cycles, detail="zeros")
            return
        self.vector.fill(local)
        self.core.recorder.link(Pipe.VECTOR, Pipe.MTE2)

"""What tensors, queues, events and intrinsics need of the core that they are on.

An intrinsic computes on host memory that the core hands out, and appends one instruction to one of
the core's pipes. :class:`Issuer` is just that, without any intrinsic; the intrinsics are classes
that inherit it, and :class:`npusim.ascendc.core.Core` is all of them together.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from npusim.ascendc import host_memory, observer, rounding
from npusim.ascendc.chains import Chain
from npusim.ascendc.loop_scopes import LoopScopes
from npusim.ascendc.recorder import Recorder
from npusim.ascendc.views import Views
from npusim.engine.program import Pipe, Program, Unit
from npusim.values.dtypes import FLOAT16, DType
from npusim.values.errors import KernelError, UnsupportedIntrinsicError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.chains import Engine
    from npusim.ascendc.costs import InstructionCosts
    from npusim.ascendc.loops import LoopIndex
    from npusim.ascendc.observer import Follower
    from npusim.hardware.profile import Profile

_SCALAR, _VECTOR = Pipe.SCALAR, Pipe.VECTOR  # quicker than by their class
_VECTOR_PIPES = (Pipe.SCALAR, Pipe.VECTOR, Pipe.MTE2, Pipe.MTE3)
_CUBE_PIPES = (Pipe.SCALAR, Pipe.MTE2, Pipe.MTE1, Pipe.CUBE)


StepT = TypeVar("StepT")


class Tile(Protocol):
    """What an issuer knows of a local tensor."""

    @property
    def dtype(self) -> DType: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def slot(self) -> object: ...
    @property
    def depth(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def row_elements(self) -> int: ...
    @property
    def buffer(self) -> str: ...
    def check_read(self) -> None: ...
    def check_write(self) -> None: ...


class Issuer:
    """One core of one block, as far as intrinsics see it.

    ``numerics`` says whether this run has numbers, ``recording`` whether instructions are being
    written down (not for the second and later batches of iterations of a loop, nor for cores that
    do what another already did). ``phase`` counts the barriers passed so far.
    """

    def __init__(
        self,
        kernel_name: str,
        costs: InstructionCosts,
        unit: Unit,
        program: Program,
        storage: dict[object, NDArray[Any]],
        *,
        numerics: bool,
        recording: bool,
        widened: bool,
        engine: Engine | None = None,
    ) -> None:
        self.kernel_name = kernel_name
        self.profile: Profile = costs.profile
        self.costs = costs
        self.unit = unit
        self.recorder = Recorder(_pipes(costs.profile, unit), program)
        self.numerics = numerics
        self.recording = recording
        self.scheduling = False  # instructions are written down whose numbers are found elsewhere
        self.widened = widened
        self.chain = Chain(
            engine if numerics else None, saturates=not self.profile.features.inf_nan
        )
        self.block_bytes = costs.profile.buffers.block_bytes
        self.phase = 0
        self._storage = storage
        self._capacities: dict[str, int] = {}  # bytes by memory, as they are asked for
        self.loops: list[LoopIndex] = []  # around the code that runs now
        self.depth = 0  # how many they are
        self.scopes = LoopScopes(kernel_name)
        self._last_written: object = None
        self.slowed = 1.0  # how many times longer vector instructions take for conflicts of banks
        self.shares_rows = False  # rows of one operand are added to several rows of a tile at once
        self.singles: dict[int, Any] = {}  # single elements that a formula takes, as read
        self._unread: set[object] = set()
        self._filled: set[object] = set()
        self.observer = observer.current()
        self.reference = False  # every load copies
        self.views = Views()
        self.awaited: list[object] = []  # what the code has yet to yield
        self.own_code = False  # of a user: it is watched
        self.follower: Follower | None = None  # looks at every byte that is touched
        self.users_code = False  # whose copies are looked at before they are believed

    def get_block_num(self) -> int:
        """Number of blocks of the launch: one, for a core by itself."""
        return 1

    def touched(self, place: object, *, writes: bool = False, adds: bool = False) -> None:
        """A copy of numbers reads a slice of global memory, ``writes`` it or ``adds`` to it."""

    def awaits(self, step: StepT) -> StepT:
        """Something that the kernel's code has to yield next."""
        self.awaited.append(step)
        return step

    def settle(self, results: NDArray[Any]) -> None:
        """Bring numbers that were just computed into what the chip can leave of them."""
        if not self.profile.features.inf_nan:
            rounding.saturate(results)

    def computed(self, name: str, tile: Tile, times: int = 1) -> None:
        """Tell who watches that an intrinsic has worked on the numbers of a tile."""
        if self.observer is not None and self.numerics:
            self.observer.computed(self, name, tile, times)

    def stack_size(self, first: int, last: int) -> int:
        """Iterations executed at once by the loops at depths ``first <= d < last``."""
        return prod(index.last - index.first for index in self.loops[first:last])

    def repeats_since(self, depth: int) -> int:
        """How often what is written down now runs in each turn of the loop at ``depth``."""
        return prod(index.count for index in self.loops[depth:])

    def storage(self, tensor: Tile) -> NDArray[Any]:
        """Host memory for a local tensor.

        One array per slot, as large as the largest use of it, reused by all cores.
        """
        stack = tuple(index.last - index.first for index in self.loops[: tensor.depth])
        shape = stack + tensor.shape
        key = (tensor.slot, tensor.dtype)
        size = prod(shape)
        array = self._storage.get(key)
        if array is None or array.size < size:
            wide = self.widened and tensor.dtype is FLOAT16
            held = np.dtype(np.float32 if wide else tensor.dtype.numpy)
            array = self._storage[key] = host_memory.zeros(size, held)
        return array[:size].reshape(shape)

    def capacity_bytes(self, memory: str) -> int:
        """Size of an on-chip memory of this core: UB, L1, L0A, L0B or L0C.

        0 where only its neighbours have it.
        """
        found = self._capacities.get(memory)
        if found is None:
            alone = self.profile.cores.style == "split"
            away = alone and (memory == "UB") != (self.unit.kind == "vector")
            held = getattr(self.profile.buffers, f"{memory.lower()}_bytes")
            found = self._capacities[memory] = 0 if away else held or 0
        return found

    def require(self, intrinsic: str, tensor: Tile, *others: Tile) -> None:
        """Refuse a dtype that the chip's intrinsic doesn't have, and operands of other dtypes."""
        self.same_dtypes(intrinsic, tensor, *others)
        if not self.profile.supports_vector(intrinsic, tensor.dtype.intrinsic):
            raise UnsupportedIntrinsicError(
                self.kernel_name,
                intrinsic,
                tensor.dtype.intrinsic,
                self.profile.name,
                self.profile.vector_dtypes(intrinsic),
            )

    def same_dtypes(self, intrinsic: str, *tensors: Tile) -> None:
        """Refuse operands of different dtypes, as Ascend C's templates do."""
        dtype = tensors[0].dtype
        if not all(tensor.dtype is dtype for tensor in tensors):
            operands = ", ".join(f"{tensor.buffer} {tensor.dtype}" for tensor in tensors)
            raise KernelError(
                self.kernel_name,
                f"{intrinsic} on operands of different dtypes: {operands}",
                "Cast them to one dtype first (core.cast).",
            )

    def wrote(self, tensor: Tile) -> None:
        """Remember the last vector result: who reads it next pays the pipeline's depth."""
        tensor.check_write()
        self.noted(tensor)

    def noted(self, tensor: Tile) -> None:
        """Like :meth:`wrote`, for one of several instructions whose numbers are found together."""
        slot = self._last_written = tensor.slot
        self._unread.add(slot)
        self._filled.add(slot)

    def filled(self, tensor: Tile) -> None:
        """An instruction that puts numbers into ``tensor``; which ones, ``arrange`` may say."""
        self._filled.add(tensor.slot)

    def set_register(self) -> None:
        """The vector unit's last instruction left nothing in UB for the next one to wait for."""
        self._last_written = None

    def reads_last(self, *tensors: Tile) -> bool:
        """True when one of ``tensors`` is the result of the vector instruction just before."""
        last, found = self._last_written, False
        for tensor in tensors:
            tensor.check_read()
            found = found or tensor.slot == last
        return found

    def is_last(self, tensor: Tile) -> bool:
        """True when ``tensor``, which is written now, is the last vector result."""
        return tensor.slot == self._last_written

    def is_unread(self, tensor: Tile) -> bool:
        """True when the vector unit wrote ``tensor`` after the scalar unit last waited for it."""
        tensor.check_read()
        return tensor.slot in self._unread

    def wait_vector(self) -> None:
        """Let the scalar unit wait until the vector unit has done what it was given (V to S flag).

        Reading a vector result does so by itself; before a loop it saves a wait per iteration.
        """
        if self.recording:
            self.recorder.after_vector()
        self._unread.clear()

    def issue(
        self,
        intrinsic: str,
        shape_of: Tile,
        reads: tuple[Tile, ...],
        writes: Tile | None = None,
        *,
        by_blocks: bool = False,
    ) -> None:
        """Append one vector instruction over the rows of ``shape_of``, into it or ``writes``.

        ``by_blocks`` may go through several short rows at once, a block of each.
        """
        target = shape_of if writes is None else writes
        if self.recording:
            detail = shape_text(shape_of.dtype.intrinsic, shape_of.shape or (1,))
            self.emit_vector(
                intrinsic,
                shape_of.dtype,
                shape_of.row_elements,
                rows=shape_of.rows,
                chained=self.reads_last(*reads) or self.is_last(target),
                by_blocks=by_blocks,
                detail=detail,
            )
        self.wrote(target)

    def emit_vector(
        self,
        intrinsic: str,
        dtype: DType,
        elements: int,
        *,
        rows: int = 1,
        chained: bool,
        by_blocks: bool = False,
        detail: str = "",
    ) -> None:
        """Append a vector instruction over ``rows`` rows of ``elements`` elements."""
        if self.recording:
            name = dtype.intrinsic
            cycles = self.costs.vector(
                intrinsic,
                name,
                dtype.itemsize,
                elements,
                rows=rows,
                chained=chained,
                by_blocks=by_blocks,
            )
            detail = detail or f"{name} {rows}x{elements}"
            if self.slowed > 1:
                cycles, detail = cycles * self.slowed, f"{detail}, bank conflicts x{self.slowed:g}"
            self.recorder.emit(_VECTOR, intrinsic, cycles, None, detail)

    def emit_scalar(
        self,
        name: str,
        *,
        loads: float = 0,
        stores: float = 0,
        operations: float = 0,
        turns: float = 0,
        detail: str = "",
    ) -> None:
        """Append work of the scalar unit on so many elements of UB, one by one."""
        if self.recording:
            cycles = self.costs.scalar(
                loads=loads, stores=stores, operations=operations, turns=turns
            )
            self.recorder.emit(_SCALAR, name, cycles, None, detail)

    def scalar_call(self, times: int = 1) -> None:
        """What a call of a vector instruction on a number of elements costs the scalar unit."""
        self.scalar_alu("call", times * self.profile.scalar.call_operations)

    def scalar_alu(self, name: str, count: int = 1) -> None:
        """``count`` operations of the scalar ALU, e.g. loop control that a kernel does by hand."""
        self.emit_scalar(name, operations=count)


@lru_cache(maxsize=1 << 12)
def shape_text(dtype: str, shape: tuple[int, ...]) -> str:
    """A tile as details of instructions tell it: ``float16 128x64``."""
    return f"{dtype} {'x'.join(map(str, shape))}"


def _pipes(profile: Profile, unit: Unit) -> tuple[Pipe, ...]:
    """The pipes of a core; without a fixpipe, the vector unit takes results of the cube out."""
    if unit.kind == "vector":
        return _VECTOR_PIPES
    leaving = (Pipe.FIXP,) if profile.paths.l0c_to_gm else (Pipe.VECTOR, Pipe.MTE3)
    if profile.paths.l1_to_gm and Pipe.MTE3 not in leaving:
        leaving = (*leaving, Pipe.MTE3)
    return (*_CUBE_PIPES, *leaving)

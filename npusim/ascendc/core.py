"""One AI core as kernel code sees it.

Block index, memories, loops, and the intrinsics of the other modules.
"""

from __future__ import annotations

from contextlib import contextmanager
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc.cluster import Cluster, Crossing
from npusim.ascendc.intrinsics.copy import Copies
from npusim.ascendc.intrinsics.cube import Cube
from npusim.ascendc.intrinsics.fill import Fills
from npusim.ascendc.intrinsics.gather import Addressing
from npusim.ascendc.intrinsics.rearrange import Rearranging
from npusim.ascendc.intrinsics.reduce import Reductions
from npusim.ascendc.intrinsics.scalar import Scalars
from npusim.ascendc.loops import LoopIndex
from npusim.ascendc.queues import TPipe
from npusim.ascendc.recorder import Recorder
from npusim.engine.program import Barrier, Pipe, Unit
from npusim.values.dtypes import FLOAT16

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from npusim.ascendc.costs import InstructionCosts
    from npusim.ascendc.gm import GmSlice
    from npusim.ascendc.kernel import Kernel
    from npusim.ascendc.tensors import LocalTensor
    from npusim.hardware.profile import Profile

_STACK_BYTES = 1 << 24  # numbers worked on at once per core: few calls of NumPy, in L3

_VECTOR_PIPES = (Pipe.SCALAR, Pipe.VECTOR, Pipe.MTE2, Pipe.MTE3)
_CUBE_PIPES = (Pipe.SCALAR, Pipe.MTE2, Pipe.MTE1, Pipe.CUBE)


class Core(Reductions, Copies, Cube, Scalars, Fills, Addressing, Crossing, Rearranging):
    """One block of a kernel.

    Every intrinsic computes on its tile and appends one instruction to its pipe.

    ``numerics`` says whether this run has numbers, ``recording`` whether instructions are being
    written down (not for the second and later batches of iterations of a loop, nor for cores that
    do what another already did). In a ``reference`` run there are no shortcuts: every iteration is
    executed by itself, and each instruction both computes and is written down.
    """

    def __init__(
        self,
        kernel: Kernel,
        profile: Profile,
        costs: InstructionCosts,
        block_idx: int,
        block_num: int,
        *,
        numerics: bool,
        recording: bool,
        storage: dict[object, NDArray[Any]],
        unit: Unit,
        cluster: Cluster,
        reference: bool = False,
    ) -> None:
        self.kernel_name = kernel.op_type
        self.profile = profile
        self.costs = costs
        self.numerics = numerics
        self.recording = recording
        self.reference = reference
        self.unit = unit
        self.cluster = cluster
        cluster.cores.append(self)
        self.recorder = Recorder(_pipes(profile, unit), cluster.new_program())
        self.block_bytes = profile.buffers.block_bytes
        self.pipe = TPipe(self)
        self.phase = 0  # barriers passed so far
        self._block_idx = block_idx
        self._block_num = block_num
        self._loops: list[LoopIndex] = []
        self._storage = storage
        self.widened = any(tensor.buffer.wide for tensor in (*kernel.reads, *kernel.writes))
        self._last_written: object = None
        self._unread: set[object] = set()
        self._atomic_sharers = 0.0
        self._put_off: list[tuple[GmSlice, NDArray[Any], int]] | None = None

    def get_block_idx(self) -> int:
        """Index of this block, 0 <= index < :meth:`get_block_num`."""
        return self._block_idx

    def get_block_num(self) -> int:
        """Number of blocks of the launch (block_dim)."""
        return self._block_num

    def sync_all(self) -> Barrier:
        """Wait for all cores. Kernels write ``yield core.sync_all()``.

        Nobody passes before everybody has come.
        """
        if self.recording:
            self.recorder.barrier()
        self.phase += 1
        self._last_written = None
        return Barrier()

    @property
    def depth(self) -> int:
        """Number of loops around the code that runs now."""
        return len(self._loops)

    def loop(
        self, count: int, *, sequential: bool = False, inner_bytes: int = 0, at_once: int = 0
    ) -> Iterator[LoopIndex]:
        """Loop over ``count`` alike iterations (``for i in core.loop(n)``), recorded once.

        The body is executed for many iterations at once, so it must not carry values from one
        iteration to the next; ``sequential=True`` executes them one by one for bodies that do.
        ``inner_bytes`` is what an iteration works on when inner loops make that more than the
        core's buffers, ``at_once`` the number of iterations to execute at once when one iteration
        works on far less than the core's buffers.
        """
        if count <= 0:
            return
        counted = self.recording and not self.reference
        if counted:
            self.recorder.enter_loop()
        depth, recording = self.depth, self.recording
        one_by_one = sequential or self.reference
        step = 1 if one_by_one else at_once or self._batch(count, inner_bytes)
        executed = count if self.numerics or self.reference else 1
        for first in range(0, executed, step):
            last = min(first + step, executed)
            self._loops.append(LoopIndex(depth, first, last, count))
            self._last_written = None
            yield self._loops[-1]
            self._loops.pop()
            if first == 0 and counted:
                self.recorder.leave_loop(count, depth)
                self.recording = False
        self.recording = recording
        self._last_written = None

    def tiles(
        self, start: int, length: int, tile_length: int, *, sequential: bool = False
    ) -> Iterator[tuple[LoopIndex, int]]:
        """Cut ``length`` elements from ``start`` into tiles.

        Yields (first element, elements) of each.

        All full tiles come as one loop (one by one if ``sequential``); a shorter last tile comes as
        a loop of its own.
        """
        full, rest = divmod(length, tile_length)
        for index in self.loop(full, sequential=sequential):
            yield index * tile_length + start, tile_length
        if rest:
            for index in self.loop(1):
                yield index * rest + (start + full * tile_length), rest

    def separately(self, schedule: Callable[[], None], compute: Callable[[], None]) -> None:
        """Work whose numbers are found at once, and whose instructions differ from tile to tile.

        ``schedule`` is written down without numbers, and ``compute`` computes without being written
        down. A reference run executes ``schedule`` alone, which has to compute the same numbers.
        """
        if self.reference:
            schedule()
            return
        if self.recording:
            with self.schedule_only():
                schedule()
        if self.numerics:
            with self.numbers_only():
                compute()

    @contextmanager
    def schedule_only(self) -> Iterator[None]:
        """Inside, instructions are written down and nothing is computed.

        With :meth:`numbers_only` this separates the two for work whose loops differ from tile to
        tile: the same body is recorded with each tile's own counts, and computed for all of them
        together.
        """
        numerics, self.numerics = self.numerics, False
        try:
            yield
        finally:
            self.numerics = numerics

    @contextmanager
    def numbers_only(self) -> Iterator[None]:
        """Inside, numbers are computed (if the run has any) and nothing is written down."""
        recording, self.recording = self.recording, False
        try:
            yield
        finally:
            self.recording = recording

    def capacity_bytes(self, memory: str) -> int:
        """Size of an on-chip memory of this core: UB, L1, L0A, L0B or L0C.

        0 where only its neighbours have it.
        """
        if self.profile.cores.style == "split" and (memory == "UB") != (self.unit.kind == "vector"):
            return 0
        found: int | None = getattr(self.profile.buffers, f"{memory.lower()}_bytes")
        return found or 0

    def stack_size(self, first: int, last: int) -> int:
        """Iterations executed at once by the loops at depths ``first <= d < last``."""
        return prod(index.last - index.first for index in self._loops[first:last])

    def storage(self, tensor: LocalTensor) -> NDArray[Any]:
        """Host memory for a local tensor.

        One array per slot, as large as the largest use of it, reused by all cores.
        """
        stack = tuple(index.last - index.first for index in self._loops[: tensor.depth])
        shape = stack + tensor.shape
        key = (tensor.slot, tensor.dtype)
        size = prod(shape)
        array = self._storage.get(key)
        if array is None or array.size < size:
            held = (
                np.dtype(np.float32)
                if self.widened and tensor.dtype is FLOAT16
                else tensor.dtype.numpy
            )
            array = self._storage[key] = np.zeros(size, held)
        return array[:size].reshape(shape)

    def wrote(self, tensor: LocalTensor) -> None:
        """Remember the last vector result: who reads it next pays the pipeline's depth."""
        self._last_written = tensor.slot
        self._unread.add(tensor.slot)

    def set_register(self) -> None:
        """The vector unit's last instruction left nothing in UB for the next one to wait for."""
        self._last_written = None

    def reads_last(self, *tensors: LocalTensor) -> bool:
        """True when one of ``tensors`` is the result of the vector instruction just before."""
        return any(tensor.slot == self._last_written for tensor in tensors)

    def is_unread(self, tensor: LocalTensor) -> bool:
        """True when the vector unit wrote ``tensor`` after the scalar unit last waited for it."""
        return tensor.slot in self._unread

    def vector_is_read(self) -> None:
        """The scalar unit has waited for the vector unit."""
        self._unread.clear()

    def _batch(self, count: int, inner_bytes: int) -> int:
        """How many iterations to execute at once.

        As many as keep their numbers in the host's caches.
        """
        if any(index.last - index.first > 1 for index in self._loops):
            return count
        per_iteration = max(1, inner_bytes, sum(self.pipe.used_bytes.values()))
        return max(1, min(count, _STACK_BYTES // per_iteration))


def _pipes(profile: Profile, unit: Unit) -> tuple[Pipe, ...]:
    """The pipes of a core; without a fixpipe, the vector unit takes results of the cube out."""
    if unit.kind == "vector":
        return _VECTOR_PIPES
    leaving = (Pipe.FIXP,) if profile.paths.l0c_to_gm else (Pipe.VECTOR, Pipe.MTE3)
    return (*_CUBE_PIPES, *leaving)

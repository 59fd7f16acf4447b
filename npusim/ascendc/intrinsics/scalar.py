"""The scalar unit: reading and writing single elements, arithmetic on them."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from npusim.ascendc.issuer import Issuer
from npusim.ascendc.loops import IndexArray
from npusim.ascendc.scalars import Scalar
from npusim.engine.program import Pipe

if TYPE_CHECKING:
    from npusim.ascendc.gm_slices import GmSlice
    from npusim.ascendc.tensors import LocalTensor


class Scalars(Issuer):
    """The scalar part of :class:`npusim.ascendc.core.Core`."""

    _apart = False  # whether blocks have read one element in turn

    def get_value(self, tensor: LocalTensor, index: int | IndexArray = 0) -> Scalar:
        """One element of a tile (GetValue); waits for the vector unit if that has written the tile.

        A tile of shape () has just one element. An index that varies from iteration to iteration
        picks from a tile that is older than their loop.
        """
        if self.recording and self.is_unread(tensor):
            self.wait_vector()
        self.emit_scalar("ld_ub", loads=1, detail=tensor.buffer)
        if not self.numerics:
            depth = index.depth + 1 if isinstance(index, IndexArray) else tensor.depth
            return Scalar(self, None, depth)
        if isinstance(index, IndexArray):
            picked = tensor.values(tensor.depth)[..., index.values]
            missing = (1,) * (index.depth - tensor.depth)
            picked = picked.reshape(picked.shape[:-1] + missing + picked.shape[-1:])
            return Scalar(self, picked, index.depth + 1)
        return Scalar.of(self, tensor.element(index).shown(tensor.depth), tensor.depth)

    def set_value(self, tensor: LocalTensor, index: int, value: Scalar | float) -> None:
        """Store one element of a tile (SetValue); a tile of shape () has just one."""
        if self.recording:
            self.recorder.after_vector()
        self.emit_scalar("st_ub", stores=1, detail=tensor.buffer)
        tensor.check_write()
        self.filled(tensor)
        if self.numerics:
            depth = self.depth
            number = value.values(depth) if isinstance(value, Scalar) else value
            tensor.element(index).target(depth)[...] = number

    def load_scalar(self, source: GmSlice) -> Scalar:
        """One element of global memory, read by the scalar unit through its cache.

        A tensor's only one is what all blocks read as they begin, one after the other; from then on
        they are as far apart.
        """
        if self.recording:
            cycles = self.costs.gm_element()
            if prod(source.tensor.shape) == 1 and not self.depth and not self._apart:
                at_once = min(self.get_block_num(), self.profile.cores.vector_cores)
                cycles += self.costs.taking_turns(at_once)
                self._apart = True
            self.recorder.emit(Pipe.SCALAR, "ld_gm", cycles)
        if not self.numerics:
            return Scalar(self, None, self.depth)
        depth = self.depth
        if self.users_code:
            source.check_computed(depth)
        self.touched(source)
        if self.follower is not None:
            self.follower.loaded(source)
        values = source.read(depth)
        self.chain.before_reading(values)
        number = np.asarray(values.reshape(values.shape[:depth]), np.float32)
        return Scalar(self, number, depth)

    def load_places(self, count: int) -> None:
        """``count`` numbers of UB that addresses depend on, which the vector unit has found.

        Everything issued later waits, in the next turn of a loop too.
        """
        if self.recording:
            self.wait_vector()
            self.emit_scalar("ld_ub", loads=count, detail=f"{count} places")
            self.recorder.hold_back()

    def load_lines(self, count: int) -> None:
        """The first touch of ``count`` lines of global memory by the scalar unit: descriptors.

        Everything issued later waits, as it needs the addresses and sizes that stand there.
        """
        if self.recording:
            cycles = self.costs.gm_lines(count)
            self.recorder.emit(Pipe.SCALAR, "ld_gm", cycles, detail=f"{count} lines")
            self.recorder.hold_back()

    def scalar_sqrt(self, value: Scalar) -> Scalar:
        """The square root, by the scalar unit."""
        self.scalar_alu("sqrt")
        root = None if value.value is None else np.sqrt(value.value)
        return Scalar(self, root, value.depth)

    def scalar_select(self, test: Scalar, value: Scalar, otherwise: float) -> Scalar:
        """``value`` where ``test`` is positive, else ``otherwise``."""
        self.scalar_alu("select")
        if test.value is None or value.value is None:
            return value
        chosen = np.where(test.value > 0, value.value, np.float32(otherwise))
        return Scalar(self, chosen, value.depth)

    def scalar_loop(self, count: int = 1) -> None:
        """What ``count`` turns of a loop cost beside the body: counting, comparing, jumping."""
        self.emit_scalar("loop", turns=count)

    def ai_cpu(self, operations: float) -> None:
        """``operations`` of the chip's AI CPUs, which nothing else of the task goes on beside."""
        if self.recording:
            cycles = self.costs.ai_cpu(operations)
            self.recorder.emit(Pipe.SCALAR, "ai_cpu", cycles, detail=f"{operations:.0f} operations")

    def elsewhere(self, name: str, duration_us: float) -> None:
        """What something beside the chip's cores takes, and nothing of the task goes on beside."""
        if self.recording:
            cycles = duration_us * self.profile.clock_mhz
            self.recorder.emit(Pipe.SCALAR, name, cycles, detail=f"{duration_us:.1f} us")

    def random_engine(self, numbers: int = 0, bits: int = 0) -> None:
        """So many random numbers, or random bits, of the chip's engine for them."""
        if self.recording:
            cycles = self.costs.random_engine(numbers, bits)
            detail = f"{numbers} numbers" if numbers else f"{bits} bits"
            self.recorder.emit(Pipe.SCALAR, "random_engine", cycles, detail=detail)

    def to_float(self, whole: Scalar) -> Scalar:
        """A whole number as float32."""
        self.scalar_alu("conv")
        if whole.value is None:
            return whole
        return Scalar(self, whole.value.astype(np.float32), whole.depth)

"""The scalar unit: reading and writing single elements, arithmetic on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from npusim.dialect.local import LocalTensor, Scalar
from npusim.engine.program import Pipe

if TYPE_CHECKING:
    from npusim.dialect.gm import GmSlice
    from npusim.dialect.recorder import Recorder
    from npusim.hardware.profile import Profile


class Scalars:
    """The scalar part of :class:`npusim.dialect.core.Core`."""

    if TYPE_CHECKING:
        profile: Profile
        recorder: Recorder
        numerics: bool
        recording: bool

        @property
        def depth(self) -> int: ...

    def get_value(self, tensor: LocalTensor, index: int = 0) -> Scalar:
        """One element of a tile (GetValue); waits for the vector unit. A tile of shape () has just one."""
        if self.recording:
            self.recorder.after_vector()
            self.recorder.emit(Pipe.SCALAR, "ld_ub", self.profile.scalar.ub_load_cycles, detail=tensor.buffer)
        if not self.numerics:
            return Scalar(self, None, tensor.depth)  # type: ignore[arg-type]
        values = tensor.values(tensor.depth)
        picked = values[..., index] if tensor.shape else values
        return Scalar(self, np.array(picked), tensor.depth)  # type: ignore[arg-type]

    def set_value(self, tensor: LocalTensor, index: int, value: Scalar | float) -> None:
        """Store one element of a tile (SetValue)."""
        if self.recording:
            self.recorder.after_vector()
            self.recorder.emit(Pipe.SCALAR, "st_ub", self.profile.scalar.ub_store_cycles, detail=tensor.buffer)
        if self.numerics:
            depth = self.depth
            number = value.values(depth) if isinstance(value, Scalar) else value
            tensor.target(depth)[..., index] = number

    def load_scalar(self, source: GmSlice) -> Scalar:
        """One element of global memory, read by the scalar unit through its cache."""
        if self.recording:
            self.recorder.emit(Pipe.SCALAR, "ld_gm", self.profile.scalar.gm_load_cycles)
        if not self.numerics:
            return Scalar(self, None, self.depth)  # type: ignore[arg-type]
        depth = self.depth
        values = source.read(depth)
        number = np.asarray(values.reshape(values.shape[:depth]), np.float32)
        return Scalar(self, number, depth)  # type: ignore[arg-type]

    def scalar_alu(self, name: str, count: int = 1) -> None:
        """``count`` operations of the scalar ALU, e.g. loop control that a kernel does by hand."""
        if self.recording:
            self.recorder.emit(Pipe.SCALAR, name, count * self.profile.scalar.alu_cycles)

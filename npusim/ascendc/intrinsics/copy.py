"""Copies between global memory and on-chip memory, with the chip's rules of alignment."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc.gm import GmSlice
from npusim.ascendc.tensors import LocalTensor
from npusim.engine.program import Pipe, Transfer
from npusim.values.dtypes import FLOAT16
from npusim.values.errors import AlignmentError, KernelError, UnsupportedIntrinsicError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.costs import InstructionCosts
    from npusim.ascendc.recorder import Recorder
    from npusim.hardware.profile import Path, Profile


class Copies:
    """The copying part of :class:`npusim.ascendc.core.Core`."""

    if TYPE_CHECKING:
        kernel_name: str
        profile: Profile
        costs: InstructionCosts
        recorder: Recorder
        numerics: bool
        recording: bool
        block_bytes: int
        widened: bool
        _atomic_sharers: float
        _put_off: list[tuple[GmSlice, NDArray[Any], int]] | None

        @property
        def depth(self) -> int: ...
        def load_l1(self, dst: LocalTensor, src: GmSlice) -> None: ...

    def data_copy(self, dst: LocalTensor | GmSlice, src: LocalTensor | GmSlice) -> None:
        """Copy whole 32-byte blocks: GM -> UB or L1 on MTE2, UB -> GM on MTE3.

        A run that isn't a multiple of 32 bytes is refused, except where it ends its tensor
        (allocations are padded) and where the kernel asks for ``source.rounded_up()``.
        """
        gm = dst if isinstance(dst, GmSlice) else src
        if not isinstance(gm, GmSlice):
            raise KernelError(self.kernel_name, "data_copy needs one side in global memory")
        run_bytes = gm.bursts()[0] * gm.tensor.dtype.itemsize
        if run_bytes % self.block_bytes and not gm.whole_blocks and not gm.ends_tensor():
            raise AlignmentError(
                self.kernel_name,
                f"data_copy of {gm.tensor.buffer.name}",
                run_bytes,
                self.block_bytes,
            )
        self._copy(dst, src)

    def data_copy_pad(self, dst: LocalTensor | GmSlice, src: LocalTensor | GmSlice) -> None:
        """Copy runs of any length; rows land at 32-byte boundaries in UB. Not on every chip."""
        if not self.profile.has("data_move_pad"):
            raise UnsupportedIntrinsicError(
                self.kernel_name,
                "data_move_pad",
                "any dtype",
                self.profile.name,
                (),
                remedy="Copy whole blocks instead.",
            )
        self._copy(dst, src)

    def copy_runs(self, dst: LocalTensor | GmSlice, src: LocalTensor | GmSlice) -> None:
        """Copy runs of any length as the chip does it.

        Padded copies where it has them, else whole blocks.
        """
        if self.profile.has("data_move_pad"):
            self._copy(dst, src)
        else:
            dst, src = (
                each.rounded_up() if isinstance(each, GmSlice) else each for each in (dst, src)
            )
            self.data_copy(dst, src)

    def set_atomic_add(self, sharers: float = 1) -> None:
        """Stores to global memory add from here on.

        ``sharers`` cores add into the same line at a time (on average).
        """
        self._atomic_sharers = max(1.0, sharers)

    def adding_at_once(self, cores: int) -> float:
        """How many of ``cores`` that add once, at the end of alike work, do so at a time.

        Blocks are started one after the other, so they end one after the other too; they meet as
        far as an addition takes longer than starting a block.
        """
        profile = self.profile
        apart = profile.launch.per_block_us * profile.clock_mhz
        waiting = max(0.0, 1 - apart / max(1.0, profile.memory.atomic_conflict_cycles))
        return 1 + (cores - 1) * waiting

    def set_atomic_none(self) -> None:
        """Stores to global memory overwrite again."""
        self._atomic_sharers = 0.0

    def put_off_adding(self) -> None:
        """Adding to global memory waits for :meth:`add_now`."""
        self._put_off = []

    def add_now(self) -> None:
        """Add what has been put off, in order."""
        for dst, values, depth in self._put_off or ():
            dst.accumulate(values, depth)
        if self._put_off:
            self._put_off = []

    def _copy(self, dst: LocalTensor | GmSlice, src: LocalTensor | GmSlice) -> None:
        if isinstance(src, GmSlice) and isinstance(dst, LocalTensor):
            self._load(dst, src)
        elif isinstance(src, LocalTensor) and isinstance(dst, GmSlice):
            self._store(dst, src)
        else:
            raise KernelError(self.kernel_name, "a copy goes from global to local memory or back")

    def _load(self, dst: LocalTensor, src: GmSlice) -> None:
        self._same_size(dst, src)
        if dst.memory == "L1":
            self.load_l1(dst, src)
            return
        if self.recording:
            self._emit_copy(Pipe.MTE2, "copy_gm_to_ubuf", "gm_to_ub", src, write=False)
        if self.numerics:
            values = src.read(dst.depth)
            if self.widened and dst.dtype is FLOAT16:
                values = values.astype(np.float32)
            dst.alias(values.reshape(values.shape[: dst.depth] + dst.shape))

    def _store(self, dst: GmSlice, src: LocalTensor) -> None:
        self._same_size(src, dst)
        if self.recording:
            self._emit_copy(Pipe.MTE3, "copy_ubuf_to_gm", "ub_to_gm", dst, write=True)
        if self.numerics:
            self._put(dst, src.values(self.depth))

    def _put(self, dst: GmSlice, values: NDArray[Any]) -> None:
        """Store numbers with as many stack axes as there are loops, or add them."""
        depth = self.depth
        values = values.reshape(values.shape[:depth] + dst.shape)
        if self._atomic_sharers and self._put_off is not None:
            self._put_off.append((dst, values.copy(), depth))
        elif self._atomic_sharers:
            dst.accumulate(values, depth)
        else:
            dst.write(values, depth)

    def _emit_copy(
        self,
        pipe: Pipe,
        name: str,
        path_name: str,
        gm: GmSlice,
        *,
        write: bool,
        matrix: bool = False,
        runs: tuple[int, int] | None = None,
        latency_cycles: float = 0.0,
        most: float = inf,
    ) -> None:
        """Record a transfer: of a ``matrix`` for the cube, or any other.

        ``runs`` (elements, number) are those in device memory where its layout isn't ours,
        ``latency_cycles`` what the path's latency is longer than usual, ``most`` the bytes per
        cycle that the other end takes or gives.
        """
        path = self._path(path_name)
        elements, bursts = runs or gm.bursts()
        run_bytes = elements * gm.tensor.dtype.itemsize
        if matrix:
            line = self.profile.memory.l2_line_bytes
            grain = line if runs else gm.grain_bytes(line)
            cycles, traffic, rate = self.costs.matrix_copy(path, run_bytes, bursts, grain)
        else:
            cycles, traffic = self.costs.copy(path, run_bytes, bursts, gap=bursts > 1)
            rate = path.bytes_per_cycle
        if gm.rows_apart and not self.profile.has("data_move_pad"):
            # Strides in whole blocks can't step from row to row: every row is a copy of its own.
            cycles += (bursts - 1) * max(0.0, path.setup_cycles - path.burst_cycles)
        atomic = write and self._atomic_sharers > 0
        if atomic:
            memory = self.profile.memory
            traffic /= memory.atomic_rate_fraction
            cycles += (self._atomic_sharers - 1) * memory.atomic_conflict_cycles
        transfer = Transfer(
            gm.tensor.buffer.number,
            write,
            run_bytes * bursts,
            traffic,
            min(rate, most),
            atomic=atomic,
            path=path_name,
            shared_cost=1.0 / path.shared_fraction - 1.0,
        )
        detail = f"{gm.tensor.buffer.name} {bursts}x{run_bytes}B{' atomic add' if atomic else ''}"
        instruction = self.recorder.emit(
            pipe, name, cycles, transfer, detail, path.latency_cycles + latency_cycles
        )
        if write:
            self.recorder.store(transfer, gm.moves)
        else:
            self.recorder.load(instruction, gm.key, gm.moves)

    def _path(self, name: str) -> Path:
        path = self.costs.path(name)
        if path is None:
            raise UnsupportedIntrinsicError(
                self.kernel_name, f"path {name}", "any dtype", self.profile.name, ()
            )
        return path

    def _same_size(self, local: LocalTensor, gm: GmSlice) -> None:
        if local.numel != gm.numel or local.dtype is not gm.tensor.dtype:
            raise KernelError(
                self.kernel_name,
                f"copy between {local.buffer} {local.dtype}{list(local.shape)} and "
                f"{gm.tensor.buffer.name} {gm.tensor.dtype}{list(gm.shape)}",
            )

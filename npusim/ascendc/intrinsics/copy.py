"""Copies between global memory and on-chip memory, with the chip's rules of alignment."""

from __future__ import annotations

from contextlib import nullcontext
from math import ceil, inf
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc import rounding
from npusim.ascendc.chains import COPY, FOREVER, TRUTH
from npusim.ascendc.gm_slices import GmSlice
from npusim.ascendc.issuer import Issuer
from npusim.ascendc.rounding import RoundMode
from npusim.ascendc.runs import packed
from npusim.ascendc.tensors import LocalTensor
from npusim.engine.program import Instruction, Pipe, Transfer
from npusim.values.arithmetic import round_up
from npusim.values.dtypes import FLOAT, FLOAT16, DType
from npusim.values.errors import AlignmentError, KernelError, UnsupportedIntrinsicError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.costs import GmCopy
    from npusim.hardware.groups import Path

BLOCKS_ROWS_LANES = 3  # axes of a matrix in fractals

# What the fields of DataCopyParams hold (Ascend C API, DataCopy): runs of one copy, and blocks of a
# run or between two; of DataCopyPad bytes of a run.
MOST_RUNS, MOST_BLOCKS = 4095, 65535


class Copies(Issuer):
    """The copying part of :class:`npusim.ascendc.core.Core`."""

    _atomic_sharers = 0.0
    _load_sharers = 1.0  # cores that load from the same line at a time
    _alone = False  # in its lines, what is stored
    _link = inf, 0.0  # bytes per cycle that what is stored goes at, and cycles until it is there
    _adds = True  # what shares lines of global memory adds to them
    in_share = False  # of tasks, some of which are other blocks'
    adds_in_turn = False  # what such tasks add to one place
    _deferred_adds: list[tuple[GmSlice, NDArray[Any], int, bool]] | None = None

    def data_copy(self, dst: LocalTensor | GmSlice, src: LocalTensor | GmSlice) -> None:
        """Copy whole 32-byte blocks: GM -> UB or L1 on MTE2, UB -> GM on MTE3.

        A run that isn't a multiple of 32 bytes is refused, except where it ends its tensor
        (allocations are padded) and where the kernel asks for ``source.rounded_up``.
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
                each.rounded_up(self.block_bytes) if isinstance(each, GmSlice) else each
                for each in (dst, src)
            )
            self.data_copy(dst, src)

    def load_l1(self, dst: LocalTensor, src: GmSlice) -> None:
        """GM -> L1 as it lies there (MTE2): what :meth:`data_copy` does with a tile in L1."""
        self._load_l1(dst, src, "copy_gm_to_cbuf")

    def data_copy_nd2nz(self, dst: LocalTensor, src: GmSlice, *, row_by_row: bool = False) -> None:
        """GM -> L1, rows of any length turned into fractals (DataCopy with Nd2NzParams, MTE2).

        Every row is a burst; ``row_by_row`` they are copies of their own, one after the other. The
        turning delays the data but not the copies behind it. Not on every chip; where it is
        missing, matrices have to lie in fractals already (:meth:`data_copy_nz`).
        """
        nd2nz = self.profile.cube.nd2nz_setup_cycles
        if nd2nz is None:
            raise UnsupportedIntrinsicError(
                self.kernel_name,
                "data_move_out2l1_nd2nz",
                src.tensor.dtype.intrinsic,
                self.profile.name,
                (),
                remedy="Bring the matrix into fractals first (TransData).",
            )
        waits = src.numel // src.shape[-1] if row_by_row else 0
        name = "copy_gm_to_cbuf_multi_nd2nz"
        self._load_l1(dst, src, name, latency_cycles=nd2nz, waits=waits, turned=True)

    def data_copy_nz(self, dst: LocalTensor, src: GmSlice) -> None:
        """GM -> L1 of a matrix that lies in fractals in device memory (FRACTAL_NZ), MTE2.

        ``src`` addresses it as (blocks of columns, rows, lanes), one burst per block. Or as plain
        rows and columns, the way our memory keeps it; the cost is that of fractals even so: one
        burst per 32 bytes of a row, as long as the fractals are high.
        """
        if len(src.shape) == BLOCKS_ROWS_LANES:
            self._load_l1(dst, src, "copy_gm_to_cbuf")
            return
        rows, columns = src.shape[-2:]
        width = self.block_bytes // src.tensor.dtype.itemsize
        high = round_up(rows, self.profile.cube.fractal_m)
        runs = (high * width, ceil(columns / width) * (src.numel // (rows * columns)))
        self._load_l1(dst, src, "copy_gm_to_cbuf", runs=runs)

    def set_atomic_add(self, sharers: float = 1) -> None:
        """Stores to global memory add from here on.

        ``sharers`` cores add into the same line at a time (on average).
        """
        self._atomic_sharers, self._adds = max(1.0, sharers), True

    def set_load_sharers(self, sharers: float) -> None:
        """Loads from here on take turns with those of ``sharers`` cores from the same line."""
        self._load_sharers = max(1.0, sharers)

    def set_store_sharers(self, sharers: float) -> None:
        """Stores take turns with those of ``sharers`` cores to the same line, and overwrite it."""
        self._atomic_sharers, self._adds = max(1.0, sharers), False

    def set_store_alone(self) -> None:
        """Stores from here on fill parts of lines of which nobody fills the rest.

        Memory has to read such a line and to write it back. Source: published times of tokens
        stored in pieces of 32 bytes (hicann/cann-bench, ScatterPaKvCache on 910B3).
        """
        self._alone = True

    def set_store_link(self, bytes_per_cycle: float = inf, latency_cycles: float = 0.0) -> None:
        """Stores from here on go to another chip, over a link that takes so much of this core.

        Without numbers they go to this chip's own memory again.
        """
        self._link = bytes_per_cycle, latency_cycles

    def set_atomic_none(self) -> None:
        """Stores to global memory overwrite again, and wait for nobody."""
        self._atomic_sharers, self._adds = 0.0, True

    def defer_atomic_adds(self) -> None:
        """Adding to global memory waits for :meth:`apply_deferred_adds`."""
        self._deferred_adds = []

    def apply_deferred_adds(self) -> None:
        """Add what has been deferred, in order."""
        for dst, values, depth, in_turn in self._deferred_adds or ():
            dst.accumulate(values, depth, in_turn=in_turn)
        if self._deferred_adds:
            self._deferred_adds = []

    def _copy(self, dst: LocalTensor | GmSlice, src: LocalTensor | GmSlice) -> None:
        if isinstance(src, GmSlice) and isinstance(dst, LocalTensor):
            self._load(dst, src)
        elif isinstance(src, LocalTensor) and isinstance(dst, GmSlice):
            self._store(dst, src)
        else:
            raise KernelError(self.kernel_name, "a copy goes from global to local memory or back")

    def _load(self, dst: LocalTensor, src: GmSlice) -> None:
        self._same_size(dst, src)
        dst.check_write()
        if dst.memory == "L1":
            self.load_l1(dst, src)
            return
        if self.recording:
            self._emit_copy(Pipe.MTE2, "copy_gm_to_ubuf", "gm_to_ub", src, write=False)
        if self.numerics:
            values = self._read(src, dst.depth)
            if self.widened and dst.dtype is FLOAT16:
                values = values.astype(np.float32)
            dst.alias(values.reshape(values.shape[: dst.depth] + dst.shape), loaded=True)

    def _store(self, dst: GmSlice, src: LocalTensor) -> None:
        self._same_size(src, dst)
        src.check_read()
        at_once = self.in_share and not self.reference
        adds = self._atomic_sharers and self._adds and not self.adds_in_turn
        if at_once and adds and 0 not in dst.depths:
            raise KernelError(
                self.kernel_name,
                f"all tasks of a share add to one place of {dst.tensor.buffer.name}",
                "Loop over the block's tasks with core.loop; a share's bits would depend on the "
                "host.",
            )
        if self.recording:
            most, latency = self._link
            self._emit_copy(
                Pipe.MTE3,
                "copy_ubuf_to_gm",
                "ub_to_gm",
                dst,
                write=True,
                most=most,
                latency_cycles=latency,
            )
        if self.numerics and not self._put_off(dst, src):
            self._put(dst, src.values(self.depth))

    def _put_off(self, dst: GmSlice, src: LocalTensor) -> bool:
        """Leave a store to the chain that computes what is stored; False where it can't be."""
        place = None if self._atomic_sharers or self.widened else dst.own_place(self.depth)
        values = src.shown(self.depth)
        if place is None or place.shape != values.shape:
            return False
        work = TRUTH if place.dtype == np.bool_ else COPY
        self.views.before_storing(place)
        if not self.chain.compute(work, place, values, home=FOREVER):
            return False
        self.touched(dst, writes=True)
        if self.observer is not None:
            self.observer.stored(self, dst, adds=False)
        return True

    def _read(self, src: GmSlice, depth: int) -> NDArray[Any]:
        if self.users_code:
            src.check_computed(depth)
        self.touched(src)
        if self.follower is not None:
            self.follower.loaded(src)
        if self.observer is not None:
            self.observer.loaded(self, src)
        if src.is_scattered:
            self.chain.run()
        values = src.read(depth)
        self.chain.before_reading(values)
        return values

    def _put(self, dst: GmSlice, values: NDArray[Any]) -> None:
        """Store numbers with as many stack axes as there are loops, or add them."""
        depth = self.depth
        place = dst.reached(depth)
        self.chain.before_writing(place)
        values = values.reshape(values.shape[:depth] + dst.shape)
        adds = self._atomic_sharers > 0 and self._adds
        if self.users_code:
            dst.check_computed(depth)
        self.touched(dst, writes=True, adds=adds)
        if self.observer is not None:
            self.observer.stored(self, dst, adds=adds)
        if adds and self._deferred_adds is not None:
            self._deferred_adds.append((dst, values.copy(), depth, self.in_share))
            return
        self.views.before_storing(place)
        with nullcontext() if self.follower is None else self.follower.storing(dst, adds=adds):
            if adds:
                dst.accumulate(values, depth, in_turn=self.in_share)
                return
            held = dst.tensor.buffer.data
            if self.widened and held is not None and held.dtype == np.float16:
                values = values.astype(np.float16)
                self.settle(values)
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
        copies: int = 1,
        waits: int = 0,
        turned: bool = False,
    ) -> Instruction:
        """Record a transfer: of a ``matrix`` for the cube, or any other.

        ``runs`` (elements, number) are those in device memory where its layout isn't ours, spread
        over so many ``copies``, each of ``waits`` of which waits for the one before.
        ``latency_cycles`` is what the path's latency is longer than usual, ``most`` the bytes per
        cycle that the other end takes or gives. Rows may be ``turned`` into fractals.
        """
        elements, bursts = runs or gm.bursts()
        tensor = gm.tensor
        run_bytes = elements * tensor.dtype.itemsize
        sharers = self._atomic_sharers if write else 0.0
        path, line = self._path(path_name), self.costs.line_bytes
        grain = line if runs else gm.grain_bytes(line)
        if matrix:
            cost = self.costs.matrix_copy(
                path, run_bytes, bursts, grain, atomic_sharers=sharers, turned=turned
            )
        else:
            cost = self._plain_copy(path, run_bytes, bursts, gm, None if write else grain)
        transfer = Transfer(
            tensor.buffer.number,
            write,
            run_bytes * bursts,
            cost.traffic_bytes,
            min(cost.bytes_per_cycle, most),
            None,  # reuse_bytes
            sharers > 0,
            path_name,
            (),  # reuses
            cost.shared_cost,
            cost.rate_fraction,
            tensor.past_l2 and not write,
            cost.setup_cycles,
        )
        cycles = cost.cycles
        if copies > 1 or waits:
            cycles += (copies - 1) * path.setup_cycles
            cycles += waits * (path.setup_cycles + path.latency_cycles)
        if not write and self._load_sharers != 1.0:
            cycles += self.costs.taking_turns(self._load_sharers)
        latency = cost.latency_cycles + latency_cycles
        told = _told(gm, bursts, run_bytes, transfer)
        instruction = self.recorder.emit(pipe, name, cycles, transfer, told, latency)
        if write:
            self.recorder.store(transfer, gm.moves)
        else:
            self.recorder.load(instruction, gm.key, gm.moves)
        return instruction

    def _plain_copy(
        self, path: Path, run_bytes: int, bursts: int, gm: GmSlice, grain: int | None
    ) -> GmCopy:
        """What a copy of no matrix costs; without a ``grain`` it is a store."""
        stores = grain is None
        return self.costs.gm_copy(
            path,
            run_bytes,
            bursts,
            grain,
            rows_apart=gm.rows_apart,
            atomic_sharers=self._atomic_sharers if stores else 0.0,
            alone=stores and self._alone,
            singly=gm.singly,
        )

    def _load_l1(
        self,
        dst: LocalTensor,
        src: GmSlice,
        name: str,
        *,
        runs: tuple[int, int] | None = None,
        latency_cycles: float = 0.0,
        waits: int = 0,
        turned: bool = False,
    ) -> None:
        self._expect(name, dst, "L1")
        if dst.numel != src.numel or dst.dtype is not src.tensor.dtype:
            self._refuse(name, dst)
        if self.users_code:
            src.check_inside()
        if self.recording:
            self._emit_copy(
                Pipe.MTE2,
                name,
                "gm_to_l1",
                src,
                write=False,
                matrix=True,
                runs=runs,
                latency_cycles=latency_cycles,
                waits=waits,
                turned=turned,
            )
        if self.numerics:
            values = self._read(src, dst.depth)
            if len(src.shape) == BLOCKS_ROWS_LANES:
                values = values.swapaxes(-3, -2)
                values = values if 1 in src.shape[:2] else packed(values)
            values = operand(values, dst.dtype)
            dst.alias(values.reshape(values.shape[: dst.depth] + dst.shape), loaded=True)

    def _path(self, name: str) -> Path:
        path = self.costs.path(name)
        if path is None:
            raise UnsupportedIntrinsicError(
                self.kernel_name, f"path {name}", "any dtype", self.profile.name, ()
            )
        return path

    def _same_size(self, local: LocalTensor, gm: GmSlice) -> None:
        if self.users_code:
            gm.check_inside()
            if self.own_code:
                gm.check_loops(self.loops)
                gm.check_elements()
        if local.numel != gm.numel or local.dtype is not gm.tensor.dtype:
            raise KernelError(
                self.kernel_name,
                f"copy between {local.buffer} {local.dtype}{list(local.shape)} and "
                f"{gm.tensor.buffer.name} {gm.tensor.dtype}{list(gm.shape)}",
            )

    def _expect(self, what: str, tensor: LocalTensor, memory: str) -> None:
        tensor.check_usable()
        if tensor.memory != memory:
            raise KernelError(
                self.kernel_name, f"{what}: {tensor.buffer} is in {tensor.memory}, not {memory}"
            )

    def _refuse(self, what: str, *tensors: LocalTensor) -> None:
        shapes = ", ".join(
            f"{tensor.buffer} {tensor.dtype}{list(tensor.shape)}" for tensor in tensors
        )
        raise KernelError(self.kernel_name, f"{what} on {shapes}")


def operand(values: NDArray[Any], dtype: DType) -> NDArray[Any]:
    """Numbers as the host multiplies them; float64 adds whole numbers exactly."""
    if dtype.category != "float":
        return values.astype(np.float64)
    if values.dtype == np.float32:
        return values
    wide = np.empty(values.shape, np.float32)
    rounding.convert(np.ascontiguousarray(values), wide, FLOAT, RoundMode.CAST_NONE)
    return wide


def _told(gm: GmSlice, bursts: int, run_bytes: int, transfer: Transfer) -> str:
    """A transfer as timelines show it."""
    atomic = " atomic add" if transfer.atomic else ""
    past_l2 = " past L2" if transfer.bypasses_l2 else ""
    return f"{gm.tensor.buffer.name} {bursts}x{run_bytes}B{atomic}{past_l2}"

"""The cube path: matrices through L1 and L0 into the matrix unit, and its results back.

Matrices are plain (rows, columns) tiles to kernel code. That the chip keeps them in fractals of 16
rows of 32 bytes shows in what they cost: whole fractals are moved, stored and multiplied. Half
types are multiplied into float32, on the host too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.ascendc import rounding
from npusim.ascendc.intrinsics.copy import BLOCKS_ROWS_LANES, Copies
from npusim.ascendc.issuer import shape_text
from npusim.ascendc.rounding import RoundMode
from npusim.engine.program import Pipe
from npusim.values.errors import KernelError, UnsupportedIntrinsicError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from npusim.ascendc.gm_slices import GmSlice
    from npusim.ascendc.queues import TQue
    from npusim.ascendc.tensors import LocalTensor
    from npusim.values.dtypes import DType

_HF32 = "hfloat32"
_FIXPIPE_BITS = np.uint32(0xFFFFE000)  # of a scale
_INTO_L0 = {"L0A": ("load_cbuf_to_ca", "l1_to_l0a"), "L0B": ("load_cbuf_to_cb", "l1_to_l0b")}


class Cube(Copies):
    """The part of :class:`npusim.ascendc.core.Core` that feeds the matrix unit."""

    def load_bias(self, dst: LocalTensor, src: LocalTensor) -> None:
        """L1 -> bias table, into the dtype of sums (DataCopy to C2, MTE1)."""
        self._expect("load_bias", src, "L1")
        self._expect("load_bias", dst, "BIAS_TABLE")
        if dst.numel != src.numel:
            self._refuse("load_bias", dst, src)
        if self.recording:
            path = self._path("l1_to_bias_table")
            cycles = self.costs.on_chip(path, src.numel * src.dtype.itemsize)
            self.recorder.emit(Pipe.MTE1, "copy_cbuf_to_bt", cycles, detail=_shape(dst))
        if self.numerics:
            dst.alias(src.values(dst.depth))

    def load_data(self, dst: LocalTensor, src: LocalTensor, *, transpose: bool = False) -> None:
        """L1 -> L0A or L0B (LoadData, MTE1); ``transpose`` turns rows into columns."""
        self._expect("load_data", src, "L1")
        wanted = (*src.shape[:-2], *reversed(src.shape[-2:])) if transpose else src.shape
        if dst.shape != wanted or dst.dtype is not src.dtype or dst.memory not in _INTO_L0:
            self._refuse("load_data", dst, src)
        name, path_name = _INTO_L0[dst.memory]
        if self.recording:
            path = self._path(path_name)
            nbytes: float = self.costs.fractal_bytes(dst.dtype.itemsize, dst.shape)
            if dst.dtype.itemsize == 1 and transpose == (dst.memory == "L0A"):
                nbytes /= self.profile.cube.turned_byte_fraction
            cycles = self.costs.on_chip(path, nbytes)
            self.recorder.emit(Pipe.MTE1, name, cycles, None, _shape(dst))
        if self.numerics:
            values = src.values(dst.depth)
            dst.alias(values.swapaxes(-1, -2) if transpose else values)

    def mmad(
        self,
        c: LocalTensor,
        a: LocalTensor,
        b: LocalTensor,
        *,
        accumulate: bool = False,
        bias: LocalTensor | None = None,
        hf32: bool = False,
    ) -> LocalTensor:
        """c = a @ b, or c += a @ b with ``accumulate``; (m, k) by (k, n) into (m, n) (Mmad, CUBE).

        a is in L0A, b in L0B, c in L0C. A ``bias`` from the bias table is added to every row.
        ``hf32`` multiplies float32 rounded to 12 bits of significand, at twice the speed. Raises
        UnsupportedIntrinsicError for dtypes that the chip doesn't multiply.
        """
        self._expect("mmad", c, "L0C")
        self._expect("mmad", a, "L0A")
        self._expect("mmad", b, "L0B")
        m, k, n = *a.shape[-2:], b.shape[-1]
        if b.shape[-2:] != (k, n) or c.shape[-2:] != (m, n):
            self._refuse("mmad", c, a, b)
        kinds = [_HF32 if hf32 else tensor.dtype.intrinsic for tensor in (a, b)]
        dtypes = (*kinds, c.dtype.intrinsic)
        if not self.profile.supports_mmad(*dtypes):
            form, known = f"{dtypes[0]} x {dtypes[1]} -> {dtypes[2]}", self.profile.mmad_forms
            raise UnsupportedIntrinsicError(
                self.kernel_name, "mmad", form, self.profile.name, known
            )
        if self.recording:
            cycles = self.costs.mmad(dtypes[0], m, n, k)
            self.recorder.emit(Pipe.CUBE, "mad", cycles, None, f"{dtypes[0]} {m}x{k}x{n}")
        if self.numerics:
            depth = self.depth
            target = c.target(depth, whole=not accumulate)
            left, right = a.values(depth), b.values(depth)
            if hf32:
                left, right = rounding.to_hf32(left), rounding.to_hf32(right)
            if accumulate:
                np.add(target, np.matmul(left, right), out=target, casting="unsafe")
            elif _is_product(target, left, right):
                np.matmul(left, right, out=target)
            else:
                np.copyto(target, np.matmul(left, right), casting="unsafe")
            if bias is not None:
                np.add(target, bias.values(depth)[..., None, :], out=target, casting="unsafe")
            self.settle(target)
        self.computed("mmad", c, k)
        return c

    def fixpipe(
        self,
        dst: GmSlice,
        src: LocalTensor,
        through: TQue | None = None,
        *,
        scale: LocalTensor | None = None,
        unit_flag: bool = False,
        relu: bool = False,
    ) -> None:
        """L0C -> GM, converted to dst's dtype on the way (Fixpipe, FIXP).

        A chip without a fixpipe moves the tile into UB with its vector unit, into a slot of
        ``through``, and from there with MTE3. ``set_atomic_add`` holds here too. A fixpipe
        multiplies whole numbers with the ``scale`` of their column, float32 in L1 or in the lower
        half of 64 bits, of which it knows the first 19 bits (source: aclnnTransQuantParamV2). With
        a ``unit_flag`` it begins when it is issued and waits for the sums by itself. With ``relu``
        nothing below nought leaves a fixpipe.
        """
        self._expect("fixpipe", src, "L0C")
        if src.numel != dst.numel:
            self._refuse("fixpipe", src)
        self._check_conversion(src.dtype, dst.tensor.dtype, scaled=scale is not None)
        if self.profile.paths.l0c_to_gm is None and not relu:
            self._fix_through_ub(dst, src, through)
        else:
            self._fix(dst, src, scale, unit_flag=unit_flag, relu=relu)

    def _fix(
        self,
        dst: GmSlice,
        src: LocalTensor,
        scale: LocalTensor | None,
        *,
        unit_flag: bool,
        relu: bool,
    ) -> None:
        if scale is not None:
            self._expect("fixpipe", scale, "L1")
            if self.recording:
                cycles = self.costs.on_chip(
                    self._path("l1_to_bias_table"), scale.numel * scale.dtype.itemsize
                )
                self.recorder.emit(Pipe.FIXP, "copy_cbuf_to_fbuf", cycles, detail=_shape(scale))
        if self.recording:
            # Results are read from L0C in its own dtype, and leave it in theirs.
            shrink = dst.tensor.dtype.itemsize / src.dtype.itemsize
            in_fractals = len(dst.shape) == BLOCKS_ROWS_LANES
            most = self.costs.fixpipe_rate(shrink, dst.shape[-1] if in_fractals else 0)
            instruction = self._emit_copy(
                Pipe.FIXP,
                "copy_matrix_cc_to_gm",
                "l0c_to_gm",
                dst,
                write=True,
                matrix=True,
                most=most,
            )
            instruction.unit_flag = unit_flag
        if self.numerics:
            values = src.values(self.depth)
            if scale is not None:
                known = _float_bits(scale.values(self.depth)) & _FIXPIPE_BITS
                values = values * known.view(np.float32)[..., None, :]
            if relu:
                values = np.maximum(values, 0)
            values = _laid_out(values, dst)
            self._put(dst, self._converted(values, dst.tensor.dtype))

    def _fix_through_ub(self, dst: GmSlice, src: LocalTensor, through: TQue | None) -> None:
        if through is None:
            raise KernelError(
                self.kernel_name, f"{self.profile.name} has no fixpipe: results need a queue in UB"
            )
        in_fractals = len(dst.shape) == BLOCKS_ROWS_LANES
        tile = through.alloc_tensor(dst.tensor.dtype, *(dst.shape if in_fractals else src.shape))
        self.take_out(tile, src, dst.shape[-1] if in_fractals else 0)
        through.copy_out(dst, tile)

    def take_out(self, tile: LocalTensor, src: LocalTensor, lanes: int = 0) -> None:
        """L0C -> UB, converted to the tile's dtype on the way, on chips without a fixpipe (VECTOR).

        The tile is row by row, or with ``lanes`` in blocks of so many columns, each row by row.
        """
        self._expect("take_out", src, "L0C")
        self._check_conversion(src.dtype, tile.dtype)
        if tile.numel != src.numel:
            self._refuse("take_out", tile, src)
        if self.recording:
            path = self._path("l0c_to_ub")
            nbytes = self.costs.fractal_bytes(src.dtype.itemsize, src.shape, result=True)
            cycles = self.costs.on_chip(path, nbytes)
            self.recorder.emit(Pipe.VECTOR, "copy_matrix_cc_to_ubuf", cycles, detail=_shape(src))
        if self.numerics:
            values = src.values(tile.depth)
            if lanes:
                values = _in_blocks(values, lanes)
            values = self._converted(values, tile.dtype)
            tile.alias(values.reshape(values.shape[: tile.depth] + tile.shape))

    def take_out_scaled(
        self,
        tile: LocalTensor,
        src: LocalTensor,
        scale: LocalTensor,
        bias: LocalTensor | None,
        lanes: int = 0,
    ) -> None:
        """As :meth:`take_out`, whole sums multiplied with their column's scale (DEQ, VDEQ).

        A scale is float32 in the lower half of 64 bits. A whole ``bias`` of columns is in L0C
        before the sums are: one more move of a block.
        """
        if bias is not None and self.recording:
            cycles = self.costs.on_chip(
                self._path("l0c_to_ub"),
                self.costs.fractal_bytes(src.dtype.itemsize, src.shape, result=True),
            )
            self.recorder.emit(Pipe.VECTOR, "broadcast_ub_to_cc", cycles, detail=_shape(src))
        self.take_out(tile, src, lanes)
        if self.numerics:
            sums = src.values(tile.depth)
            if bias is not None:
                sums = sums + bias.values(tile.depth)[..., None, :]
            factors = _float_bits(scale.values(tile.depth))
            values = sums.astype(np.float32) * factors.view(np.float32)[..., None, :]
            if lanes:
                values = _in_blocks(values, lanes)
            values = self._converted(values, tile.dtype)
            tile.alias(values.reshape(values.shape[: tile.depth] + tile.shape))

    def _converted(self, values: NDArray[Any], dtype: DType) -> NDArray[Any]:
        """Results in the dtype they leave the cube in, to nearest even."""
        if values.dtype == dtype.numpy:
            return values
        result = np.empty(values.shape, dtype.numpy)
        rounding.convert(values, result, dtype, RoundMode.CAST_RINT)
        self.settle(result)
        return result

    def _check_conversion(self, source: DType, target: DType, *, scaled: bool = False) -> None:
        if not self.profile.supports_fixpipe(source.intrinsic, target.intrinsic, scaled=scaled):
            raise UnsupportedIntrinsicError(
                self.kernel_name,
                "fixpipe",
                f"{source.intrinsic}->{target.intrinsic}",
                self.profile.name,
                (),
            )


def _shape(tensor: LocalTensor) -> str:
    return shape_text(tensor.dtype.intrinsic, tensor.shape)


def _laid_out(values: NDArray[Any], dst: GmSlice) -> NDArray[Any]:
    """Rows and columns as ``dst`` has them: in blocks of columns where it lies in fractals."""
    return _in_blocks(values, dst.shape[-1]) if len(dst.shape) == BLOCKS_ROWS_LANES else values


def _in_blocks(values: NDArray[Any], lanes: int) -> NDArray[Any]:
    """Rows and columns as blocks of ``lanes`` columns, each row by row."""
    *stack, rows, columns = values.shape
    return values.reshape(*stack, rows, columns // lanes, lanes).swapaxes(-3, -2)


def _float_bits(scales: NDArray[Any]) -> NDArray[np.uint32]:
    """The bits of scales, which are float32 or have them in the lower half of 64 bits."""
    if scales.dtype.itemsize == np.dtype(np.uint32).itemsize:
        return scales.view(np.uint32)
    return scales.astype(np.uint64).astype(np.uint32)


def _is_product(target: NDArray[Any], left: NDArray[Any], right: NDArray[Any]) -> bool:
    """Whether BLAS may write a product where it belongs, as it would into new memory."""
    stack = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    alike = target.dtype == left.dtype == right.dtype and target.shape[:-2] == stack
    return alike and target.flags.c_contiguous

"""Bilinear interpolation: blocks from anywhere in a tensor, weighted and added up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from npusim.ascendc.flat.memory import View
from npusim.ascendc.flat.station import Station
from npusim.engine.program import Pipe
from npusim.values.errors import KernelError

if TYPE_CHECKING:
    from npusim.pyasc.tensors import LocalTensor

_BLOCKS = 8  # of a repeat


def bilinear_interpolation(
    dst: LocalTensor,
    src0: LocalTensor,
    src0_offset: LocalTensor,
    src1: LocalTensor,
    mask: object,
    h_repeat: int,
    repeat_mode: bool,
    dst_blk_stride: int,
    v_r_offset: int,
    v_repeat: int,
    shared_tmp_buffer: LocalTensor,
) -> None:
    """dst[v] = the sum over h of blocks of src0 at byte offsets, times numbers of src1.

    With ``repeat_mode`` each block has a number of its own, else all blocks of a repeat have one.
    ``v_r_offset`` counts elements from one result to the next, ``dst_blk_stride`` blocks.
    """
    here = Station.here()
    core, block = here.core, here.core.block_bytes
    size = dst.inner.dtype.itemsize
    each, turns = block // size, int(h_repeat) * int(v_repeat)
    lanes = _BLOCKS * each
    if mask != lanes:
        raise KernelError(
            core.kernel_name,
            "bilinear_interpolation of a part of the lanes isn't simulated",
            f"Give a mask of {lanes}.",
        )
    offsets = src0_offset.inner.run(turns * _BLOCKS)
    weights = src1.inner.run(turns * (_BLOCKS if repeat_mode else 1))
    steps = (int(v_r_offset) * size, int(dst_blk_stride) * block, size)
    target = View(dst.inner, (int(v_repeat), _BLOCKS, each), steps, turns=int(v_repeat))
    work = shared_tmp_buffer.inner.cast(dst.inner.dtype).run(turns * lanes)
    source = src0.inner.run(src0.inner.length)
    with here.order.touching(Pipe.VECTOR, [offsets, weights], [target, work]):
        starts = offsets.values(0).astype(np.int64)
        if starts.max(initial=0) + block > source.end - src0.inner.start:
            raise KernelError(core.kernel_name, f"an offset leaves {src0.inner.name}")
        places = starts[:, None] // size + np.arange(each)
        gathered = source.values(0)[places].reshape(turns, _BLOCKS, each)
        numbers = weights.values(0).reshape(turns, -1, 1)
        products = (gathered * numbers).astype(gathered.dtype)
        core.emit_vector("vgatherb", dst.inner.dtype, lanes, rows=turns, chained=True)
        core.emit_vector("vbrcb", dst.inner.dtype, lanes, rows=turns, chained=True)
        core.emit_vector("vmul", dst.inner.dtype, lanes, rows=turns, chained=True)
        core.emit_vector("vadd", dst.inner.dtype, lanes, rows=turns, chained=True)
        result = np.zeros(target.shape, gathered.dtype)
        for turn in range(int(h_repeat)):
            result += products.reshape(int(v_repeat), int(h_repeat), _BLOCKS, each)[:, turn]
        target.target(0)[...] = result
        work.target(0)[...] = products.reshape(-1)

"""z = 2 * x + y in tiles, with queues; run by `npusim exec scaled_sum.py -s 910b3`."""

import argparse
import sys

import asc
import asc.lib.runtime as rt
import numpy as np
from asc.runtime import config

BLOCKS, TILES, DEPTH = 8, 4, 2


@asc.jit
def scaled_sum(
    x: asc.GlobalAddress, y: asc.GlobalAddress, z: asc.GlobalAddress, share: int,
    tile: asc.ConstExpr[int],
):  # fmt: skip
    offset = asc.get_block_idx() * share
    x_gm, y_gm, z_gm = asc.GlobalTensor(), asc.GlobalTensor(), asc.GlobalTensor()
    x_gm.set_global_buffer(x + offset, share)
    y_gm.set_global_buffer(y + offset, share)
    z_gm.set_global_buffer(z + offset, share)
    pipe = asc.TPipe()
    x_que = asc.TQue(asc.TPosition.VECIN, DEPTH)
    y_que = asc.TQue(asc.TPosition.VECIN, DEPTH)
    z_que = asc.TQue(asc.TPosition.VECOUT, DEPTH)
    for que in (x_que, y_que, z_que):
        pipe.init_buffer(que, DEPTH, tile * x.dtype.sizeof())
    for i in asc.range(share.ceildiv(tile)):
        fetch(x_que, x_gm[i * tile :], tile)
        fetch(y_que, y_gm[i * tile :], tile)
        x_local, y_local = x_que.deque(x.dtype), y_que.deque(y.dtype)
        z_local = z_que.alloc_tensor(z.dtype)
        asc.muls(z_local, x_local, 2.0, tile)
        asc.add(z_local, z_local, y_local, tile)
        z_que.enque(z_local)
        x_que.free_tensor(x_local)
        y_que.free_tensor(y_local)
        z_local = z_que.deque(z.dtype)
        asc.data_copy(z_gm[i * tile :], z_local, count=tile)
        z_que.free_tensor(z_local)


@asc.jit
def fetch(que: asc.TQue, source: asc.GlobalTensor, tile: asc.ConstExpr[int]):
    local = que.alloc_tensor(source.dtype)
    asc.data_copy(local, source, tile)
    que.enque(local)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--elements", type=int, default=BLOCKS * TILES * 1024)
    size = parser.parse_args().elements
    config.set_platform(config.Backend.Model, config.Platform.Ascend910B3)
    x, y = np.random.default_rng(0).random((2, size), np.float32)
    z = np.zeros_like(x)
    share = size // BLOCKS
    scaled_sum[BLOCKS, rt.current_stream()](x, y, z, share, share // TILES)
    np.testing.assert_array_equal(z, 2 * x + y)
    sys.stdout.write("equal\n")


if __name__ == "__main__":
    main()

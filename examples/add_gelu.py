"""A kernel of one's own, z = gelu(x + y): numbers, and times on three chips.

Run it with ``python examples/add_gelu.py``.
"""

from __future__ import annotations

import math

import numpy as np

import npusim
from npusim.ascendc import TPosition, TQue

TILE = 4096  # elements of a tile


@npusim.kernel
def add_gelu(core, x, y, z):
    """Add, then s / (1 + exp(-1.5957691 (s + 0.044715 s^3))): GELU in the form with tanh."""
    x_que, y_que = TQue(TPosition.VECIN, 1, "x"), TQue(TPosition.VECIN, 1, "y")
    z_que = TQue(TPosition.VECOUT, 1, "z")
    for queue in (x_que, y_que, z_que):
        core.pipe.init_buffer(queue, 2, TILE * x.dtype.itemsize)  # 2: double buffering
    tiles = -(-x.numel // TILE)
    share = -(-tiles // core.get_block_num()) * TILE  # whole tiles for each block
    start = min(core.get_block_idx() * share, x.numel)
    for first, count in core.tiles(start, min(share, x.numel - start), TILE):
        a, b = x_que.copy_in(x.span(first, count)), y_que.copy_in(y.span(first, count))
        s = core.add(a, a, b)
        core.mul(b, s, s)
        core.mul(b, b, s)
        core.muls(b, b, 0.044715)
        core.add(b, b, s)
        core.muls(b, b, -2 * math.sqrt(2 / math.pi))
        core.exp(b, b)
        core.adds(b, b, 1.0)
        out = core.div(z_que.alloc_tensor(z.dtype, count), s, b)
        x_que.free_tensor(a)
        y_que.free_tensor(b)
        z_que.copy_out(z.span(first, count), out)


def reference(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The same in float64."""
    s = x.astype(np.float64) + y
    return s * 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (s + 0.044715 * s**3)))


def main() -> None:
    """Check the numbers, then compare chips on shapes alone."""
    x, y = np.random.default_rng(0).standard_normal((2, 256, 4096), dtype=np.float32)
    z = np.empty_like(x)
    npusim.Device("Ascend910B3").launch(add_gelu, x, y, z)
    print(f"largest error {abs(z - reference(x, y)).max():.1e}")

    spec = npusim.TensorSpec((4096, 4096), "float32")
    for chip in ("Ascend910A", "Ascend910B3", "Ascend310P3"):
        result = npusim.Device(chip).launch(add_gelu, spec, spec, spec)
        print(f"{chip:12} {result.duration_us:6.0f} us, {result.bound}")


if __name__ == "__main__":
    main()

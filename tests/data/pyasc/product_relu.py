"""c = leaky ReLU of a @ b + bias: the cube core multiplies, the vector cores take blocks over."""

import asc
import asc.lib.runtime as rt
import numpy as np
from asc.lib import host

M, N, K = 256, 384, 192


@asc.jit
def product_relu(
    a: asc.GlobalAddress, b: asc.GlobalAddress, c: asc.GlobalAddress, bias: asc.GlobalAddress,
    slope: float, tiling: asc.adv.TCubeTiling, workspace: asc.GlobalAddress,
):  # fmt: skip
    rows = tiling.m.ceildiv(tiling.single_core_m)
    row, column = asc.get_block_idx() % rows, asc.get_block_idx() // rows
    a_gm, b_gm, c_gm, bias_gm = (asc.GlobalTensor() for _ in range(4))
    a_gm.set_global_buffer(a + row * tiling.single_core_m * tiling.k_a)
    b_gm.set_global_buffer(b + column * tiling.single_core_n)
    first = row * tiling.single_core_m * tiling.n + column * tiling.single_core_n
    c_gm.set_global_buffer(c + first)
    bias_gm.set_global_buffer(bias + column * tiling.single_core_n)
    block = tiling.base_m * tiling.base_n
    pipe = asc.TPipe()
    out = asc.TQue(asc.TPosition.VECOUT, 1)
    pipe.init_buffer(que=out, num=2, len=block * c.dtype.sizeof())
    kind, in_gm, in_ub = asc.adv.MatmulType, asc.TPosition.GM, asc.TPosition.VECCALC
    product = asc.adv.Matmul(
        a=kind(in_gm, asc.CubeFormat.ND, a_gm.dtype),
        b=kind(in_gm, asc.CubeFormat.ND, b_gm.dtype),
        c=kind(in_ub, asc.CubeFormat.ND, c_gm.dtype),
        bias=kind(in_gm, asc.CubeFormat.ND, bias_gm.dtype),
    )
    asc.adv.register_matmul(pipe, workspace, product, tiling)
    product.set_tensor_a(a_gm)
    product.set_tensor_b(b_gm)
    product.set_bias(bias_gm)
    high = tiling.single_core_m // tiling.base_m
    c0 = asc.property(asc.DEFAULT_C0_SIZE)
    width, gap = tiling.base_n * 4 // c0, (tiling.n - tiling.base_n) * 4 // c0
    with product.iterate() as count:
        tile = out.alloc_tensor(c.dtype)
        product.get_tensor_c(tile, en_sequential_write=True)
        asc.leaky_relu(tile, tile, slope, count=block)
        out.enque(tile)
        tile = out.deque(c.dtype)
        to = count % high * tiling.base_m * tiling.n + count // high * tiling.base_n
        params = asc.DataCopyParams(tiling.base_m, width, 0, gap)
        asc.data_copy(c_gm[to:], tile, repeat_params=params)
        out.free_tensor(tile)
    product.end()


def main() -> None:
    cut = host.MultiCoreMatmulTiling(host.get_ascendc_platform())
    nd, half = host.CubeFormat.ND, host.DataType.DT_FLOAT16
    cut.set_a_type(host.TPosition.GM, nd, half, False)
    cut.set_b_type(host.TPosition.GM, nd, half, False)
    cut.set_c_type(host.TPosition.VECCALC, nd, host.DataType.DT_FLOAT)
    cut.set_dim(4)
    cut.set_shape(M, N, K)
    cut.set_fix_split(64, 64, -1)
    tiling = asc.adv.TCubeTiling()
    assert cut.get_tiling(tiling) == 0
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((M, K), (K, N)))
    bias = rng.integers(-9, 9, (1, N)).astype(np.float32)
    c, workspace = np.zeros((M, N), np.float32), np.zeros(1024, np.uint8)
    stream = rt.current_stream()
    product_relu[tiling.used_core_num // 2, stream](a, b, c, bias, 0.5, tiling, workspace)
    expected = a.astype(np.float32) @ b.astype(np.float32) + bias
    np.testing.assert_array_equal(c, np.where(expected >= 0, expected, expected / 2))


if __name__ == "__main__":
    main()

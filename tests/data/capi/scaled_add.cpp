/* A kernel that other files launch by its name alone. */
#include "kernel_operator.h"

using namespace AscendC;

struct Parts {
    int32_t blocks, more;
};
struct Sizes {
    uint32_t total;
    float scale;
};

extern "C" __global__ __aicore__ void scaled_add(GM_ADDR x, GM_ADDR y, GM_ADDR z, Sizes sizes, float more, GM_ADDR tiling)
{
    REGISTER_TILING_DEFAULT(Parts);
    GET_TILING_DATA(parts, tiling);
    GET_TILING_DATA_MEMBER(Parts, blocks, blocks, tiling);
    if (!TILING_KEY_IS(0) || parts.blocks != blocks) return;
    TPipe pipe;
    TQue<QuePosition::VECIN, 1> in;
    TQue<QuePosition::VECOUT, 1> out;
    uint32_t n = sizes.total / uint32_t(blocks), first = uint32_t(GetBlockIdx()) * n;
    pipe.InitBuffer(in, 1, n * 8);
    pipe.InitBuffer(out, 1, n * 4);
    GlobalTensor<float> a, b, c;
    a.SetGlobalBuffer((__gm__ float *)x + first, n), b.SetGlobalBuffer((__gm__ float *)y + first, n), c.SetGlobalBuffer((__gm__ float *)z + first, n);
    auto both = in.AllocTensor<float>();
    DataCopy(both, a, n), DataCopy(both[n], b, n);
    in.EnQue(both);
    both = in.DeQue<float>();
    auto sum = out.AllocTensor<float>();
    Add(sum, both, both[n], n), Muls(sum, sum, sizes.scale, n), Adds(sum, sum, more, n);
    out.EnQue(sum);
    in.FreeTensor(both);
    sum = out.DeQue<float>();
    DataCopy(c, sum, n);
    out.FreeTensor(sum);
}

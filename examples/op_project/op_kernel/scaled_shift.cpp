#include "kernel_operator.h"

using namespace AscendC;

template <typename T> class Scaled {
public:
    __aicore__ inline Scaled(GM_ADDR x, GM_ADDR y, const ScaledShiftTilingData &tiling, T shift) : shift(shift), tiling(tiling)
    {
        uint32_t first = GetBlockIdx() * tiling.share;
        count = tiling.total - first < tiling.share ? tiling.total - first : tiling.share;
        from.SetGlobalBuffer(reinterpret_cast<__gm__ T *>(x) + first, count);
        to.SetGlobalBuffer(reinterpret_cast<__gm__ T *>(y) + first, count);
        pipe.InitBuffer(taken, 2, tiling.tile * sizeof(T));
        pipe.InitBuffer(made, 2, tiling.tile * sizeof(T));
    }

    __aicore__ inline void Process()
    {
        for (uint32_t at = 0; at < count; at += tiling.tile) {
            uint32_t size = count - at < tiling.tile ? count - at : tiling.tile;
            DataCopyExtParams run{1, uint32_t(size * sizeof(T)), 0, 0, 0};
            LocalTensor<T> x = taken.template AllocTensor<T>();
            DataCopyPad(x, from[at], run, {false, 0, 0, 0});
            taken.EnQue(x);
            x = taken.template DeQue<T>();
            LocalTensor<T> y = made.template AllocTensor<T>();
            Muls(y, x, T(tiling.scale), size);
            Adds(y, y, shift, size);
            taken.FreeTensor(x);
            made.EnQue(y);
            y = made.template DeQue<T>();
            DataCopyPad(to[at], y, run);
            made.FreeTensor(y);
        }
    }

private:
    TPipe pipe;
    TQue<QuePosition::VECIN, 2> taken;
    TQue<QuePosition::VECOUT, 2> made;
    GlobalTensor<T> from, to;
    T shift;
    uint32_t count = 0;
    ScaledShiftTilingData tiling;
};

extern "C" __global__ __aicore__ void scaled_shift(GM_ADDR x, GM_ADDR shift, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling)
{
    GET_TILING_DATA(data, tiling);
    if (TILING_KEY_IS(1)) {
        Scaled<DTYPE_X>(x, y, data, DTYPE_X(0)).Process();
    } else if (TILING_KEY_IS(2)) {
        GlobalTensor<DTYPE_X> given;
        given.SetGlobalBuffer(reinterpret_cast<__gm__ DTYPE_X *>(shift), 1);
        Scaled<DTYPE_X>(x, y, data, given.GetValue(0)).Process();
    }
}

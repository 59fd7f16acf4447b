#include "kernel_operator.h"
#if ORIG_DTYPE_X == DT_BF16
#error "for another dtype"
#endif
using namespace AscendC;
constexpr __gm__ float PEAKS[8] = {1, 2, 3, 4, 5, 6, 7, 8};
extern "C" __global__ __aicore__ void peak_step(GM_ADDR x, GM_ADDR peak, GM_ADDR table, GM_ADDR workspace, GM_ADDR tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
    TPipe pipe;
    TQue<TPosition::VECIN, 2> from;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(from, 2, 256);
    pipe.InitBuffer(buffer, 256);
    GlobalTensor<float> source, result, listed, constants;
    source.SetGlobalBuffer((__gm__ float *)x, 0); /* a size that says nothing */
    result.SetGlobalBuffer((__gm__ float *)peak + 8 * GetBlockIdx(), 1);
    listed.SetGlobalBuffer((__gm__ float *)table);
    constants.SetGlobalBuffer((__gm__ float *)PEAKS, 8);
    LocalTensor<float> numbers = from.AllocTensor<float>(), largest = buffer.Get<float>();
    DataCopy(numbers, source, 64);
    from.EnQue(numbers);
    numbers = from.DeQue<float>();
    ReduceMax(largest, numbers, numbers, 64);
    from.FreeTensor(numbers);
    SetFlag<HardEvent::V_MTE3>(EVENT_ID0);
    WaitFlag<HardEvent::V_MTE3>(EVENT_ID0);
    DataCopyPad(result, largest, DataCopyParams{1, sizeof(float), 0, 0});
    LocalTensor<float> copied = from.AllocTensor<float>(); /* which nobody frees */
    DataCopy(copied, constants, 8);
    SetFlag<HardEvent::MTE2_MTE3>(EVENT_ID0);
    WaitFlag<HardEvent::MTE2_MTE3>(EVENT_ID0);
    if (GetBlockIdx() == 0) DataCopy(listed, copied, 8);
}

#pragma once
#include "kernel_operator.h"
template <typename T, void (*scale)(const AscendC::LocalTensor<T> &, const AscendC::LocalTensor<T> &, const T &, const int32_t &)>
__aicore__ inline void ScaleBlock(AscendC::GlobalTensor<T> &from, AscendC::GlobalTensor<T> &to, AscendC::LocalTensor<T> tile, T factor, uint32_t count)
{
    AscendC::DataCopyPad(tile, from, {1, uint32_t(count * sizeof(T)), 0, 0, 0}, {false, 0, 0, 0});
    AscendC::PipeBarrier<PIPE_ALL>();
    scale(tile, tile, factor, int32_t(count));
    AscendC::PipeBarrier<PIPE_ALL>();
    AscendC::DataCopyPad(to, tile, {1, uint32_t(count * sizeof(T)), 0, 0, 0});
    AscendC::PipeBarrier<PIPE_ALL>();
}

#include "../scale_utils/scaled.h"
#include "list_scale_key.h"
#include "pieces.h"
template <uint32_t WAY, bool DOUBLED>
__global__ __aicore__ void list_scale(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling)
{
    REGISTER_TILING_DEFAULT(ListScaleData);
    GET_TILING_DATA_WITH_STRUCT(ListScaleData, data, tiling);
    AscendC::TPipe pipe;
    AscendC::TBuf<AscendC::TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 64 * sizeof(DTYPE_X));
    AscendC::ListTensorDesc from(x), to(y);
    for (uint32_t each = 0; each < data.count; each++)
        for (int64_t at = AscendC::GetBlockIdx() * 64; at < data.sizes[each]; at += AscendC::GetBlockNum() * 64) {
            AscendC::GlobalTensor<DTYPE_X> source, target;
            source.SetGlobalBuffer(from.GetDataPtr<DTYPE_X>(each) + at);
            target.SetGlobalBuffer(to.GetDataPtr<DTYPE_X>(each) + at);
            int64_t left = data.sizes[each] - at;
            ScaleBlock<DTYPE_X, AscendC::Muls<DTYPE_X>>(source, target, buffer.Get<DTYPE_X>(), DTYPE_X(data.factor + (WAY == 7)), uint32_t(left < 64 ? left : 64));
        }
}

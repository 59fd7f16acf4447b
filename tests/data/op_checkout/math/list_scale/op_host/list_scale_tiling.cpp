#include "../op_kernel/list_scale_key.h"
#include "log/log.h"
#include "pieces.h"
#include "register/op_impl_registry.h"
#include "util/math_util.h"
namespace optiling {
struct ListScaleCompileInfo {
    uint32_t cores;
};
static ge::graphStatus Prepare(gert::TilingParseContext *context)
{
    context->GetCompiledInfo<ListScaleCompileInfo>()->cores = context->GetPlatformInfo()->GetCoreNumByType("VectorCore");
    return ge::GRAPH_SUCCESS;
}
static ge::graphStatus Tile(gert::TilingContext *context)
{
    auto info = context->GetCompileInfo<ListScaleCompileInfo>();
    OP_CHECK_NULL_WITH_CONTEXT(context, info);
    size_t count = context->GetIrInputInstanceInfo(0)->GetInstanceNum();
    OP_CHECK_IF(count > 16, OP_LOGE(context->GetNodeName(), "%zu tensors are too many", count), return ge::GRAPH_FAILED);
    auto data = context->GetTilingData<ListScaleData>();
    data->count = uint32_t(count), data->factor = *context->GetAttrs()->GetFloat(0);
    int64_t most = 0;
    for (size_t each = 0; each < count; each++) {
        data->sizes[each] = context->GetDynamicInputShape(0, each)->GetStorageShape().GetShapeSize();
        most = std::max(most, data->sizes[each]);
    }
    context->SetBlockDim(uint32_t(std::min<int64_t>(info->cores, Ops::Base::CeilDiv(most, int64_t(64)))));
    context->SetTilingKey(GET_TPL_TILING_KEY(most > 64 ? 3 : 7, true));
    context->GetWorkspaceSizes(1)[0] = 0;
    return ge::GRAPH_SUCCESS;
}
IMPL_OP_OPTILING(ListScale).Tiling(Tile).TilingParse<ListScaleCompileInfo>(Prepare);
} // namespace optiling

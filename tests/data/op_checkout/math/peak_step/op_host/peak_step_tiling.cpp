#include "log/log.h"
#include "register/op_impl_registry.h"
namespace optiling {
uint32_t BlocksOfPeak(gert::TilingContext *context); /* in the folder beside this one */
ge::graphStatus TileForAnotherProduct(gert::TilingContext *context);
static ge::graphStatus Check(gert::TilingContext *context)
{
    int64_t size = context->GetInputShape(0)->GetStorageShape().GetShapeSize();
    OP_CHECK_IF(size != 64, OP_LOGE(context->GetNodeName(), "64 numbers, not %ld", size), return ge::GRAPH_FAILED);
    return ge::GRAPH_SUCCESS;
}
static ge::graphStatus Tile(gert::TilingContext *context)
{
    if (*context->GetAttrs()->GetBool(0)) return TileForAnotherProduct(context);
    OP_CHECK_IF(Check(context) != ge::GRAPH_SUCCESS, OP_LOGE(context->GetNodeName(), "Check failed"), return ge::GRAPH_FAILED);
    context->SetBlockDim(BlocksOfPeak(context));
    context->SetTilingKey(1);
    context->GetWorkspaceSizes(1)[0] = 0;
    return ge::GRAPH_SUCCESS;
}
IMPL_OP_OPTILING(PeakStep).Tiling(Tile);
} // namespace optiling

// y = x * scale + shift, where shift has one element for all of x or may be left out.
#include "scaled_shift_tiling.h"

#include <algorithm>

#include "register/op_def_registry.h"
#include "tiling/platform/platform_ascendc.h"

namespace optiling {

constexpr uint64_t BLOCK_BYTES = 32;
constexpr uint32_t BUFFERS = 2 * 2; // x and y, each twice
constexpr uint64_t WITHOUT_SHIFT = 1, WITH_SHIFT = 2;

static ge::graphStatus Tile(gert::TilingContext *context)
{
    platform_ascendc::PlatformAscendC chip(context->GetPlatformInfo());
    uint64_t ub = 0;
    chip.GetCoreMemSize(platform_ascendc::CoreMemType::UB, ub);

    const gert::Tensor *x = context->GetInputTensor(0);
    uint64_t wide = ge::GetSizeByDataType(x->GetDataType());
    uint64_t total = x->GetShapeSize(), lanes = BLOCK_BYTES / wide;
    if (total == 0 || total > UINT32_MAX) return ge::GRAPH_FAILED;

    // Each core gets whole blocks of 32 bytes, none of them nothing.
    uint64_t blocks = (total + lanes - 1) / lanes;
    uint64_t each = (blocks + chip.GetCoreNumAiv() - 1) / chip.GetCoreNumAiv();
    uint64_t cores = (blocks + each - 1) / each;
    uint64_t room = (ub - 8 * 1024) / BUFFERS / wide / lanes * lanes;

    ScaledShiftTilingData data;
    data.set_total(uint32_t(total));
    data.set_share(uint32_t(each * lanes));
    data.set_tile(uint32_t(std::min(room, each * lanes)));
    data.set_scale(*context->GetAttrs()->GetFloat(0));
    data.SaveToBuffer(context->GetRawTilingData()->GetData(), context->GetRawTilingData()->GetCapacity());
    context->GetRawTilingData()->SetDataSize(data.GetDataSize());
    context->SetTilingKey(context->GetOptionalInputTensor(1) ? WITH_SHIFT : WITHOUT_SHIFT);
    context->SetBlockDim(uint32_t(cores));
    context->GetWorkspaceSizes(1)[0] = 0;
    return ge::GRAPH_SUCCESS;
}

} // namespace optiling

namespace ge {

static graphStatus InferShape(gert::InferShapeContext *context)
{
    *context->GetOutputShape(0) = *context->GetInputShape(0);
    return GRAPH_SUCCESS;
}

static graphStatus InferDataType(gert::InferDataTypeContext *context)
{
    return context->SetOutputDataType(0, context->GetInputDataType(0));
}

} // namespace ge

namespace ops {

class ScaledShift : public OpDef {
public:
    explicit ScaledShift(const char *name) : OpDef(name)
    {
        this->Input("x").ParamType(REQUIRED).DataType({ge::DT_FLOAT16, ge::DT_FLOAT}).Format({ge::FORMAT_ND, ge::FORMAT_ND});
        this->Input("shift").ParamType(OPTIONAL).DataType({ge::DT_FLOAT16, ge::DT_FLOAT}).Format({ge::FORMAT_ND, ge::FORMAT_ND});
        this->Output("y").ParamType(REQUIRED).DataType({ge::DT_FLOAT16, ge::DT_FLOAT}).Format({ge::FORMAT_ND, ge::FORMAT_ND});
        this->Attr("scale").AttrType(OPTIONAL).Float(1.0);
        this->SetInferShape(ge::InferShape).SetInferDataType(ge::InferDataType);
        this->AICore().SetTiling(optiling::Tile).AddConfig("ascend910b").AddConfig("ascend310p");
    }
};
OP_ADD(ScaledShift);

} // namespace ops

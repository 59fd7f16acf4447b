/* A tiling in steps, as libraries derive from it: each step may fail, or say that another class has to answer. */
#ifndef NPUSIM_TILING_BASE_CLASS_H
#define NPUSIM_TILING_BASE_CLASS_H

#include "log/log.h"
#include "npusim/op_context.h"

namespace Ops::Base {

struct AiCoreParams {
    uint64_t ubSize = 0, blockDim = 0, aicNum = 0, l1Size = 0, l0aSize = 0, l0bSize = 0, l0cSize = 0;
};

struct CompileInfoCommon {
    uint64_t ubSize = 0, coreNum = 0, aivNum = 0, aicNum = 0;
    int32_t socVersion = 0;
};

class TilingBaseClass {
public:
    explicit TilingBaseClass(gert::TilingContext *context) : context_(context) {}
    virtual ~TilingBaseClass() = default;
    ge::graphStatus DoTiling()
    {
        if (auto status = GetShapeAttrsInfo(); status != ge::GRAPH_SUCCESS) return status;
        if (auto status = GetPlatformInfo(); status != ge::GRAPH_SUCCESS) return status;
        if (!IsCapable()) return ge::GRAPH_PARAM_INVALID;
        if (auto status = DoOpTiling(); status != ge::GRAPH_SUCCESS) return status;
        if (auto status = DoLibApiTiling(); status != ge::GRAPH_SUCCESS) return status;
        if (auto status = GetWorkspaceSize(); status != ge::GRAPH_SUCCESS) return status;
        if (auto status = PostTiling(); status != ge::GRAPH_SUCCESS) return status;
        return context_->SetTilingKey(GetTilingKey());
    }
    virtual void Reset(gert::TilingContext *context) { context_ = context; }

protected:
    virtual bool IsCapable() = 0;
    virtual ge::graphStatus GetPlatformInfo() = 0;
    virtual ge::graphStatus GetShapeAttrsInfo() = 0;
    virtual ge::graphStatus DoOpTiling() = 0;
    virtual ge::graphStatus DoLibApiTiling() = 0;
    [[nodiscard]] virtual uint64_t GetTilingKey() const = 0;
    virtual ge::graphStatus GetWorkspaceSize() = 0;
    virtual ge::graphStatus PostTiling() = 0;
    virtual void DumpTilingInfo() {}

    gert::TilingContext *context_ = nullptr;
    std::unique_ptr<platform_ascendc::PlatformAscendC> ascendcPlatform_;
    uint32_t blockDim_ = 0;
    uint64_t workspaceSize_ = 0, tilingKey_ = 0;
    AiCoreParams aicoreParams_;
};

} // namespace Ops::Base

#endif

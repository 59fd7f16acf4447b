#include "register/op_def_registry.h"
namespace ops {
class PeakStep : public OpDef {
public:
    explicit PeakStep(const char *name) : OpDef(name)
    {
        for (const char *each : {"x", "peak", "table"}) this->Input(each).ParamType(REQUIRED).DataType({ge::DT_FLOAT16}).Format({ge::FORMAT_ND});
        this->Attr("elsewhere").AttrType(OPTIONAL).Bool(false);
        OpAICoreConfig single;
        for (const char *each : {"x", "peak", "table"}) single.Input(each).ParamType(REQUIRED).DataType({ge::DT_FLOAT}).Format({ge::FORMAT_ND});
        this->AICore().AddConfig("ascend910b", single);
    }
};
OP_ADD(PeakStep);
} // namespace ops

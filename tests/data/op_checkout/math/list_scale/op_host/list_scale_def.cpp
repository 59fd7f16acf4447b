#include "register/op_def_registry.h"
namespace ops {
class ListScale : public OpDef {
public:
    explicit ListScale(const char *name) : OpDef(name)
    {
        this->Input("x").ParamType(DYNAMIC).DataType({ge::DT_FLOAT, ge::DT_FLOAT16}).Format({ge::FORMAT_ND, ge::FORMAT_ND});
        this->Output("y").ParamType(DYNAMIC).DataType({ge::DT_FLOAT, ge::DT_FLOAT16}).Format({ge::FORMAT_ND, ge::FORMAT_ND});
        this->Attr("factor").AttrType(OPTIONAL).Float(2.0);
        OpAICoreConfig single;
        single.Input("x").ParamType(DYNAMIC).DataType({ge::DT_FLOAT}).Format({ge::FORMAT_ND});
        single.Output("y").ParamType(DYNAMIC).DataType({ge::DT_FLOAT}).Format({ge::FORMAT_ND});
        this->AICore().AddConfig("ascend910b", single);
        this->AICore().AddConfig("ascend950");
    }
};
OP_ADD(ListScale);
} // namespace ops

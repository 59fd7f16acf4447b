/* The host's side of a custom operator. Names as the public pages of Ascend C operator projects use them. */
#ifndef NPUSIM_OP_HOST_H
#define NPUSIM_OP_HOST_H

#include <optional>

#include "npusim/op_definition.h"

namespace npusim {

using MakeOperator = std::unique_ptr<ops::OpDef> (*)();
inline std::vector<MakeOperator> &operators()
{
    static std::vector<MakeOperator> all;
    return all;
}
struct Registered {
    explicit Registered(MakeOperator make) { operators().push_back(make); }
};

/* What IMPL_OP_OPTILING and its like say of an operator, which need not be in the file of its OpDef. */
class Implementation {
public:
    using TilingFunction = ops::OpAICoreDef::Tiling;
    using Parse = ops::OpAICoreDef::Parse;
    Implementation &Tiling(TilingFunction given) { return tiling = std::move(given), *this; }
    template <typename T> Implementation &TilingParse(Parse given)
    {
        parse = [given](gert::TilingParseContext *context) {
            context->GetCompiledInfo<T>(); /* the function need not ask */
            return given(context);
        };
        return *this;
    }
    Implementation &InferShape(std::function<ge::graphStatus(gert::InferShapeContext *)> given) { return infer_shape = std::move(given), *this; }
    Implementation &InferDataType(std::function<ge::graphStatus(gert::InferDataTypeContext *)> given) { return infer_type = std::move(given), *this; }
    template <typename Infer> Implementation &InferShapeRange(Infer &&) { return *this; }
    template <typename Make> Implementation &GenSimplifiedKey(Make &&) { return *this; }
    Implementation &InputsDataDependency(std::initializer_list<int32_t> given) { return valued.insert(valued.end(), given), *this; }
    Implementation &TilingInputsDataDependency(std::initializer_list<int32_t> given) { return InputsDataDependency(given); }
    template <typename Places> Implementation &TilingInputsDataDependency(std::initializer_list<int32_t> given, Places) { return InputsDataDependency(given); }
    Implementation &PrivateAttr(...) { return *this; }

    TilingFunction tiling;
    Parse parse;
    std::function<ge::graphStatus(gert::InferShapeContext *)> infer_shape;
    std::function<ge::graphStatus(gert::InferDataTypeContext *)> infer_type;
    std::vector<int32_t> valued;
};
inline std::map<std::string, Implementation> &implementations()
{
    static std::map<std::string, Implementation> all;
    return all;
}

} // namespace npusim

#define NPUSIM_NAMED_(name, number) name##number
#define NPUSIM_NAMED(name, number) NPUSIM_NAMED_(name, number)
#define IMPL_OP(Type) [[maybe_unused]] static ::npusim::Implementation &NPUSIM_NAMED(npusim_implements_, __COUNTER__) = ::npusim::implementations()[#Type]
#define IMPL_OP_OPTILING(Type) IMPL_OP(Type)
#define IMPL_OP_INFERSHAPE(Type) IMPL_OP(Type)
#define IMPL_OP_INFERDATATYPE(Type) IMPL_OP(Type)

#define OP_ADD(Type, ...)                                                                                               \
    static ::npusim::Registered npusim_registered_##Type([] { return std::unique_ptr<::ops::OpDef>(new Type(#Type)); })

#endif

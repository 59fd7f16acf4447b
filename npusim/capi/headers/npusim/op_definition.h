/* How an operator describes itself: parameters, attributes, products. */
#ifndef NPUSIM_OP_DEFINITION_H
#define NPUSIM_OP_DEFINITION_H

#include "npusim/op_context.h"

namespace ops {

enum Option { IGNORE = 0, OPTIONAL = 1, REQUIRED = 2, DYNAMIC = 3, VIRTUAL = 4 };
enum class DependScope { ALL, TILING };
enum class ScalarType { UINT64, INT64, UINT32, INT32, UINT16, INT16, UINT8, INT8, FLOAT32, FLOAT16 };
struct ScalarVar {
    ScalarType type;
    double value;
};

class OpParamDef {
public:
    explicit OpParamDef(const char *name) : name(name) {}
    OpParamDef &ParamType(Option kind) { return option = kind, *this; }
    OpParamDef &DataType(std::vector<ge::DataType> given) { return types = std::move(given), *this; }
    OpParamDef &DataTypeList(std::vector<ge::DataType> given) { return DataType(std::move(given)); }
    OpParamDef &DataTypeForBinQuery(std::vector<ge::DataType>) { return *this; }
    OpParamDef &Format(std::vector<ge::Format> given) { return formats = std::move(given), *this; }
    OpParamDef &FormatList(std::vector<ge::Format> given) { return Format(std::move(given)); }
    OpParamDef &UnknownShapeFormat(std::vector<ge::Format>) { return *this; }
    OpParamDef &ValueDepend(Option, DependScope = DependScope::ALL) { return valued = true, *this; }
    OpParamDef &IgnoreContiguous() { return *this; }
    OpParamDef &AutoContiguous() { return *this; }
    OpParamDef &InitValue(uint64_t) { return *this; } /* results are zero before the kernel */
    OpParamDef &InitValue(const ScalarVar &) { return *this; }
    OpParamDef &InitValue(const std::vector<ScalarVar> &) { return *this; }
    OpParamDef &Scalar() { return *this; }
    OpParamDef &ScalarList() { return *this; }
    OpParamDef &Version(uint32_t) { return *this; }
    OpParamDef &OutputShapeDependOnCompute() { return *this; }
    OpParamDef &To(ge::DataType) { return *this; }
    OpParamDef &To(const char *) { return *this; }
    OpParamDef &Follow(const char *name) { return followed = name, *this; }
    template <typename Kind> OpParamDef &Follow(const char *name, Kind) { return Follow(name); }
    OpParamDef &Comment(int, const char *) { return *this; }

    std::string name, followed;
    Option option = REQUIRED;
    std::vector<ge::DataType> types;
    std::vector<ge::Format> formats;
    bool valued = false;
};

class OpAttrDef {
public:
    explicit OpAttrDef(const char *name) : name(name) {}
    OpAttrDef &AttrType(Option kind) { return option = kind, *this; }
    OpAttrDef &Int() { return kind = "int", *this; }
    OpAttrDef &Int(int64_t value) { return fallback(value), Int(); }
    OpAttrDef &Float() { return kind = "float", *this; }
    OpAttrDef &Float(float value) { return fallback(value), Float(); }
    OpAttrDef &Bool() { return kind = "bool", *this; }
    OpAttrDef &Bool(bool value) { return fallback(value), Bool(); }
    OpAttrDef &String() { return kind = "text", *this; }
    OpAttrDef &String(const char *value) { return words = value, has_default = true, String(); }
    OpAttrDef &ListInt() { return kind = "ints", *this; }
    OpAttrDef &ListInt(std::vector<int64_t> value) { return list = std::move(value), has_default = true, ListInt(); }
    OpAttrDef &ListFloat() { return kind = "floats", *this; }
    OpAttrDef &ListFloat(std::vector<float>) { return has_default = true, ListFloat(); }
    OpAttrDef &ListBool() { return ListInt(); }
    OpAttrDef &ListBool(const std::vector<bool> &value) { return ListInt({value.begin(), value.end()}); }
    OpAttrDef &Version(uint32_t) { return *this; }
    OpAttrDef &Comment(int, const char *) { return *this; }

    std::string name, words;
    const char *kind = "int";
    Option option = REQUIRED;
    bool has_default = false;
    double number = 0;
    std::vector<int64_t> list;

private:
    template <typename T> void fallback(T value) { number = double(value), has_default = true; }
};

template <typename Def> Def &named(std::vector<std::shared_ptr<Def>> &all, const char *name)
{
    for (auto &each : all) if (each->name == name) return *each;
    return *all.emplace_back(std::make_shared<Def>(name));
}

/* What is otherwise on a product: its parameters instead of the operator's. */
class OpAICoreConfig {
public:
    OpAICoreConfig() = default;
    explicit OpAICoreConfig(const char *) {}
    OpParamDef &Input(const char *name) { return named(inputs, name); }
    OpParamDef &Output(const char *name) { return named(outputs, name); }
    OpAICoreConfig &ExtendCfgInfo(const char *, const char *) { return *this; }
    OpAICoreConfig &DynamicCompileStaticFlag(bool) { return *this; }
    OpAICoreConfig &DynamicFormatFlag(bool) { return *this; }
    OpAICoreConfig &DynamicRankSupportFlag(bool) { return *this; }
    OpAICoreConfig &DynamicShapeSupportFlag(bool) { return *this; }
    OpAICoreConfig &NeedCheckSupportFlag(bool) { return *this; }
    OpAICoreConfig &PrecisionReduceFlag(bool) { return *this; }

    std::vector<std::shared_ptr<OpParamDef>> inputs, outputs;
};

class OpAICoreDef {
public:
    using Tiling = std::function<ge::graphStatus(gert::TilingContext *)>;
    using Parse = std::function<ge::graphStatus(gert::TilingParseContext *)>;
    OpAICoreDef &SetTiling(Tiling given) { return tiling = std::move(given), *this; }
    OpAICoreDef &SetTilingParse(Parse given) { return parse = std::move(given), *this; }
    template <typename Check> OpAICoreDef &SetCheckSupport(Check &&) { return *this; }
    template <typename Select> OpAICoreDef &SetOpSelectFormat(Select &&) { return *this; }
    OpAICoreDef &AddConfig(const char *soc) { return AddConfig(soc, {}); }
    OpAICoreDef &AddConfig(const char *soc, const OpAICoreConfig &config) { return configs.emplace_back(soc, config), *this; }

    Tiling tiling;
    Parse parse;
    std::vector<std::pair<std::string, OpAICoreConfig>> configs;
};
class OpMC2Def {
public:
    OpMC2Def &HcclGroup(std::vector<const char *>) { return *this; }
    OpMC2Def &HcclGroup(const char *) { return *this; }
    template <typename Kind> OpMC2Def &HcclServerType(Kind, const char * = nullptr) { return *this; }
};
enum class HcclServerType { AICPU, AICORE, CCU, MAX };

enum class FormatCheckOption { DEFAULT = 0, STRICT = 1 };

class OpDef {
public:
    explicit OpDef(const char *type) : type(type) {}
    virtual ~OpDef() = default;
    OpParamDef &Input(const char *name) { return named(inputs, name); }
    OpParamDef &Output(const char *name) { return named(outputs, name); }
    OpAttrDef &Attr(const char *name) { return named(attributes, name); }
    OpAICoreDef &AICore() { return core; }
    OpMC2Def &MC2() { return mc2; }
    OpDef &SetInferShape(std::function<ge::graphStatus(gert::InferShapeContext *)> given) { return infer_shape = std::move(given), *this; }
    OpDef &SetInferDataType(std::function<ge::graphStatus(gert::InferDataTypeContext *)> given) { return infer_type = std::move(given), *this; }
    template <typename Infer> OpDef &SetInferShapeRange(Infer &&) { return *this; }
    OpDef &Comment(int, const char *) { return *this; }
    OpDef &FormatMatchMode(FormatCheckOption) { return *this; }

    std::string type;
    std::vector<std::shared_ptr<OpParamDef>> inputs, outputs;
    std::vector<std::shared_ptr<OpAttrDef>> attributes;
    OpAICoreDef core;
    OpMC2Def mc2;
    std::function<ge::graphStatus(gert::InferShapeContext *)> infer_shape;
    std::function<ge::graphStatus(gert::InferDataTypeContext *)> infer_type;

};

} // namespace ops

#endif

/* The host's side of a custom operator: what its tiling and its inference are given, and how it describes itself.
 * Names as the public pages of Ascend C operator projects use them. */
#ifndef NPUSIM_OP_HOST_H
#define NPUSIM_OP_HOST_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <iostream> /* programs that print rely on it */
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/types.h"

namespace fe {
class PlatFormInfos {};
} // namespace fe

namespace gert {

class Shape {
public:
    static constexpr size_t kMaxDimNum = 25;
    Shape() = default;
    Shape(std::initializer_list<int64_t> dims) { for (int64_t dim : dims) AppendDim(dim); }
    size_t GetDimNum() const { return rank_; }
    int64_t GetDim(size_t axis) const { return axis < rank_ ? dims_[axis] : 0; }
    void SetDim(size_t axis, int64_t dim) { if (axis < kMaxDimNum) dims_[axis] = dim; }
    void SetDimNum(size_t rank) { rank_ = rank < kMaxDimNum ? rank : kMaxDimNum; }
    Shape &AppendDim(int64_t dim)
    {
        if (rank_ < kMaxDimNum) dims_[rank_++] = dim;
        return *this;
    }
    int64_t GetShapeSize() const
    {
        int64_t size = 1;
        for (size_t axis = 0; axis < rank_; axis++) size *= dims_[axis];
        return size;
    }
    bool IsScalar() const { return rank_ == 0; }
    int64_t operator[](size_t axis) const { return dims_[axis]; }
    int64_t &operator[](size_t axis) { return dims_[axis]; }
    bool operator==(const Shape &other) const
    {
        if (rank_ != other.rank_) return false;
        for (size_t axis = 0; axis < rank_; axis++) if (dims_[axis] != other.dims_[axis]) return false;
        return true;
    }
    bool operator!=(const Shape &other) const { return !(*this == other); }

private:
    size_t rank_ = 0;
    std::array<int64_t, kMaxDimNum> dims_{};
};

class StorageShape {
public:
    StorageShape() = default;
    explicit StorageShape(const Shape &shape) : shape_(shape) {}
    const Shape &GetOriginShape() const { return shape_; }
    const Shape &GetStorageShape() const { return shape_; }
    Shape &MutableOriginShape() { return shape_; }
    Shape &MutableStorageShape() { return shape_; }

private:
    Shape shape_;
};

class CompileTimeTensorDesc {
public:
    ge::DataType type = ge::DT_UNDEFINED;
    ge::Format format = ge::FORMAT_ND;
    ge::DataType GetDataType() const { return type; }
    ge::Format GetStorageFormat() const { return format; }
    ge::Format GetOriginFormat() const { return format; }
    struct Both {
        ge::Format format;
        ge::Format GetStorageFormat() const { return format; }
        ge::Format GetOriginFormat() const { return format; }
    };
    Both GetFormat() const { return {format}; }
};

/* Without data, but for inputs whose values the tiling is said to depend on. */
class Tensor : public StorageShape {
public:
    Tensor() = default;
    Tensor(const Shape &shape, CompileTimeTensorDesc told, const void *data) : StorageShape(shape), told_(told), data_(data) {}
    int64_t GetShapeSize() const { return GetStorageShape().GetShapeSize(); }
    ge::DataType GetDataType() const { return told_.type; }
    ge::Format GetStorageFormat() const { return told_.format; }
    ge::Format GetOriginFormat() const { return told_.format; }
    size_t GetSize() const { return size_t(GetShapeSize()) * size_t(ge::GetSizeByDataType(told_.type)); }
    const StorageShape &GetShape() const { return *this; }
    template <typename T> const T *GetData() const { return static_cast<const T *>(data_); }
    const void *GetAddr() const { return data_; }

private:
    CompileTimeTensorDesc told_;
    const void *data_ = nullptr;
};

template <typename T> class TypedContinuousVector {
public:
    TypedContinuousVector() = default;
    TypedContinuousVector(const int64_t *from, size_t count) { for (size_t place = 0; place < count; place++) held_.push_back(T(from[place])); }
    size_t GetSize() const { return held_.size(); }
    const T *GetData() const { return held_.data(); }

private:
    std::vector<T> held_;
};
using ContinuousVector = TypedContinuousVector<int64_t>;

class RuntimeAttrs {
public:
    struct Value {
        bool given = false;
        int64_t whole = 0;
        float real = 0;
        bool flag = false;
        std::string text;
        TypedContinuousVector<int64_t> ints;
        TypedContinuousVector<float> reals;
    };
    std::vector<Value> values;
    size_t GetAttrNum() const { return values.size(); }
    const int64_t *GetInt(size_t place) const { return at(place) ? &values[place].whole : nullptr; }
    const float *GetFloat(size_t place) const { return at(place) ? &values[place].real : nullptr; }
    const bool *GetBool(size_t place) const { return at(place) ? &values[place].flag : nullptr; }
    const char *GetStr(size_t place) const { return at(place) ? values[place].text.c_str() : nullptr; }
    const char *GetString(size_t place) const { return GetStr(place); }
    const TypedContinuousVector<int64_t> *GetListInt(size_t place) const { return at(place) ? &values[place].ints : nullptr; }
    const TypedContinuousVector<float> *GetListFloat(size_t place) const { return at(place) ? &values[place].reals : nullptr; }
    template <typename T> const T *GetAttrPointer(size_t place) const
    {
        if constexpr (std::is_same_v<T, bool>) return GetBool(place);
        else if constexpr (std::is_same_v<T, float>) return GetFloat(place);
        else if constexpr (std::is_same_v<T, char>) return GetStr(place);
        else if constexpr (std::is_same_v<T, int64_t>) return GetInt(place);
        else if constexpr (std::is_same_v<T, ContinuousVector>) return GetListInt(place);
        else static_assert(!sizeof(T), "attributes are int64_t, float, bool, char or ContinuousVector here");
    }

private:
    bool at(size_t place) const { return place < values.size() && values[place].given; }
};

class TilingData {
public:
    void *GetData() { return held_.data(); }
    size_t GetCapacity() const { return held_.size() * sizeof held_[0]; }
    size_t GetDataSize() const { return size_; }
    void SetDataSize(size_t size) { size_ = size; }

private:
    std::vector<uint64_t> held_ = std::vector<uint64_t>(1 << 15);
    size_t size_ = 0;
};

/* What all contexts have: the operator's inputs and attributes; an input that is left out is null. */
class Context {
public:
    const char *type = "";
    std::vector<std::unique_ptr<Tensor>> inputs;
    std::vector<CompileTimeTensorDesc> input_descriptions, output_descriptions;
    std::vector<StorageShape> outputs;
    RuntimeAttrs attributes;

    const char *GetNodeType() const { return type; }
    const char *GetNodeName() const { return type; }
    size_t GetComputeNodeInputNum() const { return inputs.size(); }
    size_t GetComputeNodeOutputNum() const { return outputs.size(); }
    const RuntimeAttrs *GetAttrs() const { return &attributes; }
    const CompileTimeTensorDesc *GetInputDesc(size_t place) const { return has(place) ? &input_descriptions[place] : nullptr; }
    const CompileTimeTensorDesc *GetOptionalInputDesc(size_t place) const { return GetInputDesc(place); }
    const CompileTimeTensorDesc *GetOutputDesc(size_t place) const { return place < output_descriptions.size() ? &output_descriptions[place] : nullptr; }
    const Tensor *GetInputTensor(size_t place) const { return has(place) ? inputs[place].get() : nullptr; }
    const Tensor *GetOptionalInputTensor(size_t place) const { return GetInputTensor(place); }
    const Tensor *GetRequiredInputTensor(size_t place) const { return GetInputTensor(place); }

protected:
    bool has(size_t place) const { return place < inputs.size() && inputs[place]; }
};

class TilingContext : public Context {
public:
    const StorageShape *GetInputShape(size_t place) const { return GetInputTensor(place); }
    const StorageShape *GetOptionalInputShape(size_t place) const { return GetInputTensor(place); }
    const StorageShape *GetRequiredInputShape(size_t place) const { return GetInputTensor(place); }
    const StorageShape *GetOutputShape(size_t place) const { return place < outputs.size() ? &outputs[place] : nullptr; }
    fe::PlatFormInfos *GetPlatformInfo() const { return &platform; }
    TilingData *GetRawTilingData() { return &tiling; }
    template <typename T> T *GetTilingData()
    {
        tiling.SetDataSize(sizeof(T));
        return new (tiling.GetData()) T();
    }
    ge::graphStatus SetBlockDim(uint32_t count) { return blocks = count, ge::GRAPH_SUCCESS; }
    ge::graphStatus SetSimdNumBlocks(uint32_t count) { return SetBlockDim(count); }
    ge::graphStatus SetNumBlocks(uint32_t count) { return SetBlockDim(count); }
    uint32_t GetBlockDim() const { return blocks; }
    ge::graphStatus SetTilingKey(uint64_t given) { return key = given, ge::GRAPH_SUCCESS; }
    uint64_t GetTilingKey() const { return key; }
    ge::graphStatus SetScheduleMode(uint32_t) { return ge::GRAPH_SUCCESS; }
    ge::graphStatus SetLocalMemorySize(uint32_t) { return ge::GRAPH_SUCCESS; }
    size_t *GetWorkspaceSizes(size_t count)
    {
        if (workspaces.size() < count) workspaces.resize(count);
        return workspaces.data();
    }
    size_t GetWorkspaceNum() const { return workspaces.size(); }
    template <typename T> const T *GetCompileInfo() const { return nullptr; }

    uint32_t blocks = 0;
    uint64_t key = 0;
    TilingData tiling;
    std::vector<size_t> workspaces;

private:
    mutable fe::PlatFormInfos platform;
};

class TilingParseContext : public Context {};

class InferShapeContext : public Context {
public:
    const Shape *GetInputShape(size_t place) const { return has(place) ? &inputs[place]->GetStorageShape() : nullptr; }
    const Shape *GetOptionalInputShape(size_t place) const { return GetInputShape(place); }
    Shape *GetOutputShape(size_t place) { return place < outputs.size() ? &outputs[place].MutableStorageShape() : nullptr; }
};

class InferDataTypeContext : public Context {
public:
    ge::DataType GetInputDataType(size_t place) const { return has(place) ? input_descriptions[place].type : ge::DT_UNDEFINED; }
    ge::DataType GetOptionalInputDataType(size_t place) const { return GetInputDataType(place); }
    ge::DataType GetOutputDataType(size_t place) const { return place < output_descriptions.size() ? output_descriptions[place].type : ge::DT_UNDEFINED; }
    ge::graphStatus SetOutputDataType(size_t place, ge::DataType type)
    {
        if (place >= output_descriptions.size()) return ge::GRAPH_FAILED;
        return output_descriptions[place].type = type, ge::GRAPH_SUCCESS;
    }
};

} // namespace gert

namespace ops {

enum Option { IGNORE = 0, OPTIONAL = 1, REQUIRED = 2, DYNAMIC = 3, VIRTUAL = 4 };
enum class DependScope { ALL, TILING };

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
    OpParamDef &InitValue(uint64_t) { return *this; }
    OpParamDef &Scalar() { return *this; }
    OpParamDef &Comment(int, const char *) { return *this; }

    std::string name;
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

    std::string name, words;
    const char *kind = "int";
    Option option = REQUIRED;
    bool has_default = false;
    double number = 0;
    std::vector<int64_t> list;

private:
    template <typename T> void fallback(T value) { number = double(value), has_default = true; }
};

class OpAICoreConfig {
public:
    OpAICoreConfig &ExtendCfgInfo(const char *, const char *) { return *this; }
    OpAICoreConfig &DynamicCompileStaticFlag(bool) { return *this; }
    OpAICoreConfig &DynamicFormatFlag(bool) { return *this; }
    OpAICoreConfig &DynamicRankSupportFlag(bool) { return *this; }
    OpAICoreConfig &DynamicShapeSupportFlag(bool) { return *this; }
    OpAICoreConfig &NeedCheckSupportFlag(bool) { return *this; }
    OpAICoreConfig &PrecisionReduceFlag(bool) { return *this; }
};

class OpAICoreDef {
public:
    using Tiling = std::function<ge::graphStatus(gert::TilingContext *)>;
    OpAICoreDef &SetTiling(Tiling given) { return tiling = std::move(given), *this; }
    template <typename Parse> OpAICoreDef &SetTilingParse(Parse &&) { return *this; }
    OpAICoreDef &AddConfig(const char *soc) { return socs.emplace_back(soc), *this; }
    OpAICoreDef &AddConfig(const char *soc, const OpAICoreConfig &) { return AddConfig(soc); }

    Tiling tiling;
    std::vector<std::string> socs;
};

class OpDef {
public:
    explicit OpDef(const char *type) : type(type) {}
    virtual ~OpDef() = default;
    OpParamDef &Input(const char *name) { return named(inputs, name); }
    OpParamDef &Output(const char *name) { return named(outputs, name); }
    OpAttrDef &Attr(const char *name) { return named(attributes, name); }
    OpAICoreDef &AICore() { return core; }
    OpDef &SetInferShape(std::function<ge::graphStatus(gert::InferShapeContext *)> given) { return infer_shape = std::move(given), *this; }
    OpDef &SetInferDataType(std::function<ge::graphStatus(gert::InferDataTypeContext *)> given) { return infer_type = std::move(given), *this; }
    OpDef &Comment(int, const char *) { return *this; }

    std::string type;
    std::vector<std::unique_ptr<OpParamDef>> inputs, outputs;
    std::vector<std::unique_ptr<OpAttrDef>> attributes;
    OpAICoreDef core;
    std::function<ge::graphStatus(gert::InferShapeContext *)> infer_shape;
    std::function<ge::graphStatus(gert::InferDataTypeContext *)> infer_type;

private:
    template <typename Def> static Def &named(std::vector<std::unique_ptr<Def>> &all, const char *name)
    {
        for (auto &each : all) if (each->name == name) return *each;
        return *all.emplace_back(new Def(name));
    }
};

} // namespace ops

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
} // namespace npusim

#define OP_ADD(Type)                                                                                                    \
    static ::npusim::Registered npusim_registered_##Type([] { return std::unique_ptr<::ops::OpDef>(new Type(#Type)); })

#endif

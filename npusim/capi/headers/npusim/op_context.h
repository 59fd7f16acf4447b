/* What the tiling and the inference of an operator are given: shapes, attributes, the chip, and room for what they answer. */
#ifndef NPUSIM_OP_CONTEXT_H
#define NPUSIM_OP_CONTEXT_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <iostream> /* programs that print rely on it */
#include <map>
#include <memory>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "graph/types.h"
#include "platform/platform_infos_def.h"

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
    const Shape &GetShape() const { return shape_; }
    Shape &MutableOriginShape() { return shape_; }
    Shape &MutableStorageShape() { return shape_; }
    bool operator==(const StorageShape &other) const { return shape_ == other.shape_; }
    bool operator!=(const StorageShape &other) const { return shape_ != other.shape_; }

private:
    Shape shape_;
};

class StorageFormat {
public:
    StorageFormat(ge::Format format = ge::FORMAT_ND) : format_(format) {}
    ge::Format GetStorageFormat() const { return format_; }
    ge::Format GetOriginFormat() const { return format_; }

private:
    ge::Format format_;
};

class CompileTimeTensorDesc {
public:
    ge::DataType type = ge::DT_UNDEFINED;
    ge::Format format = ge::FORMAT_ND;
    ge::DataType GetDataType() const { return type; }
    ge::Format GetStorageFormat() const { return format; }
    ge::Format GetOriginFormat() const { return format; }
    StorageFormat GetFormat() const { return {format}; }
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
    template <typename T> T *GetData() { return const_cast<T *>(static_cast<const T *>(data_)); }
    const void *GetAddr() const { return data_; }
    StorageFormat GetFormat() const { return told_.GetFormat(); }
    void SetDataType(ge::DataType type) { told_.type = type; }

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
        else if constexpr (std::is_same_v<T, ContinuousVector>) return GetListInt(place);
        else if constexpr (std::is_same_v<T, TypedContinuousVector<float>>) return GetListFloat(place);
        else if constexpr (std::is_integral_v<T>) return reinterpret_cast<const T *>(GetInt(place)); /* the low bytes of 64 bits */
        else static_assert(!sizeof(T), "attributes are whole numbers, float, bool, char or ContinuousVector here");
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

/* Where the tensors of a parameter are among all of an operator's: a list (DYNAMIC) has any number. */
class AnchorInstanceInfo {
public:
    size_t start = 0, count = 0;
    size_t GetInstanceStart() const { return start; }
    size_t GetInstanceNum() const { return count; }
};

class ComputeNodeInfo {
public:
    std::vector<AnchorInstanceInfo> parameters, results;
    const char *type = "";
    size_t inputs = 0, outputs = 0;
    size_t GetInputsNum() const { return inputs; }
    size_t GetOutputsNum() const { return outputs; }
    size_t GetIrInputsNum() const { return parameters.size(); }
    size_t GetIrOutputsNum() const { return results.size(); }
    const char *GetNodeType() const { return type; }
    const char *GetNodeName() const { return type; }
    const AnchorInstanceInfo *GetInputInstanceInfo(size_t place) const { return place < parameters.size() ? &parameters[place] : nullptr; }
    const AnchorInstanceInfo *GetOutputInstanceInfo(size_t place) const { return place < results.size() ? &results[place] : nullptr; }
};

/* What all contexts have: the operator's inputs and attributes; an input that is left out is null. Places are those of
 * tensors, but for optional, required and dynamic inputs, whose places are those of the parameters. */
class Context {
public:
    const char *type = "";
    std::vector<std::unique_ptr<Tensor>> inputs;
    std::vector<CompileTimeTensorDesc> input_descriptions, output_descriptions;
    std::vector<StorageShape> outputs;
    std::vector<Tensor> output_tensors;
    ComputeNodeInfo node;
    RuntimeAttrs attributes;

    const char *GetNodeType() const { return type; }
    const char *GetNodeName() const { return type; }
    size_t GetComputeNodeInputNum() const { return inputs.size(); }
    size_t GetComputeNodeOutputNum() const { return outputs.size(); }
    const ComputeNodeInfo *GetComputeNodeInfo() const { return &node; }
    const AnchorInstanceInfo *GetIrInputInstanceInfo(size_t place) const { return node.GetInputInstanceInfo(place); }
    const AnchorInstanceInfo *GetIrOutputInstanceInfo(size_t place) const { return node.GetOutputInstanceInfo(place); }
    const RuntimeAttrs *GetAttrs() const { return &attributes; }
    const CompileTimeTensorDesc *GetInputDesc(size_t place) const { return has(place) ? &input_descriptions[place] : nullptr; }
    const CompileTimeTensorDesc *GetDynamicInputDesc(size_t place, size_t among) const { return GetInputDesc(at(place, among)); }
    const CompileTimeTensorDesc *GetOptionalInputDesc(size_t place) const { return GetInputDesc(at(place)); }
    const CompileTimeTensorDesc *GetRequiredInputDesc(size_t place) const { return GetInputDesc(at(place)); }
    const CompileTimeTensorDesc *GetOutputDesc(size_t place) const { return place < output_descriptions.size() ? &output_descriptions[place] : nullptr; }
    const Tensor *GetInputTensor(size_t place) const { return has(place) ? inputs[place].get() : nullptr; }
    const Tensor *GetDynamicInputTensor(size_t place, size_t among) const { return GetInputTensor(at(place, among)); }
    const Tensor *GetOptionalInputTensor(size_t place) const { return GetInputTensor(at(place)); }
    const Tensor *GetRequiredInputTensor(size_t place) const { return GetInputTensor(at(place)); }
    const Tensor *GetOutputTensor(size_t place) const { return place < output_tensors.size() ? &output_tensors[place] : nullptr; }

protected:
    bool has(size_t place) const { return place < inputs.size() && inputs[place]; }
    size_t at(size_t parameter, size_t among = 0) const
    {
        if (parameter >= node.parameters.size()) return SIZE_MAX;
        const AnchorInstanceInfo &place = node.parameters[parameter];
        return among < place.count ? place.start + among : SIZE_MAX;
    }
};

/* What host code finds of the chip once, before it is asked for calls. */
class TilingParseContext : public Context {
public:
    std::shared_ptr<void> made;
    fe::PlatFormInfos *GetPlatformInfo() const { return &platform_; }
    template <typename T> T *GetCompiledInfo()
    {
        made = std::make_shared<T>();
        return static_cast<T *>(made.get());
    }
    const char *GetCompiledJson() const { return "{}"; }

private:
    mutable fe::PlatFormInfos platform_;
};

class TilingContext : public Context {
public:
    const StorageShape *GetInputShape(size_t place) const { return GetInputTensor(place); }
    const StorageShape *GetDynamicInputShape(size_t place, size_t among) const { return GetDynamicInputTensor(place, among); }
    const StorageShape *GetOptionalInputShape(size_t place) const { return GetOptionalInputTensor(place); }
    const StorageShape *GetRequiredInputShape(size_t place) const { return GetRequiredInputTensor(place); }
    const StorageShape *GetOutputShape(size_t place) const { return place < outputs.size() ? &outputs[place] : nullptr; }
    fe::PlatFormInfos *GetPlatformInfo() const { return &platform_; }
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
    ge::graphStatus SetNeedAtomic(bool) { return ge::GRAPH_SUCCESS; }
    ge::graphStatus SetAicpuBlockDim(uint32_t) { return ge::GRAPH_SUCCESS; }
    ge::graphStatus SetLocalMemorySize(uint32_t) { return ge::GRAPH_SUCCESS; }
    size_t *GetWorkspaceSizes(size_t count)
    {
        if (workspaces.size() < count) workspaces.resize(count);
        return workspaces.data();
    }
    size_t GetWorkspaceNum() const { return workspaces.size(); }
    int32_t GetDeterministic() const { return 0; }
    int32_t GetDeterministicLevel() const { return 0; }
    template <typename T> const T *GetCompileInfo() const { return static_cast<const T *>(GetCompileInfo()); }
    const void *GetCompileInfo() const { return compiled.get(); }

    uint32_t blocks = 0;
    uint64_t key = 0;
    TilingData tiling;
    std::vector<size_t> workspaces;
    std::shared_ptr<void> compiled;

private:
    mutable fe::PlatFormInfos platform_;
};

class InferShapeContext : public Context {
public:
    const Shape *GetInputShape(size_t place) const { return has(place) ? &inputs[place]->GetStorageShape() : nullptr; }
    const Shape *GetDynamicInputShape(size_t place, size_t among) const { return GetInputShape(at(place, among)); }
    const Shape *GetOptionalInputShape(size_t place) const { return GetInputShape(at(place)); }
    const Shape *GetRequiredInputShape(size_t place) const { return GetInputShape(at(place)); }
    Shape *GetOutputShape(size_t place) { return place < outputs.size() ? &outputs[place].MutableStorageShape() : nullptr; }
};
class InferShapeRangeContext : public Context {};

class InferDataTypeContext : public Context {
public:
    ge::DataType GetInputDataType(size_t place) const { return has(place) ? input_descriptions[place].type : ge::DT_UNDEFINED; }
    ge::DataType GetDynamicInputDataType(size_t place, size_t among) const { return GetInputDataType(at(place, among)); }
    ge::DataType GetOptionalInputDataType(size_t place) const { return GetInputDataType(at(place)); }
    ge::DataType GetRequiredInputDataType(size_t place) const { return GetInputDataType(at(place)); }
    ge::DataType GetOutputDataType(size_t place) const { return place < output_descriptions.size() ? output_descriptions[place].type : ge::DT_UNDEFINED; }
    ge::graphStatus SetOutputDataType(size_t place, ge::DataType type)
    {
        if (place >= output_descriptions.size()) return ge::GRAPH_FAILED;
        return output_descriptions[place].type = type, ge::GRAPH_SUCCESS;
    }
};

} // namespace gert

#endif

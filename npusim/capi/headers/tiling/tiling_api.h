/* How the host cuts products, and how much scratch memory interfaces need. */
#ifndef NPUSIM_TILING_API_H
#define NPUSIM_TILING_API_H

#include <cstdint>
#include <initializer_list>
#include <iostream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "npusim/op_context.h"
#include "kernel_tiling/kernel_tiling.h"
#include "register/tilingdata_base.h"
#include "tiling/platform/platform_ascendc.h"

extern "C" int npusim_matmul_tiling(const int64_t *given, int32_t *found);

namespace matmul_tiling {

enum class TPosition : int32_t { GM, A1, A2, B1, B2, C1, C2, CO1, CO2, VECIN, VECOUT, VECCALC, LCM = VECCALC, SPM, SHM = SPM, TSCM, MAX };
enum class CubeFormat : int32_t { ND = 0, NZ, ZN, ZZ, NN, ND_ALIGN, SCALAR, VECTOR, ROW_MAJOR, COLUMN_MAJOR };
enum class DataType : int32_t { DT_FLOAT = 0, DT_FLOAT16 = 1, DT_INT8 = 2, DT_INT32 = 3, DT_UINT8 = 4, DT_INT16 = 6, DT_UINT16 = 7, DT_UINT32 = 8, DT_INT64 = 9, DT_BFLOAT16 = 27, DT_BF16 = 27, DT_INT4 = 29 };
enum class MatrixTraverse : int32_t { NOSET = 0, FIRSTM = 1, FIRSTN = 2 };
enum class MatrixMadType : int32_t { NORMAL = 0, HF32 = 1 };
enum class DequantType : int32_t { SCALAR = 0, TENSOR = 1 };
enum class ScheduleType : int32_t { INNER_PRODUCT = 0, OUTER_PRODUCT = 1, N_BUFFER_33 = 2 };
struct SysTilingTempBufSize {
    int32_t ubSize = 0, l1Size = 0, l0cSize = 0;
};
struct MatmulConfigParams {
    int32_t mmConfigType = 1;
    bool enableL1CacheUB = false;
    ScheduleType scheduleType = ScheduleType::INNER_PRODUCT;
    MatrixTraverse traverse = MatrixTraverse::NOSET;
    bool enVecND2NZ = false;
    MatmulConfigParams(int32_t kind = 1, bool caches = false, ScheduleType schedule = ScheduleType::INNER_PRODUCT, MatrixTraverse order = MatrixTraverse::NOSET, bool turns = false)
        : mmConfigType(kind), enableL1CacheUB(caches), scheduleType(schedule), traverse(order), enVecND2NZ(turns) {}
};

/* The cut for cores is the library's; blocks follow from the chip's memories. */
class MatmulApiTilingBase {
public:
    MatmulApiTilingBase() = default;
    template <typename Platform> explicit MatmulApiTilingBase(const Platform &) {}
    int32_t SetAType(TPosition, CubeFormat format, DataType type, bool transposed = false)
    {
        given_[13] = int64_t(type), given_[21] = transposed, given_[23] = format == CubeFormat::NZ;
        return 0;
    }
    int32_t SetBType(TPosition place, CubeFormat format, DataType type, bool transposed = false)
    {
        given_[18] = int64_t(type), given_[22] = transposed, given_[24] = format == CubeFormat::NZ, given_[26] = place == TPosition::TSCM;
        return 0;
    }
    int32_t SetCType(TPosition place, CubeFormat format, DataType type)
    {
        given_[15] = place == TPosition::VECCALC || place == TPosition::VECIN || place == TPosition::VECOUT;
        given_[19] = int64_t(type), given_[25] = format == CubeFormat::NZ;
        return 0;
    }
    int32_t SetBiasType(TPosition, CubeFormat, DataType type)
    {
        given_[20] = int64_t(type);
        return 0;
    }
    int32_t SetShape(int32_t m, int32_t n, int32_t k) { return keep(1, m, n, k); }
    int32_t SetOrgShape(int32_t m, int32_t n, int32_t k) { return keep(4, m, n, k); }
    int32_t SetOrgShape(int32_t m, int32_t n, int32_t k, int32_t) { return keep(4, m, n, k); }
    int32_t SetSingleShape(int32_t m = -1, int32_t n = -1, int32_t k = -1) { return keep(7, m, n, k); }
    int32_t SetFixSplit(int32_t m = -1, int32_t n = -1, int32_t k = -1) { return keep(10, m, n, k); }
    int32_t SetDim(int32_t cores)
    {
        given_[0] = cores;
        return 0;
    }
    int32_t EnableBias(bool bias = true)
    {
        given_[14] = bias;
        return 0;
    }
    int32_t SetBias(bool bias = true) { return EnableBias(bias); }
    int32_t SetTraverse(MatrixTraverse order)
    {
        given_[16] = order == MatrixTraverse::FIRSTN;
        return 0;
    }
    int32_t SetBufferSpace(int32_t = -1, int32_t = -1, int32_t = -1, int32_t = -1) { return 0; }
    int32_t SetMadType(MatrixMadType) { return 0; }
    int32_t SetDequantType(DequantType) { return 0; }
    int32_t SetSplitRange(int32_t = -1, int32_t = -1, int32_t = -1, int32_t = -1, int32_t = -1, int32_t = -1) { return 0; }
    int32_t SetDoubleBuffer(bool, bool, bool, bool, bool = true, bool = true) { return 0; }
    int32_t SetAlignSplit(int32_t, int32_t, int32_t) { return 0; }
    int32_t SetSparse(bool = false) { return 0; }
    template <typename... T> void SetMatmulConfigParams(T...) {}
    template <typename Schedule> void SetMatmulConfigParams(int32_t, bool, Schedule, MatrixTraverse order, bool = false) { SetTraverse(order); }
    int32_t EnableMultiCoreSplitK(bool splits)
    {
        given_[17] = splits;
        return 0;
    }
    int32_t SetBatchNum(int32_t number)
    {
        batch_ = number;
        return 0;
    }
    int32_t SetBatchInfoForNormal(int32_t a, int32_t b, int32_t m, int32_t n, int32_t k)
    {
        batch_ = a > b ? a : b;
        keep(4, m, n, k);
        return keep(1, m, n, k);
    }
    int32_t SetALayout(int32_t b, int32_t s, int32_t n, int32_t g, int32_t d) { return keep_layout(0, b, s, n, g, d); }
    int32_t SetBLayout(int32_t b, int32_t s, int32_t n, int32_t g, int32_t d) { return keep_layout(5, b, s, n, g, d); }
    int32_t SetCLayout(int32_t b, int32_t s, int32_t n, int32_t g, int32_t d) { return keep_layout(10, b, s, n, g, d); }
    template <typename Tiling> int64_t GetTiling(Tiling &tiling)
    {
        int32_t found[24] = {};
        if (npusim_matmul_tiling(given_, found)) return -1;
        tiling.usedCoreNum = found[0], tiling.M = found[12], tiling.N = found[13], tiling.Ka = tiling.Kb = found[14];
        tiling.singleCoreM = found[1], tiling.singleCoreN = found[2], tiling.singleCoreK = found[3], tiling.baseM = found[4], tiling.baseN = found[5], tiling.baseK = found[6];
        tiling.depthA1 = found[7], tiling.depthB1 = found[10], tiling.stepKa = found[8], tiling.stepKb = found[11], tiling.stepM = tiling.stepN = 1;
        tiling.isBias = int32_t(given_[14]), tiling.iterateOrder = int32_t(given_[16]), tiling.dbL0A = tiling.dbL0B = 2, tiling.dbL0C = found[9];
        tiling.BatchNum = batch_;
        int32_t *layouts[] = {&tiling.ALayoutInfoB, &tiling.ALayoutInfoS, &tiling.ALayoutInfoN, &tiling.ALayoutInfoG, &tiling.ALayoutInfoD, &tiling.BLayoutInfoB, &tiling.BLayoutInfoS, &tiling.BLayoutInfoN,
                              &tiling.BLayoutInfoG, &tiling.BLayoutInfoD, &tiling.CLayoutInfoB, &tiling.CLayoutInfoS1, &tiling.CLayoutInfoN, &tiling.CLayoutInfoG, &tiling.CLayoutInfoS2};
        for (int each = 0; each < 15; each++) *layouts[each] = layout_[each];
        bases_[0] = tiling.baseM, bases_[1] = tiling.baseN, bases_[2] = tiling.baseK;
        parts_ = {tiling.usedCoreNum, tiling.singleCoreM, tiling.singleCoreN, tiling.singleCoreK};
        return 0;
    }
    int32_t GetSingleShape(int32_t &m, int32_t &n, int32_t &k)
    {
        m = parts_[1], n = parts_[2], k = parts_[3];
        return 0;
    }
    int32_t GetCoreNum(int32_t &cores, int32_t &high, int32_t &wide)
    {
        int64_t m = given_[1] > 0 ? given_[1] : given_[4], n = given_[2] > 0 ? given_[2] : given_[5];
        cores = parts_[0], high = int32_t((m + parts_[1] - 1) / parts_[1]), wide = int32_t((n + parts_[2] - 1) / parts_[2]);
        return 0;
    }
    int32_t GetBaseM() const { return bases_[0]; }
    int32_t GetBaseN() const { return bases_[1]; }
    int32_t GetBaseK() const { return bases_[2]; }

private:
    int32_t keep(int first, int32_t m, int32_t n, int32_t k)
    {
        given_[first] = m, given_[first + 1] = n, given_[first + 2] = k;
        return 0;
    }
    int32_t keep_layout(int first, int32_t b, int32_t s, int32_t n, int32_t g, int32_t d)
    {
        const int32_t told[] = {b, s, n, g, d};
        for (int each = 0; each < 5; each++) layout_[first + each] = told[each];
        return 0;
    }
    /* cores; shape; whole shape; part of a core; fixed blocks; type of A; bias; into UB; order; split of the depth;
     * types of B, C, bias; transposed A, B; NZ of A, B, C; B in L1 */
    int64_t given_[27] = {1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0};
    int32_t batch_ = 0, layout_[15] = {}, bases_[3] = {};
    std::vector<int32_t> parts_ = {1, 1, 1, 1};
};
class MatmulApiTiling : public MatmulApiTilingBase {
public:
    using MatmulApiTilingBase::MatmulApiTilingBase;
};
class MultiCoreMatmulTiling : public MatmulApiTilingBase {
public:
    using MatmulApiTilingBase::MatmulApiTilingBase;
};
class BatchMatmulTiling : public MatmulApiTilingBase {
public:
    using MatmulApiTilingBase::MatmulApiTilingBase;
};
class PlatformInfo {};

} // namespace matmul_tiling

namespace AscendC {

#ifndef NPUSIM_REDUCE_PATTERN
#define NPUSIM_REDUCE_PATTERN
enum class ReducePattern : uint32_t { AR = 0, RA = 1, R, ARA }; /* hosts and kernels say it */
#endif
class TensorShape {
public:
    TensorShape() = default;
    TensorShape(std::initializer_list<int64_t> dims) : dims_(dims) {}
    TensorShape(const std::vector<int64_t> &dims) : dims_(dims) {}
    int64_t GetDim(size_t axis) const { return dims_[axis]; }
    size_t GetDimNum() const { return dims_.size(); }
    std::vector<int64_t> GetDims() const { return dims_; }
    void SetDim(size_t axis, int64_t size) { dims_[axis] = size; }
    int64_t GetShapeSize() const
    {
        int64_t size = 1;
        for (int64_t dim : dims_) size *= dim;
        return size;
    }

private:
    std::vector<int64_t> dims_;
};

} // namespace AscendC
namespace ge {
using Shape = AscendC::TensorShape;
using TensorDataType = DataType;
} // namespace ge
namespace AscendC {
using TensorDataType = ge::DataType;
} // namespace AscendC

namespace npusim {

/* npusim's interfaces keep what lies between outside of UB. Programs make a tensor of what is answered here, and divide by
 * it: it is small, no size that fits is refused for it, and a whole number of repeats of 256 bytes for every type. */
constexpr uint32_t SCRATCH_BYTES = 8 * 256;
template <typename... T> void scratch(T &...given)
{
    auto all = std::tie(given...);
    std::get<sizeof...(T) - 1>(all) = std::get<sizeof...(T) - 2>(all) = SCRATCH_BYTES;
}
inline void describe(const AscendC::TensorShape &shape, NpusimRows &tiling)
{
    size_t rank = shape.GetDimNum();
    tiling.srcK = int32_t(shape.GetDim(rank - 1)), tiling.srcM = int32_t(shape.GetShapeSize() / shape.GetDim(rank - 1)), tiling.srcSize = int32_t(shape.GetShapeSize());
}
inline void describe(const AscendC::TensorShape &shape, NpusimNorm &tiling)
{
    size_t rank = shape.GetDimNum();
    tiling.bLength = rank > 2 ? uint32_t(shape.GetDim(0)) : 1, tiling.sLength = rank > 1 ? uint32_t(shape.GetDim(rank - 2)) : 1;
    tiling.hLength = tiling.originalHLength = uint32_t(shape.GetDim(rank - 1)), tiling.reciprocalOfHLength = 1.0f / float(tiling.hLength);
}
inline void describe(const AscendC::TensorShape &shape, RmsNormTiling &tiling)
{
    tiling.bLength = uint32_t(shape.GetDim(0)), tiling.sLength = uint32_t(shape.GetDim(1)), tiling.hLength = tiling.originalHLength = uint32_t(shape.GetDim(2)), tiling.reciprocalOfHLength = 1.0f / float(tiling.hLength);
}
inline void describe(const AscendC::TensorShape &shape, ConfusionTransposeTiling &tiling)
{
    tiling.words[0] = uint32_t(shape.GetDimNum());
    for (size_t axis = 0; axis < shape.GetDimNum() && axis < 4; axis++) tiling.words[axis + 1] = uint32_t(shape.GetDim(axis));
}
template <typename... T> bool describe_all(const AscendC::TensorShape &shape, T &...given)
{
    auto one = [&shape](auto &each) {
        using Kind = std::decay_t<decltype(each)>;
        if constexpr (std::is_base_of_v<NpusimRows, Kind>) describe(shape, static_cast<NpusimRows &>(each));
        else if constexpr (std::is_base_of_v<NpusimNorm, Kind>) describe(shape, static_cast<NpusimNorm &>(each));
        else if constexpr (std::is_same_v<RmsNormTiling, Kind> || std::is_same_v<ConfusionTransposeTiling, Kind>) describe(shape, each);
    };
    (one(given), ...);
    return true;
}

} // namespace npusim

namespace AscendC {

#define NPUSIM_SCRATCH(Name) template <typename... T> void Get##Name##MaxMinTmpSize(T &&...given) { npusim::scratch(given...); }
#define NPUSIM_LEAST(Name) template <typename... T> uint32_t Name(T &&...) { return npusim::SCRATCH_BYTES; }
#define NPUSIM_TILING(Name) template <typename... T> bool Name(const TensorShape &shape, T &&...given) { return npusim::describe_all(shape, given...); }
NPUSIM_SCRATCH(Acosh) NPUSIM_SCRATCH(Acos) NPUSIM_SCRATCH(Asin) NPUSIM_SCRATCH(Asinh) NPUSIM_SCRATCH(Atan) NPUSIM_SCRATCH(Atanh) NPUSIM_SCRATCH(Axpy) NPUSIM_SCRATCH(Ceil) NPUSIM_SCRATCH(Floor)
NPUSIM_SCRATCH(Clamp) NPUSIM_SCRATCH(Cos) NPUSIM_SCRATCH(Cosh) NPUSIM_SCRATCH(CumSum) NPUSIM_SCRATCH(Digamma) NPUSIM_SCRATCH(Erf) NPUSIM_SCRATCH(Erfc) NPUSIM_SCRATCH(Exp) NPUSIM_SCRATCH(Fmod)
NPUSIM_SCRATCH(Frac) NPUSIM_SCRATCH(Lgamma) NPUSIM_SCRATCH(Log) NPUSIM_SCRATCH(Power) NPUSIM_SCRATCH(Round) NPUSIM_SCRATCH(Sign) NPUSIM_SCRATCH(Sin) NPUSIM_SCRATCH(Sinh) NPUSIM_SCRATCH(Tan)
NPUSIM_SCRATCH(Tanh) NPUSIM_SCRATCH(Trunc) NPUSIM_SCRATCH(Xor) NPUSIM_SCRATCH(GeGLU) NPUSIM_SCRATCH(SwiGLU) NPUSIM_SCRATCH(ReGlu) NPUSIM_SCRATCH(Sigmoid) NPUSIM_SCRATCH(LayerNorm)
NPUSIM_SCRATCH(LayerNormGrad) NPUSIM_SCRATCH(LayerNormGradBeta) NPUSIM_SCRATCH(Normalize) NPUSIM_SCRATCH(RmsNorm) NPUSIM_SCRATCH(WelfordUpdate) NPUSIM_SCRATCH(WelfordFinalize)
NPUSIM_SCRATCH(AscendQuant) NPUSIM_SCRATCH(AscendDequant) NPUSIM_SCRATCH(AscendAntiQuant) NPUSIM_SCRATCH(Quantize) NPUSIM_SCRATCH(Dequantize) NPUSIM_SCRATCH(AntiQuantize) NPUSIM_SCRATCH(Sum)
NPUSIM_SCRATCH(Mean) NPUSIM_SCRATCH(ReduceMax) NPUSIM_SCRATCH(ReduceSum) NPUSIM_SCRATCH(ReduceMin) NPUSIM_SCRATCH(Transpose) NPUSIM_SCRATCH(Pad) NPUSIM_SCRATCH(UnPad) NPUSIM_SCRATCH(Select)
NPUSIM_SCRATCH(DropOut) NPUSIM_SCRATCH(BroadCast) NPUSIM_SCRATCH(Broadcast) NPUSIM_SCRATCH(Arange) NPUSIM_SCRATCH(TopK)
NPUSIM_SCRATCH(Gelu) NPUSIM_SCRATCH(Silu) NPUSIM_SCRATCH(SoftMaxFlashV2) NPUSIM_SCRATCH(LogSoftMax)
template <typename... T> bool GetDeepNormMaxMinTmpSize(T &&...given)
{
    npusim::scratch(given...);
    return true;
}
NPUSIM_LEAST(GetSoftMaxMinTmpSize) NPUSIM_LEAST(GetSoftMaxMaxTmpSize) NPUSIM_LEAST(GetSoftMaxFlashMinTmpSize) NPUSIM_LEAST(GetSoftMaxFlashV2MinTmpSize) NPUSIM_LEAST(GetSoftMaxFlashV3MinTmpSize)
NPUSIM_LEAST(GetSoftMaxFlashV2MaxTmpSize) NPUSIM_LEAST(GetSoftMaxGradMinTmpSize) NPUSIM_LEAST(GetSoftMaxGradMaxTmpSize) NPUSIM_LEAST(GetLogSoftMaxMinTmpSize) NPUSIM_LEAST(GetLogSoftMaxMaxTmpSize)
NPUSIM_LEAST(GetGeluMinTmpSize) NPUSIM_LEAST(GetGeluMaxTmpSize) NPUSIM_LEAST(GetGeluTmpSize)
#undef NPUSIM_LEAST
template <typename Shape> void GetSwishTmpSize(const Shape &, uint32_t, bool, uint32_t &most, uint32_t &least) { most = least = npusim::SCRATCH_BYTES; }
template <typename Shape> void GetSiluTmpSize(const Shape &, uint32_t, bool, uint32_t &most, uint32_t &least) { most = least = npusim::SCRATCH_BYTES; }
template <typename... T> void GetSortMaxMinTmpSize(T &&...given) { npusim::scratch(given...); }
NPUSIM_TILING(SoftMaxTilingFunc) NPUSIM_TILING(SoftMaxFlashTilingFunc) NPUSIM_TILING(SoftMaxFlashV2TilingFunc) NPUSIM_TILING(SoftMaxFlashV3TilingFunc) NPUSIM_TILING(SoftMaxGradTilingFunc)
NPUSIM_TILING(LogSoftMaxTilingFunc) NPUSIM_TILING(GetLayerNormNDTilingInfo) NPUSIM_TILING(GetLayerNormNDTillingInfo) NPUSIM_TILING(GetLayerNormGradNDTilingInfo) NPUSIM_TILING(GetLayerNormGradBetaNDTilingInfo)
NPUSIM_TILING(GetDeepNormTilingInfo) NPUSIM_TILING(GetRmsNormTilingInfo) NPUSIM_TILING(GetTransposeTilingInfo) NPUSIM_TILING(GetConfusionTransposeTilingInfo)
NPUSIM_TILING(GetConfusionTransposeOnlyTilingInfo)
#undef NPUSIM_TILING
#undef NPUSIM_SCRATCH
template <typename... T> bool TopKTilingFunc(T &&...) { return true; }
template <typename... T> uint32_t GetConcatTmpSize(T &&...) { return npusim::SCRATCH_BYTES; }
template <typename... T> uint32_t GetSortTmpSize(T &&...) { return npusim::SCRATCH_BYTES; }
inline void PadTilingFunc(const TensorShape &shape, const TensorShape &original, uint32_t, uint32_t, PadTiling &tiling)
{
    tiling.srcHeight = uint32_t(shape.GetDim(0)), tiling.srcWidth = uint32_t(shape.GetDim(1)), tiling.srcOriWidth = uint32_t(original.GetDim(1));
}
template <typename... T> void UnPadTilingFunc(const TensorShape &shape, uint32_t, uint32_t, UnPadTiling &tiling, T...) { tiling.srcHeight = uint32_t(shape.GetDim(0)), tiling.srcWidth = uint32_t(shape.GetDim(1)); }

} // namespace AscendC

#endif

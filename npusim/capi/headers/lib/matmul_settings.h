/* What a product as an object is told: its operands, its configuration, its tiling. */
#ifndef NPUSIM_MATMUL_SETTINGS_H
#define NPUSIM_MATMUL_SETTINGS_H

#include "kernel_operator.h"
#include "kernel_tiling/kernel_tiling.h"

enum class CubeFormat { ND = 0, NZ, ZN, ZZ, NN, ND_ALIGN, SCALAR, VECTOR, ROW_MAJOR, COLUMN_MAJOR };
enum class LayoutMode { NONE, NORMAL, BSNGD, SBNGD, BNGS1S2 };
enum class BatchMode { NONE, BATCH_LESS_THAN_L1, BATCH_LARGE_THAN_L1, SINGLE_LARGE_THAN_L1 };
enum class BatchOutMode { SINGLE_BATCH, MULTI_BATCH, DEFAULT };
enum class IterateOrder { ORDER_M, ORDER_N, UNDEF };
enum class IterateMode : uint8_t { ITERATE_MODE_NORMAL = 1, ITERATE_MODE_ALL = 2, ITERATE_MODE_BATCH = 4, ITERATE_MODE_N_BATCH = 8, ITERATE_MODE_DEFAULT = 15 };
enum class ScheduleType { INNER_PRODUCT, OUTER_PRODUCT, N_BUFFER_33 };
enum class MatmulConfigMode { CONFIG_NORM, CONFIG_MDL, CONFIG_SPECIALMDL, CONFIG_IBSHARE };
enum class TriangularMode { UNDEF, UPPER, LOWER };

struct MatmulConfig {
    bool doNorm = true, doBasicBlock = false, doMultiDataLoad = false;
    uint32_t basicM = 0, basicN = 0, basicK = 0;
    bool intrinsicsCheck = false, isNBatch = false, enVecND2NZ = false, doSpecialBasicBlock = false;
    uint32_t doMTE2Preload = 0, singleCoreM = 0, singleCoreN = 0, singleCoreK = 0, stepM = 0, stepN = 0, baseMN = 0;
    bool singleCoreMN = false, enUnitFlag = true, isPerTensor = false, hasAntiQuantOffset = false, doIBShareNorm = false, doSpecialMDL = false, enableInit = true;
    BatchMode batchMode = BatchMode::NONE;
    bool enableEnd = true, enableGetTensorC = true, enableSetOrgShape = true, enableSetBias = true, enableSetTail = true, enableQuantVector = true, enableSetDefineData = true;
    uint8_t iterateMode = 15;
    bool enableReuse = true, enableUBReuse = true, enableL1CacheUB = false, intraBlockPartSum = false, isA2B2Shared = false, isEnableChannelSplit = false, enableKdimReorderLoad = false;
    IterateOrder iterateOrder = IterateOrder::UNDEF;
    ScheduleType scheduleType = ScheduleType::INNER_PRODUCT;
    bool enableDoubleCache = false, isBiasBatch = true, enableStaticPadZeros = false, isPartialOutput = false, enableMixDualMaster = false, enableRelu = false, isCO1Shared = false;
    uint32_t sharedCO1BufferSize = 65536;
    bool bmmOutMode = false;
};
struct MatmulShapeParams {
    uint32_t singleCoreM, singleCoreN, singleCoreK, basicM, basicN, basicK;
};
struct MatmulQuantParams {
    bool isPerTensor, hasAntiQuantOffset;
};
struct MatmulBatchParams {
    bool isNBatch;
    BatchMode batchMode = BatchMode::BATCH_LESS_THAN_L1;
    bool isBiasBatch = true;
    bool bmmOutMode = false;
};
struct MatmulFuncParams {
    bool intrinsicsCheck = false, enVecND2NZ = false, enableDoubleCache = false, enableL1CacheUB = false;
    uint32_t doMTE2Preload = 0;
    IterateOrder iterateOrder = IterateOrder::UNDEF;
    ScheduleType scheduleType = ScheduleType::INNER_PRODUCT;
    bool enableReuse = true, enableUBReuse = true, isPartialOutput = false, isA2B2Shared = false, isEnableChannelSplit = false, enableKdimReorderLoad = false;
};
inline constexpr void npusim_settle(MatmulConfig &to, const MatmulShapeParams &p)
{
    to.singleCoreM = p.singleCoreM, to.singleCoreN = p.singleCoreN, to.singleCoreK = p.singleCoreK, to.basicM = p.basicM, to.basicN = p.basicN, to.basicK = p.basicK;
}
inline constexpr void npusim_settle(MatmulConfig &to, const MatmulBatchParams &p) { to.isNBatch = p.isNBatch, to.batchMode = p.batchMode, to.isBiasBatch = p.isBiasBatch; }
template <typename T> constexpr void npusim_settle(MatmulConfig &, const T &) {}
template <typename... T> constexpr MatmulConfig GetNormalConfig(T...) { return MatmulConfig{}; }
template <typename... T> constexpr MatmulConfig GetMDLConfig(T...)
{
    MatmulConfig made{};
    made.doNorm = false, made.doMultiDataLoad = true;
    return made;
}
template <typename... T> constexpr MatmulConfig GetSpecialMDLConfig(T...) { return GetMDLConfig(); }
template <typename... T> constexpr MatmulConfig GetIBShareNormConfig(T...) { return MatmulConfig{}; }
template <typename... T> constexpr MatmulConfig GetBasicConfig(T...) { return MatmulConfig{}; }
template <typename... T> constexpr MatmulConfig GetSpecialBasicConfig(T...) { return MatmulConfig{}; }
template <MatmulConfigMode mode, typename... T> constexpr MatmulConfig GetMMConfig(T &&...parts)
{
    MatmulConfig made = mode == MatmulConfigMode::CONFIG_MDL ? GetMDLConfig() : MatmulConfig{};
    (npusim_settle(made, parts), ...);
    return made;
}
inline constexpr MatmulConfig CFG_NORM = GetNormalConfig(), CFG_MDL = GetMDLConfig(), CFG_IBSHARE_NORM = GetIBShareNormConfig();

namespace AscendC {

using ::CubeFormat;

template <TPosition position, CubeFormat form, typename TYPE, bool transposed = false, LayoutMode mode = LayoutMode::NONE, bool shared = false, TPosition source = TPosition::GM> struct MatmulType {
    using T = TYPE;
    static constexpr TPosition pos = position;
    static constexpr CubeFormat format = form;
    static constexpr bool isTrans = transposed;
    static constexpr LayoutMode layout = mode;
};
template <void (*out)(const LocalTensor<int8_t> &, const uint64_t, const uint64_t) = nullptr> struct NpusimCall {};
template <auto out = nullptr, auto a = nullptr, auto b = nullptr> struct MatmulCallBackFunc {
    static constexpr auto DataCopyOutPtr = out;
};
template <const auto &CFG, typename... Parts> struct MatmulPolicy {
    static constexpr int triangle = 0;
};
namespace Impl {
constexpr int32_t QUEUE_DEPTH = 1;
namespace Detail {
template <const auto &CFG, typename... Parts> struct NBuffer33MatmulPolicy : MatmulPolicy<CFG> {};
/* Of C only the blocks on and above (below) the diagonal of blocks are computed. */
template <const auto &CFG, typename... Parts> struct TrianUpperMatmulPolicy {
    static constexpr int triangle = 1;
};
template <const auto &CFG, typename... Parts> struct TrianLowerMatmulPolicy {
    static constexpr int triangle = -1;
};
} // namespace Detail
} // namespace Impl

struct MatmulApiStaticTiling {
    int32_t usedCoreNum = 1, M = -1, N = -1, Ka = -1, Kb = -1, singleCoreM = -1, singleCoreN = -1, singleCoreK = -1, baseM = -1, baseN = -1, baseK = -1, depthA1 = 2, depthB1 = 2, stepM = 1, stepN = 1,
            stepKa = 1, stepKb = 1, isBias = 0, transLength = 0, iterateOrder = 0, dbL0A = 2, dbL0B = 2, dbL0C = 1, shareMode = 0, shareL1Size = 0, shareL0CSize = 0, shareUbSize = 0;
    MatmulConfig cfg = {};
};
template <typename A, typename B, typename C, typename Bias> constexpr MatmulApiStaticTiling GetMatmulApiTiling(const MatmulConfig &cfg, int32_t = 0)
{
    MatmulApiStaticTiling made{};
    made.cfg = cfg;
    made.singleCoreM = int32_t(cfg.singleCoreM), made.singleCoreN = int32_t(cfg.singleCoreN), made.singleCoreK = int32_t(cfg.singleCoreK);
    made.baseM = int32_t(cfg.basicM), made.baseN = int32_t(cfg.basicN), made.baseK = int32_t(cfg.basicK);
    return made;
}

} // namespace AscendC

#endif

/* Libraries of Ascend C that work row by row: softmax, normalisations, reductions, sorting, quantisation. */
#ifndef NPUSIM_KERNEL_ROWS_H
#define NPUSIM_KERNEL_ROWS_H

#include "kernel_tiling/kernel_tiling.h"

namespace AscendC {

struct SoftMaxShapeInfo {
    uint32_t srcM{0}, srcK{0}, oriSrcM{0}, oriSrcK{0};
};
struct LastAxisShapeND {
    uint32_t m, k;
};
struct SoftmaxConfig {
    bool isCheckTiling = true;
    uint32_t oriSrcM = 0, oriSrcK = 0;
};
inline constexpr SoftmaxConfig SOFTMAX_DEFAULT_CFG = {};

} // namespace AscendC

namespace npusim {

/* What one row of a softmax leaves behind: a block of its greatest number, and one of its sum. */
template <typename T> void fill_block(T *place, float value)
{
    for (int64_t each = 0; each < 32 / int64_t(sizeof(T)); each++) store(place + each, value);
}
template <typename T> void row_steps(const char *name, Site at, int64_t rows, int64_t columns, Steps steps, std::initializer_list<Span> writes, std::initializer_list<Span> reads)
{
    bool first = true;
    for (const char *step : steps) {
        if (first) announce_rows<Priced<T>>(name, step, at, rows, columns, writes, reads);
        else announce_rows<Priced<T>>(name, step, at, rows, columns, writes, {});
        first = false;
    }
}

} // namespace npusim

namespace AscendC {

/* dst = exp(src - max) / sum, row by row; blocks of max and sum for each row. */
template <typename T, bool isReuseSource = false, bool isBasicBlock = false, bool isDataFormatNZ = false, const SoftmaxConfig &config = SOFTMAX_DEFAULT_CFG, typename U> void SoftMax(const LocalTensor<T> &dst, const LocalTensor<U> &sum, const LocalTensor<U> &most, const LocalTensor<T> &src, const LocalTensor<uint8_t> &, const SoftMaxTiling &tiling, const SoftMaxShapeInfo &shape = {}, NPUSIM_AT)
{
    int64_t m = shape.srcM ? shape.srcM : uint32_t(tiling.srcM), k = shape.srcK ? shape.srcK : uint32_t(tiling.srcK), kept = shape.oriSrcK ? shape.oriSrcK : k, per = 32 / int64_t(sizeof(U));
    npusim::row_steps<T>("SoftMax", at, m, k, {"vcmax", "vsub", "vexp", "vcadd", "vdiv"}, {npusim::row(dst, m * k), npusim::row(sum, m * per)}, {npusim::row(src, m * k)});
    npusim::announce_rows<float>("SoftMax", "vbrcb", at, m, per, {npusim::row(most, m * per)}, {});
    std::vector<float> numbers(static_cast<size_t>(k));
    for (int64_t i = 0; i < m; i++) {
        float greatest = -INFINITY, total = 0;
        for (int64_t j = 0; j < kept; j++) greatest = std::max(greatest, float(npusim::load(src.data() + i * k + j)));
        for (int64_t j = 0; j < kept; j++) total += numbers[size_t(j)] = std::exp(float(npusim::load(src.data() + i * k + j)) - greatest);
        for (int64_t j = 0; j < k; j++) npusim::store(dst.data() + i * k + j, j < kept ? numbers[size_t(j)] / total : 0.0f);
        npusim::fill_block(most.data() + i * per, greatest);
        npusim::fill_block(sum.data() + i * per, total);
    }
}
template <typename T, bool isReuseSource = false, bool isBasicBlock = false, const SoftmaxConfig &config = SOFTMAX_DEFAULT_CFG> void SoftMax(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<uint8_t> &, const SoftMaxTiling &tiling, const SoftMaxShapeInfo &shape = {}, NPUSIM_AT)
{
    int64_t m = shape.srcM ? shape.srcM : uint32_t(tiling.srcM), k = shape.srcK ? shape.srcK : uint32_t(tiling.srcK), kept = shape.oriSrcK ? shape.oriSrcK : k;
    npusim::row_steps<T>("SoftMax", at, m, k, {"vcmax", "vsub", "vexp", "vcadd", "vdiv"}, {npusim::row(dst, m * k)}, {npusim::row(src, m * k)});
    for (int64_t i = 0; i < m; i++) {
        float greatest = -INFINITY, total = 0;
        for (int64_t j = 0; j < kept; j++) greatest = std::max(greatest, float(npusim::load(src.data() + i * k + j)));
        for (int64_t j = 0; j < kept; j++) total += std::exp(float(npusim::load(src.data() + i * k + j)) - greatest);
        for (int64_t j = 0; j < k; j++) npusim::store(dst.data() + i * k + j, j < kept ? std::exp(float(npusim::load(src.data() + i * k + j)) - greatest) / total : 0.0f);
    }
}
/* exp(src - max) / sum with the max and sum of another call */
template <typename T, bool isReuseSource = false, bool isBasicBlock = false, bool isDataFormatNZ = false, const SoftmaxConfig &config = SOFTMAX_DEFAULT_CFG, typename U> void SimpleSoftMax(const LocalTensor<T> &dst, const LocalTensor<U> &sum, const LocalTensor<U> &most, const LocalTensor<T> &src, const LocalTensor<uint8_t> &, const SoftMaxTiling &tiling, const SoftMaxShapeInfo &shape = {}, NPUSIM_AT)
{
    int64_t m = shape.srcM ? shape.srcM : uint32_t(tiling.srcM), k = shape.srcK ? shape.srcK : uint32_t(tiling.srcK), per = 32 / int64_t(sizeof(U));
    npusim::row_steps<T>("SimpleSoftMax", at, m, k, {"vsub", "vexp", "vdiv"}, {npusim::row(dst, m * k)}, {npusim::row(src, m * k), npusim::row(sum, m * per), npusim::row(most, m * per)});
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < k; j++) npusim::store(dst.data() + i * k + j, std::exp(float(npusim::load(src.data() + i * k + j)) - float(npusim::load(most.data() + i * per))) / float(npusim::load(sum.data() + i * per)));
}
template <typename T, bool isReuseSource = false, bool isDataFormatNZ = false, typename U> void LogSoftMax(const LocalTensor<T> &dst, const LocalTensor<U> &sum, const LocalTensor<U> &most, const LocalTensor<T> &src, const LocalTensor<uint8_t> &tmp, const LogSoftMaxTiling &tiling, const SoftMaxShapeInfo &shape = {}, NPUSIM_AT)
{
    int64_t m = shape.srcM ? shape.srcM : uint32_t(tiling.srcM), k = shape.srcK ? shape.srcK : uint32_t(tiling.srcK);
    SoftMaxTiling same;
    same.srcM = int32_t(m), same.srcK = int32_t(k);
    SoftMax<T>(dst, sum, most, src, tmp, same, shape, at);
    npusim::mapped("LogSoftMax", at, m * k, {"vln", "vmuls"}, [](auto x) { return decltype(x)(std::log10(x)); }, dst, dst);
}
/* One step of an online softmax: what came before is scaled by exp(old max - new max). */
template <typename T, bool isUpdate = false, bool isReuseSource = false, bool isBasicBlock = false, bool isDataFormatNZ = false, const SoftmaxConfig &config = SOFTMAX_DEFAULT_CFG, typename U> void SoftmaxFlashV2(const LocalTensor<T> &dst, const LocalTensor<U> &sum, const LocalTensor<U> &most, const LocalTensor<T> &src, const LocalTensor<T> &scale, const LocalTensor<U> &in_sum, const LocalTensor<U> &in_most, const LocalTensor<uint8_t> &, const SoftMaxTiling &tiling, const SoftMaxShapeInfo &shape = {}, NPUSIM_AT)
{
    int64_t m = shape.srcM ? shape.srcM : uint32_t(tiling.srcM), k = shape.srcK ? shape.srcK : uint32_t(tiling.srcK), kept = shape.oriSrcK ? shape.oriSrcK : k, per = 32 / int64_t(sizeof(U)), own = 32 / int64_t(sizeof(T));
    npusim::row_steps<T>("SoftmaxFlashV2", at, m, k, {"vcmax", "vsub", "vexp", "vcadd"}, {npusim::row(dst, m * k), npusim::row(sum, m * per)}, {npusim::row(src, m * k)});
    if (isUpdate) npusim::announce_rows<float>("SoftmaxFlashV2", "vexp", at, m, per, {npusim::row(scale, m * own)}, {npusim::row(in_sum, m * per), npusim::row(in_most, m * per)});
    npusim::announce_rows<float>("SoftmaxFlashV2", "vmul", at, m, per, {npusim::row(most, m * per)}, {});
    for (int64_t i = 0; i < m; i++) {
        float before = isUpdate ? float(npusim::load(in_most.data() + i * per)) : -INFINITY, held = isUpdate ? float(npusim::load(in_sum.data() + i * per)) : 0, greatest = before, total = 0;
        for (int64_t j = 0; j < kept; j++) greatest = std::max(greatest, float(npusim::load(src.data() + i * k + j)));
        for (int64_t j = 0; j < k; j++) {
            float value = j < kept ? std::exp(float(npusim::load(src.data() + i * k + j)) - greatest) : 0;
            total += value;
            npusim::store(dst.data() + i * k + j, value);
        }
        if (isUpdate) {
            float factor = std::exp(before - greatest);
            total += held * factor;
            npusim::fill_block(scale.data() + i * own, factor);
        }
        npusim::fill_block(most.data() + i * per, greatest);
        npusim::fill_block(sum.data() + i * per, total);
    }
}
/* grad * y - y * sum(grad * y), or the sum alone */
template <typename T, bool isBasicBlock = false, bool isDataFormatNZ = false> void SoftmaxGradFront(const LocalTensor<T> &dst, const LocalTensor<T> &grad, const LocalTensor<T> &src, const LocalTensor<uint8_t> &, const SoftMaxTiling &tiling, const SoftMaxShapeInfo &shape = {}, NPUSIM_AT)
{
    int64_t m = shape.srcM ? shape.srcM : uint32_t(tiling.srcM), k = shape.srcK ? shape.srcK : uint32_t(tiling.srcK), per = 32 / int64_t(sizeof(T));
    npusim::row_steps<T>("SoftmaxGradFront", at, m, k, {"vmul", "vcadd"}, {npusim::row(dst, m * per)}, {npusim::row(grad, m * k), npusim::row(src, m * k)});
    std::vector<float> sums(static_cast<size_t>(m));
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < k; j++) sums[size_t(i)] += float(npusim::load(grad.data() + i * k + j)) * float(npusim::load(src.data() + i * k + j));
    for (int64_t i = 0; i < m; i++) npusim::fill_block(dst.data() + i * per, sums[size_t(i)]);
}
template <typename T, bool isReuseSource = false, bool isDataFormatNZ = false> void SoftmaxGrad(const LocalTensor<T> &dst, const LocalTensor<T> &grad, const LocalTensor<T> &src, const LocalTensor<uint8_t> &tmp, const SoftMaxTiling &tiling, bool front = false, const SoftMaxShapeInfo &shape = {}, NPUSIM_AT)
{
    if (front) return SoftmaxGradFront<T>(dst, grad, src, tmp, tiling, shape, at);
    int64_t m = shape.srcM ? shape.srcM : uint32_t(tiling.srcM), k = shape.srcK ? shape.srcK : uint32_t(tiling.srcK);
    npusim::row_steps<T>("SoftmaxGrad", at, m, k, {"vmul", "vcadd", "vsub", "vmul"}, {npusim::row(dst, m * k)}, {npusim::row(grad, m * k), npusim::row(src, m * k)});
    for (int64_t i = 0; i < m; i++) {
        float sum = 0;
        for (int64_t j = 0; j < k; j++) sum += float(npusim::load(grad.data() + i * k + j)) * float(npusim::load(src.data() + i * k + j));
        for (int64_t j = 0; j < k; j++) npusim::store(dst.data() + i * k + j, (float(npusim::load(grad.data() + i * k + j)) - sum) * float(npusim::load(src.data() + i * k + j)));
    }
}
/* Rows whose greatest number is `from` (as bits) become `to`. */
template <typename T, typename U, bool isDataFormatNZ = false, uint8_t step = 1> bool AdjustSoftMaxRes(const LocalTensor<T> &dst, const LocalTensor<U> &most, uint32_t from, T to, const SoftMaxShapeInfo &shape, NPUSIM_AT)
{
    int64_t per = 32 / int64_t(sizeof(U)), k = shape.srcK;
    npusim::scalar(int(shape.srcM), 0, int(shape.srcM), 0, at);
    bool changed = false;
    for (int64_t i = 0; i < shape.srcM; i++) {
        uint32_t bits = 0;
        std::memcpy(&bits, most.data() + i * per, sizeof(U));
        if (bits != from) continue;
        changed = true;
        for (int64_t j = 0; j < k; j++) dst.data()[i * k + j] = to;
    }
    if (changed) npusim::announce_rows<npusim::Priced<T>>("AdjustSoftMaxRes", "vector_dup", at, shape.srcM, k, {npusim::row(dst, shape.srcM * k)}, {});
    return changed;
}

/* Normalisations of rows of h numbers. */
template <typename T, bool isBasicBlock = false> void RmsNorm(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<T> &gamma, const LocalTensor<uint8_t> &, T epsilon, const RmsNormTiling &tiling, NPUSIM_AT)
{
    int64_t m = int64_t(tiling.bLength) * tiling.sLength, h = tiling.hLength, kept = tiling.originalHLength ? tiling.originalHLength : h;
    npusim::row_steps<T>("RmsNorm", at, m, h, {"vmul", "vmuls", "vcadd", "vadds", "vsqrt", "vdiv", "vmul"}, {npusim::row(dst, m * h)}, {npusim::row(src, m * h), npusim::row(gamma, h)});
    for (int64_t i = 0; i < m; i++) {
        float sum = 0;
        for (int64_t j = 0; j < kept; j++) sum += float(npusim::load(src.data() + i * h + j)) * float(npusim::load(src.data() + i * h + j));
        float scale = 1 / std::sqrt(sum / float(kept) + float(epsilon));
        for (int64_t j = 0; j < h; j++) npusim::store(dst.data() + i * h + j, float(npusim::load(src.data() + i * h + j)) * scale * float(npusim::load(gamma.data() + j)));
    }
}
template <typename T, bool isBasicBlock = false> void RmsNorm(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<T> &gamma, T epsilon, const RmsNormTiling &tiling, NPUSIM_AT) { RmsNorm<T, isBasicBlock>(dst, src, gamma, LocalTensor<uint8_t>(), epsilon, tiling, at); }
template <typename T, bool isReuseSource = false> void LayerNorm(const LocalTensor<T> &dst, const LocalTensor<T> &mean, const LocalTensor<T> &variance, const LocalTensor<T> &src, const LocalTensor<T> &gamma, const LocalTensor<T> &beta, const LocalTensor<uint8_t> &, T epsilon, const LayerNormTiling &tiling, NPUSIM_AT)
{
    int64_t m = int64_t(tiling.bLength) * tiling.sLength, h = tiling.hLength, kept = tiling.originalHLength ? tiling.originalHLength : h;
    npusim::row_steps<T>("LayerNorm", at, m, h, {"vmuls", "vcadd", "vsub", "vmul", "vmuls", "vcadd", "vadds", "vsqrt", "vdiv", "vmul", "vadd"}, {npusim::row(dst, m * h), npusim::row(mean, m)}, {npusim::row(src, m * h), npusim::row(gamma, h), npusim::row(beta, h)});
    npusim::announce_rows<float>("LayerNorm", "vmuls", at, 1, m, {npusim::row(variance, m)}, {});
    for (int64_t i = 0; i < m; i++) {
        float sum = 0, square = 0;
        for (int64_t j = 0; j < kept; j++) sum += float(npusim::load(src.data() + i * h + j));
        float middle = sum / float(kept);
        for (int64_t j = 0; j < kept; j++) square += (float(npusim::load(src.data() + i * h + j)) - middle) * (float(npusim::load(src.data() + i * h + j)) - middle);
        float spread = square / float(kept), scale = 1 / std::sqrt(spread + float(epsilon));
        npusim::store(mean.data() + i, middle), npusim::store(variance.data() + i, spread);
        for (int64_t j = 0; j < h; j++) npusim::store(dst.data() + i * h + j, (float(npusim::load(src.data() + i * h + j)) - middle) * scale * float(npusim::load(gamma.data() + j)) + float(npusim::load(beta.data() + j)));
    }
}
template <typename T, bool isReuseSource = false> void LayerNorm(const LocalTensor<T> &dst, const LocalTensor<T> &mean, const LocalTensor<T> &variance, const LocalTensor<T> &src, const LocalTensor<T> &gamma, const LocalTensor<T> &beta, T epsilon, LayerNormTiling &tiling, NPUSIM_AT)
{
    LayerNorm<T, isReuseSource>(dst, mean, variance, src, gamma, beta, LocalTensor<uint8_t>(), epsilon, static_cast<const LayerNormTiling &>(tiling), at);
}
template <typename T, bool isReuseSource = false, bool isBasicBlock = false> void DeepNorm(const LocalTensor<T> &dst, const LocalTensor<T> &mean, const LocalTensor<T> &variance, const LocalTensor<T> &src, const LocalTensor<T> &gx, const LocalTensor<T> &beta, const LocalTensor<T> &gamma, T alpha, T epsilon, const DeepNormTiling &tiling, NPUSIM_AT)
{
    int64_t m = int64_t(tiling.bLength) * tiling.sLength, h = tiling.hLength;
    npusim::mapped("DeepNorm", at, m * h, {"vmuls", "vadd"}, [a = npusim::load(&alpha)](auto x, auto g) { return decltype(x)(x * a + g); }, dst, src, gx);
    LayerNormTiling same;
    static_cast<NpusimNorm &>(same) = tiling;
    LayerNorm<T>(dst, mean, variance, dst, gamma, beta, LocalTensor<uint8_t>(), epsilon, same, at);
}
template <typename T, bool isReuseSource = false> void LayerNormGrad(const LocalTensor<T> &dx, const LocalTensor<T> &for_gamma, const LocalTensor<T> &dy, const LocalTensor<T> &x, const LocalTensor<T> &variance, const LocalTensor<T> &mean, const LocalTensor<T> &gamma, T epsilon, LayerNormGradTiling &tiling, NPUSIM_AT)
{
    int64_t m = int64_t(tiling.bLength) * tiling.sLength, h = tiling.hLength;
    npusim::row_steps<T>("LayerNormGrad", at, m, h, {"vmul", "vsub", "vadds", "vsqrt", "vdiv", "vmul", "vcadd", "vmuls", "vmul", "vcadd", "vmul", "vsub", "vmul"}, {npusim::row(dx, m * h), npusim::row(for_gamma, m * h)}, {npusim::row(dy, m * h), npusim::row(x, m * h), npusim::row(variance, m), npusim::row(mean, m)});
    std::vector<float> scaled(static_cast<size_t>(h)), unit(static_cast<size_t>(h));
    for (int64_t i = 0; i < m; i++) {
        float scale = 1 / std::sqrt(float(npusim::load(variance.data() + i)) + float(epsilon)), sum = 0, along = 0;
        for (int64_t j = 0; j < h; j++) {
            unit[size_t(j)] = (float(npusim::load(x.data() + i * h + j)) - float(npusim::load(mean.data() + i))) * scale;
            scaled[size_t(j)] = float(npusim::load(dy.data() + i * h + j)) * float(npusim::load(gamma.data() + j));
            sum += scaled[size_t(j)], along += scaled[size_t(j)] * unit[size_t(j)];
        }
        for (int64_t j = 0; j < h; j++) {
            npusim::store(dx.data() + i * h + j, scale * (scaled[size_t(j)] - sum / float(h) - unit[size_t(j)] * along / float(h)));
            npusim::store(for_gamma.data() + i * h + j, unit[size_t(j)]);
        }
    }
}
template <typename T, bool isReuseSource = false> void LayerNormGradBeta(const LocalTensor<T> &dgamma, const LocalTensor<T> &dbeta, const LocalTensor<T> &for_gamma, const LocalTensor<T> &dy, const LayerNormGradBetaTiling &tiling, NPUSIM_AT)
{
    int64_t m = int64_t(tiling.bLength) * tiling.sLength, h = tiling.hLength;
    npusim::row_steps<T>("LayerNormGradBeta", at, m, h, {"vmul", "vadd", "vadd"}, {npusim::row(dgamma, h), npusim::row(dbeta, h)}, {npusim::row(for_gamma, m * h), npusim::row(dy, m * h)});
    for (int64_t j = 0; j < h; j++) {
        float gamma = 0, beta = 0;
        for (int64_t i = 0; i < m; i++) beta += float(npusim::load(dy.data() + i * h + j)), gamma += float(npusim::load(dy.data() + i * h + j)) * float(npusim::load(for_gamma.data() + i * h + j));
        npusim::store(dgamma.data() + j, gamma), npusim::store(dbeta.data() + j, beta);
    }
}

/* Reductions and running sums. */
struct SumParams {
    uint32_t outter = 1, inner = 0, n = 0;
};
template <typename T, int32_t reduceDim = -1, bool isReuseSource = false, bool isBasicBlock = false> void Sum(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<uint8_t> &, const SumParams &p, NPUSIM_AT)
{
    npusim::announce_rows<npusim::Priced<T>>("Sum", "vcadd", at, p.outter, p.n, {npusim::row(dst, p.outter)}, {npusim::row(src, int64_t(p.outter - 1) * p.inner + p.n)});
    for (int64_t i = 0; i < p.outter; i++) npusim::store(dst.data() + i, npusim::folded<ReduceType::SUM, T>(p.n, [&](int64_t j) { return npusim::load(src.data() + i * p.inner + j); }).value);
}
template <typename T, int32_t reduceDim = -1, bool isReuseSource = false, bool isBasicBlock = false> void Sum(const LocalTensor<T> &dst, const LocalTensor<T> &src, const SumParams &p, NPUSIM_AT) { Sum(dst, src, LocalTensor<uint8_t>(), p, at); }
struct Pattern {
    struct Reduce {
        struct AR {};
        struct RA {};
    };
};
using ReducePattern = Pattern::Reduce;
#define NPUSIM_PATTERN(Short, type)                                                                                           \
    template <typename T, typename P, bool isReuseSource = false> std::enable_if_t<std::is_empty_v<P>> Reduce##Short(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<uint8_t> &, const uint32_t shape[], bool, NPUSIM_AT) \
    {                                                                                                                         \
        bool last = std::is_same_v<P, Pattern::Reduce::AR>;                                                                   \
        int64_t m = shape[0], n = shape[1], out = last ? m : n;                                                               \
        npusim::announce_rows<npusim::Priced<T>>("Reduce" #Short, npusim::fold_name<type>(0), at, m, n, {npusim::row(dst, out)}, {npusim::row(src, m * n)}); \
        for (int64_t i = 0; i < out; i++)                                                                                     \
            npusim::store(dst.data() + i, npusim::folded<type, T>(last ? n : m, [&](int64_t j) { return npusim::load(src.data() + (last ? i * n + j : j * n + i)); }).value); \
    }                                                                                                                         \
    template <typename T, typename P, bool isReuseSource = false> std::enable_if_t<std::is_empty_v<P>> Reduce##Short(const LocalTensor<T> &dst, const LocalTensor<T> &src, const uint32_t shape[], bool inner, NPUSIM_AT) { Reduce##Short<T, P>(dst, src, LocalTensor<uint8_t>(), shape, inner, at); }
NPUSIM_PATTERN(Sum, ReduceType::SUM)
NPUSIM_PATTERN(Max, ReduceType::MAX)
NPUSIM_PATTERN(Min, ReduceType::MIN)
#undef NPUSIM_PATTERN
enum class CumSumAlgorithm { CUMSUM_ALGORITHM_LINEBYLINE = 0, CUMSUM_ALGORITHM_SKLANSKY = 1 };
struct CumSumConfig {
    bool isLastAxis{true}, isReuseSource{false}, outputLastRow{false};
    CumSumAlgorithm algorithm{CumSumAlgorithm::CUMSUM_ALGORITHM_LINEBYLINE};
};
struct CumSumInfo {
    uint32_t outter{0}, inner{0};
};
inline constexpr CumSumConfig defaultCumSumConfig = {};
template <typename T, const CumSumConfig &config = defaultCumSumConfig> void CumSum(const LocalTensor<T> &dst, const LocalTensor<T> &last, const LocalTensor<T> &src, const LocalTensor<uint8_t> &, const CumSumInfo &p, NPUSIM_AT)
{
    int64_t m = p.outter, n = p.inner;
    for (int64_t i = 0; i < (config.isLastAxis ? n : m); i++) /* line by line, along the axis that lies across */
        npusim::announce_rows<npusim::Priced<T>>("CumSum", "vadd", at, 1, config.isLastAxis ? m : n, {npusim::row(dst, m * n)}, {npusim::row(src, m * n)});
    for (int64_t i = 0; i < (config.isLastAxis ? m : n); i++) {
        npusim::Wide<T> sum = 0;
        for (int64_t j = 0; j < (config.isLastAxis ? n : m); j++) {
            int64_t place = config.isLastAxis ? i * n + j : j * n + i;
            npusim::store(dst.data() + place, sum = npusim::Wide<T>(sum + npusim::load(src.data() + place)));
        }
    }
    if (config.outputLastRow) {
        npusim::announce_rows<npusim::Priced<T>>("CumSum", "ub2ub", at, 1, n, {npusim::row(last, n)}, {npusim::row(dst, m * n)});
        std::memcpy(static_cast<void *>(last.data()), dst.data() + (m - 1) * n, size_t(n) * sizeof(T));
    }
}
template <typename T, const CumSumConfig &config = defaultCumSumConfig> void CumSum(const LocalTensor<T> &dst, const LocalTensor<T> &last, const LocalTensor<T> &src, const CumSumInfo &p, NPUSIM_AT) { CumSum<T, config>(dst, last, src, LocalTensor<uint8_t>(), p, at); }

/* Sorting downwards: numbers with their places, 8 bytes a pair. */
template <typename T> void Concat(LocalTensor<T> &concat, const LocalTensor<T> &src, const LocalTensor<T> &, int32_t) { concat = src; }
template <typename T, bool isFullSort = false> void Sort(const LocalTensor<T> &dst, const LocalTensor<T> &concat, const LocalTensor<uint32_t> &index, LocalTensor<T> &, int32_t times, NPUSIM_AT)
{
    int64_t all = 32ll * times, run = isFullSort ? all : 32;
    npusim::Span to = {dst.memory, 1, 1, dst.start, dst.limit, all * 8, 0, 0, false, 0};
    npusim::announce_rows<T>("Sort", "vbitsort32", at, times, 32, {to}, {npusim::row(concat, all), npusim::row(index, all)});
    for (int64_t sorted = 32; isFullSort && sorted < all; sorted *= 4) npusim::announce_rows<T>("Sort", "vmrgsort4v2", at, times, 32 * 8 / int64_t(sizeof(T)), {to}, {to});
    std::vector<std::pair<float, uint32_t>> found;
    for (int64_t each = 0; each < all; each++) found.emplace_back(float(npusim::load(concat.data() + each)), index.data()[each]);
    for (int64_t first = 0; first < all; first += run) std::stable_sort(found.begin() + first, found.begin() + first + run, [](const auto &a, const auto &b) { return a.first > b.first; });
    for (int64_t each = 0; each < all; each++) npusim::write_pair<T>(reinterpret_cast<uint8_t *>(dst.data()) + each * 8, found[size_t(each)].first, found[size_t(each)].second);
}
template <typename T> void Extract(const LocalTensor<T> &value, const LocalTensor<uint32_t> &index, const LocalTensor<T> &sorted, int32_t times, NPUSIM_AT)
{
    int64_t all = 32ll * times;
    npusim::Span from = {sorted.memory, 1, 1, sorted.start, sorted.limit, all * 8, 0, 0, false, 0};
    npusim::announce_rows<T>("Extract", "vreducev2", at, times, 64, {npusim::row(value, all), npusim::row(index, all)}, {from});
    const auto *pairs = reinterpret_cast<const uint8_t *>(sorted.data());
    for (int64_t each = 0; each < all; each++) {
        std::memcpy(static_cast<void *>(value.data() + each), pairs + each * 8, sizeof(T));
        std::memcpy(index.data() + each, pairs + each * 8 + 4, 4);
    }
}
enum class TopKMode { TOPK_NORMAL, TOPK_NSMALL };
enum class TopKOrder { UNSET, LARGEST, SMALLEST };
enum class TopKAlgo { RADIX_SELECT, MERGE_SORT };
struct TopKInfo {
    int32_t outter = 1, inner = 0, n = 0;
};
template <typename T, bool isInitIndex = false, bool isHasfinish = false, bool isReuseSrc = false, TopKMode mode = TopKMode::TOPK_NORMAL> void TopK(const LocalTensor<T> &value, const LocalTensor<int32_t> &index, const LocalTensor<T> &src, const LocalTensor<int32_t> &places, const LocalTensor<bool> &finished, const LocalTensor<uint8_t> &, int32_t k, const TopkTiling &, const TopKInfo &info, bool largest = true, NPUSIM_AT)
{
    bool small = mode == TopKMode::TOPK_NSMALL;
    int64_t wide = small ? k : (k * int64_t(sizeof(T)) + 31) / 32 * 32 / int64_t(sizeof(T)), wide_index = small ? k : (k + 7) / 8 * 8;
    npusim::announce_rows<T>("TopK", "vbitsort32", at, info.outter * ((info.n + 31) / 32), 32, {npusim::row(value, info.outter * wide), npusim::row(index, info.outter * wide_index)}, {npusim::row(src, int64_t(info.outter) * info.inner)});
    for (int32_t sorted = 32; sorted < info.n; sorted *= 4) npusim::announce_rows<T>("TopK", "vmrgsort4v2", at, info.outter, info.n * 8 / int64_t(sizeof(T)), {npusim::row(value, info.outter * wide)}, {});
    for (int64_t i = 0; i < info.outter; i++) {
        std::vector<std::pair<float, int32_t>> found;
        for (int32_t j = 0; j < info.n; j++) found.emplace_back(float(npusim::load(src.data() + i * info.inner + j)), isInitIndex ? places.data()[j] : j);
        std::stable_sort(found.begin(), found.end(), [largest](const auto &a, const auto &b) { return largest ? a.first > b.first : a.first < b.first; });
        bool over = isHasfinish && finished.data()[i];
        for (int32_t j = 0; j < k; j++) {
            npusim::store(value.data() + i * wide + j, found[size_t(j)].first);
            index.data()[i * wide_index + j] = over ? info.n : found[size_t(j)].second;
        }
    }
}
template <typename T, bool isInitIndex = false, bool isHasfinish = false, bool isReuseSrc = false, TopKMode mode = TopKMode::TOPK_NORMAL> void TopK(const LocalTensor<T> &value, const LocalTensor<int32_t> &index, const LocalTensor<T> &src, const LocalTensor<int32_t> &places, const LocalTensor<bool> &finished, int32_t k, const TopkTiling &tiling, const TopKInfo &info, bool largest = true, NPUSIM_AT)
{
    TopK<T, isInitIndex, isHasfinish, isReuseSrc, mode>(value, index, src, places, finished, LocalTensor<uint8_t>(), k, tiling, info, largest, at);
}

/* Shapes. */
template <typename T, int32_t dim, int32_t axis, bool isReuseSource = false> void Broadcast(const LocalTensor<T> &dst, const LocalTensor<T> &src, const uint32_t to[dim], const uint32_t from[dim], const LocalTensor<uint8_t> &, NPUSIM_AT)
{
    int64_t m = dim > 1 ? to[0] : 1, n = to[dim - 1], high = dim > 1 ? from[0] : 1, wide = from[dim - 1];
    npusim::announce_rows<std::conditional_t<sizeof(T) == 1, half, T>>("Broadcast", wide == 1 && n > 1 ? "vbrcb" : "vcopy", at, m, n, {npusim::row(dst, m * n)}, {npusim::row(src, high * wide)});
    std::vector<T> held(src.data(), src.data() + high * wide);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) dst.data()[i * n + j] = held[size_t((high == 1 ? 0 : i) * wide + (wide == 1 ? 0 : j))];
}
template <typename T, int32_t dim, int32_t axis, bool isReuseSource = false> void Broadcast(const LocalTensor<T> &dst, const LocalTensor<T> &src, const uint32_t to[dim], const uint32_t from[dim], NPUSIM_AT) { Broadcast<T, dim, axis>(dst, src, to, from, LocalTensor<uint8_t>(), at); }
template <typename T, int32_t dim, int32_t axis, bool isReuseSource = false> void BroadCast(const LocalTensor<T> &dst, const LocalTensor<T> &src, const uint32_t to[dim], const uint32_t from[dim], LocalTensor<uint8_t> &scratch, NPUSIM_AT) { Broadcast<T, dim, axis>(dst, src, to, from, scratch, at); }
template <typename T, int32_t dim, int32_t axis, bool isReuseSource = false> void BroadCast(const LocalTensor<T> &dst, const LocalTensor<T> &src, const uint32_t to[dim], const uint32_t from[dim], NPUSIM_AT) { Broadcast<T, dim, axis>(dst, src, to, from, LocalTensor<uint8_t>(), at); }
template <typename T, typename U> void Fill(const GlobalTensor<T> &gm, uint64_t size, U value, NPUSIM_AT) { InitOutput(gm, uint32_t(size), T(value), at); }
struct PadParams {
    uint16_t leftPad = 0, rightPad = 0;
    int32_t padValue = 0;
};
struct UnPadParams {
    uint16_t leftPad = 0, rightPad = 0;
};
template <typename T> void Pad(const LocalTensor<T> &dst, const LocalTensor<T> &src, PadParams &p, const LocalTensor<uint8_t> &, PadTiling &tiling, NPUSIM_AT)
{
    int64_t m = tiling.srcHeight, n = tiling.srcWidth, kept = tiling.srcOriWidth, per = 32 / int64_t(sizeof(T)), out = kept == n ? (p.leftPad + n + p.rightPad + per - 1) / per * per : n;
    npusim::announce_rows<T>("Pad", "vnchwconv", at, m, out, {npusim::row(dst, m * out)}, {npusim::row(src, m * n)});
    std::vector<T> held(src.data(), src.data() + m * n);
    int64_t wide = p.leftPad + kept + p.rightPad;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < out; j++) {
            int64_t from = j - p.leftPad;
            npusim::store(dst.data() + i * out + j, from >= 0 && from < kept ? npusim::load(&held[size_t(i * n + from)]) : j < wide ? npusim::Wide<T>(p.padValue) : npusim::Wide<T>(0));
        }
}
template <typename T> void Pad(const LocalTensor<T> &dst, const LocalTensor<T> &src, PadParams &p, PadTiling &tiling, NPUSIM_AT) { Pad(dst, src, p, LocalTensor<uint8_t>(), tiling, at); }
template <typename T> void UnPad(const LocalTensor<T> &dst, const LocalTensor<T> &src, UnPadParams &p, const LocalTensor<uint8_t> &, UnPadTiling &tiling, NPUSIM_AT)
{
    int64_t m = tiling.srcHeight, n = tiling.srcWidth, out = n - p.leftPad - p.rightPad;
    npusim::announce_rows<T>("UnPad", "vnchwconv", at, m, n, {npusim::row(dst, m * out)}, {npusim::row(src, m * n)});
    std::vector<T> held(src.data(), src.data() + m * n);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < out; j++) dst.data()[i * out + j] = held[size_t(i * n + p.leftPad + j)];
}
template <typename T> void UnPad(const LocalTensor<T> &dst, const LocalTensor<T> &src, UnPadParams &p, UnPadTiling &tiling, NPUSIM_AT) { UnPad(dst, src, p, LocalTensor<uint8_t>(), tiling, at); }
struct SelectWithBytesMaskShapeInfo {
    uint32_t firstAxis = 0, srcLastAxis = 0, maskLastAxis = 0;
};
template <typename T, typename U, bool isReuseMask = true> void Select(const LocalTensor<T> &dst, const LocalTensor<T> &src, T scalar, const LocalTensor<U> &mask, const LocalTensor<uint8_t> &, const SelectWithBytesMaskShapeInfo &p, NPUSIM_AT)
{
    int64_t m = p.firstAxis, n = p.srcLastAxis, wide = p.maskLastAxis;
    npusim::row_steps<T>("Select", at, m, n, {"vcmpvs_eq", "vsel"}, {npusim::row(dst, m * n)}, {npusim::row(src, m * n), npusim::row(mask, m * wide)});
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) npusim::store(dst.data() + i * n + j, mask.data()[i * wide + j] ? npusim::load(&scalar) : npusim::load(src.data() + i * n + j));
}
struct DropOutShapeInfo {
    uint32_t firstAxis = 0, srcLastAxis = 0, maskLastAxis = 0;
};
constexpr uint32_t DROPOUT_MODE_BYTE_MISALIGN = 1, DROPOUT_MODE_BYTE_ALIGN = 2, DROPOUT_MODE_BIT_ALIGN = 3, DROPOUT_MODE_BIT_MISALIGN = 4;
template <typename T, bool isInitBitMode = false, uint32_t mode = 0> void DropOut(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<uint8_t> &mask, const LocalTensor<uint8_t> &, float keeps, const DropOutShapeInfo &p, NPUSIM_AT)
{
    int64_t m = p.firstAxis, n = p.srcLastAxis, wide = p.maskLastAxis;
    bool bits = mode == DROPOUT_MODE_BIT_ALIGN || mode == DROPOUT_MODE_BIT_MISALIGN || (mode == 0 && wide < n);
    npusim::row_steps<T>("DropOut", at, m, n, {"vmuls", "vsel"}, {npusim::row(dst, m * n)}, {npusim::row(src, m * n), npusim::row(mask, m * wide)});
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            bool kept = bits ? mask.data()[i * wide + j / 8] >> (j % 8) & 1 : mask.data()[i * wide + j] != 0;
            npusim::store(dst.data() + i * n + j, kept ? npusim::load(src.data() + i * n + j) / keeps : npusim::Wide<T>(0));
        }
}
template <typename T, bool isInitBitMode = false, uint32_t mode = 0> void DropOut(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<uint8_t> &mask, float keeps, const DropOutShapeInfo &p, NPUSIM_AT) { DropOut<T, isInitBitMode, mode>(dst, src, mask, LocalTensor<uint8_t>(), keeps, p, at); }

/* Quantisation. */
template <typename T, bool isReuseSource = false> void AscendQuant(const LocalTensor<int8_t> &dst, const LocalTensor<T> &src, float scale, float offset, uint32_t count, NPUSIM_AT)
{
    npusim::mapped("AscendQuant", at, count, {}, [=](auto x) { return npusim::to_whole<int8_t>(std::nearbyint(float(x) * scale + offset)); }, dst, src);
    npusim::chain<float>("AscendQuant", at, 1, count, {"vmuls", "vadds", "vmuls"}, npusim::row(dst, count), {npusim::row(src, count)});
}
template <typename T, bool isReuseSource = false> void AscendQuant(const LocalTensor<int8_t> &dst, const LocalTensor<T> &src, const LocalTensor<uint8_t> &, float scale, float offset, uint32_t count, NPUSIM_AT) { AscendQuant<T>(dst, src, scale, offset, count, at); }
template <typename T, bool isReuseSource = false> void AscendQuant(const LocalTensor<int8_t> &dst, const LocalTensor<T> &src, float scale, float offset, NPUSIM_AT) { AscendQuant<T>(dst, src, scale, offset, src.GetSize(), at); }
enum class DeQuantMode { DEQUANT_WITH_SINGLE_ROW = 0, DEQUANT_WITH_MULTI_ROW };
struct DequantParams {
    uint32_t m = 0, n = 0, calCount = 0;
};
template <typename D, typename S, DeQuantMode mode = DeQuantMode::DEQUANT_WITH_SINGLE_ROW> void AscendDequant(const LocalTensor<D> &dst, const LocalTensor<int32_t> &src, const LocalTensor<S> &scale, const LocalTensor<uint8_t> &, DequantParams p, NPUSIM_AT)
{
    int64_t out = (p.n * int64_t(sizeof(D)) + 31) / 32 * 32 / int64_t(sizeof(D));
    npusim::row_steps<float>("AscendDequant", at, p.m, p.n, {"vmuls", "vmul"}, {npusim::row(dst, p.m * out)}, {npusim::row(src, int64_t(p.m) * p.n), npusim::row(scale, p.calCount)});
    for (int64_t i = 0; i < p.m; i++)
        for (int64_t j = 0; j < p.n; j++) {
            float factor;
            if constexpr (sizeof(S) == 8) {
                uint32_t word = uint32_t(scale.data()[j]);
                std::memcpy(&factor, &word, 4);
            } else factor = float(npusim::load(scale.data() + j));
            npusim::store(dst.data() + i * out + j, j < p.calCount ? float(src.data()[i * p.n + j]) * factor : 0.0f);
        }
}
template <typename D, typename S, DeQuantMode mode = DeQuantMode::DEQUANT_WITH_SINGLE_ROW> void AscendDequant(const LocalTensor<D> &dst, const LocalTensor<int32_t> &src, const LocalTensor<S> &scale, DequantParams p, NPUSIM_AT) { AscendDequant<D, S, mode>(dst, src, scale, LocalTensor<uint8_t>(), p, at); }
/* dst = (src + offset) * scale: of each column, for k rows, or of all */
template <typename In, typename Out, bool isTranspose> void AscendAntiQuant(const LocalTensor<Out> &dst, const LocalTensor<In> &src, const LocalTensor<Out> &offset, const LocalTensor<Out> &scale, const LocalTensor<uint8_t> &, uint32_t k, NPUSIM_AT)
{
    int64_t all = src.GetSize(), n = all / k;
    npusim::row_steps<float>("AscendAntiQuant", at, k, n, {"vmuls", "vadd", "vmul"}, {npusim::row(dst, all)}, {npusim::row(src, all)});
    for (int64_t each = 0; each < all; each++) {
        int64_t group = isTranspose ? each / k : each % n;
        npusim::store(dst.data() + each, (float(npusim::load(src.data() + each)) + float(npusim::load(offset.data() + group))) * float(npusim::load(scale.data() + group)));
    }
}

} // namespace AscendC

namespace AscendC {
template <typename T, TPosition pos> bool PopStackBuffer(LocalTensor<T> &tensor, NPUSIM_AT)
{
    int64_t start = npusim::pipe_used(npusim::UB);
    tensor.memory = npusim::UB, tensor.start = start, tensor.limit = npusim::current->size[npusim::UB], tensor.position = TPosition::VECCALC;
    (void)at;
    return true;
}
} // namespace AscendC

#endif

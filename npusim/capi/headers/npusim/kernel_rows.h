/* Libraries of Ascend C that work row by row: softmax and normalisations. */
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
template <typename T, bool isReuseSource = false, bool isBasicBlock = false, bool isDataFormatNZ = false, NPUSIM_SETTING(SoftmaxConfig) config = SOFTMAX_DEFAULT_CFG, typename U> void SoftMax(const LocalTensor<T> &dst, const LocalTensor<U> &sum, const LocalTensor<U> &most, const LocalTensor<T> &src, const LocalTensor<uint8_t> &, const SoftMaxTiling &tiling, const SoftMaxShapeInfo &shape = {}, NPUSIM_AT)
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
template <typename T, bool isReuseSource = false, bool isBasicBlock = false, NPUSIM_SETTING(SoftmaxConfig) config = SOFTMAX_DEFAULT_CFG> void SoftMax(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<uint8_t> &, const SoftMaxTiling &tiling, const SoftMaxShapeInfo &shape = {}, NPUSIM_AT)
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
template <typename T, bool isReuseSource = false, bool isBasicBlock = false, bool isDataFormatNZ = false, NPUSIM_SETTING(SoftmaxConfig) config = SOFTMAX_DEFAULT_CFG, typename U> void SimpleSoftMax(const LocalTensor<T> &dst, const LocalTensor<U> &sum, const LocalTensor<U> &most, const LocalTensor<T> &src, const LocalTensor<uint8_t> &, const SoftMaxTiling &tiling, const SoftMaxShapeInfo &shape = {}, NPUSIM_AT)
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
template <typename T, bool isUpdate = false, bool isReuseSource = false, bool isBasicBlock = false, bool isDataFormatNZ = false, NPUSIM_SETTING(SoftmaxConfig) config = SOFTMAX_DEFAULT_CFG, typename U> void SoftmaxFlashV2(const LocalTensor<T> &dst, const LocalTensor<U> &sum, const LocalTensor<U> &most, const LocalTensor<T> &src, const LocalTensor<T> &scale, const LocalTensor<U> &in_sum, const LocalTensor<U> &in_most, const LocalTensor<uint8_t> &, const SoftMaxTiling &tiling, const SoftMaxShapeInfo &shape = {}, NPUSIM_AT)
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
    npusim::scalar(int(shape.srcM), 0, int(shape.srcM), 0, 0, at);
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

} // namespace AscendC

#endif

/* Libraries of Ascend C that normalise rows whose parts or statistics come one after the other. */
#ifndef NPUSIM_KERNEL_NORMS_H
#define NPUSIM_KERNEL_NORMS_H

#include "npusim/kernel_rows.h"
#include "npusim/kernel_sort.h"

namespace AscendC {

struct LayerNormConfig {
    bool isNoBeta = false, isNoGamma = false, isOnlyOutput = false, isOutputRstd = true;
};
struct LayerNormPara {
    uint32_t aLength, rLength, rLengthWithPadding;
};
struct NormalizeConfig {
    ReducePattern reducePattern = ReducePattern::AR;
    int32_t aLength = -1;
    bool isNoBeta = false, isNoGamma = false, isOnlyOutput = false;
};
struct NormalizePara {
    uint32_t aLength, rLength, rLengthWithPadding;
};
struct WelfordUpdateConfig {
    bool isInplace = false;
};
struct WelfordUpdateParam {
    uint32_t rnLength, abLength, abComputeLength;
    float nRec;
};
struct WelfordFinalizePara {
    uint32_t rnLength, abLength, headCount, headCountLength, tailCount, tailCountLength;
    float abRec, rRec;
};
struct SoftMaxParams {
    uint32_t srcM, srcK, oriSrcM, oriSrcK, loopCnt, splitMeanCnt;
    float alpha;
};
inline constexpr LayerNormConfig LNCFG_NORM = {};
inline constexpr NormalizeConfig NLCFG_NORM = {};
inline constexpr WelfordUpdateConfig WFUPDATE_DEFAULT_CFG = {};

/* (x - mean) * rstd * gamma + beta, row by row, with the statistics of another call; the rstd comes too. */
template <typename U, typename T, bool isReuseSource = false, NPUSIM_SETTING(NormalizeConfig) config = NLCFG_NORM> void Normalize(const LocalTensor<T> &dst, const LocalTensor<float> &rstd, const LocalTensor<float> &mean, const LocalTensor<float> &variance, const LocalTensor<T> &src, const LocalTensor<U> &gamma, const LocalTensor<U> &beta, const LocalTensor<uint8_t> &, float epsilon, const NormalizePara &p, NPUSIM_AT)
{
    static_assert(config.reducePattern == ReducePattern::AR, "Normalize reduces the inner axis");
    int64_t m = p.aLength, n = p.rLength, wide = p.rLengthWithPadding;
    npusim::announce_rows<float>("Normalize", "vadds", at, 1, m, {npusim::row(rstd, m)}, {npusim::row(variance, m), npusim::row(mean, m)});
    for (const char *step : {"vsqrt", "vdiv"}) npusim::announce_rows<float>("Normalize", step, at, 1, m, {npusim::row(rstd, m)}, {});
    npusim::row_steps<T>("Normalize", at, m, wide, {"vadds", "vmuls"}, {npusim::row(dst, m * wide)}, {npusim::row(src, m * wide)});
    if (!config.isNoGamma) npusim::announce_rows<npusim::Priced<T>>("Normalize", "vmul", at, m, wide, {npusim::row(dst, m * wide)}, {npusim::row(gamma, n)});
    if (!config.isNoBeta) npusim::announce_rows<npusim::Priced<T>>("Normalize", "vadd", at, m, wide, {npusim::row(dst, m * wide)}, {npusim::row(beta, n)});
    for (int64_t i = 0; i < m; i++) {
        float scale = rstd.data()[i] = 1 / std::sqrt(variance.data()[i] + epsilon);
        for (int64_t j = 0; j < n; j++) {
            float value = (float(npusim::load(src.data() + i * wide + j)) - mean.data()[i]) * scale;
            if (!config.isNoGamma) value *= float(npusim::load(gamma.data() + j));
            if (!config.isNoBeta) value += float(npusim::load(beta.data() + j));
            npusim::store(dst.data() + i * wide + j, value);
        }
    }
}
template <typename U, typename T, bool isReuseSource = false, NPUSIM_SETTING(NormalizeConfig) config = NLCFG_NORM> void Normalize(const LocalTensor<T> &dst, const LocalTensor<float> &rstd, const LocalTensor<float> &mean, const LocalTensor<float> &variance, const LocalTensor<T> &src, const LocalTensor<U> &gamma, const LocalTensor<U> &beta, float epsilon, const NormalizePara &p, NPUSIM_AT) { Normalize<U, T, isReuseSource, config>(dst, rstd, mean, variance, src, gamma, beta, LocalTensor<uint8_t>(), epsilon, p, at); }

/* Rows of a matrix, with their means and the reciprocals of their deviations. */
template <typename U, typename T, bool isReuseSource = false, NPUSIM_SETTING(LayerNormConfig) config = LNCFG_NORM> void LayerNorm(const LocalTensor<T> &dst, const LocalTensor<float> &mean, const LocalTensor<float> &rstd, const LocalTensor<T> &src, const LocalTensor<U> &gamma, const LocalTensor<U> &beta, float epsilon, const LocalTensor<uint8_t> &, const LayerNormPara &p, const LayerNormSeparateTiling &, NPUSIM_AT)
{
    static_assert(config.isOutputRstd, "LayerNorm gives no variance on this product");
    int64_t m = p.aLength, n = p.rLength, wide = p.rLengthWithPadding;
    npusim::row_steps<T>("LayerNorm", at, m, wide, {"vmuls", "vadd", "vcadd", "vsub", "vmul", "vmuls", "vadd", "vcadd", "vmul"}, {npusim::row(dst, m * wide)}, {npusim::row(src, m * wide)});
    for (const char *step : {"vadds", "vsqrt", "vdiv"}) npusim::announce_rows<float>("LayerNorm", step, at, 1, m, {npusim::row(rstd, m), npusim::row(mean, m)}, {});
    if (!config.isNoGamma) npusim::announce_rows<npusim::Priced<T>>("LayerNorm", "vmul", at, m, wide, {npusim::row(dst, m * wide)}, {npusim::row(gamma, n)});
    if (!config.isNoBeta) npusim::announce_rows<npusim::Priced<T>>("LayerNorm", "vadd", at, m, wide, {npusim::row(dst, m * wide)}, {npusim::row(beta, n)});
    for (int64_t i = 0; i < m; i++) {
        double sum = 0, square = 0;
        for (int64_t j = 0; j < n; j++) sum += double(npusim::load(src.data() + i * wide + j));
        float middle = float(sum / double(n));
        for (int64_t j = 0; j < n; j++) square += (double(npusim::load(src.data() + i * wide + j)) - middle) * (double(npusim::load(src.data() + i * wide + j)) - middle);
        float scale = 1 / std::sqrt(float(square / double(n)) + epsilon);
        mean.data()[i] = middle, rstd.data()[i] = scale;
        for (int64_t j = 0; j < n; j++) {
            float value = (float(npusim::load(src.data() + i * wide + j)) - middle) * scale;
            if (!config.isNoGamma) value *= float(npusim::load(gamma.data() + j));
            if (!config.isNoBeta) value += float(npusim::load(beta.data() + j));
            npusim::store(dst.data() + i * wide + j, value);
        }
    }
}
template <typename U, typename T, bool isReuseSource = false, NPUSIM_SETTING(LayerNormConfig) config = LNCFG_NORM> void LayerNorm(const LocalTensor<T> &dst, const LocalTensor<float> &mean, const LocalTensor<float> &rstd, const LocalTensor<T> &src, const LocalTensor<U> &gamma, const LocalTensor<U> &beta, float epsilon, const LayerNormPara &p, const LayerNormSeparateTiling &tiling, NPUSIM_AT) { LayerNorm<U, T, isReuseSource, config>(dst, mean, rstd, src, gamma, beta, epsilon, LocalTensor<uint8_t>(), p, tiling, at); }

/* The next part of a long row: mean and M grow by it, place by place. */
template <typename T, typename U, bool isReuseSource = false, NPUSIM_SETTING(WelfordUpdateConfig) config = WFUPDATE_DEFAULT_CFG> void WelfordUpdate(const LocalTensor<U> &mean, const LocalTensor<U> &variance, const LocalTensor<U> &in_mean, const LocalTensor<U> &in_variance, const LocalTensor<T> &src, const LocalTensor<uint8_t> &, const WelfordUpdateParam &p, NPUSIM_AT)
{
    int64_t n = config.isInplace ? p.abLength : p.abComputeLength;
    npusim::chain<float>("WelfordUpdate", at, 1, p.abComputeLength, {"vsub", "vmuls", "vadd"}, npusim::row(mean, n), {npusim::row(src, n), npusim::row(in_mean, n)});
    npusim::chain<float>("WelfordUpdate", at, 1, p.abComputeLength, {"vsub", "vmul", "vadd"}, npusim::row(variance, n), {npusim::row(src, n), npusim::row(in_variance, n)});
    for (int64_t i = 0; i < n; i++) {
        U before = in_mean.data()[i], spread = in_variance.data()[i];
        float value = float(npusim::load(src.data() + i)), now = i < p.abComputeLength ? before + (value - before) * p.nRec : before;
        mean.data()[i] = now, variance.data()[i] = i < p.abComputeLength ? spread + (value - before) * (value - now) : spread;
    }
}
template <typename T, typename U, bool isReuseSource = false, NPUSIM_SETTING(WelfordUpdateConfig) config = WFUPDATE_DEFAULT_CFG> void WelfordUpdate(const LocalTensor<U> &mean, const LocalTensor<U> &variance, const LocalTensor<U> &in_mean, const LocalTensor<U> &in_variance, const LocalTensor<T> &src, const WelfordUpdateParam &p, NPUSIM_AT) { WelfordUpdate<T, U, isReuseSource, config>(mean, variance, in_mean, in_variance, src, LocalTensor<uint8_t>(), p, at); }

} // namespace AscendC

namespace npusim {

/* All places of a row together: each counts as many times as parts had it. */
template <typename Count> void welford_finalize(const LocalTensor<float> &mean, const LocalTensor<float> &variance, const LocalTensor<float> &in_mean, const LocalTensor<float> &in_variance, const AscendC::WelfordFinalizePara &p, std::initializer_list<Span> more, bool counted, Count count, Site at)
{
    int64_t n = p.abLength;
    chain<float>("WelfordFinalize", at, 1, n, {"vmuls", "vmuls", "vcadd"}, row(mean, 1), {row(in_mean, n)});
    chain<float>("WelfordFinalize", at, 1, n, {"vsub", "vmul", "vmuls", "vadd", "vmuls", "vcadd"}, row(variance, 1), {row(in_variance, n)});
    for (const Span &span : more) announce_rows<float>("WelfordFinalize", "vmuls", at, 1, n, {row(mean, 1)}, {span});
    double sum = 0, square = 0;
    for (int64_t i = 0; i < n; i++) sum += double(in_mean.data()[i]) * (counted ? double(count(i)) * p.rRec : double(p.abRec));
    for (int64_t i = 0; i < n; i++) {
        double apart = double(in_mean.data()[i]) - sum;
        square += double(in_variance.data()[i]) + double(counted ? count(i) : int64_t(p.rnLength)) * apart * apart;
    }
    mean.data()[0] = float(sum), variance.data()[0] = float(square * p.rRec);
}

} // namespace npusim

namespace AscendC {

template <bool isReuseSource = false> void WelfordFinalize(const LocalTensor<float> &mean, const LocalTensor<float> &variance, const LocalTensor<float> &in_mean, const LocalTensor<float> &in_variance, const LocalTensor<uint8_t> &, const WelfordFinalizePara &p, NPUSIM_AT)
{
    npusim::welford_finalize(mean, variance, in_mean, in_variance, p, {}, p.tailCount != 0, [&p](int64_t i) { return int64_t(i < p.headCountLength ? p.headCount : p.tailCount); }, at);
}
template <bool isReuseSource = false> void WelfordFinalize(const LocalTensor<float> &mean, const LocalTensor<float> &variance, const LocalTensor<float> &in_mean, const LocalTensor<float> &in_variance, const WelfordFinalizePara &p, NPUSIM_AT) { WelfordFinalize<isReuseSource>(mean, variance, in_mean, in_variance, LocalTensor<uint8_t>(), p, at); }
template <bool isReuseSource = false> void WelfordFinalize(const LocalTensor<float> &mean, const LocalTensor<float> &variance, const LocalTensor<float> &in_mean, const LocalTensor<float> &in_variance, const LocalTensor<int32_t> &counts, const LocalTensor<uint8_t> &, const WelfordFinalizePara &p, NPUSIM_AT)
{
    npusim::welford_finalize(mean, variance, in_mean, in_variance, p, {npusim::row(counts, p.abLength)}, true, [&counts](int64_t i) { return int64_t(counts.data()[i]); }, at);
}
template <bool isReuseSource = false> void WelfordFinalize(const LocalTensor<float> &mean, const LocalTensor<float> &variance, const LocalTensor<float> &in_mean, const LocalTensor<float> &in_variance, const LocalTensor<int32_t> &counts, const WelfordFinalizePara &p, NPUSIM_AT) { WelfordFinalize<isReuseSource>(mean, variance, in_mean, in_variance, counts, LocalTensor<uint8_t>(), p, at); }

/* A step of an online softmax whose parts are moved towards their common mean, so that half is wide enough (PASA). */
template <typename T, typename U, bool isUpdate = false, bool isReuseSource = false, bool isBasicBlock = false, bool isDataFormatNZ = false, NPUSIM_SETTING(SoftmaxConfig) config = SOFTMAX_DEFAULT_CFG>
void SoftmaxFlashV3(const LocalTensor<T> &dst, const LocalTensor<U> &mean, const LocalTensor<U> &sum, const LocalTensor<U> &most, const LocalTensor<T> &src, const LocalTensor<T> &scale, const LocalTensor<U> &in_mean, const LocalTensor<U> &in_sum, const LocalTensor<U> &in_most, const LocalTensor<uint8_t> &, const SoftMaxTiling &, const SoftMaxParams &p, NPUSIM_AT)
{
    int64_t m = p.srcM, k = p.srcK, per = 32 / int64_t(sizeof(U)), own = 32 / int64_t(sizeof(T)), part = k / 8;
    if (p.splitMeanCnt != 8 || k < 512 || k % 64) npusim::refuse(at, "Rows have 512 elements or more, a multiple of 64, in 8 parts.", "SoftmaxFlashV3 of rows of %lld in %u parts", (long long)k, p.splitMeanCnt);
    npusim::row_steps<float>("SoftmaxFlashV3", at, m, k, {"vmuls", "vcgadd", "vadd", "vsub", "vcmax", "vsub", "vexp", "vmuls", "vcadd"}, {npusim::row(dst, m * k), npusim::row(sum, m * per)}, {npusim::row(src, m * k)});
    npusim::row_steps<float>("SoftmaxFlashV3", at, m, per, {"vcgadd", "vmuls", "vsub", "vmuls", "vsub", "vmuls", "vadd"}, {npusim::row(most, m * per), npusim::row(mean, m * per)}, {});
    if (isUpdate) npusim::row_steps<float>("SoftmaxFlashV3", at, m, per, {"vmuls", "vadd", "vmax", "vsub", "vexp", "vmul", "vadd", "vmuls"}, {npusim::row(scale, m * own)}, {npusim::row(in_sum, m * per), npusim::row(in_most, m * per), npusim::row(in_mean, m * per)});
    float by = p.alpha / (1 - p.alpha);
    std::vector<float> value(static_cast<size_t>(k));
    for (int64_t i = 0; i < m; i++) {
        float sums[64], local[8], all = 0;
        for (int64_t j = 0; j < k; j++) value[size_t(j)] = float(npusim::load(src.data() + i * k + j));
        for (int64_t j = 0; j < 64; j++) {
            sums[j] = 0;
            for (int64_t t = 0; t < 8; t++) sums[j] += value[size_t(j * 8 + t)];
            for (int64_t t = 512 + j; t < k; t += 64) sums[j] += value[size_t(t)];
        }
        for (int64_t j = 0; j < 8; j++) {
            local[j] = 0;
            for (int64_t t = 0; t < 8; t++) local[j] += sums[j * 8 + t];
            all += local[j] /= float(part);
        }
        float whole = all / 8, greatest = -INFINITY, total = 0;
        for (int64_t j = 0; j < k; j++) greatest = std::max(greatest, value[size_t(j)] -= (whole - local[j / part]) * by);
        float before = isUpdate ? float(in_mean.data()[i * per]) : 0, held = isUpdate ? float(in_sum.data()[i * per]) : 0, bound = isUpdate ? float(in_most.data()[i * per]) : 0;
        float middle = isUpdate ? (whole + before * (float(p.loopCnt) - 1)) / float(p.loopCnt) : whole, shift = (whole - middle) * by, moved = (before - middle) * by, top = shift + greatest;
        if (isUpdate) top = std::max(top, moved + bound);
        for (int64_t j = 0; j < k; j++) {
            float found = std::exp(value[size_t(j)] - (top - shift));
            total += found;
            npusim::store(dst.data() + i * k + j, found);
        }
        if (isUpdate) {
            float factor = std::exp(bound - top + moved);
            total += held * factor;
            npusim::fill_block(scale.data() + i * own, factor);
        }
        npusim::fill_block(mean.data() + i * per, middle), npusim::fill_block(most.data() + i * per, top), npusim::fill_block(sum.data() + i * per, total);
    }
}
template <typename T, typename U, bool isUpdate = false, bool isReuseSource = false, bool isBasicBlock = false, bool isDataFormatNZ = false, NPUSIM_SETTING(SoftmaxConfig) config = SOFTMAX_DEFAULT_CFG>
void SoftmaxFlashV3(const LocalTensor<T> &dst, const LocalTensor<U> &mean, const LocalTensor<U> &sum, const LocalTensor<U> &most, const LocalTensor<T> &src, const LocalTensor<T> &scale, const LocalTensor<U> &in_mean, const LocalTensor<U> &in_sum, const LocalTensor<U> &in_most, const SoftMaxTiling &tiling, const SoftMaxParams &p, NPUSIM_AT)
{
    SoftmaxFlashV3<T, U, isUpdate>(dst, mean, sum, most, src, scale, in_mean, in_sum, in_most, LocalTensor<uint8_t>(), tiling, p, at);
}

} // namespace AscendC

#endif

/* Libraries of Ascend C: sums along an axis, running sums, sorting. */
#ifndef NPUSIM_KERNEL_SORT_H
#define NPUSIM_KERNEL_SORT_H

namespace AscendC {

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
#ifndef NPUSIM_REDUCE_PATTERN
#define NPUSIM_REDUCE_PATTERN
enum class ReducePattern : uint32_t { AR = 0, RA = 1, R, ARA }; /* hosts and kernels say it */
#endif
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
template <typename T, NPUSIM_SETTING(CumSumConfig) config = defaultCumSumConfig> void CumSum(const LocalTensor<T> &dst, const LocalTensor<T> &last, const LocalTensor<T> &src, const LocalTensor<uint8_t> &, const CumSumInfo &p, NPUSIM_AT)
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
template <typename T, NPUSIM_SETTING(CumSumConfig) config = defaultCumSumConfig> void CumSum(const LocalTensor<T> &dst, const LocalTensor<T> &last, const LocalTensor<T> &src, const CumSumInfo &p, NPUSIM_AT) { CumSum<T, config>(dst, last, src, LocalTensor<uint8_t>(), p, at); }

enum class SortType { RADIX_SORT, MERGE_SORT };
struct SortConfig {
    SortType type = SortType::RADIX_SORT;
    bool isDescend = false;
};
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

} // namespace AscendC

#endif

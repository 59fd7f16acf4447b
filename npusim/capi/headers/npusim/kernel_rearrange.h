/* Gathering, spreading, transposing and sorting in Ascend C. */
#ifndef NPUSIM_KERNEL_REARRANGE_H
#define NPUSIM_KERNEL_REARRANGE_H

#include <algorithm>
#include <vector>

namespace npusim {

/* The offset of an element that Gather takes: bytes inside of the source, whole elements (source: public API page of Gather). */
template <typename T> NPUSIM_CALLED int64_t gathered(const LocalTensor<T> &src, int64_t place, Site at)
{
    if (place < 0 || src.start + place + int64_t(sizeof(T)) > src.limit)
        refuse(at, "Offsets are bytes inside of the source.", "Gather: offset %lld, the source has %lld bytes", (long long)place, (long long)(src.limit - src.start));
    if (place % int64_t(sizeof(T))) refuse(at, "Offsets are bytes: multiply the index by the size of an element.", "Gather: offset %lld is no multiple of %lld bytes", (long long)place, (long long)sizeof(T));
    return place;
}

} // namespace npusim

namespace AscendC {

template <typename T, typename U> NPUSIM_CALLED void Gather(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<U> &offsets, uint32_t base, uint32_t count, NPUSIM_AT)
{
    npusim::Span from = {src.memory, 1, 1, src.start, src.limit, src.limit - src.start, 0, 0, false, true};
    npusim::announce_rows<T>("Gather", "vgather", at, 1, count, {npusim::row(dst, count)}, {from, npusim::row(offsets, count)});
    for (uint32_t each = 0; each < count; each++) {
        int64_t place = npusim::gathered(src, int64_t(base) + int64_t(offsets.data()[each]), at);
        std::memcpy(static_cast<void *>(dst.data() + each), reinterpret_cast<const uint8_t *>(src.data()) + place, sizeof(T));
    }
}
template <typename T, typename U, bool isSetMask = true> NPUSIM_CALLED void Gather(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<U> &offsets, uint32_t base, uint64_t mask, int32_t times, uint16_t repeat, NPUSIM_AT)
{
    npusim::Lanes lanes = NPUSIM_BY(sizeof(T));
    auto to = npusim::operand(dst, 1, repeat);
    npusim::Span from = {src.memory, 1, 1, src.start, src.limit, src.limit - src.start, 0, 0, false, true};
    npusim::announce_rows<T>("Gather", "vgather", at, times, lanes.lanes, {to.span(lanes)}, {from, npusim::row(offsets, int64_t(lanes.lanes) * times)});
    for (int turn = 0, place = 0; turn < times; turn++)
        for (int lane = 0; lane < lanes.lanes; lane++, place++) std::memcpy(static_cast<void *>(to.at(turn, lane)), reinterpret_cast<const uint8_t *>(src.data()) + npusim::gathered(src, int64_t(base) + int64_t(offsets.data()[place]), at), sizeof(T));
}
struct GatherRepeatParams {
    uint32_t blockNumber = 8;
    uint16_t dstBlkStride = 1, dstRepStride = 8;
    GatherRepeatParams() = default;
    GatherRepeatParams(uint16_t block, uint16_t repeat) : dstBlkStride(block), dstRepStride(repeat) {}
};
template <typename T, typename U> NPUSIM_CALLED void Gatherb(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<U> &offsets, int32_t times, const GatherRepeatParams &p, NPUSIM_AT)
{
    npusim::Lanes lanes = npusim::by_mask(uint64_t(256 / sizeof(T)), times, sizeof(T), true, at);
    auto to = npusim::operand(dst, p.dstBlkStride, p.dstRepStride);
    npusim::Span from = {src.memory, 1, 1, src.start, src.limit, src.limit - src.start, 0, 0, false, true};
    npusim::announce_rows<T>("Gatherb", "vgatherb", at, times, lanes.lanes, {to.span(lanes)}, {from, npusim::row(offsets, 8 * times)});
    for (int turn = 0; turn < times; turn++)
        for (int block = 0; block < 8; block++)
            std::memcpy(static_cast<void *>(to.at(turn, block * (32 / int(sizeof(T))))), reinterpret_cast<const uint8_t *>(src.data()) + offsets.data()[turn * 8 + block], 32);
}
template <typename T, typename U> NPUSIM_CALLED void Scatter(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<U> &offsets, uint32_t base, uint32_t count, NPUSIM_AT)
{
    npusim::announce_rows<T>("Scatter", "vscatter", at, 1, count, {{dst.memory, 1, 1, dst.start, dst.limit, dst.limit - dst.start, 0, 0, false, false}}, {npusim::row(src, count), npusim::row(offsets, count)});
    for (uint32_t each = 0; each < count; each++) std::memcpy(reinterpret_cast<uint8_t *>(dst.data()) + base + offsets.data()[each], src.data() + each, sizeof(T));
}
struct GatherMaskParams {
    uint8_t src0BlockStride = 1;
    uint16_t repeatTimes = 1, src0RepeatStride = 8;
    uint8_t src1RepeatStride = 8;
    GatherMaskParams() = default;
    GatherMaskParams(uint8_t block, uint16_t times, uint16_t repeat, uint8_t pattern) : src0BlockStride(block), repeatTimes(times), src0RepeatStride(repeat), src1RepeatStride(pattern) {}
};
template <typename T, typename Chosen> NPUSIM_CALLED void npusim_gather_mask(const LocalTensor<T> &dst, const LocalTensor<T> &src, bool counts, uint32_t mask, const GatherMaskParams &p, uint64_t &kept, Chosen chosen, const npusim::Span *pattern, npusim::Site at)
{
    npusim::Lanes lanes = npusim::by_bits(0, 0, p.repeatTimes);
    lanes.lanes = counts ? int32_t(mask) : int32_t(256 / sizeof(T));
    auto from = npusim::operand(src, p.src0BlockStride, p.src0RepeatStride);
    std::vector<T> found;
    for (int64_t turn = 0; turn < lanes.repeats; turn++)
        for (int64_t lane = 0; lane < lanes.lanes; lane++)
            if (chosen(turn, lane)) {
                T *place = from.at(turn, lane);
                if (reinterpret_cast<uint8_t *>(place) - npusim::current->memory[src.memory] + int64_t(sizeof(T)) <= npusim::current->size[src.memory]) found.push_back(*place);
            }
    npusim::Instruction told = {"GatherMask", "vreducev2", npusim::VECTOR, npusim::V, npusim::type_of<T>(), 1, 1, {lanes.repeats, lanes.lanes, 0, 0, 0, 0, 0, 0}, {from.span(lanes)}, {npusim::row(dst, int64_t(found.size()))}};
    if (pattern) told.read[told.reads++] = *pattern;
    if (found.empty()) told.writes = 0;
    npusim::issue(told, at);
    if (!found.empty()) std::memcpy(static_cast<void *>(dst.data()), found.data(), found.size() * sizeof(T));
    kept = found.size();
}
enum class GatherMaskMode : uint8_t { VERSION_V1, VERSION_V2 };
template <typename T, GatherMaskMode mode = GatherMaskMode::VERSION_V1> NPUSIM_CALLED void GatherMask(const LocalTensor<T> &dst, const LocalTensor<T> &src, uint8_t pattern, bool counts, uint32_t mask, const GatherMaskParams &p, uint64_t &kept, NPUSIM_AT)
{
    npusim_gather_mask(dst, src, counts, mask, p, kept, [pattern](int64_t, int64_t lane) { return pattern == 7 || (pattern < 3 ? lane % 2 == pattern - 1 : lane % 4 == pattern - 3); }, nullptr, at);
}
template <typename T, typename U, GatherMaskMode mode = GatherMaskMode::VERSION_V1> NPUSIM_CALLED std::enable_if_t<std::is_integral_v<U>> GatherMask(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<U> &pattern, bool counts, uint32_t mask, const GatherMaskParams &p, uint64_t &kept, NPUSIM_AT)
{
    int64_t each = counts ? mask : 256 / sizeof(T), words = (each + 31) / 32;
    npusim::Span bits = {pattern.memory, 1, 1, pattern.start, pattern.limit, p.src1RepeatStride * 32ll * (p.repeatTimes - 1) + (words * 4 < 4 ? 4 : (each + 7) / 8), 0, 0, false, true};
    npusim_gather_mask(dst, src, counts, mask, p, kept, [&](int64_t turn, int64_t lane) { return reinterpret_cast<const uint8_t *>(pattern.data())[turn * p.src1RepeatStride * 32 + lane / 8] >> (lane % 8) & 1; }, &bits, at);
}

struct BrcbRepeatParams {
    uint32_t blockNumber = 8;
    uint16_t dstBlkStride = 1, dstRepStride = 8;
    BrcbRepeatParams() = default;
    BrcbRepeatParams(uint16_t block, uint16_t repeat) : dstBlkStride(block), dstRepStride(repeat) {}
};
template <typename T> NPUSIM_CALLED void Brcb(const LocalTensor<T> &dst, const LocalTensor<T> &src, int32_t times, const BrcbRepeatParams &p, NPUSIM_AT)
{
    npusim::Lanes lanes = npusim::by_mask(uint64_t(256 / sizeof(T)), times, sizeof(T), true, at);
    auto to = npusim::operand(dst, p.dstBlkStride, p.dstRepStride);
    npusim::announce_rows<T>("Brcb", "vbrcb", at, times, lanes.lanes, {to.span(lanes)}, {npusim::row(src, 8 * times)});
    for (int64_t turn = 0; turn < times; turn++)
        for (int64_t lane = 0; lane < lanes.lanes; lane++) *to.at(turn, lane) = src.data()[turn * 8 + lane / to.PER];
}
template <typename T> NPUSIM_CALLED void CreateVecIndex(const LocalTensor<T> &dst, const T &first, uint32_t count, NPUSIM_AT)
{
    npusim::announce_rows<T>("CreateVecIndex", "vci", at, 1, count, {npusim::row(dst, count)}, {});
    for (uint32_t each = 0; each < count; each++) npusim::store(dst.data() + each, npusim::Wide<T>(npusim::load(&first) + npusim::Wide<T>(each)));
}
template <typename T, typename Mask> NPUSIM_CALLED void CreateVecIndex(const LocalTensor<T> &dst, const T &first, Mask mask, int32_t times, uint16_t block, uint8_t repeat, NPUSIM_AT)
{
    constexpr bool isSetMask = true;
    npusim::Lanes lanes = NPUSIM_BY(sizeof(T));
    auto to = npusim::operand(dst, block, repeat);
    npusim::announce_rows<T>("CreateVecIndex", "vci", at, times, lanes.lanes, {to.span(lanes)}, {});
    for (int64_t turn = 0; turn < times; turn++)
        for (int64_t lane = 0; lane < lanes.lanes; lane++)
            if (!lanes.partial || lanes.has(lane)) npusim::store(to.at(turn, lane), npusim::Wide<T>(npusim::load(&first) + npusim::Wide<T>(turn * (256 / int64_t(sizeof(T))) + lane)));
}
template <typename T> NPUSIM_CALLED void ArithProgression(const LocalTensor<T> &dst, T first, T step, int32_t count, NPUSIM_AT)
{
    npusim::announce_rows<T>("ArithProgression", "vadds", at, 1, count, {npusim::row(dst, count)}, {});
    for (int32_t each = 0; each < count; each++) npusim::store(dst.data() + each, npusim::Wide<T>(npusim::load(&first) + npusim::Wide<T>(each) * npusim::load(&step)));
}
template <typename T> void Arange(const LocalTensor<T> &dst, T first, T step, int32_t count, NPUSIM_AT) { ArithProgression(dst, first, step, count, at); }

enum class TransposeType : uint8_t {
    TRANSPOSE_TYPE_NONE, TRANSPOSE_NZ2ND_0213, TRANSPOSE_NZ2NZ_0213, TRANSPOSE_NZ2NZ_012_WITH_N, TRANSPOSE_NZ2ND_012_WITH_N, TRANSPOSE_NZ2ND_012_WITHOUT_N,
    TRANSPOSE_NZ2NZ_012_WITHOUT_N, TRANSPOSE_ND2ND_ONLY, TRANSPOSE_ND_UB_GM, TRANSPOSE_GRAD_ND_UB_GM, TRANSPOSE_ND2ND_B16, TRANSPOSE_NCHW2NHWC, TRANSPOSE_NHWC2NCHW
};
struct TransposeParamsExt {
    uint16_t nSize = 0, cSize = 0, hSize = 0, wSize = 0;
    TransposeType transposeType = TransposeType::TRANSPOSE_ND2ND_B16;
};
template <typename T> NPUSIM_CALLED void Transpose(const LocalTensor<T> &dst, const LocalTensor<T> &src, NPUSIM_AT)
{
    npusim::announce_rows<T>("Transpose", "vtranspose", at, 1, 256, {npusim::row(dst, 256)}, {npusim::row(src, 256)});
    T square[256];
    std::memcpy(static_cast<void *>(square), src.data(), sizeof square);
    for (int each = 0; each < 256; each++) dst.data()[each] = square[each % 16 * 16 + each / 16];
}
template <typename T> NPUSIM_CALLED void Transpose(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<uint8_t> &, const TransposeParamsExt &p, NPUSIM_AT)
{
    int64_t planes = p.hSize * p.wSize, image = p.cSize * planes, all = p.nSize * image;
    bool flat = p.transposeType == TransposeType::TRANSPOSE_ND2ND_B16;
    npusim::announce_rows<T>("Transpose", "vnchwconv", at, 1, flat ? 256 : all, {npusim::row(dst, flat ? 256 : all)}, {npusim::row(src, flat ? 256 : all)});
    std::vector<T> held(src.data(), src.data() + (flat ? 256 : all));
    if (flat)
        for (int each = 0; each < 256; each++) dst.data()[each] = held[size_t(each % 16 * 16 + each / 16)];
    else
        for (int64_t n = 0; n < p.nSize; n++)
            for (int64_t c = 0; c < p.cSize; c++)
                for (int64_t place = 0; place < planes; place++) {
                    int64_t by_channel = n * image + c * planes + place, by_place = n * image + place * p.cSize + c;
                    if (p.transposeType == TransposeType::TRANSPOSE_NCHW2NHWC) dst.data()[by_place] = held[size_t(by_channel)];
                    else dst.data()[by_channel] = held[size_t(by_place)];
                }
}
/* Axes B, N, S, H/N (or H, W) and their order in fractals of 16 x 16, as the type says; two passes through vnchwconv. */
template <typename T, typename Tiling> NPUSIM_CALLED void NpusimTransposed(const LocalTensor<T> &dst, const LocalTensor<T> &src, TransposeType type, const Tiling &tiling, npusim::Site at)
{
    using Type = TransposeType;
    bool flat = type == Type::TRANSPOSE_ND2ND_ONLY;
    const uint32_t *dims = tiling.words + 1;
    int64_t rank = tiling.words[0], b = flat ? 1 : dims[0], n = flat ? 1 : dims[1], s = flat ? dims[0] : dims[2], w = flat ? dims[1] : dims[3], h = n * w, all = b * s * h;
    if (type < Type::TRANSPOSE_NZ2ND_0213 || type > Type::TRANSPOSE_ND2ND_ONLY) npusim::refuse(at, "Use types 1 to 7.", "Transpose of type %d", int(type));
    if (rank != (flat ? 2 : 4) || s % 16 || w % 16) npusim::refuse(at, "Give GetTransposeTilingInfo [B, N, S, H/N] ([H, W] for type 7), S and H/N in multiples of 16.", "Transpose of %lld axes, %lld x %lld at the end", (long long)rank, (long long)s, (long long)w);
    npusim::announce_rows<T>("Transpose", "vnchwconv", at, 1, all, {npusim::row(dst, all)}, {npusim::row(src, all)});
    npusim::announce_rows<T>("Transpose", "vnchwconv", at, 1, all, {npusim::row(dst, all)}, {npusim::row(dst, all)});
    auto blocked = [](int64_t rows, int64_t row, int64_t column) { return column / 16 * rows * 16 + row * 16 + column % 16; };
    bool split = type == Type::TRANSPOSE_NZ2NZ_012_WITH_N || type == Type::TRANSPOSE_NZ2ND_012_WITH_N;
    std::vector<T> held(src.data(), src.data() + all);
    for (int64_t i = 0; i < b; i++)
        for (int64_t j = 0; j < n; j++)
            for (int64_t k = 0; k < s; k++)
                for (int64_t l = 0; l < w; l++) {
                    int64_t from = split ? i * s * h + blocked(s, k, j * w + l) : (i * n + j) * s * w + blocked(s, k, l), to = 0;
                    if (flat) from = k * w + l, to = l * s + k;
                    else if (type == Type::TRANSPOSE_NZ2ND_0213 || type == Type::TRANSPOSE_NZ2ND_012_WITHOUT_N) to = (i * s + k) * h + j * w + l;
                    else if (type == Type::TRANSPOSE_NZ2NZ_0213) to = (i * s + k) * h + blocked(n, j, l);
                    else if (type == Type::TRANSPOSE_NZ2NZ_012_WITH_N) to = (i * n + j) * s * w + blocked(s, k, l);
                    else if (type == Type::TRANSPOSE_NZ2ND_012_WITH_N) to = ((i * n + j) * s + k) * w + l;
                    else to = i * s * h + blocked(s, k, j * w + l);
                    dst.data()[to] = held[size_t(from)];
                }
}
template <typename T, typename Tiling, typename = decltype(Tiling::words)> void Transpose(const LocalTensor<T> &dst, const LocalTensor<T> &src, TransposeType type, Tiling &tiling, NPUSIM_AT) { NpusimTransposed(dst, src, type, tiling, at); }
template <typename T, typename Tiling, typename = decltype(Tiling::words)> void Transpose(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<uint8_t> &, TransposeType type, Tiling &tiling, NPUSIM_AT) { NpusimTransposed(dst, src, type, tiling, at); }
template <typename T, typename Tiling> void ConfusionTranspose(const LocalTensor<T> &dst, const LocalTensor<T> &src, TransposeType type, Tiling &tiling, NPUSIM_AT) { NpusimTransposed(dst, src, type, tiling, at); }
template <typename T, typename Tiling> void ConfusionTranspose(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<uint8_t> &, TransposeType type, Tiling &tiling, NPUSIM_AT) { NpusimTransposed(dst, src, type, tiling, at); }
constexpr int32_t NCHW_CONV_ADDR_LIST_SIZE = 16;
struct TransDataTo5HDParams {
    bool dstHighHalf = false, srcHighHalf = false;
    uint8_t repeatTimes = 1;
    uint16_t dstRepStride = 0, srcRepStride = 0;
    TransDataTo5HDParams() = default;
    TransDataTo5HDParams(bool high, bool from, int32_t times, uint16_t to_step, uint16_t from_step) : dstHighHalf(high), srcHighHalf(from), repeatTimes(times), dstRepStride(to_step), srcRepStride(from_step) {}
};
template <typename T> NPUSIM_CALLED void TransDataTo5HD(uint64_t dst[16], uint64_t src[16], const TransDataTo5HDParams &p, NPUSIM_AT)
{
    constexpr int64_t size = sizeof(T), wide = size == 1 ? 32 : 32 / size;
    /* 16 blocks at a time; the lists' checks go block by block, the price once */
    for (int each = 0; each < 16; each++) {
        npusim::Span from = {npusim::UB, p.repeatTimes, 1, int64_t(src[each]), INT64_MAX, 32, p.srcRepStride * 32ll, 0, false, true};
        npusim::Span to = {npusim::UB, p.repeatTimes, 1, int64_t(dst[each]), INT64_MAX, 32, p.dstRepStride * 32ll, 0, false, false};
        npusim::Instruction told = {"TransDataTo5HD", "vnchwconv", each ? npusim::CHIP_COPY : npusim::VECTOR, npusim::V, npusim::type_of<T>(), 1, 1, {each ? -1 : p.repeatTimes, 16 * 32 / size, 0, 0, 0, 0, 0, 0}, {from}, {to}};
        npusim::issue(told, at);
    }
    uint8_t *memory = npusim::current->memory[npusim::UB];
    for (int64_t turn = 0; turn < p.repeatTimes; turn++) {
        T held[16][32];
        for (int row = 0; row < 16; row++) std::memcpy(static_cast<void *>(held[row]), memory + src[row] + turn * p.srcRepStride * 32, 32);
        auto place = [&](int row) { return reinterpret_cast<T *>(memory + dst[row] + turn * p.dstRepStride * 32); };
        if constexpr (size == 1) {
            for (int row = 0; row < 16; row++)
                for (int lane = 0; lane < 16; lane++) place(row)[lane + (p.dstHighHalf ? 16 : 0)] = held[lane][row + (p.srcHighHalf ? 16 : 0)];
        } else if constexpr (size == 2) {
            for (int row = 0; row < 16; row++)
                for (int lane = 0; lane < 16; lane++) place(row)[lane] = held[lane][row];
        } else { /* 8 columns of 16 rows: two blocks a column */
            for (int row = 0; row < 16; row++)
                for (int lane = 0; lane < int(wide); lane++) place(row)[lane] = held[lane + (row % 2) * 8][row / 2];
        }
    }
}
template <typename T> void TransDataTo5HDImpl(T *(&dst)[16], T *(&src)[16], const TransDataTo5HDParams &p, NPUSIM_AT) /* as some libraries call it: by addresses */
{
    uint64_t to[16], from[16];
    for (int each = 0; each < 16; each++) to[each] = uint64_t(reinterpret_cast<uintptr_t>(dst[each])), from[each] = uint64_t(reinterpret_cast<uintptr_t>(src[each]));
    TransDataTo5HD<T>(to, from, p, at);
}
template <typename T> NPUSIM_CALLED void TransDataTo5HD(const LocalTensor<T> (&dst)[16], const LocalTensor<T> (&src)[16], const TransDataTo5HDParams &p, NPUSIM_AT)
{
    uint64_t to[16], from[16];
    for (int each = 0; each < 16; each++) to[each] = dst[each].GetPhyAddr(), from[each] = src[each].GetPhyAddr();
    TransDataTo5HD<T>(to, from, p, at);
}

} // namespace AscendC

namespace npusim {

/* A number with its place: 8 bytes, the place in the upper half. */
template <typename T> void write_pair(uint8_t *place, float value, uint32_t index)
{
    std::memset(place, 0, 8);
    T held(value);
    std::memcpy(place, &held, sizeof(T));
    std::memcpy(place + 4, &index, 4);
}
template <typename T> float pair_value(const uint8_t *place)
{
    T held;
    std::memcpy(static_cast<void *>(&held), place, sizeof(T));
    return float(held);
}

} // namespace npusim

namespace AscendC {

template <typename T> NPUSIM_CALLED void Sort32(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<uint32_t> &src1, int32_t times, NPUSIM_AT)
{
    int64_t all = 32ll * times;
    npusim::announce_rows<T>("Sort32", "vbitsort32", at, times, 32, {{dst.memory, 1, 1, dst.start, dst.limit, all * 8, 0, 0, false, false}}, {npusim::row(src0, all), npusim::row(src1, all)});
    auto *to = reinterpret_cast<uint8_t *>(dst.data());
    for (int32_t turn = 0; turn < times; turn++) {
        std::vector<std::pair<float, uint32_t>> found;
        for (int32_t each = 0; each < 32; each++) found.emplace_back(float(src0.data()[turn * 32 + each]), src1.data()[turn * 32 + each]);
        std::stable_sort(found.begin(), found.end(), [](const auto &a, const auto &b) { return a.first > b.first; });
        for (size_t each = 0; each < 32; each++) npusim::write_pair<T>(to + (size_t(turn) * 32 + each) * 8, found[each].first, found[each].second);
    }
}
template <typename T> struct MrgSortSrcList {
    LocalTensor<T> src1, src2, src3, src4;
    MrgSortSrcList() = default;
    MrgSortSrcList(const LocalTensor<T> &a, const LocalTensor<T> &b, const LocalTensor<T> &c, const LocalTensor<T> &d) : src1(a), src2(b), src3(c), src4(d) {}
};
struct MrgSort4Info {
    uint16_t elementLengths[4] = {};
    bool ifExhaustedSuspension = false;
    uint16_t validBit = 0, repeatTimes = 1;
    MrgSort4Info() = default;
    MrgSort4Info(const uint16_t lengths[4], bool suspends, uint16_t valid, uint16_t times) : ifExhaustedSuspension(suspends), validBit(valid), repeatTimes(times) { std::memcpy(elementLengths, lengths, sizeof elementLengths); }
};
template <typename T> NPUSIM_CALLED void MrgSort(const LocalTensor<T> &dst, const MrgSortSrcList<T> &list, const MrgSort4Info &p, NPUSIM_AT)
{
    const LocalTensor<T> *src[4] = {&list.src1, &list.src2, &list.src3, &list.src4};
    int64_t each = 0;
    for (int queue = 0; queue < 4; queue++)
        if (p.validBit >> queue & 1) each += p.elementLengths[queue];
    npusim::Instruction told = {"MrgSort", "vmrgsort4v2", npusim::VECTOR, npusim::V, npusim::type_of<T>(), 0, 1, {p.repeatTimes, each * 8 / int64_t(sizeof(T)), 0, 0, 0, 0, 0, 0}, {}, {{dst.memory, 1, 1, dst.start, dst.limit, each * p.repeatTimes * 8, 0, 0, false, false}}};
    for (int queue = 0; queue < 4; queue++)
        if (p.validBit >> queue & 1) told.read[told.reads++] = {src[queue]->memory, 1, 1, src[queue]->start, src[queue]->limit, p.elementLengths[queue] * 8ll, 0, 0, false, false};
    npusim::issue(told, at);
    auto *to = reinterpret_cast<uint8_t *>(dst.data());
    for (int64_t turn = 0, place = 0; turn < p.repeatTimes; turn++) {
        uint16_t next[4] = {};
        for (bool left = true; left; place++) {
            int best = -1;
            float most = 0;
            for (int queue = 0; queue < 4; queue++) {
                if (!(p.validBit >> queue & 1)) continue;
                if (next[queue] >= p.elementLengths[queue]) {
                    if (p.ifExhaustedSuspension) left = false;
                    continue;
                }
                float value = npusim::pair_value<T>(reinterpret_cast<const uint8_t *>(src[queue]->data()) + (turn * each + next[queue]) * 8);
                if (best < 0 || value > most) best = queue, most = value;
            }
            if (!left || best < 0) break;
            std::memmove(to + place * 8, reinterpret_cast<const uint8_t *>(src[best]->data()) + (turn * each + next[best]++) * 8, 8);
        }
        for (int queue = 0; queue < 4; queue++) npusim::current->registers[10 + queue] = next[queue];
    }
}
/* A number and its place take 8 bytes. */
template <typename T> uint32_t GetSortLen(uint32_t count) { return count * uint32_t(8 / sizeof(T)); }
template <typename T> uint32_t GetSortOffset(uint32_t count) { return count * uint32_t(8 / sizeof(T)); }
template <typename T, bool suspends = false> NPUSIM_CALLED void MrgSort(const LocalTensor<T> &dst, const MrgSortSrcList<T> &list, const uint16_t lengths[4], uint32_t sorted[4], uint16_t valid, int32_t times, NPUSIM_AT)
{
    MrgSort(dst, list, MrgSort4Info(lengths, suspends, valid, uint16_t(times)), at);
    for (int queue = 0; queue < 4; queue++) sorted[queue] = uint32_t(npusim::current->registers[10 + queue]);
}
inline void GetMrgSortResult(uint16_t &a, uint16_t &b, uint16_t &c, uint16_t &d)
{
    auto *found = npusim::current->registers + 10;
    a = uint16_t(found[0]), b = uint16_t(found[1]), c = uint16_t(found[2]), d = uint16_t(found[3]);
}

/* Slices: each dimension has a first place, a last one, a gap and a run. */
constexpr uint32_t K_MAX_DIM = 8;

} // namespace AscendC

namespace npusim {

/* Where the runs of a slice begin, in elements; the innermost dimension's run is in blocks of 32 bytes. */
inline std::vector<int64_t> slice_runs(const AscendC::SliceInfo info[], uint32_t dims, int64_t size)
{
    std::vector<int64_t> starts = {0};
    int64_t apart = 1;
    std::vector<int64_t> strides;
    for (uint32_t dim = 0; dim < dims; dim++) strides.push_back(apart), apart *= info[dim].shapeValue;
    for (uint32_t dim = dims; dim-- > 0;) {
        std::vector<int64_t> next;
        int64_t run = dim ? info[dim].burstLen : info[dim].burstLen * 32 / size;
        for (int64_t start : starts)
            for (int64_t place = info[dim].startIndex; place <= info[dim].endIndex; place += run + info[dim].stride)
                for (int64_t each = 0; each < (dim ? run : 1); each++) next.push_back(start + (place + each) * strides[dim]);
        starts = next;
    }
    return starts;
}

} // namespace npusim

namespace AscendC {

template <typename T, typename Work> void npusim_slices(const SliceInfo to[], const SliceInfo from[], uint32_t dims, Work work)
{
    auto there = npusim::slice_runs(to, dims, sizeof(T)), here = npusim::slice_runs(from, dims, sizeof(T));
    for (size_t each = 0; each < there.size() && each < here.size(); each++) work(there[each], here[each], from[0].burstLen * 32ll);
}
template <typename T> NPUSIM_CALLED void DataCopy(const LocalTensor<T> &dst, const GlobalTensor<T> &src, const SliceInfo to[], const SliceInfo from[], uint32_t dims, NPUSIM_AT)
{
    npusim_slices<T>(to, from, dims, [&](int64_t there, int64_t here, int64_t bytes) { npusim::copy_runs("DataCopy", dst[uint32_t(there)], src[uint64_t(here)], {1, bytes, 0, 0}, false, at); });
}
template <typename T> NPUSIM_CALLED void DataCopy(const GlobalTensor<T> &dst, const LocalTensor<T> &src, const SliceInfo to[], const SliceInfo from[], uint32_t dims, NPUSIM_AT)
{
    npusim_slices<T>(to, from, dims, [&](int64_t there, int64_t here, int64_t bytes) { npusim::copy_runs("DataCopy", src[uint32_t(here)], dst[uint64_t(there)], {1, bytes, 0, 0}, true, at); });
}

} // namespace AscendC

#endif

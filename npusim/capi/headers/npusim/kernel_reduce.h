/* Comparison, selection and reduction in Ascend C. */
#ifndef NPUSIM_KERNEL_REDUCE_H
#define NPUSIM_KERNEL_REDUCE_H

namespace npusim {

using AscendC::CMPMODE;

template <typename T> bool compared(CMPMODE mode, T a, T b)
{
    switch (mode) {
    case CMPMODE::LT: return a < b;
    case CMPMODE::GT: return a > b;
    case CMPMODE::EQ: return a == b;
    case CMPMODE::LE: return a <= b;
    case CMPMODE::GE: return a >= b;
    default: return a != b;
    }
}
inline const char *comparison(CMPMODE mode, bool scalar)
{
    static const char *const names[] = {"vcmpv_lt", "vcmpv_gt", "vcmpv_eq", "vcmpv_le", "vcmpv_ge", "vcmpv_ne", "vcmpvs_lt", "vcmpvs_gt", "vcmpvs_eq", "vcmpvs_le", "vcmpvs_ge", "vcmpvs_ne"};
    return names[int(mode) + (scalar ? 6 : 0)];
}
/* A bit for each element, the first one lowest; `other` gives the second operand. */
template <typename T, typename U, typename F> NPUSIM_CALLED void compare(const LocalTensor<U> &dst, const LocalTensor<T> &src, const LocalTensor<T> *second, CMPMODE mode, const Lanes &lanes, F other, int block0, int repeat0, Site at)
{
    auto from = operand(src, block0, repeat0);
    int64_t all = lanes.rows() * lanes.each(), bytes = (all + 7) / 8;
    Span to = {dst.memory, 1, 1, dst.start, dst.limit, bytes, 0, 0, false, false};
    Instruction told = {"Compare", comparison(mode, !second), VECTOR, V, type_of<T>(), 1, 1, {lanes.rows(), lanes.each(), 0, 0, 0, 0, 0, 0}, {from.span(lanes)}, {to}};
    if (second) told.read[told.reads++] = operand(*second, block0, repeat0).span(lanes);
    issue(told, at);
    auto *bits = reinterpret_cast<uint8_t *>(dst.data());
    for (int64_t turn = 0, place = 0; turn < lanes.rows(); turn++)
        for (int64_t lane = 0; lane < lanes.each(); lane++, place++) {
            if (place % 8 == 0) bits[place / 8] = 0;
            bits[place / 8] = uint8_t(bits[place / 8] | compared(mode, load(from.at(turn, lane)), other(turn, lane)) << (place % 8));
        }
}
/* first where a bit is set, else other */
template <typename T, typename U, typename F> NPUSIM_CALLED void select(const LocalTensor<T> &dst, const LocalTensor<U> &mask, const LocalTensor<T> &first, const LocalTensor<T> *second, const Lanes &lanes, F other, const AscendC::BinaryRepeatParams &p, bool register_mask, bool swap, Site at)
{
    auto to = operand(dst, p.dstBlkStride, p.dstRepStride), from = operand(first, p.src0BlkStride, p.src0RepStride);
    int64_t all = register_mask ? 256 / int64_t(sizeof(T)) : lanes.rows() * lanes.each();
    Span bits = {mask.memory, 1, 1, mask.start, mask.limit, (all + 7) / 8, 0, 0, false, false};
    Instruction told = {"Select", "vsel", VECTOR, V, type_of<T>(), 1, 1, {lanes.rows(), lanes.each(), 0, p.dstBlkStride * 32, p.src0BlkStride * 32, 0, 0, 0}, {from.span(lanes)}, {to.span(lanes)}};
    if (mask.memory >= 0) told.read[told.reads++] = bits;
    if (second) told.read[told.reads++] = operand(*second, p.src1BlkStride, p.src1RepStride).span(lanes);
    issue(told, at);
    const auto *given = mask.memory >= 0 ? reinterpret_cast<const uint8_t *>(mask.data()) : reinterpret_cast<const uint8_t *>(current->registers);
    for (int64_t turn = 0, place = 0; turn < lanes.rows(); turn++)
        for (int64_t lane = 0; lane < lanes.each(); lane++, place++) {
            int64_t bit = register_mask ? (lanes.counted ? place % all : lane) : place;
            bool set = given[bit / 8] >> (bit % 8) & 1;
            if (!lanes.counted && lanes.partial && !lanes.has(lane)) continue;
            store(to.at(turn, lane), set != swap ? load(from.at(turn, lane)) : other(turn, lane));
        }
}

/* Compare by count works on whole repeats; source: public documentation of Compare, asc-devkit. */
inline void whole_repeats(const char *name, int64_t bytes, Site at)
{
    if (bytes % 256 && !current->acting.file) refuse(at, "Round the count up to whole repeats of 256 bytes: what is left over isn't compared.", "%s of %lld bytes, no multiple of 256", name, (long long)bytes);
}

} // namespace npusim

namespace AscendC {

template <typename T, typename U> NPUSIM_CALLED void Compare(const LocalTensor<U> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1, CMPMODE mode, uint32_t count, NPUSIM_AT)
{
    npusim::whole_repeats("Compare", npusim::bytes_of<T>(count), at);
    auto other = npusim::operand(src1);
    npusim::compare(dst, src0, &src1, mode, npusim::by_count(count), [&](int64_t turn, int64_t lane) { return npusim::load(other.at(turn, lane)); }, 1, 8, at);
}
template <typename T, typename U, bool isSetMask = true, typename Mask> NPUSIM_CALLED void Compare(const LocalTensor<U> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1, CMPMODE mode, Mask mask, int32_t times, const BinaryRepeatParams &p, NPUSIM_AT)
{
    (void)mask;
    npusim::Lanes lanes = npusim::by_mask(uint64_t(256 / sizeof(T)), times, sizeof(T), true, at);
    auto other = npusim::operand(src1, p.src1BlkStride, p.src1RepStride);
    npusim::compare(dst, src0, &src1, mode, lanes, [&](int64_t turn, int64_t lane) { return npusim::load(other.at(turn, lane)); }, p.src0BlkStride, p.src0RepStride, at);
}
/* into the register of comparisons */
template <typename T, bool isSetMask = true, typename Mask> NPUSIM_CALLED void Compare(const LocalTensor<T> &src0, const LocalTensor<T> &src1, CMPMODE mode, Mask mask, const BinaryRepeatParams &p, NPUSIM_AT)
{
    npusim::Lanes lanes = npusim::by_mask(mask, 1, int64_t(sizeof(T)), isSetMask, at);
    auto a = npusim::operand(src0, p.src0BlkStride, p.src0RepStride), b = npusim::operand(src1, p.src1BlkStride, p.src1RepStride);
    npusim::Instruction told = {"Compare", "vcmp", npusim::VECTOR, npusim::V, npusim::type_of<T>(), 2, 0, {1, lanes.lanes, 0, 0, 0, 0, 0, 0}, {a.span(lanes), b.span(lanes)}, {}};
    npusim::issue(told, at);
    npusim::current->registers[0] = npusim::current->registers[1] = 0;
    for (int lane = 0; lane < lanes.lanes; lane++)
        if ((!lanes.partial || lanes.has(lane)) && npusim::compared(mode, npusim::load(a.at(0, lane)), npusim::load(b.at(0, lane)))) npusim::current->registers[lane / 64] |= 1ull << (lane % 64);
}
template <typename T> NPUSIM_CALLED void GetCmpMask(const LocalTensor<T> &dst, NPUSIM_AT)
{
    npusim::announce_rows<int16_t>("GetCmpMask", "get_cmpmask", at, 1, 8, {{dst.memory, 1, 1, dst.start, dst.limit, 16, 0, 0, false, false}}, {});
    std::memcpy(static_cast<void *>(dst.data()), npusim::current->registers, 16);
}
template <typename T> NPUSIM_CALLED void SetCmpMask(const LocalTensor<T> &src, NPUSIM_AT)
{
    npusim::announce_rows<int16_t>("SetCmpMask", "set_cmpmask", at, 1, 8, {}, {{src.memory, 1, 1, src.start, src.limit, 16, 0, 0, false, false}});
    std::memcpy(npusim::current->registers, src.data(), 16);
}
template <typename T, typename U> NPUSIM_CALLED void CompareScalar(const LocalTensor<U> &dst, const LocalTensor<T> &src0, const T &src1, CMPMODE mode, uint32_t count, NPUSIM_AT)
{
    npusim::whole_repeats("CompareScalar", npusim::bytes_of<T>(count), at);
    auto b = npusim::load(&src1);
    npusim::compare(dst, src0, static_cast<const LocalTensor<T> *>(nullptr), mode, npusim::by_count(count), [b](int64_t, int64_t) { return b; }, 1, 8, at);
}
template <typename T, typename U, bool isSetMask = true, typename Mask> NPUSIM_CALLED void CompareScalar(const LocalTensor<U> &dst, const LocalTensor<T> &src0, const T &src1, CMPMODE mode, Mask, int32_t times, const UnaryRepeatParams &p, NPUSIM_AT)
{
    auto b = npusim::load(&src1);
    npusim::compare(dst, src0, static_cast<const LocalTensor<T> *>(nullptr), mode, npusim::by_mask(uint64_t(256 / sizeof(T)), times, sizeof(T), true, at), [b](int64_t, int64_t) { return b; }, p.srcBlkStride, p.srcRepStride, at);
}
template <typename T, typename U> void Compares(const LocalTensor<U> &dst, const LocalTensor<T> &src0, const T &src1, CMPMODE mode, uint32_t count, NPUSIM_AT) { CompareScalar(dst, src0, src1, mode, count, at); }
template <typename T, typename U> void Compares(const LocalTensor<U> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1, CMPMODE mode, uint32_t count, NPUSIM_AT) { CompareScalar(dst, src0, T(src1.as_operand(at)), mode, count, at); }

template <typename T, typename U> NPUSIM_CALLED void Select(const LocalTensor<T> &dst, const LocalTensor<U> &mask, const LocalTensor<T> &src0, const LocalTensor<T> &src1, SELMODE mode, uint32_t count, NPUSIM_AT)
{
    auto other = npusim::operand(src1);
    npusim::select(dst, mask, src0, &src1, npusim::by_count(count), [&](int64_t turn, int64_t lane) { return npusim::load(other.at(turn, lane)); }, {}, mode == SELMODE::VSEL_CMPMASK_SPR, false, at);
}
template <typename T, typename U> NPUSIM_CALLED void Select(const LocalTensor<T> &dst, const LocalTensor<U> &mask, const LocalTensor<T> &src0, T src1, SELMODE, uint32_t count, NPUSIM_AT)
{
    auto b = npusim::load(&src1);
    npusim::select(dst, mask, src0, static_cast<const LocalTensor<T> *>(nullptr), npusim::by_count(count), [b](int64_t, int64_t) { return b; }, {}, false, false, at);
}
template <typename T, typename U, bool isSetMask = true, typename Mask> NPUSIM_CALLED void Select(const LocalTensor<T> &dst, const LocalTensor<U> &bits, const LocalTensor<T> &src0, const LocalTensor<T> &src1, SELMODE mode, Mask mask, int32_t times, const BinaryRepeatParams &p, NPUSIM_AT)
{
    auto other = npusim::operand(src1, p.src1BlkStride, p.src1RepStride);
    npusim::select(dst, bits, src0, &src1, NPUSIM_BY(sizeof(T)), [&](int64_t turn, int64_t lane) { return npusim::load(other.at(turn, lane)); }, p, mode == SELMODE::VSEL_CMPMASK_SPR, false, at);
}
template <typename T, typename U, bool isSetMask = true, typename Mask> NPUSIM_CALLED void Select(const LocalTensor<T> &dst, const LocalTensor<U> &bits, const LocalTensor<T> &src0, T src1, SELMODE, Mask mask, int32_t times, const BinaryRepeatParams &p, NPUSIM_AT)
{
    auto b = npusim::load(&src1);
    npusim::select(dst, bits, src0, static_cast<const LocalTensor<T> *>(nullptr), NPUSIM_BY(sizeof(T)), [b](int64_t, int64_t) { return b; }, p, false, false, at);
}
/* the register of comparisons in every repeat */
template <typename T, SELMODE mode = SELMODE::VSEL_CMPMASK_SPR> NPUSIM_CALLED void Select(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1, int32_t times, const BinaryRepeatParams &p, NPUSIM_AT)
{
    auto other = npusim::operand(src1, p.src1BlkStride, p.src1RepStride);
    npusim::select(dst, LocalTensor<uint8_t>(), src0, &src1, npusim::by_mask(uint64_t(256 / sizeof(T)), times, sizeof(T), true, at), [&](int64_t turn, int64_t lane) { return npusim::load(other.at(turn, lane)); }, p, true, false, at);
}
template <typename K, typename U, NPUSIM_SETTING(BinaryConfig) config, typename T> NPUSIM_CALLED void Select(const LocalTensor<T> &dst, const LocalTensor<U> &mask, const LocalTensor<T> &src0, const LocalTensor<T> &src1, SELMODE, uint32_t count, NPUSIM_AT)
{
    bool last = config.scalarTensorIndex == 1;
    T b = (last ? src1 : src0).as_operand(at);
    npusim::select(dst, mask, last ? src0 : src1, static_cast<const LocalTensor<T> *>(nullptr), npusim::by_count(count), [c = npusim::load(&b)](int64_t, int64_t) { return c; }, {}, false, !last, at);
}

enum class ReduceOrder : uint8_t { ORDER_VALUE_INDEX, ORDER_INDEX_VALUE, ORDER_ONLY_VALUE, ORDER_ONLY_INDEX };
enum class ReduceType : uint8_t { IS_REDUCE = 0, SUM, MAX, MIN };

} // namespace AscendC

namespace npusim {

using AscendC::ReduceOrder;
using AscendC::ReduceType;

/* The numbers of some elements as one: in a tree, as the adders of the chip have it. */
template <typename T> struct Folded {
    Wide<T> value;
    int64_t index;
};
template <ReduceType type, typename T, typename F> Folded<T> folded(int64_t count, F element)
{
    if constexpr (type == ReduceType::SUM) {
        Wide<T> part[8] = {};
        for (int64_t each = 0; each < count; each++) part[each & 7] += element(each);
        return {Wide<T>(((part[0] + part[4]) + (part[2] + part[6])) + ((part[1] + part[5]) + (part[3] + part[7]))), 0};
    } else {
        Folded<T> best = {element(0), 0};
        for (int64_t each = 1; each < count; each++) {
            auto next = element(each);
            bool wins = type == ReduceType::MAX ? next > best.value : next < best.value;
            if (wins || (next != next && best.value == best.value)) best = {next, each}; /* the first that is no number stays */
        }
        return best;
    }
}
template <ReduceType type> const char *fold_name(int level)
{
    static const char *const names[][3] = {{"vcadd", "vcgadd", "vcpadd"}, {"vcmax", "vcgmax", "vcmax"}, {"vcmin", "vcgmin", "vcmin"}};
    return names[type == ReduceType::SUM ? 0 : type == ReduceType::MAX ? 1 : 2][level];
}
template <typename T> void store_index(T *place, int64_t index)
{
    if constexpr (sizeof(T) == 2) {
        uint16_t bits = uint16_t(index);
        std::memcpy(static_cast<void *>(place), &bits, 2);
    } else {
        uint32_t bits = uint32_t(index);
        std::memcpy(static_cast<void *>(place), &bits, 4);
    }
}
/* One number of every repeat, or of each of its `parts`; `apart` are elements from repeat to repeat. */
template <ReduceType type, typename D, typename T> NPUSIM_CALLED void reduce_lanes(const char *name, int level, const LocalTensor<D> &dst, const LocalTensor<T> &src, const Lanes &lanes, int block, int repeat, int64_t parts, int64_t part, int64_t apart, ReduceOrder order, Site at)
{
    auto from = operand(src, block, repeat);
    int64_t whole = 256 / int64_t(sizeof(T)), all = lanes.each();
    if (current->counter_mode && all > whole) { /* repeats of all lanes, and what is left */
        Lanes full = lanes;
        full.lanes = int32_t(whole), full.repeats = int32_t(all / whole);
        current->counter_mode = false;
        reduce_lanes<type>(name, level, dst, src, full, block, repeat, parts, part, apart, order, at);
        if (all % whole) {
            int64_t each = level || type == ReduceType::SUM || order >= ReduceOrder::ORDER_ONLY_VALUE ? 1 : 2;
            full.lanes = int32_t(all % whole), full.repeats = 1;
            reduce_lanes<type>(name, level, dst[uint32_t(all / whole * apart * each)], src[uint32_t(all / whole * repeat * (32 / int64_t(sizeof(T))))], full, block, repeat, parts, part, apart, order, at);
        }
        current->counter_mode = true;
        return;
    }
    bool sum = type == ReduceType::SUM || level > 0;
    int64_t each = sum || order == ReduceOrder::ORDER_ONLY_VALUE || order == ReduceOrder::ORDER_ONLY_INDEX ? 1 : 2;
    int64_t width = order == ReduceOrder::ORDER_ONLY_INDEX && !sum ? 4 : int64_t(sizeof(D));
    int64_t used = (lanes.each() + part - 1) / part;
    if (used > parts) used = parts;
    Span to = {dst.memory, int32_t(lanes.rows()), 1, dst.start, dst.limit, used * each * width, apart * each * width, 0, true, false};
    announce_rows<T>(name, fold_name<type>(level), at, lanes.rows(), lanes.each(), {to}, {from.span(lanes)});
    for (int64_t turn = 0; turn < lanes.rows(); turn++)
        for (int64_t which = 0; which < used; which++) {
            int64_t first = which * part, most = lanes.each() - first < part ? lanes.each() - first : part, taken[128], number = 0;
            Folded<T> found{};
            auto *place = reinterpret_cast<D *>(reinterpret_cast<uint8_t *>(dst.data()) + turn * apart * each * width + which * width);
            if (!lanes.counted && lanes.partial) {
                for (int64_t lane = 0; lane < most; lane++)
                    if (lanes.has(first + lane)) taken[number++] = first + lane;
                if (!number) continue;
                found = folded<type, T>(number, [&](int64_t lane) { return load(from.at(turn, taken[lane])); });
                found.index = taken[found.index];
            } else {
                found = folded<type, T>(most, [&](int64_t lane) { return load(from.at(turn, first + lane)); });
                found.index += first;
            }
            if (order == ReduceOrder::ORDER_ONLY_INDEX && !sum) std::memcpy(static_cast<void *>(place), &(const uint32_t &)uint32_t(found.index), 4);
            else if (each == 1) store(place, found.value);
            else {
                store(place + (order == ReduceOrder::ORDER_INDEX_VALUE), found.value);
                store_index(place + (order == ReduceOrder::ORDER_VALUE_INDEX), found.index);
            }
        }
}
/* All of a tensor: repeats into a scratch tensor, and once more until one number is left. */
template <ReduceType type, typename T> NPUSIM_CALLED void reduce_all(const char *name, const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<T> &work, const Lanes &lanes, int repeat, bool index, Site at)
{
    auto from = operand(src, 1, repeat);
    int64_t each = 256 / int64_t(sizeof(T)), all = lanes.rows() * lanes.each(), width = type != ReduceType::SUM ? 2 : 1;
    int64_t rows = (all + each - 1) / each;
    Span scratch = row(work, rows * width, true);
    if (scratch.start + scratch.length > scratch.limit) scratch.length = scratch.limit - scratch.start;
    bool uses = work.memory >= 0 && scratch.length > 0;
    if (uses) announce_rows<T>(name, fold_name<type>(0), at, lanes.counted ? rows : lanes.rows(), lanes.counted ? (all < each ? all : each) : lanes.each(), {scratch}, {from.span(lanes)});
    for (int64_t left = rows; left > 1; left = (left * width + each - 1) / each) {
        if (uses) announce_rows<T>(name, fold_name<type>(0), at, (left * width + each - 1) / each, left * width < each ? left * width : each, {scratch}, {scratch});
        if (left * width <= each) break;
    }
    Span to = row(dst, type != ReduceType::SUM && index ? 2 : 1, true);
    if (uses) announce_rows<T>(name, fold_name<type>(0), at, 1, 1, {to}, {scratch});
    else announce_rows<T>(name, fold_name<type>(0), at, lanes.rows(), lanes.each(), {to}, {from.span(lanes)});
    /* Sums of up to two steps are moved by the scalar unit, which waits for them. Source: public asc-devkit, dav_c220. */
    if (type == ReduceType::SUM && rows <= each) link_pipes(V, S, at);
    const T *first = from.at(0, 0);
    Folded<T> found = lanes.counted ? folded<type, T>(all, [first](int64_t place) { return load(first + place); })
                                    : folded<type, T>(all, [&](int64_t place) { return load(from.at(place / lanes.each(), place % lanes.each())); });
    store(dst.data(), found.value);
    if (type != ReduceType::SUM && index) store_index(dst.data() + 1, found.index);
    float told = float(found.value);
    std::memcpy(&current->registers[8], &told, 4);
    current->registers[9] = uint64_t(found.index);
}

} // namespace npusim

namespace AscendC {

template <ReduceType type, typename T, typename U, bool isSetMask = true, typename Mask> NPUSIM_CALLED void ReduceRepeat(const LocalTensor<T> &dst, const LocalTensor<U> &src, Mask mask, int32_t times, int32_t apart, int32_t block, int32_t repeat, ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX, NPUSIM_AT)
{
    npusim::reduce_lanes<type>("ReduceRepeat", 0, dst, src, NPUSIM_BY(sizeof(U)), block, repeat, 1, 1 << 30, apart, order, at);
}
template <ReduceType type, typename T, typename U, bool isSetMask = true, typename Mask> NPUSIM_CALLED void ReduceDataBlock(const LocalTensor<T> &dst, const LocalTensor<U> &src, Mask mask, int32_t times, int32_t apart, int32_t block, int32_t repeat, NPUSIM_AT)
{
    npusim::reduce_lanes<type>("ReduceDataBlock", 1, dst, src, NPUSIM_BY(sizeof(U)), block, repeat, 8, 32 / int64_t(sizeof(U)), apart * 8, ReduceOrder::ORDER_ONLY_VALUE, at);
}
template <ReduceType type, typename T, typename U, bool isSetMask = true, typename Mask> NPUSIM_CALLED void ReducePairElem(const LocalTensor<T> &dst, const LocalTensor<U> &src, Mask mask, int32_t times, int32_t apart, int32_t block, int32_t repeat, NPUSIM_AT)
{
    npusim::reduce_lanes<type>("ReducePairElem", 2, dst, src, NPUSIM_BY(sizeof(U)), block, repeat, 128, 2, apart * 128 / int64_t(sizeof(T)), ReduceOrder::ORDER_ONLY_VALUE, at);
}
#define NPUSIM_FOLD(Short, type)                                                                                              \
    template <typename T, bool isSetMask = true, typename Mask> NPUSIM_CALLED void WholeReduce##Short(const LocalTensor<T> &dst, const LocalTensor<T> &src, Mask mask, int32_t times, int32_t apart, int32_t block, int32_t repeat, ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX, NPUSIM_AT) \
    {                                                                                                                         \
        npusim::reduce_lanes<type>("WholeReduce" #Short, 0, dst, src, NPUSIM_BY(sizeof(T)), block, repeat, 1, 1 << 30, apart, order, at); \
    }                                                                                                                         \
    template <typename T, bool isSetMask = true, typename Mask> NPUSIM_CALLED void BlockReduce##Short(const LocalTensor<T> &dst, const LocalTensor<T> &src, int32_t times, Mask mask, int32_t apart, int32_t block, int32_t repeat, NPUSIM_AT) \
    {                                                                                                                         \
        npusim::reduce_lanes<type>("BlockReduce" #Short, 1, dst, src, NPUSIM_BY(sizeof(T)), block, repeat, 8, 32 / int64_t(sizeof(T)), apart * 8, ReduceOrder::ORDER_ONLY_VALUE, at); \
    }                                                                                                                         \
    template <typename T, bool isSetMask = true> NPUSIM_CALLED void Reduce##Short(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<T> &work, int32_t count, bool index = false, NPUSIM_AT) \
    {                                                                                                                         \
        npusim::reduce_all<type>("Reduce" #Short, dst, src, work, npusim::by_count(count), 8, index, at);                     \
    }                                                                                                                         \
    template <typename T, bool isSetMask = true, typename Mask> NPUSIM_CALLED void Reduce##Short(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<T> &work, Mask mask, int32_t times, int32_t repeat, bool index = false, NPUSIM_AT) \
    {                                                                                                                         \
        npusim::reduce_all<type>("Reduce" #Short, dst, src, work, NPUSIM_BY(sizeof(T)), repeat, index, at);                   \
    }
NPUSIM_FOLD(Sum, ReduceType::SUM)
NPUSIM_FOLD(Max, ReduceType::MAX)
NPUSIM_FOLD(Min, ReduceType::MIN)
#undef NPUSIM_FOLD
template <typename T, bool isSetMask = true, typename Mask> NPUSIM_CALLED void PairReduceSum(const LocalTensor<T> &dst, const LocalTensor<T> &src, int32_t times, Mask mask, int32_t apart, int32_t block, int32_t repeat, NPUSIM_AT)
{
    npusim::reduce_lanes<ReduceType::SUM>("PairReduceSum", 2, dst, src, NPUSIM_BY(sizeof(T)), block, repeat, 128, 2, apart * 128 / int64_t(sizeof(T)), ReduceOrder::ORDER_ONLY_VALUE, at);
}
template <typename T, bool isSetMask = true> NPUSIM_CALLED void RepeatReduceSum(const LocalTensor<T> &dst, const LocalTensor<T> &src, int32_t times, int32_t mask, int32_t, int32_t block, int32_t apart, int32_t repeat, NPUSIM_AT)
{
    npusim::reduce_lanes<ReduceType::SUM>("RepeatReduceSum", 0, dst, src, NPUSIM_BY(sizeof(T)), block, repeat, 1, 1 << 30, apart, ReduceOrder::ORDER_ONLY_VALUE, at);
}
template <typename T> T GetReduceRepeatSumSpr()
{
    float told;
    std::memcpy(&told, &npusim::current->registers[8], 4);
    return T(told);
}
template <typename T> T GetAccVal() { return GetReduceRepeatSumSpr<T>(); }
template <typename T> void GetReduceRepeatMaxMinSpr(T &value, T &index)
{
    value = GetReduceRepeatSumSpr<T>();
    npusim::store_index(&index, int64_t(npusim::current->registers[9]));
}
template <typename T> void GetReduceMaxMinCount(T &value, T &index) { GetReduceRepeatMaxMinSpr(value, index); }

} // namespace AscendC

#endif

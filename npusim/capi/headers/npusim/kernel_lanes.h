/* Vector instructions: which elements they cover, how they are checked, written down and computed. */
#ifndef NPUSIM_KERNEL_LANES_H
#define NPUSIM_KERNEL_LANES_H

#include <initializer_list>
#include <utility>

namespace AscendC {

/* Strides are kept as they are given: what doesn't fit into the instruction is refused. */
struct BinaryRepeatParams {
    uint32_t blockNumber = 8;
    int32_t dstBlkStride = 1, src0BlkStride = 1, src1BlkStride = 1, dstRepStride = 8, src0RepStride = 8, src1RepStride = 8;
    BinaryRepeatParams() = default;
    BinaryRepeatParams(int64_t a, int64_t b, int64_t c, int64_t d, int64_t e, int64_t f) : dstBlkStride(int32_t(a)), src0BlkStride(int32_t(b)), src1BlkStride(int32_t(c)), dstRepStride(int32_t(d)), src0RepStride(int32_t(e)), src1RepStride(int32_t(f)) {}
};
struct UnaryRepeatParams {
    uint32_t blockNumber = 8;
    int32_t dstBlkStride = 1, srcBlkStride = 1, dstRepStride = 8, srcRepStride = 8;
    bool halfBlock = false;
    UnaryRepeatParams() = default;
    UnaryRepeatParams(int64_t a, int64_t b, int64_t c, int64_t d, bool half = false) : dstBlkStride(int32_t(a)), srcBlkStride(int32_t(b)), dstRepStride(int32_t(c)), srcRepStride(int32_t(d)), halfBlock(half) {}
};
struct CopyRepeatParams {
    uint16_t dstStride = 1, srcStride = 1, dstRepeatSize = 8, srcRepeatSize = 8;
    CopyRepeatParams() = default;
    CopyRepeatParams(uint16_t to, uint16_t from, uint16_t to_repeat, uint16_t from_repeat) : dstStride(to), srcStride(from), dstRepeatSize(to_repeat), srcRepeatSize(from_repeat) {}
};

inline void SetMaskCount() { npusim::current->counter_mode = true; }
inline void SetMaskNorm() { npusim::current->counter_mode = false; }
inline void ResetMask() { npusim::current->mask[0] = npusim::current->mask[1] = ~0ull; }
template <typename T, MaskMode mode = MaskMode::NORMAL> void SetVectorMask(uint64_t high, uint64_t low) { npusim::current->mask[0] = low, npusim::current->mask[1] = high; }
template <typename T, MaskMode mode = MaskMode::NORMAL> void SetVectorMask(int32_t length)
{
    auto bits = [](int32_t number) { return number >= 64 ? ~0ull : number <= 0 ? 0ull : (1ull << number) - 1; };
    if constexpr (mode == MaskMode::COUNTER) npusim::current->mask[0] = uint64_t(length), npusim::current->mask[1] = 0;
    else npusim::current->mask[0] = bits(length), npusim::current->mask[1] = bits(length - 64);
}
/* What kernels of libraries use of the toolkit's own helpers. */
struct AscendCUtils {
    template <typename T> static void SetMask(int32_t length) { SetVectorMask<T>(length); }
    template <typename T> static void SetMask(uint64_t high, uint64_t low) { SetVectorMask<T>(high, low); }
    template <typename T> static void SetMaskCount() { AscendC::SetMaskCount(); }
    template <typename T> static void SetMaskNorm() { AscendC::SetMaskNorm(); }
    template <typename T> static void ResetMask() { AscendC::ResetMask(); }
    static void SetOverflow(uint64_t) {}
    static int32_t GetBitSize(int32_t bytes) { return 8 * bytes; }
    static int32_t GetC0Count(int32_t bytes) { return 32 / bytes; }
};

} // namespace AscendC

namespace npusim {

using AscendC::LocalTensor;

/* A count of elements, or repeats of lanes, perhaps with a bit for each lane. */
struct Lanes {
    int64_t count = 0;
    int32_t lanes = 0, repeats = 1;
    bool counted = true, partial = false;
    uint64_t bits[2] = {};
    bool has(int64_t lane) const { return lane >= 128 || bits[lane >> 6] >> (lane & 63) & 1; }
    int64_t rows() const { return counted ? 1 : repeats; }
    int64_t each() const { return counted ? count : lanes; }
};
inline Lanes by_count(int64_t count)
{
    Lanes told;
    told.count = count;
    return told;
}
inline Lanes by_bits(uint64_t low, uint64_t high, int32_t times)
{
    Lanes told;
    told.counted = false, told.repeats = times, told.bits[0] = low, told.bits[1] = high;
    told.lanes = high ? 128 - __builtin_clzll(high) : low ? 64 - __builtin_clzll(low) : 0;
    told.partial = __builtin_popcountll(low) + __builtin_popcountll(high) != told.lanes;
    return told;
}
NPUSIM_CALLED inline Lanes by_mask(uint64_t mask, int32_t times, int64_t widest, bool set, Site at)
{
    int64_t most = 256 / widest;
    if (times < 0 || times > 255) refuse(at, "An instruction has 0 to 255; use several, or give a count.", "%d repeats", times);
    if (current->counter_mode) {
        Lanes told = by_bits(0, 0, times);
        told.lanes = int32_t(set ? mask : current->mask[0]);
        /* Whole repeats go on by their strides; the count says how many there are, not the call. */
        if (told.lanes > most && told.lanes % most == 0) told.repeats = told.lanes / int32_t(most), told.lanes = int32_t(most);
        return told;
    }
    if (!set) {
        bool high = most > 64;
        return by_bits(most >= 64 ? current->mask[0] : current->mask[0] & ((1ull << most) - 1), high ? current->mask[1] : 0, times);
    }
    if (times && (!mask || mask > uint64_t(most))) refuse(at, "Use more repeats.", "a mask of %llu lanes, a repeat has 1 to %lld elements", (unsigned long long)mask, (long long)most);
    Lanes told = by_bits(0, 0, times);
    told.lanes = int32_t(mask);
    return told;
}
NPUSIM_CALLED inline Lanes by_mask(const uint64_t *mask, int32_t times, int64_t widest, bool set, Site at)
{
    if (!set) return by_mask(uint64_t(0), times, widest, false, at);
    if (times < 0 || times > 255) refuse(at, "An instruction has 0 to 255; use several, or give a count.", "%d repeats", times);
    int64_t most = 256 / widest;
    /* Of elements of 32 bits and more, one word is read (asc-devkit, the page on masks). */
    if (most < 64 && mask[0] >> most) refuse(at, "Leave bits of elements that a repeat hasn't got at 0.", "a mask with bits beyond the %lld elements of a repeat", (long long)most);
    uint64_t low = most >= 64 ? mask[0] : mask[0] & ((1ull << most) - 1);
    return by_bits(low, most > 64 ? mask[1] : 0, times);
}
template <typename Mask> Lanes by_mask(const Mask &mask, int32_t times, int64_t widest, bool set, Site at)
{
    if constexpr (std::is_integral_v<Mask>) return by_mask(uint64_t(mask), times, widest, set, at);
    else return by_mask(static_cast<const uint64_t *>(mask), times, widest, set, at);
}

template <typename T> struct Operand {
    using Type = T;
    int32_t memory;
    int64_t start, limit;
    int32_t block = 1, repeat = 8; /* strides, in blocks */
    static constexpr int64_t PER = 32 / int64_t(sizeof(T));
    T *at(int64_t turn, int64_t element) const
    {
        int64_t place = start + turn * repeat * 32 + element / PER * block * 32 + element % PER * int64_t(sizeof(T));
        return reinterpret_cast<T *>(current->memory[memory] + place);
    }
    bool contiguous(const Lanes &lanes) const { return block == 1 && (lanes.repeats <= 1 || repeat * 32 == lanes.lanes * int64_t(sizeof(T))); }
    Span span(const Lanes &lanes) const
    {
        if (lanes.counted) return {memory, 1, 1, start, limit, lanes.count * int64_t(sizeof(T)), 0, 0, false, false};
        bool ragged = block != 1 && lanes.lanes % PER;
        int32_t blocks = block == 1 ? 1 : int32_t((lanes.lanes + PER - 1) / PER);
        int64_t length = block == 1 ? lanes.lanes * int64_t(sizeof(T)) : ragged && blocks == 1 ? lanes.lanes * int64_t(sizeof(T)) : 32;
        return {memory, lanes.repeats, blocks, start, limit, length, repeat * 32ll, block * 32ll, false, lanes.partial || ragged};
    }
};
template <typename T> Operand<T> operand(const LocalTensor<T> &tensor, int32_t block = 1, int32_t repeat = 8) { return {tensor.memory, tensor.start, tensor.limit, block, repeat}; }

template <typename T> Wide<T> load(const T *place)
{
    if constexpr (std::is_same_v<T, half>) return widened(place->bits);
    else if constexpr (std::is_same_v<T, bfloat16_t>) return widened_bf16(place->bits);
    else return *place;
}
template <typename T, typename V> void store(T *place, V value)
{
    if constexpr (std::is_same_v<T, half>) place->bits = narrowed(float(value));
    else if constexpr (std::is_same_v<T, bfloat16_t>) place->bits = narrowed_bf16(float(value));
    else *place = T(value);
}

/* Runs of elements that lie in a row in every operand: work(repeat, first element, elements). Called in one place, which is a loop's body once. */
template <typename Work, typename... Operands> void in_runs(const Lanes &lanes, Work work, const Operands &...operands)
{
    int64_t turns = lanes.repeats, total = lanes.lanes, run = total;
    if (lanes.counted) turns = 1, run = total = lanes.count;
    else if (lanes.partial) run = 1;
    else if ((operands.contiguous(lanes) && ...)) run = total = total * turns, turns = 1;
    else ((run = operands.block == 1 || run < operands.PER ? run : operands.PER), ...);
    for (int64_t turn = 0; turn < turns; turn++)
        for (int64_t lane = 0; lane < total; lane += run)
            if (!lanes.partial || lanes.has(lane)) work(turn, lane, total - lane < run ? total - lane : run);
}

/* Checks a vector instruction and writes it down; its numbers come afterwards. */
template <typename P, typename D, typename... S>
NPUSIM_CALLED void announce(const char *name, const char *intrinsic, Site at, const Lanes &lanes, const Operand<D> &dst, const Operand<S> &...src)
{
    Instruction told = {name, intrinsic, VECTOR, V, type_of<P>(), int32_t(sizeof...(S)), 1, {lanes.rows(), lanes.each(), 0, 0, 0, 0, 0, 0}, {src.span(lanes)...}, {dst.span(lanes)}};
    if (!lanes.counted) {
        for (auto [block, repeat] : {std::pair<int32_t, int32_t>{dst.block, dst.repeat}, std::pair<int32_t, int32_t>{src.block, src.repeat}...})
            if (block < 0 || block > 65535 || repeat < 0 || repeat > 255)
                refuse(at, "Strides of repeats are 0 to 255 blocks of 32 bytes.", "%s with strides of %d blocks and %d between repeats", name, block, repeat);
        int each = 3;
        told.number[each++] = dst.block * 32;
        ((told.number[each < 7 ? each++ : 7] = src.block * 32), ...);
    }
    if (lanes.each() <= 0 || lanes.rows() <= 0) told.reads = told.writes = 0;
    issue(told, at);
}

/* dst = function(sources...), element by element; priced as `P`, by default the target's type. */
template <typename P, typename D, typename F, typename... S>
NPUSIM_CALLED void compute_as(const char *name, const char *intrinsic, Site at, const Lanes &lanes, F function, const Operand<D> &dst, const Operand<S> &...src)
{
    announce<P>(name, intrinsic, at, lanes, dst, src...);
    in_runs(lanes, [&](int64_t turn, int64_t first, int64_t count) {
        auto loop = [count, &function](D *to, const S *...from) {
#pragma GCC ivdep
            for (int64_t each = 0; each < count; each++) store(to + each, function(load(from + each)...));
        };
        loop(dst.at(turn, first), src.at(turn, first)...);
    }, dst, src...);
}
template <typename D, typename F, typename... S>
void compute(const char *name, const char *intrinsic, Site at, const Lanes &lanes, F function, const Operand<D> &dst, const Operand<S> &...src)
{
    compute_as<D>(name, intrinsic, at, lanes, function, dst, src...);
}

/* An instruction whose numbers are found by other means: spans, and what it costs. */
template <typename T> Span row(const LocalTensor<T> &tensor, int64_t count, bool anywhere = false)
{
    return {tensor.memory, 1, 1, tensor.start, tensor.limit, bytes_of<T>(count), 0, 0, anywhere, false};
}
template <typename T> NPUSIM_CALLED void announce_rows(const char *name, const char *intrinsic, Site at, int64_t rows, int64_t elements, std::initializer_list<Span> writes, std::initializer_list<Span> reads)
{
    Instruction told = {name, intrinsic, VECTOR, V, type_of<T>(), 0, 0, {rows, elements, 0, 0, 0, 0, 0, 0}, {}, {}};
    for (const Span &span : reads) told.read[told.reads++] = span;
    for (const Span &span : writes) told.write[told.writes++] = span;
    issue(told, at);
}

/* A number that a call takes: itself, or the first element of a tensor. */
template <typename T, typename U> Wide<T> number_of(const U &given)
{
    return Wide<T>(given);
}
template <typename T> struct IsTensor : std::false_type {};
template <typename T> struct IsTensor<LocalTensor<T>> : std::true_type {};

} // namespace npusim

#endif

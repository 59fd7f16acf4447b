/* Copies of Ascend C: between global memory and on-chip memories, and within them. */
#ifndef NPUSIM_KERNEL_COPIES_H
#define NPUSIM_KERNEL_COPIES_H

namespace AscendC {

struct DataCopyParams {
    uint16_t blockCount = 1, blockLen = 0, srcStride = 0, dstStride = 0;
    DataCopyParams() = default;
    DataCopyParams(uint16_t count, uint16_t length, uint16_t source, uint16_t target) : blockCount(count), blockLen(length), srcStride(source), dstStride(target) {}
};
struct DataCopyExtParams {
    uint16_t blockCount = 1;
    uint32_t blockLen = 0;
    int64_t srcStride = 0, dstStride = 0;
    uint32_t rsv = 0;
    DataCopyExtParams() = default;
    DataCopyExtParams(uint16_t count, uint32_t length, int64_t source, int64_t target, uint32_t reserved) : blockCount(count), blockLen(length), srcStride(source), dstStride(target), rsv(reserved) {}
};
template <typename T> struct DataCopyPadExtParams {
    bool isPad = false;
    uint8_t leftPadding = 0, rightPadding = 0;
    T paddingValue = T(0);
    DataCopyPadExtParams() = default;
    DataCopyPadExtParams(bool pads, uint8_t left, uint8_t right, T value) : isPad(pads), leftPadding(left), rightPadding(right), paddingValue(value) {}
};
struct DataCopyPadParams {
    bool isPad = false;
    uint8_t leftPadding = 0, rightPadding = 0;
    uint64_t paddingValue = 0;
    DataCopyPadParams() = default;
    DataCopyPadParams(bool pads, uint8_t left, uint8_t right, uint64_t value) : isPad(pads), leftPadding(left), rightPadding(right), paddingValue(value) {}
};
struct Nd2NzParams {
    uint16_t ndNum = 1, nValue = 0, dValue = 0;
    uint64_t srcNdMatrixStride = 0;
    uint32_t srcDValue = 0;
    uint16_t dstNzC0Stride = 0, dstNzNStride = 1;
    uint32_t dstNzMatrixStride = 0;
    Nd2NzParams() = default;
    Nd2NzParams(uint16_t number, uint16_t n, uint16_t d, uint64_t apart, uint32_t row, uint16_t block, uint16_t line, uint32_t matrix)
        : ndNum(number), nValue(n), dValue(d), srcNdMatrixStride(apart), srcDValue(row), dstNzC0Stride(block), dstNzNStride(line), dstNzMatrixStride(matrix) {}
};
enum class BlockMode { BLOCK_MODE_NORMAL, BLOCK_MODE_MATRIX, BLOCK_MODE_VECTOR, BLOCK_MODE_SMALL_CHANNEL, BLOCK_MODE_DEPTHWISE };
struct DataCopyEnhancedParams {
    BlockMode blockMode = BlockMode::BLOCK_MODE_NORMAL;
};
struct SliceInfo {
    uint32_t startIndex = 0, endIndex = 0, stride = 0, burstLen = 0, shapeValue = 0;
};

} // namespace AscendC

namespace npusim {

using AscendC::GlobalTensor;

/* What stores do to a number in global memory. */
template <typename T> void put(T *to, const T *from, int64_t count)
{
    int how = current->atomic;
    if (!how) {
        std::memcpy(to, from, size_t(count) * sizeof(T));
        return;
    }
    if constexpr (!std::is_same_v<T, int4b_t>)
        for (int64_t each = 0; each < count; each++) {
            auto a = load(to + each), b = load(from + each);
            store(to + each, how == 1 ? decltype(a)(a + b) : how == 2 ? (a > b ? a : b) : (a < b ? a : b));
        }
}

struct Runs {
    int64_t count, bytes, global_step, local_step;
};
template <typename T> NPUSIM_CALLED uint8_t *check_global(const GlobalTensor<T> &gm, int64_t bytes, const char *name, Site at)
{
    int64_t size = gm.count == INT64_MAX ? INT64_MAX : bytes_of<T>(gm.count);
    if (bytes > size) beyond_tensor(bytes, size, "byte", name, at);
    return global(uint64_t(reinterpret_cast<uintptr_t>(gm.address)), bytes, name, at);
}
template <typename T> NPUSIM_CALLED void copy_runs(const char *name, const LocalTensor<T> &local, const GlobalTensor<T> &gm, const Runs &runs, bool stores, Site at, bool anywhere = false)
{
    if (runs.count <= 0 || runs.bytes <= 0) return;
    if (runs.count > 4095) refuse(at, "Use several copies.", "%s of %lld runs, an instruction has 1 to 4095", name, (long long)runs.count);
    if (runs.global_step < 0 || runs.local_step < 0) refuse(at, "Gaps between runs are 0 or more.", "%s with runs that begin %lld bytes apart", name, (long long)(runs.global_step < 0 ? runs.global_step : runs.local_step));
    uint8_t *far = check_global(gm, (runs.count - 1) * runs.global_step + runs.bytes, name, at);
    bool ub = local.memory == UB;
    const char *intrinsic = stores ? (ub ? "copy_ubuf_to_gm" : "copy_cbuf_to_gm") : ub ? "copy_gm_to_ubuf" : "copy_gm_to_cbuf";
    Instruction told = {name, intrinsic, GM_COPY, stores ? MTE3 : MTE2, type_of<T>(), stores, !stores, {stores ? (ub ? UB_TO_GM : L1_TO_GM) : ub ? GM_TO_UB : GM_TO_L1, int64_t(reinterpret_cast<uintptr_t>(far)), runs.bytes, runs.count, 0, gm.way(stores ? AscendC::CacheRwMode::WRITE : AscendC::CacheRwMode::READ), 0, runs.count > 1 ? runs.global_step : 0}, {}, {}};
    Span span = {local.memory, int32_t(runs.count), 1, local.start, local.limit, runs.bytes, runs.local_step, 0, anywhere, 2};
    (stores ? told.read : told.write)[0] = span;
    issue(told, at);
    if (!computes_products && !ub) return;
    uint8_t *near = current->memory[local.memory] + local.start;
    for (int64_t run = 0; run < runs.count; run++) {
        uint8_t *there = far + run * runs.global_step, *here = near + run * runs.local_step;
        if (stores) put(reinterpret_cast<T *>(there), reinterpret_cast<const T *>(here), runs.bytes / int64_t(sizeof(T)));
        else std::memcpy(here, there, size_t(runs.bytes));
    }
}
inline void whole_blocks(const char *name, int64_t bytes, Site at)
{
    if (bytes % 32) refuse(at, "Copy whole blocks of 32 bytes, or use DataCopyPad.", "%s of %lld bytes, no multiple of 32", name, (long long)bytes);
}

/* Within UB, and between L1 and the small tables of the cube. */
template <typename D, typename T> NPUSIM_CALLED void copy_local(const LocalTensor<D> &dst, const LocalTensor<T> &src, int64_t count, int64_t bytes, int64_t dst_step, int64_t src_step, Site at)
{
    Span from = {src.memory, int32_t(count), 1, src.start, src.limit, bytes, src_step, 0, false, src.memory != UB};
    int64_t wide = bytes / int64_t(sizeof(T)) * int64_t(sizeof(D));
    Span to = {dst.memory, int32_t(count), 1, dst.start, dst.limit, wide, dst_step, 0, false, false};
    if (src.memory == UB) {
        Instruction told = {"DataCopy", "copy_ubuf_to_ubuf", UB_COPY, V, type_of<T>(), 1, 1, {count, bytes / 32, dst_step / 32, 0, 0, 0, 0, 0}, {from}, {to}};
        issue(told, at);
    } else {
        bool fix = dst.memory == FIXBUF;
        Instruction told = {"DataCopy", fix ? "copy_cbuf_to_fbuf" : "copy_cbuf_to_bt", CHIP_COPY, fix ? FIX : MTE1, type_of<T>(), 1, 1, {L1_TO_BIAS, count * bytes, 0, 0, 0, 0, 0, 0}, {from}, {to}};
        issue(told, at);
    }
    for (int64_t run = 0; run < count; run++) {
        auto *there = reinterpret_cast<D *>(current->memory[dst.memory] + dst.start + run * dst_step);
        auto *here = reinterpret_cast<const T *>(current->memory[src.memory] + src.start + run * src_step);
        if constexpr (std::is_same_v<D, T>) std::memmove(there, here, size_t(bytes));
        else if constexpr (!std::is_same_v<D, int4b_t> && !std::is_same_v<T, int4b_t>)
            for (int64_t each = 0; each < bytes / int64_t(sizeof(T)); each++) store(there + each, load(here + each));
    }
}

} // namespace npusim

namespace AscendC {

template <typename T> void DataCopy(const LocalTensor<T> &dst, const GlobalTensor<T> &src, uint32_t count, NPUSIM_AT)
{
    int64_t bytes = npusim::bytes_of<T>(count);
    npusim::whole_blocks("DataCopy", bytes, at);
    npusim::copy_runs("DataCopy", dst, src, {1, bytes, 0, 0}, false, at);
}
template <typename T> void DataCopy(const GlobalTensor<T> &dst, const LocalTensor<T> &src, uint32_t count, NPUSIM_AT)
{
    int64_t bytes = npusim::bytes_of<T>(count);
    npusim::whole_blocks("DataCopy", bytes, at);
    npusim::copy_runs("DataCopy", src, dst, {1, bytes, 0, 0}, true, at);
}
template <typename T> void DataCopy(const LocalTensor<T> &dst, const GlobalTensor<T> &src, const DataCopyParams &p, NPUSIM_AT)
{
    npusim::copy_runs("DataCopy", dst, src, {p.blockCount, p.blockLen * 32ll, (p.blockLen + p.srcStride) * 32ll, (p.blockLen + p.dstStride) * 32ll}, false, at);
}
template <typename T> void DataCopy(const GlobalTensor<T> &dst, const LocalTensor<T> &src, const DataCopyParams &p, NPUSIM_AT)
{
    npusim::copy_runs("DataCopy", src, dst, {p.blockCount, p.blockLen * 32ll, (p.blockLen + p.dstStride) * 32ll, (p.blockLen + p.srcStride) * 32ll}, true, at);
}
template <typename T> void DataCopy(const LocalTensor<T> &dst, const GlobalTensor<T> &src, const DataCopyParams &p, const DataCopyEnhancedParams &, NPUSIM_AT) { DataCopy(dst, src, p, at); }
template <typename T> void DataCopy(const GlobalTensor<T> &dst, const LocalTensor<T> &src, const DataCopyParams &p, const DataCopyEnhancedParams &, NPUSIM_AT) { DataCopy(dst, src, p, at); }
template <typename D, typename T> void DataCopy(const LocalTensor<D> &dst, const LocalTensor<T> &src, uint32_t count, NPUSIM_AT)
{
    int64_t bytes = npusim::bytes_of<T>(count);
    npusim::copy_local(dst, src, 1, bytes, 0, 0, at);
}
template <typename D, typename T> void DataCopy(const LocalTensor<D> &dst, const LocalTensor<T> &src, const DataCopyParams &p, NPUSIM_AT)
{
    int64_t unit = dst.memory == npusim::BIAS ? 64 : dst.memory == npusim::FIXBUF ? 128 : 32, bytes = p.blockLen * unit;
    npusim::copy_local(dst, src, p.blockCount, bytes, bytes / int64_t(sizeof(T)) * int64_t(sizeof(D)) + p.dstStride * unit, bytes + p.srcStride * 32ll, at);
}

/* What fills the last block of a run where no padding is asked for. */
template <typename T, TPosition pos = TPosition::MAX> void SetPadValue(T value)
{
    npusim::current->registers[2] = 0;
    std::memcpy(&npusim::current->registers[2], &value, sizeof(T));
}
template <typename T> NPUSIM_CALLED void DataCopyPad(const LocalTensor<T> &dst, const GlobalTensor<T> &src, const DataCopyExtParams &p, const DataCopyPadExtParams<T> &pad, NPUSIM_AT)
{
    int64_t size = sizeof(T), left = pad.isPad ? pad.leftPadding : 0, right = pad.isPad ? pad.rightPadding : 0, bytes = p.blockLen;
    if (left * size > 32 || right * size > 32) npusim::refuse(at, "Pad by at most 32 bytes on a side.", "DataCopyPad: %lld and %lld bytes of padding", (long long)(left * size), (long long)(right * size));
    if (bytes % size) npusim::refuse(at, "Copy whole elements.", "DataCopyPad: runs of %lld bytes are no elements of %lld", (long long)bytes, (long long)size);
    int64_t whole = (bytes + (left + right) * size + 31) / 32 * 32, step = whole + p.dstStride * 32, begin = left * size;
    LocalTensor<T> inner = dst;
    inner.start += begin;
    npusim::copy_runs("DataCopyPad", inner, src, {p.blockCount, bytes, bytes + p.srcStride, step}, false, at, left != 0);
    npusim::Instruction told = {"DataCopyPad", "copy_gm_to_ubuf", npusim::CHIP_COPY, npusim::MTE2, 0, 0, 0, {-1, 0, 0, 0, 0, 0, 0, 0}, {}, {}};
    for (auto [first, last] : {std::pair<int64_t, int64_t>{0, begin}, {begin + bytes, whole}}) {
        if (first >= last) continue;
        told.write[told.writes++] = {dst.memory, p.blockCount, 1, dst.start + first, dst.limit, last - first, step, 0, true, false};
        for (int64_t run = 0; run < p.blockCount; run++)
            for (int64_t place = first; place < last; place += size) {
                T value = pad.paddingValue;
                if (!pad.isPad) std::memcpy(static_cast<void *>(&value), &npusim::current->registers[2], sizeof(T));
                if (dst.start + run * step + place + size <= npusim::current->size[dst.memory]) std::memcpy(npusim::current->memory[dst.memory] + dst.start + run * step + place, &value, size_t(size));
            }
    }
    /* the last block may reach beyond the tensor's end: only what is there is filled */
    for (int each = 0; each < told.writes; each++) {
        npusim::Span &span = told.write[each];
        int64_t end = span.start + (span.outer - 1) * span.outer_step + span.length;
        if (end > span.limit) span.limit = end;
    }
    if (told.writes) npusim::issue(told, at);
}
template <typename T> void DataCopyPad(const GlobalTensor<T> &dst, const LocalTensor<T> &src, const DataCopyExtParams &p, NPUSIM_AT)
{
    int64_t bytes = p.blockLen, whole = (bytes + 31) / 32 * 32;
    npusim::copy_runs("DataCopyPad", src, dst, {p.blockCount, bytes, bytes + p.dstStride, whole + p.srcStride * 32}, true, at);
}
template <typename T> void DataCopyPad(const LocalTensor<T> &dst, const GlobalTensor<T> &src, const DataCopyParams &p, const DataCopyPadParams &pad, NPUSIM_AT)
{
    T value;
    std::memcpy(&value, &pad.paddingValue, sizeof(T));
    DataCopyPad(dst, src, DataCopyExtParams(p.blockCount, p.blockLen, p.srcStride, p.dstStride, 0), DataCopyPadExtParams<T>(pad.isPad, pad.leftPadding, pad.rightPadding, value), at);
}
template <typename T> void DataCopyPad(const GlobalTensor<T> &dst, const LocalTensor<T> &src, const DataCopyParams &p, NPUSIM_AT)
{
    DataCopyPad(dst, src, DataCopyExtParams(p.blockCount, p.blockLen, p.srcStride, p.dstStride, 0), at);
}

/* What is below these in toolkits, as some libraries call it: by addresses. */
template <typename T> LocalTensor<T> npusim_in_ub(T *place)
{
    LocalTensor<T> found;
    found.memory = npusim::UB, found.start = int64_t(reinterpret_cast<uintptr_t>(place)), found.limit = npusim::current->size[npusim::UB];
    return found;
}
template <typename T> GlobalTensor<T> npusim_in_gm(T *place)
{
    GlobalTensor<T> found;
    found.SetGlobalBuffer(place);
    return found;
}
template <typename T> void DataCopyGM2UBImpl(T *to, T *from, const DataCopyParams &p, NPUSIM_AT) { DataCopy(npusim_in_ub(to), npusim_in_gm(from), p, at); }
template <typename T> void DataCopyUB2GMImpl(T *to, T *from, const DataCopyParams &p, NPUSIM_AT) { DataCopy(npusim_in_gm(to), npusim_in_ub(from), p, at); }
template <typename T> void DataCopyPadGm2UBImpl(T *to, T *from, const DataCopyExtParams &p, const DataCopyPadExtParams<T> &pad, NPUSIM_AT) { DataCopyPad(npusim_in_ub(to), npusim_in_gm(from), p, pad, at); }
template <typename T> void DataCopyPadGm2UBImpl(T *to, T *from, const DataCopyParams &p, const DataCopyPadParams &pad, NPUSIM_AT) { DataCopyPad(npusim_in_ub(to), npusim_in_gm(from), p, pad, at); }
template <typename T, typename P> void DataCopyPadUB2GMImpl(T *to, T *from, const P &p, NPUSIM_AT) { DataCopyPad(npusim_in_gm(to), npusim_in_ub(from), p, at); }
template <typename T> NPUSIM_CALLED void DataCopy(const LocalTensor<T> &dst, const GlobalTensor<T> &src, const Nd2NzParams &p, NPUSIM_AT)
{
    int64_t size = sizeof(T), lanes = 32 / size, blocks = (p.dValue + lanes - 1) / lanes;
    if (!p.ndNum || !p.nValue || !p.dValue) return;
    int64_t reach = int64_t(p.ndNum - 1) * int64_t(p.srcNdMatrixStride) + int64_t(p.nValue - 1) * p.srcDValue + p.dValue;
    uint8_t *far = npusim::check_global(src, reach * size, "DataCopy", at);
    npusim::Instruction told = {"DataCopy", "copy_gm_to_cbuf_multi_nd2nz", npusim::GM_COPY, npusim::MTE2, npusim::type_of<T>(), 0, 1, {npusim::GM_TO_L1, int64_t(reinterpret_cast<uintptr_t>(far)), p.dValue * size, int64_t(p.ndNum) * p.nValue, p.nValue, src.way(CacheRwMode::READ), 1, p.srcDValue * size}, {}, {}};
    int64_t matrix = p.dstNzMatrixStride * size, block = p.dstNzC0Stride * 32ll, line = p.dstNzNStride * 32ll;
    if (p.nValue == 1 || line == 32) told.write[0] = {dst.memory, p.ndNum, int32_t(blocks), dst.start, dst.limit, p.nValue * 32ll, matrix, block, false, false};
    else told.write[0] = {dst.memory, p.ndNum * p.nValue > 1 && p.ndNum == 1 ? p.nValue : p.ndNum, int32_t(blocks), dst.start, dst.limit, p.ndNum == 1 ? 32 : (p.nValue - 1) * line + 32, p.ndNum == 1 ? line : matrix, block, false, false};
    npusim::issue(told, at);
    if (!npusim::computes_products && dst.memory == npusim::L1) return;
    uint8_t *near = npusim::current->memory[dst.memory] + dst.start;
    for (int64_t nd = 0; nd < p.ndNum; nd++)
        for (int64_t n = 0; n < p.nValue; n++) {
            const uint8_t *row = far + (nd * int64_t(p.srcNdMatrixStride) + n * int64_t(p.srcDValue)) * size;
            for (int64_t b = 0; b < blocks; b++) {
                int64_t bytes = (p.dValue - b * lanes < lanes ? p.dValue - b * lanes : lanes) * size;
                uint8_t *to = near + nd * matrix + b * block + n * line;
                std::memcpy(to, row + b * 32, size_t(bytes));
                std::memset(to + bytes, 0, size_t(32 - bytes));
            }
        }
}

} // namespace AscendC

#endif

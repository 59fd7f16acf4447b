/* The cube of Ascend C: matrices from L1 into L0, products, and results out of L0C.
 *
 * A fractal is 16 rows of 32 bytes. L0A has A in fractals row by row (Zz), L0B has columns of B as rows
 * of fractals, depth by depth (Zn), L0C has blocks of 16 columns (Nz).
 * Source of the layouts and parameters: public asc-devkit documentation of LoadData, Mmad, Fixpipe. */
#ifndef NPUSIM_KERNEL_CUBE_H
#define NPUSIM_KERNEL_CUBE_H

#include "npusim/kernel_cube_parameters.h"

namespace npusim {

constexpr int64_t FRACTAL = 512;

inline void load_l0(const char *name, int memory, int64_t bytes, Span from, Span to, Site at)
{
    from.some = true; /* rows that fill a fractal up may hold anything */
    bool a = memory == L0A;
    Instruction told = {name, a ? "load_cbuf_to_ca" : "load_cbuf_to_cb", CHIP_COPY, MTE1, 0, 1, 1, {a ? L1_TO_L0A : L1_TO_L0B, bytes, 0, 0, 0, 0, 0, 0}, {from}, {to}};
    issue(told, at);
}
/* Squares of several fractals as bytes: element (row, column) of a square. */
template <typename T> struct Square {
    static constexpr int64_t wide = std::is_same_v<T, int4b_t> ? 64 : 32 / int64_t(sizeof(T)), side = wide < 16 ? 16 : wide, fractals = wide < 16 ? 2 : wide / 16;
};
inline uint8_t nibble(const uint8_t *bytes, int64_t place) { return uint8_t(bytes[place / 2] >> (place % 2 * 4) & 15); }
inline void set_nibble(uint8_t *bytes, int64_t place, uint8_t value) { bytes[place / 2] = uint8_t((bytes[place / 2] & ~(15 << (place % 2 * 4))) | value << (place % 2 * 4)); }
template <typename T> void turn_square(uint8_t *const to[], const uint8_t *from)
{
    constexpr int64_t wide = Square<T>::wide, side = Square<T>::side;
    auto place = [](int64_t row, int64_t column) { /* of fractals in a row of the square, or one below the other */
        return wide < 16 ? std::pair<int64_t, int64_t>{column / wide, row * wide + column % wide} : std::pair<int64_t, int64_t>{row / 16, row % 16 * wide + column};
    };
    for (int64_t row = 0; row < side; row++)
        for (int64_t column = 0; column < side; column++) {
            auto [target, there] = place(row, column);
            auto [source, here] = place(column, row);
            if constexpr (std::is_same_v<T, int4b_t>) set_nibble(to[target], there, nibble(from + source * FRACTAL, here));
            else reinterpret_cast<T *>(to[target])[there] = reinterpret_cast<const T *>(from + source * FRACTAL)[here];
        }
}

/* Numbers of fractals as the host multiplies them. */
template <typename T, typename W> void unpack_row(W *to, const uint8_t *fractal, int64_t row, int64_t count)
{
    if constexpr (std::is_same_v<T, int4b_t>)
        for (int64_t each = 0; each < count; each++) to[each] = W(int8_t(nibble(fractal, row * 64 + each) << 4) >> 4);
    else
        for (int64_t each = 0; each < count; each++) to[each] = W(load(reinterpret_cast<const T *>(fractal) + row * (32 / int64_t(sizeof(T))) + each));
}
template <typename D> using Sum = std::conditional_t<std::is_same_v<D, int32_t>, int32_t, float>;

/* c += a b for rows of a and rows of b, both along the depth. */
template <typename W> void multiply(W *c, const W *a, const W *b, int64_t m, int64_t n, int64_t k)
{
    for (int64_t row = 0; row < m; row++)
        for (int64_t depth = 0; depth < k; depth++) {
            W left = a[row * k + depth];
            const W *right = b + depth * n;
            W *into = c + row * n;
#pragma GCC ivdep
            for (int64_t column = 0; column < n; column++) into[column] += left * right[column];
        }
}

struct MmadBuffers {
    std::vector<uint8_t> a, b, c;
};

/* Half the depth of sparse weights is in L0B: `whole` has all of it, and says so. */
template <typename D, typename A, typename B> void mmad(const LocalTensor<D> &c, const LocalTensor<A> &a, const LocalTensor<B> &b, const LocalTensor<D> *bias, const AscendC::MmadParams &p, Site at, const B *whole = nullptr)
{
    using W = Sum<D>;
    constexpr int64_t c0 = Square<A>::wide;
    int64_t m = p.m, n = p.n, k = p.k, high = (m + 15) / 16, wide = (n + 15) / 16, deep = (k + c0 - 1) / c0;
    bool vector = m == 1;
    if (!m || !n || !k) return;
    if (a.memory != L0A || b.memory != L0B || c.memory != L0C) refuse(at, "Give it tensors of A2, B2 and CO1.", "Mmad takes its matrices from L0A and L0B and sums in L0C; these are in %s, %s and %s", MEMORY_WORDS[a.memory], MEMORY_WORDS[b.memory], MEMORY_WORDS[c.memory]);
    if (m > 4095 || n > 4095 || k > 4095) refuse(at, "Cut it into products of at most 4095.", "Mmad of %lld x %lld x %lld, it takes 1 to 4095 of each", (long long)m, (long long)n, (long long)k);
    int64_t stored = p.kDirectionAlign && sizeof(A) == 4 ? (k + 15) / 16 * 2 : deep;
    Span left = {a.memory, 1, 1, a.start, INT64_MAX, vector ? bytes_of<A>(k) : high * stored * FRACTAL, 0, 0, false, false};
    int64_t kept = whole ? (k + 1) / 2 : k;
    Span right = {b.memory, 1, 1, b.start, INT64_MAX, wide * ((kept + c0 - 1) / c0) * FRACTAL, 0, 0, false, false};
    constexpr int64_t open = INT64_MAX; /* the cube knows addresses, not where tensors end */
    Span into = {c.memory, 1, 1, c.start, open, high * wide * 256 * int64_t(sizeof(D)), 0, 0, false, false};
    Instruction told = {"Mmad", "mad", MMAD, M, type_of<A>(), 2, 1, {m, n, kept, type_of<B>(), type_of<D>(), 0, 0, 0}, {left, right}, {into}};
    bool from_table = bias && bias->memory == BIAS, init = p.cmatrixInitVal && !bias;
    if (from_table) told.read[told.reads++] = row(*bias, n);
    else if (!init) told.read[told.reads++] = into;
    for (int each = 2; each < told.reads; each++) told.read[each].some = true;
    if (p.unitFlag) enter_unit(into.start, into.start + into.length, at);
    issue(told, at);
    if (!computes_products) return;
    static thread_local std::vector<W> rows, columns, sums;
    rows.assign(size_t(m * k), W(0)), columns.assign(size_t(n * k), W(0)), sums.assign(size_t(m * n), W(0));
    auto *from_a = reinterpret_cast<const uint8_t *>(a.data()), *from_b = reinterpret_cast<const uint8_t *>(whole ? whole : b.data());
    for (int64_t row = 0; row < m; row++)
        for (int64_t block = 0; block < deep; block++) {
            int64_t count = k - block * c0 < c0 ? k - block * c0 : c0;
            if (vector) unpack_row<A>(&rows[size_t(block * c0)], from_a + block * 32, 0, count);
            else unpack_row<A>(&rows[size_t(row * k + block * c0)], from_a + (row / 16 * stored + block) * FRACTAL, row % 16, count);
        }
    W held[64];
    for (int64_t block = 0; block < deep; block++)
        for (int64_t column = 0; column < n; column++) {
            int64_t count = k - block * c0 < c0 ? k - block * c0 : c0;
            unpack_row<B>(held, from_b + (block * wide + column / 16) * FRACTAL, column % 16, count);
            for (int64_t each = 0; each < count; each++) columns[size_t((block * c0 + each) * n + column)] = held[each];
        }
    auto *target = reinterpret_cast<W *>(c.data());
    const D *line = from_table ? bias->data() : nullptr;
    auto place = [&](int64_t row, int64_t column) -> W & { return target[(column / 16 * high * 16 + row) * 16 + column % 16]; };
    if constexpr (std::is_same_v<D, half>) {
        multiply(sums.data(), rows.data(), columns.data(), m, n, k);
        D *narrow = c.data();
        for (int64_t row = 0; row < m; row++)
            for (int64_t column = 0; column < n; column++) {
                D &one = narrow[(column / 16 * high * 16 + row) * 16 + column % 16];
                store(&one, sums[size_t(row * n + column)] + (from_table ? float(line[column]) : init ? 0.0f : float(one)));
            }
    } else {
        for (int64_t row = 0; row < m; row++)
            for (int64_t column = 0; column < n; column++) sums[size_t(row * n + column)] = from_table ? W(line[column]) : init ? W(0) : place(row, column);
        multiply(sums.data(), rows.data(), columns.data(), m, n, k);
        for (int64_t row = 0; row < m; row++)
            for (int64_t column = 0; column < n; column++) place(row, column) = sums[size_t(row * n + column)];
    }
}

/* What a fixpipe makes of a sum: scaled, cut off below zero, in the type of the result. */
struct Finish {
    QuantMode_t mode = NoQuant;
    bool relu = false;
    uint64_t scalar = 0;
    const uint64_t *line = nullptr;
    float scale(int64_t column) const
    {
        uint32_t word = uint32_t(line ? line[column] : scalar);
        word &= 0xffffe000u; /* it knows 19 bits of it */
        float told;
        std::memcpy(&told, &word, 4);
        return told;
    }
    int offset(int64_t column) const { return int(int64_t((line ? line[column] : scalar) << 18) >> 55); }
    bool scales() const { return mode == DEQF16 || mode == VDEQF16 || mode == QF322B8_PRE || mode == VQF322B8_PRE || mode == REQ8 || mode == VREQ8; }
    template <typename D, typename T> void put(D *to, T sum, int64_t column) const
    {
        if (!scales()) {
            if (relu && sum < T(0)) sum = T(0);
            store(to, sum);
            return;
        }
        float value = float(sum);
        if (relu && value < 0) value = 0;
        value *= scale(column);
        if constexpr (std::is_integral_v<D>) {
            double whole = std::nearbyint(double(value)) + offset(column);
            constexpr double least = double(std::numeric_limits<D>::min()), most = double(std::numeric_limits<D>::max());
            *to = D(whole < least ? least : whole > most ? most : whole);
        } else store(to, value);
    }
};

/* One matrix of L0C to rows, or to blocks of `lanes` columns `block_step` elements apart. */
template <typename D, typename T, typename Place> void leave_l0c(const T *sums, int64_t m, int64_t n, int64_t stride, const Finish &finish, Place place)
{
    if (!computes_products) return;
    D one;
    for (int64_t row = 0; row < m; row++)
        for (int64_t column = 0; column < n; column++) {
            finish.put(&one, sums[(column / 16 * stride + row) * 16 + column % 16], column);
            put(place(row, column), &one, 1);
        }
}

/* Sums leave L0C; with a unit flag when they are complete, and the next product follows. */
inline void issue_fixpipe(Instruction &told, bool unit, Site at)
{
    if (unit) link_pipes(M, FIX, at);
    issue(told, at);
    const Span &from = told.read[0];
    if (unit) leave_unit(from.start, from.start + (from.outer - 1) * from.outer_step + (from.inner - 1) * from.inner_step + from.length, at);
}
template <typename D, typename T> NPUSIM_CALLED void fixpipe(const GlobalTensor<D> &dst, const LocalTensor<T> &src, AscendC::CO2Layout layout, const AscendC::FixpipeParamsV220 &p, const LocalTensor<uint64_t> *scales, Site at)
{
    int64_t size = sizeof(D), m = p.mSize, n = p.nSize, stride = p.srcStride ? p.srcStride : (m + 15) / 16 * 16;
    if (!m || !n) return;
    bool rows = layout == AscendC::CO2Layout::ROW_MAJOR, columns = layout == AscendC::CO2Layout::COLUMN_MAJOR;
    int64_t lanes = p.isChannelSplit ? 8 : size == 1 ? 32 : 16, blocks = (n + lanes - 1) / lanes, nds = rows || columns ? p.ndNum : 1;
    int64_t apart = rows || columns ? p.dstStride : p.dstStride * 32 / size, reach = columns ? (n - 1) * apart + m : rows ? (m - 1) * apart + n : (blocks - 1) * apart + m * lanes;
    uint8_t *far = check_global(dst, ((nds - 1) * int64_t(p.dstNdStride) + reach) * size, "Fixpipe", at);
    Span from = {src.memory, int32_t(nds), int32_t((n + 15) / 16), src.start, src.limit, m * 64, int64_t(p.srcNdStride) * 1024, stride * 64, true, true};
    if (sizeof(T) == 2) from.length = m * 32, from.inner_step = stride * 32;
    Instruction told = {"Fixpipe", "copy_matrix_cc_to_gm", GM_COPY, FIX, type_of<D>(), 1, 0, {L0C_TO_GM, int64_t(reinterpret_cast<uintptr_t>(far)), rows ? n * size : columns ? m * size : m * lanes * size, nds * (rows ? m : columns ? n : blocks), rows ? m : columns ? n : blocks, dst.way(AscendC::CacheRwMode::WRITE), 0, apart * size}, {from}, {}};
    if (scales) told.read[told.reads++] = row(*scales, n);
    issue_fixpipe(told, p.unitFlag != 0, at);
    Finish finish = {p.quantPre, p.reluEn, p.deqScalar, scales ? scales->data() : nullptr};
    for (int64_t nd = 0; nd < nds; nd++) {
        const T *sums = src.data() + nd * int64_t(p.srcNdStride) * 256;
        D *to = reinterpret_cast<D *>(far) + nd * int64_t(p.dstNdStride);
        leave_l0c<D>(sums, m, n, stride, finish, [&](int64_t row, int64_t column) {
            return rows ? to + row * apart + column : columns ? to + column * apart + row : to + column / lanes * apart + row * lanes + column % lanes;
        });
    }
}
template <typename D, typename T> NPUSIM_CALLED void fixpipe(const LocalTensor<D> &dst, const LocalTensor<T> &src, const AscendC::FixpipeParamsV220 &p, const LocalTensor<uint64_t> *scales, Site at)
{
    int64_t size = sizeof(D), m = p.mSize, n = p.nSize, stride = p.srcStride ? p.srcStride : (m + 15) / 16 * 16, lanes = size == 1 ? 32 : p.isChannelSplit ? 8 : 16, blocks = (n + lanes - 1) / lanes, apart = p.dstStride * 32 / size;
    Span from = {src.memory, 1, int32_t((n + 15) / 16), src.start, src.limit, m * 64, 0, stride * 64, true, true};
    Span to = {dst.memory, 1, int32_t(blocks), dst.start, dst.limit, m * lanes * size, 0, apart * size, false, false};
    Instruction told = {"Fixpipe", "copy_matrix_cc_to_cbuf", CHIP_COPY, FIX, type_of<D>(), 1, 1, {L0C_TO_L1, m * n * size, 0, 0, 0, 0, 0, 0}, {from}, {to}};
    if (scales) told.read[told.reads++] = row(*scales, n);
    issue_fixpipe(told, p.unitFlag != 0, at);
    Finish finish = {p.quantPre, p.reluEn, p.deqScalar, scales ? scales->data() : nullptr};
    int before = current->atomic;
    current->atomic = 0;
    leave_l0c<D>(src.data(), m, n, stride, finish, [&](int64_t row, int64_t column) { return dst.data() + column / lanes * apart + row * lanes + column % lanes; });
    current->atomic = before;
}

/* What of a feature map in L1 an instruction reads: of some blocks of channels, the lines that its places see. */
struct MapPart {
    int64_t high, wide, deep, first, last; /* of a block of channels, its columns in the matrix; and the matrix's columns */
    int64_t start = 0, end = 0;            /* points of a block */
    void find(int64_t from, int64_t to, int64_t out_w, int64_t down, int64_t along, const int64_t *pads, int64_t tall, int64_t broad)
    {
        auto inside = [](int64_t at, int64_t size) { return at < 0 ? 0 : at >= size ? size - 1 : at; };
        int64_t top = inside(from / out_w * down - pads[2], high), bottom = inside(to / out_w * down - pads[2] + tall, high);
        bool one_line = from / out_w == to / out_w;
        int64_t left = one_line ? inside(from % out_w * along - pads[0], wide) : 0, right = one_line ? inside(to % out_w * along - pads[0] + broad, wide) : wide - 1;
        start = top * wide + left, end = bottom * wide + right + 1;
    }
    Span span(int32_t memory, int64_t place, int64_t limit) const
    {
        int64_t block = high * wide * 32, before = first / deep;
        return {memory, int32_t(last / deep - before + 1), 1, place + before * block + start * 32, limit, (end - start) * 32, block, 0, false, true};
    }
};

/* The scales of columns that SetFixPipeConfig has named, for a mode that takes some. */
struct NamedScales {
    LocalTensor<uint64_t> place;
    bool wanted;
    explicit NamedScales(QuantMode_t mode) : wanted(mode == VDEQF16 || mode == VQF322B8_PRE || mode == VREQ8)
    {
        place.memory = FIXBUF, place.start = int64_t(current->registers[6]), place.limit = int64_t(current->registers[7]);
    }
    const LocalTensor<uint64_t> *get() const { return wanted ? &place : nullptr; }
};

} // namespace npusim

namespace AscendC {

template <typename T> NPUSIM_CALLED void LoadData(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LoadData2DParams &p, NPUSIM_AT)
{
    if (!p.repeatTimes) return;
    int64_t first = src.start + p.startIndex * npusim::FRACTAL, step = (p.addrMode ? -1 : 1) * p.srcStride * npusim::FRACTAL, apart = (1 + p.dstGap) * npusim::FRACTAL;
    npusim::Span from = {src.memory, p.repeatTimes, 1, first, src.limit, npusim::FRACTAL, step, 0, false, true};
    npusim::load_l0("LoadData", dst.memory, p.repeatTimes * npusim::FRACTAL, from, {dst.memory, p.repeatTimes, 1, dst.start, dst.limit, npusim::FRACTAL, apart, 0, false, false}, at);
    if (!npusim::computes_products) return;
    for (int64_t each = 0; each < p.repeatTimes; each++) {
        const uint8_t *here = npusim::current->memory[src.memory] + first + each * step;
        uint8_t *there = npusim::current->memory[dst.memory] + dst.start + each * apart;
        if (p.ifTranspose && sizeof(T) == 2) npusim::turn_square<uint16_t>(&there, here);
        else std::memcpy(there, here, size_t(npusim::FRACTAL));
    }
}
/* From global memory, fractal by fractal. */
template <typename T> NPUSIM_CALLED void LoadData(const LocalTensor<T> &dst, const GlobalTensor<T> &src, const LoadData2DParams &p, NPUSIM_AT)
{
    if (!p.repeatTimes) return;
    GlobalTensor<T> first = src[uint64_t(p.startIndex) * 512 / sizeof(T)];
    npusim::copy_runs("LoadData", dst, first, {p.repeatTimes, npusim::FRACTAL, p.srcStride * npusim::FRACTAL, (1 + p.dstGap) * npusim::FRACTAL}, false, at);
}
template <typename T> NPUSIM_CALLED void LoadDataWithTranspose(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LoadData2dTransposeParams &p, NPUSIM_AT)
{
    constexpr int64_t parts = npusim::Square<T>::fractals, square = parts * npusim::FRACTAL;
    if (!p.repeatTimes) return;
    int64_t first = src.start + p.startIndex * square, step = (p.addrMode ? -1 : 1) * p.srcStride * square, apart = (1 + p.dstGap) * npusim::FRACTAL, inner = (1 + (parts > 1 ? p.dstFracGap : 0)) * npusim::FRACTAL;
    npusim::Span from = {src.memory, p.repeatTimes, 1, first, src.limit, square, step, 0, false, true};
    npusim::load_l0("LoadDataWithTranspose", dst.memory, p.repeatTimes * square, from, {dst.memory, p.repeatTimes, int32_t(parts), dst.start, dst.limit, npusim::FRACTAL, apart, inner, false, false}, at);
    if (!npusim::computes_products) return;
    for (int64_t each = 0; each < p.repeatTimes; each++) {
        uint8_t *there[4];
        for (int64_t part = 0; part < parts; part++) there[part] = npusim::current->memory[dst.memory] + dst.start + each * apart + part * inner;
        npusim::turn_square<T>(there, npusim::current->memory[src.memory] + first + each * step);
    }
}

inline void SetFmatrix(uint16_t high, uint16_t wide, const uint8_t pads[4], FmatrixMode)
{
    npusim::current->registers[3] = uint64_t(high) | uint64_t(wide) << 16 | uint64_t(pads[0]) << 32 | uint64_t(pads[1]) << 40 | uint64_t(pads[2]) << 48 | uint64_t(pads[3]) << 56;
}
template <typename T> void SetLoadDataPaddingValue(T) {}
inline void SetLoadDataBoundary(uint32_t) {}
inline void SetLoadDataRepeat(const LoadDataRepeatParam &) {}

/* A feature map in L1 (NC1HWC0) as a matrix: places of the filter by rows, channels and taps by columns. */
template <typename T, NPUSIM_SETTING(IsResetLoad3dConfig) config = IS_RESER_LOAD3D_DEFAULT_CONFIG, typename U = T> NPUSIM_CALLED void LoadData(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LoadData3DParamsV2<U> &p, NPUSIM_AT)
{
    constexpr int64_t c0 = npusim::Square<T>::wide;
    int64_t map_h = p.l1H, map_w = p.l1W, pads[4] = {p.padList[0], p.padList[1], p.padList[2], p.padList[3]};
    if (!config.isSetFMatrix) {
        uint64_t held = npusim::current->registers[3];
        map_h = held & 0xffff, map_w = held >> 16 & 0xffff;
        for (int each = 0; each < 4; each++) pads[each] = held >> (32 + 8 * each) & 0xff;
    }
    int64_t tall = p.filterH + (p.filterSizeH ? 256 : 0), broad = p.filterW + (p.filterSizeW ? 256 : 0);
    int64_t out_w = (map_w + pads[0] + pads[1] - p.dilationFilterW * (broad - 1) - 1) / p.strideW + 1;
    int64_t rows = p.mExtension, deep = p.kExtension, m1 = (rows + 15) / 16, k1 = (deep + c0 - 1) / c0;
    bool a = dst.memory == npusim::L0A;
    npusim::MapPart part = {map_h, map_w, c0 * tall * broad, p.kStartPt, p.kStartPt + deep - 1};
    part.find(p.mStartPt, p.mStartPt + rows - 1, out_w, p.strideH, p.strideW, pads, p.dilationFilterH * (tall - 1), p.dilationFilterW * (broad - 1));
    npusim::Span from = part.span(src.memory, src.start, src.limit);
    npusim::load_l0("LoadData", dst.memory, m1 * k1 * npusim::FRACTAL, from, {dst.memory, 1, 1, dst.start, dst.limit, m1 * k1 * npusim::FRACTAL, 0, 0, false, false}, at);
    if (!npusim::computes_products) return;
    for (int64_t row = 0; row < m1 * 16; row++)
        for (int64_t depth = 0; depth < k1 * c0; depth++) {
            int64_t place = p.mStartPt + row, column = p.kStartPt + depth, block = column / c0, tap = block % (tall * broad), plane = block / (tall * broad);
            int64_t y = place / out_w * p.strideH - pads[2] + tap / broad * p.dilationFilterH, x = place % out_w * p.strideW - pads[0] + tap % broad * p.dilationFilterW;
            bool inside = y >= 0 && x >= 0 && y < map_h && x < map_w && row < rows && depth < deep;
            T value = inside ? src.data()[((plane * map_h + y) * map_w + x) * c0 + column % c0] : T(p.padValue);
            int64_t fractal, lane;
            if (a && !p.enTranspose) fractal = row / 16 * k1 + depth / c0, lane = row % 16 * c0 + depth % c0;
            else if (a) fractal = depth / 16 * ((m1 * 16 + c0 - 1) / c0) + row / c0, lane = depth % 16 * c0 + row % c0;
            else fractal = row / c0 * ((k1 * c0 + 15) / 16) + depth / 16, lane = depth % 16 * c0 + row % c0;
            dst.data()[fractal * (npusim::FRACTAL / int64_t(sizeof(T))) + lane] = value;
        }
}
inline constexpr IsResetLoad3dConfig NPUSIM_MAP_IS_SET = {false, false};
inline void Load3DSetFMatrixCal(uint16_t high, uint16_t wide, const uint8_t pads[4]) { SetFmatrix(high, wide, pads, FmatrixMode::FMATRIX_LEFT); }
/* The same with its numbers packed: 16 bits of each extent and start, 8 of each of the filter's. */
template <typename T> NPUSIM_CALLED void LoadData(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LoadData3DParamsV2Pro &p, NPUSIM_AT)
{
    auto word = [&](int place) { return uint16_t(p.extConfig >> 16 * place); };
    auto byte = [&](int place) { return uint8_t(p.filterConfig >> 8 * place); };
    const uint8_t pads[4] = {};
    LoadData3DParamsV2<T> same(pads, 0, 0, p.channelSize, word(0), word(1), word(2), word(3), byte(0), byte(1), byte(2), byte(3), byte(4), byte(5), p.enTranspose, p.enSmallK, T(0), p.filterSizeW, p.filterSizeH, p.fMatrixCtrl);
    LoadData<T, NPUSIM_MAP_IS_SET>(dst, src, same, at);
}
template <typename T> NPUSIM_CALLED void LoadData(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LoadData2DParamsV2 &p, NPUSIM_AT)
{
    LoadData2DParams same(0, uint8_t(p.kStep), uint16_t(p.srcStride), 0, 0, p.ifTranspose, 0);
    for (int64_t row = 0; row < p.mStep; row++)
        LoadData(dst[uint32_t(row * p.dstStride * 512 / int64_t(sizeof(T)))], src[uint32_t(((p.kStartPosition * p.srcStride) + p.mStartPosition + row) * 512 / int64_t(sizeof(T)))], same, at);
}

template <typename T> NPUSIM_CALLED void Fill(const LocalTensor<T> &dst, const InitConstValueParams<T> &p, NPUSIM_AT)
{
    int64_t unit = dst.memory == npusim::L1 ? 32 : npusim::FRACTAL, run = p.blockNum * unit, step = run + p.dstGap * unit;
    npusim::Instruction told = {"Fill", "create_cbuf_matrix", npusim::CHIP_COPY, dst.memory == npusim::L1 ? npusim::MTE2 : npusim::MTE1, npusim::type_of<T>(), 0, 1, {npusim::L1_TO_L0A, run * p.repeatTimes, 0, 0, 0, 0, 0, 0}, {}, {{dst.memory, p.repeatTimes, 1, dst.start, dst.limit, run, step, 0, false, false}}};
    npusim::issue(told, at);
    for (int64_t each = 0; each < p.repeatTimes; each++)
        for (int64_t place = 0; place < run / int64_t(sizeof(T)); place++) dst.data()[each * step / int64_t(sizeof(T)) + place] = p.initValue;
}
template <typename T> void InitConstValue(const LocalTensor<T> &dst, const InitConstValueParams<T> &p, NPUSIM_AT) { Fill(dst, p, at); }

template <typename D, typename A, typename B> NPUSIM_CALLED void Mmad(const LocalTensor<D> &c, const LocalTensor<A> &a, const LocalTensor<B> &b, const MmadParams &p, NPUSIM_AT)
{
    LocalTensor<D> table(TPosition::C2, 0, 256, at);
    npusim::mmad(c, a, b, p.cmatrixSource && !p.cmatrixInitVal ? &table : static_cast<const LocalTensor<D> *>(nullptr), p, at);
}
template <typename D, typename A, typename B, typename V> NPUSIM_CALLED void Mmad(const LocalTensor<D> &c, const LocalTensor<A> &a, const LocalTensor<B> &b, const LocalTensor<V> &bias, const MmadParams &p, NPUSIM_AT)
{
    LocalTensor<D> same = bias.template ReinterpretCast<D>();
    npusim::mmad(c, a, b, &same, p, at);
}
inline void SetHF32Mode(bool) {}
inline void SetHF32TransMode(bool) {}
inline void SetMMLayoutTransform(bool) {}
inline void SetMMColumnMajor() {}
inline void SetMMRowMajor() {}

template <typename D, typename T, NPUSIM_SETTING(FixpipeConfig) config = CFG_ROW_MAJOR> void Fixpipe(const GlobalTensor<D> &dst, const LocalTensor<T> &src, const FixpipeParamsV220 &p, NPUSIM_AT) { npusim::fixpipe(dst, src, config.format, p, npusim::NamedScales(p.quantPre).get(), at); }
template <typename D, typename T, NPUSIM_SETTING(FixpipeConfig) config = CFG_ROW_MAJOR, typename S = uint64_t> NPUSIM_CALLED void Fixpipe(const GlobalTensor<D> &dst, const LocalTensor<T> &src, const LocalTensor<S> &scales, const FixpipeParamsV220 &p, NPUSIM_AT)
{
    LocalTensor<uint64_t> given = scales.template ReinterpretCast<uint64_t>();
    npusim::fixpipe(dst, src, config.format, p, &given, at);
}
template <typename D, typename T, NPUSIM_SETTING(FixpipeConfig) config = CFG_NZ> void Fixpipe(const LocalTensor<D> &dst, const LocalTensor<T> &src, const FixpipeParamsV220 &p, NPUSIM_AT) { npusim::fixpipe(dst, src, p, npusim::NamedScales(p.quantPre).get(), at); }
template <typename D, typename T, NPUSIM_SETTING(FixpipeConfig) config = CFG_NZ, typename S = uint64_t> NPUSIM_CALLED void Fixpipe(const LocalTensor<D> &dst, const LocalTensor<T> &src, const LocalTensor<S> &scales, const FixpipeParamsV220 &p, NPUSIM_AT)
{
    LocalTensor<uint64_t> given = scales.template ReinterpretCast<uint64_t>();
    npusim::fixpipe(dst, src, p, &given, at);
}
inline void SetFixpipeNz2ndFlag(uint16_t number, uint16_t from_step, uint16_t to_step) { npusim::current->registers[4] = uint64_t(number) | uint64_t(from_step) << 16 | uint64_t(to_step) << 32; }
inline void SetFixpipePreQuantFlag(uint64_t scalar) { npusim::current->registers[5] = scalar; }
template <typename T, bool relu = false> void SetFixPipeConfig(const LocalTensor<T> &scales, bool = false) { npusim::current->registers[6] = uint64_t(scales.start), npusim::current->registers[7] = uint64_t(scales.limit); }

template <typename D, typename T, typename To> NPUSIM_CALLED void npusim_leave(const To &dst, const LocalTensor<T> &src, const DataCopyCO12DstParams &p, npusim::Site at)
{
    uint64_t nd = npusim::current->registers[4];
    FixpipeParamsV220 same(p.nSize, p.mSize, p.srcStride, p.dstStride, p.reluPre != 0, p.quantPre, int64_t(npusim::current->registers[5]), nd & 0xffff ? uint16_t(nd) : 1, uint16_t(nd >> 16), uint16_t(nd >> 32), p.unitFlag, p.channelSplit);
    npusim::NamedScales scales(p.quantPre);
    if constexpr (npusim::IsTensor<To>::value) npusim::fixpipe(dst, src, same, scales.get(), at);
    else npusim::fixpipe(dst, src, p.nz2ndEn ? CO2Layout::ROW_MAJOR : CO2Layout::NZ, same, scales.get(), at);
}
template <typename D, typename T> void DataCopy(const GlobalTensor<D> &dst, const LocalTensor<T> &src, const DataCopyCO12DstParams &p, NPUSIM_AT) { npusim_leave<D>(dst, src, p, at); }
template <typename D, typename T> void DataCopy(const LocalTensor<D> &dst, const LocalTensor<T> &src, const DataCopyCO12DstParams &p, NPUSIM_AT) { npusim_leave<D>(dst, src, p, at); }

} // namespace AscendC

#endif

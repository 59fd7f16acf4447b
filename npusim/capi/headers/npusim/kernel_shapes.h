/* Libraries of Ascend C: broadcasting, padding, masks, dropout, quantisation. */
#ifndef NPUSIM_KERNEL_SHAPES_H
#define NPUSIM_KERNEL_SHAPES_H

namespace AscendC {

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

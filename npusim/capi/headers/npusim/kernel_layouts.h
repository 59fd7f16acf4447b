/* Shapes with strides, and the layouts of volumes that TransData turns into each other. */
#ifndef NPUSIM_KERNEL_LAYOUTS_H
#define NPUSIM_KERNEL_LAYOUTS_H

#include <array>
#include <tuple>

namespace AscendC {

template <typename... T> using Shape = std::tuple<T...>;
template <typename... T> using Stride = std::tuple<T...>;
template <typename... T> using Coord = std::tuple<T...>;
template <typename... T> constexpr Shape<T...> MakeShape(T... sizes) { return {sizes...}; }
template <typename... T> constexpr Stride<T...> MakeStride(T... steps) { return {steps...}; }
template <typename... T> constexpr Coord<T...> MakeCoord(T... places) { return {places...}; }
template <typename S, typename D> struct Layout {
    S shape;
    D stride;
    constexpr Layout(const S &sizes, const D &steps) : shape(sizes), stride(steps) {}
    constexpr const S &GetShape() const { return shape; }
    constexpr const D &GetStride() const { return stride; }
    template <typename C> constexpr auto operator()(const C &place) const { return offset(place, std::make_index_sequence<std::tuple_size_v<C>>()); }

private:
    template <typename C, size_t... I> constexpr auto offset(const C &place, std::index_sequence<I...>) const { return ((std::get<I>(place) * std::get<I>(stride)) + ...); }
};
template <typename S, typename D> constexpr Layout<S, D> MakeLayout(const S &shape, const D &stride) { return {shape, stride}; }

struct TransDataConfig {
    DataFormat srcFormat, dstFormat;
};
template <typename T, typename U> struct TransDataParams {
    T srcLayout;
    U dstLayout;
};

} // namespace AscendC

namespace npusim {

template <typename S, size_t... I> std::array<int64_t, sizeof...(I)> sizes_of(const S &shape, std::index_sequence<I...>) { return {int64_t(std::get<I>(shape))...}; }
template <typename L> auto sizes_of(const L &layout)
{
    using Kind = std::decay_t<decltype(layout.GetShape())>;
    return sizes_of(layout.GetShape(), std::make_index_sequence<std::tuple_size_v<Kind>>());
}
/* Where element (n, c, d, h, w) of a volume lies: rows of H x W begin at blocks of 32 bytes. */
inline int64_t place_in(AscendC::DataFormat format, const int64_t (&size)[5], int64_t per, int64_t n, int64_t c, int64_t d, int64_t h, int64_t w)
{
    int64_t wide = (size[3] * size[4] + per - 1) / per * per, groups = (size[1] + 15) / 16;
    if (format == AscendC::DataFormat::NCDHW) return ((n * size[1] + c) * size[2] + d) * wide + h * size[4] + w;
    if (format == AscendC::DataFormat::NDC1HWC0) return ((((n * size[2] + d) * groups + c / 16) * size[3] + h) * size[4] + w) * 16 + c % 16;
    return (((d * groups + c / 16) * size[3] + h) * size[4] + w) * ((size[0] + 15) / 16 * 256) + n * 16 + c % 16;
}

} // namespace npusim

namespace AscendC {

/* The volume's own shape stands in the layout of NCDHW; elements have 16 bits. */
template <NPUSIM_SETTING(TransDataConfig) config, typename T, typename U, typename S> void TransData(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<uint8_t> &, const TransDataParams<U, S> &params, NPUSIM_AT)
{
    static_assert(sizeof(T) == 2, "TransData takes elements of 16 bits");
    static_assert((config.srcFormat == DataFormat::NCDHW) != (config.dstFormat == DataFormat::NCDHW), "TransData goes from or to NCDHW");
    auto take = [&params](int64_t(&size)[5]) {
        if constexpr (config.srcFormat == DataFormat::NCDHW) { auto found = npusim::sizes_of(params.srcLayout); std::copy(found.begin(), found.end(), size); }
        else { auto found = npusim::sizes_of(params.dstLayout); std::copy(found.begin(), found.end(), size); }
    };
    int64_t size[5], per = 32 / int64_t(sizeof(T));
    take(size);
    auto all = [&size, per](DataFormat format) {
        if (format == DataFormat::NCDHW) return size[0] * size[1] * size[2] * ((size[3] * size[4] + per - 1) / per * per);
        int64_t groups = (size[1] + 15) / 16 * 16;
        return groups * size[2] * size[3] * size[4] * (format == DataFormat::NDC1HWC0 ? size[0] : (size[0] + 15) / 16 * 16);
    };
    int64_t read = all(config.srcFormat), written = all(config.dstFormat);
    npusim::announce_rows<T>("TransData", "vnchwconv", at, (written + 255) / 256, 256, {npusim::row(dst, written)}, {npusim::row(src, read)});
    std::vector<T> held(src.data(), src.data() + read);
    std::memset(static_cast<void *>(dst.data()), 0, size_t(written) * sizeof(T));
    for (int64_t n = 0; n < size[0]; n++)
        for (int64_t c = 0; c < size[1]; c++)
            for (int64_t d = 0; d < size[2]; d++)
                for (int64_t h = 0; h < size[3]; h++)
                    for (int64_t w = 0; w < size[4]; w++) dst.data()[npusim::place_in(config.dstFormat, size, per, n, c, d, h, w)] = held[size_t(npusim::place_in(config.srcFormat, size, per, n, c, d, h, w))];
}
template <NPUSIM_SETTING(TransDataConfig) config, typename T, typename U, typename S> void TransData(const LocalTensor<T> &dst, const LocalTensor<T> &src, const TransDataParams<U, S> &params, NPUSIM_AT) { TransData<config>(dst, src, LocalTensor<uint8_t>(), params, at); }

} // namespace AscendC

#endif

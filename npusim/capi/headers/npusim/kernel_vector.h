/* Elementwise vector instructions of Ascend C: by count, and by mask and repeats. */
#ifndef NPUSIM_KERNEL_VECTOR_H
#define NPUSIM_KERNEL_VECTOR_H

#include <limits>

namespace AscendC {

enum class RoundMode : uint8_t { CAST_NONE, CAST_RINT, CAST_FLOOR, CAST_CEIL, CAST_ROUND, CAST_TRUNC, CAST_ODD };
enum class CMPMODE : uint8_t { LT, GT, EQ, LE, GE, NE };
enum class SELMODE : uint8_t { VSEL_CMPMASK_SPR, VSEL_TENSOR_SCALAR_MODE, VSEL_TENSOR_TENSOR_MODE };
struct BinaryDefaultType {};
struct BinaryConfig { uint32_t scalarTensorIndex = 1; };
inline constexpr BinaryConfig DEFAULT_BINARY_CONFIG = {1};

#define NPUSIM_BY(widest) npusim::by_mask(mask, times, int64_t(widest), isSetMask, at)

/* Libraries pass instructions by their plain signature: chosen where that is asked for, and behind the others in calls. */
#define NPUSIM_PLAIN_BINARY(Name) \
    template <typename T, typename U = T, typename D = LocalTensor<T>> void Name(const D &dst, const LocalTensor<T> &src0, const LocalTensor<U> &src1, const int32_t &count) { Name<T, U>(static_cast<const LocalTensor<T> &>(dst), src0, src1, int32_t(count), npusim::Site{__FILE__, __LINE__}); } \
    template <typename T, bool isSetMask = true, typename Mask = uint64_t, typename Times = uint8_t, typename D = LocalTensor<T>> std::enable_if_t<std::is_same_v<Times, uint8_t>> Name(const D &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1, Mask mask, Times times, const BinaryRepeatParams &p) { Name<T, isSetMask>(static_cast<const LocalTensor<T> &>(dst), src0, src1, mask, int32_t(times), p, npusim::Site{__FILE__, __LINE__}); }
#define NPUSIM_PLAIN_UNARY(Name) template <typename T, typename D = LocalTensor<T>> void Name(const D &dst, const LocalTensor<T> &src, const int32_t &count) { Name<T>(static_cast<const LocalTensor<T> &>(dst), src, int32_t(count), npusim::Site{__FILE__, __LINE__}); }
#define NPUSIM_PLAIN_SCALAR(Name) template <typename T, bool isSetMask = true, typename U = T, typename D = LocalTensor<T>> std::enable_if_t<!npusim::IsTensor<U>::value> Name(const D &dst, const LocalTensor<T> &src, const U &number, const int32_t &count) { Name<T, isSetMask, U>(static_cast<const LocalTensor<T> &>(dst), src, number, int32_t(count), npusim::Site{__FILE__, __LINE__}); }

#define NPUSIM_BINARY(Name, intrinsic, ...)                                                                                   \
    template <typename T, typename U> NPUSIM_CALLED void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<U> &src1, int32_t count, NPUSIM_AT) \
    {                                                                                                                         \
        npusim::compute(#Name, intrinsic, at, npusim::by_count(count), [](auto a, auto b) { return __VA_ARGS__; }, npusim::operand(dst), npusim::operand(src0), npusim::operand(src1)); \
    }                                                                                                                         \
    template <typename T, bool isSetMask = true, typename Mask, typename Times> NPUSIM_CALLED void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1, Mask mask, Times times, const BinaryRepeatParams &p, NPUSIM_AT) \
    {                                                                                                                         \
        npusim::compute(#Name, intrinsic, at, NPUSIM_BY(sizeof(T)), [](auto a, auto b) { return __VA_ARGS__; }, npusim::operand(dst, p.dstBlkStride, p.dstRepStride), \
                        npusim::operand(src0, p.src0BlkStride, p.src0RepStride), npusim::operand(src1, p.src1BlkStride, p.src1RepStride)); \
    }
template <typename T> T npusim_positive(T number) { return number > T(0) ? number : T(0); }
NPUSIM_BINARY(Add, "vadd", decltype(a)(a + b))
NPUSIM_BINARY(Sub, "vsub", decltype(a)(a - b))
NPUSIM_BINARY(Mul, "vmul", decltype(a)(a * b))
NPUSIM_BINARY(Div, "vdiv", decltype(a)(b == decltype(b)(0) && std::is_integral_v<decltype(a)> ? decltype(a)(-1) : a / b))
/* What isn't a number is the larger and the smaller one: public kernels look for it so (NonFiniteCheck, ops-math). */
template <typename T> T npusim_larger(T a, T b) { return a > b || a != a ? a : b; }
template <typename T> T npusim_smaller(T a, T b) { return a < b || a != a ? a : b; }
NPUSIM_BINARY(Max, "vmax", npusim_larger(a, decltype(a)(b)))
NPUSIM_BINARY(Min, "vmin", npusim_smaller(a, decltype(a)(b)))
NPUSIM_BINARY(AddRelu, "vaddrelu", npusim_positive(decltype(a)(a + b)))
NPUSIM_BINARY(SubRelu, "vsubrelu", npusim_positive(decltype(a)(a - b)))
NPUSIM_PLAIN_BINARY(Add) NPUSIM_PLAIN_BINARY(Sub) NPUSIM_PLAIN_BINARY(Mul) NPUSIM_PLAIN_BINARY(Div) NPUSIM_PLAIN_BINARY(Max) NPUSIM_PLAIN_BINARY(Min) NPUSIM_PLAIN_BINARY(AddRelu) NPUSIM_PLAIN_BINARY(SubRelu)
#undef NPUSIM_BINARY

/* Bits: words of 16, of whatever type they are parts. */
#define NPUSIM_BITS(Name, intrinsic, op)                                                                                      \
    template <typename T> NPUSIM_CALLED void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1, int32_t count, NPUSIM_AT) \
    {                                                                                                                         \
        npusim::compute_as<int16_t>(#Name, intrinsic, at, npusim::by_count(count), [](auto a, auto b) { return decltype(a)(a op b); }, npusim::operand(dst), npusim::operand(src0), npusim::operand(src1)); \
    }                                                                                                                         \
    template <typename T, bool isSetMask = true, typename Mask> NPUSIM_CALLED void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1, Mask mask, int32_t times, const BinaryRepeatParams &p, NPUSIM_AT) \
    {                                                                                                                         \
        npusim::compute_as<int16_t>(#Name, intrinsic, at, NPUSIM_BY(sizeof(T)), [](auto a, auto b) { return decltype(a)(a op b); }, npusim::operand(dst, p.dstBlkStride, p.dstRepStride), \
                                    npusim::operand(src0, p.src0BlkStride, p.src0RepStride), npusim::operand(src1, p.src1BlkStride, p.src1RepStride)); \
    }
NPUSIM_BITS(And, "vand", &)
NPUSIM_BITS(Or, "vor", |)
#undef NPUSIM_BITS

/* Operators between whole tensors: `dst = a + b` is Add(dst, a, b, dst.GetSize()). */
template <typename T, char operation> struct NpusimResult {
    LocalTensor<T> a, b;
};
#define NPUSIM_OPERATOR(sign, symbol) \
    template <typename T> NpusimResult<T, symbol> operator sign(const LocalTensor<T> &a, const LocalTensor<T> &b) { return {a, b}; }
NPUSIM_OPERATOR(+, '+') NPUSIM_OPERATOR(-, '-') NPUSIM_OPERATOR(*, '*') NPUSIM_OPERATOR(/, '/') NPUSIM_OPERATOR(&, '&') NPUSIM_OPERATOR(|, '|')
#undef NPUSIM_OPERATOR
template <typename T> template <char operation> LocalTensor<T> &LocalTensor<T>::operator=(const NpusimResult<T, operation> &found)
{
    int32_t count = int32_t(GetSize());
    if constexpr (operation == '+') Add(*this, found.a, found.b, count);
    else if constexpr (operation == '-') Sub(*this, found.a, found.b, count);
    else if constexpr (operation == '*') Mul(*this, found.a, found.b, count);
    else if constexpr (operation == '/') Div(*this, found.a, found.b, count);
    else if constexpr (operation == '&') And(*this, found.a, found.b, count);
    else Or(*this, found.a, found.b, count);
    return *this;
}

/* What goes on from what the target holds. */
#define NPUSIM_UPDATE(Name, intrinsic, ...)                                                                                   \
    template <typename D, typename T> NPUSIM_CALLED void Name(const LocalTensor<D> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1, int32_t count, NPUSIM_AT) \
    {                                                                                                                         \
        npusim::compute(#Name, intrinsic, at, npusim::by_count(count), [](auto a, auto b, auto d) { return __VA_ARGS__; }, npusim::operand(dst), npusim::operand(src0), npusim::operand(src1), npusim::operand(dst)); \
    }                                                                                                                         \
    template <typename D, typename T, bool isSetMask = true, typename Mask> NPUSIM_CALLED void Name(const LocalTensor<D> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1, Mask mask, int32_t times, const BinaryRepeatParams &p, NPUSIM_AT) \
    {                                                                                                                         \
        npusim::compute(#Name, intrinsic, at, NPUSIM_BY(sizeof(D)), [](auto a, auto b, auto d) { return __VA_ARGS__; }, npusim::operand(dst, p.dstBlkStride, p.dstRepStride), \
                        npusim::operand(src0, p.src0BlkStride, p.src0RepStride), npusim::operand(src1, p.src1BlkStride, p.src1RepStride), npusim::operand(dst, p.dstBlkStride, p.dstRepStride)); \
    }
NPUSIM_UPDATE(FusedMulAdd, "vmadd", decltype(d)(a * d + b))
NPUSIM_UPDATE(FusedMulAddRelu, "vmaddrelu", npusim_positive(decltype(d)(a * d + b)))
NPUSIM_UPDATE(MulAddDst, "vmla", decltype(d)(decltype(d)(a) * decltype(d)(b) + d))
#undef NPUSIM_UPDATE

#define NPUSIM_UNARY(Name, intrinsic, ...)                                                                                    \
    template <typename T> NPUSIM_CALLED void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src, int32_t count, NPUSIM_AT)           \
    {                                                                                                                         \
        npusim::compute(#Name, intrinsic, at, npusim::by_count(count), [](auto a) { return decltype(a)(__VA_ARGS__); }, npusim::operand(dst), npusim::operand(src)); \
    }                                                                                                                         \
    template <typename T, bool isSetMask = true, typename Mask> NPUSIM_CALLED void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src, Mask mask, int32_t times, const UnaryRepeatParams &p, NPUSIM_AT) \
    {                                                                                                                         \
        npusim::compute(#Name, intrinsic, at, NPUSIM_BY(sizeof(T)), [](auto a) { return decltype(a)(__VA_ARGS__); }, npusim::operand(dst, p.dstBlkStride, p.dstRepStride), npusim::operand(src, p.srcBlkStride, p.srcRepStride)); \
    }
NPUSIM_UNARY(Abs, "vabs", a < 0 ? -a : a)
NPUSIM_UNARY(Neg, "vmuls", -a)
NPUSIM_UNARY(Exp, "vexp", std::exp(a))
NPUSIM_UNARY(Ln, "vln", std::log(a))
NPUSIM_UNARY(Sqrt, "vsqrt", std::sqrt(a))
NPUSIM_UNARY(Rsqrt, "vrsqrt", 1 / std::sqrt(a))
NPUSIM_UNARY(Reciprocal, "vrec", 1 / a)
NPUSIM_UNARY(Relu, "vrelu", a > 0 ? a : 0)
NPUSIM_UNARY(Not, "vnot", ~a)
NPUSIM_PLAIN_UNARY(Abs) NPUSIM_PLAIN_UNARY(Neg) NPUSIM_PLAIN_UNARY(Exp) NPUSIM_PLAIN_UNARY(Ln) NPUSIM_PLAIN_UNARY(Sqrt) NPUSIM_PLAIN_UNARY(Rsqrt) NPUSIM_PLAIN_UNARY(Reciprocal) NPUSIM_PLAIN_UNARY(Relu) NPUSIM_PLAIN_UNARY(Not)
#undef NPUSIM_UNARY

#define NPUSIM_SCALAR(Name, intrinsic, ...)                                                                                   \
    template <typename T, bool isSetMask = true, typename U> NPUSIM_CALLED std::enable_if_t<!npusim::IsTensor<U>::value> Name(const LocalTensor<T> &dst, const LocalTensor<T> &src, const U &number, int32_t count, NPUSIM_AT) \
    {                                                                                                                         \
        npusim::compute(#Name, intrinsic, at, npusim::by_count(count), [b = npusim::number_of<T>(number)](auto a) { return decltype(a)(__VA_ARGS__); }, npusim::operand(dst), npusim::operand(src)); \
    }                                                                                                                         \
    template <typename T, bool isSetMask = true, typename U, typename Mask> NPUSIM_CALLED std::enable_if_t<!npusim::IsTensor<U>::value> Name(const LocalTensor<T> &dst, const LocalTensor<T> &src, const U &number, Mask mask, int32_t times, const UnaryRepeatParams &p, NPUSIM_AT) \
    {                                                                                                                         \
        npusim::compute(#Name, intrinsic, at, NPUSIM_BY(sizeof(T)), [b = npusim::number_of<T>(number)](auto a) { return decltype(a)(__VA_ARGS__); }, \
                        npusim::operand(dst, p.dstBlkStride, p.dstRepStride), npusim::operand(src, p.srcBlkStride, p.srcRepStride)); \
    }                                                                                                                         \
    template <typename K = BinaryDefaultType, bool isSetMask = true, NPUSIM_SETTING(BinaryConfig) config = DEFAULT_BINARY_CONFIG, typename T> NPUSIM_CALLED void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1, int32_t count, NPUSIM_AT) \
    {                                                                                                                         \
        const LocalTensor<T> &given = config.scalarTensorIndex ? src0 : src1;                                                 \
        npusim::Wide<T> c = (config.scalarTensorIndex ? src1 : src0).as_operand(at);                                         \
        npusim::compute(#Name, intrinsic, at, npusim::by_count(count), [c](auto v) { auto a = config.scalarTensorIndex ? v : c, b = config.scalarTensorIndex ? c : v; return decltype(a)(__VA_ARGS__); }, npusim::operand(dst), npusim::operand(given)); \
    }
NPUSIM_SCALAR(Adds, "vadds", a + b)
NPUSIM_SCALAR(Subs, "vadds", a - b)
NPUSIM_SCALAR(Muls, "vmuls", a * b)
NPUSIM_SCALAR(Divs, "vdiv", a / b)
NPUSIM_SCALAR(Maxs, "vmaxs", npusim_larger(a, decltype(a)(b)))
NPUSIM_SCALAR(Mins, "vmins", npusim_smaller(a, decltype(a)(b)))
NPUSIM_SCALAR(LeakyRelu, "vlrelu", a >= 0 ? a : a * b)
NPUSIM_SCALAR(Ands, "vand", a & b)
NPUSIM_SCALAR(Ors, "vor", a | b)
NPUSIM_PLAIN_SCALAR(Adds) NPUSIM_PLAIN_SCALAR(Muls) NPUSIM_PLAIN_SCALAR(Maxs) NPUSIM_PLAIN_SCALAR(Mins)
#undef NPUSIM_SCALAR

#define NPUSIM_SHIFT(Name, intrinsic, op)                                                                                     \
    template <typename T, typename U> NPUSIM_CALLED std::enable_if_t<std::is_integral_v<U>> Name(const LocalTensor<T> &dst, const LocalTensor<T> &src, U bits, int32_t count, NPUSIM_AT) \
    {                                                                                                                         \
        npusim::compute(#Name, intrinsic, at, npusim::by_count(count), [bits](auto a) { return decltype(a)(a op bits); }, npusim::operand(dst), npusim::operand(src)); \
    }                                                                                                                         \
    template <typename T, bool isSetMask = true, typename U, typename Mask> NPUSIM_CALLED std::enable_if_t<std::is_integral_v<U>> Name(const LocalTensor<T> &dst, const LocalTensor<T> &src, U bits, Mask mask, int32_t times, const UnaryRepeatParams &p, bool = false, NPUSIM_AT) \
    {                                                                                                                         \
        npusim::compute(#Name, intrinsic, at, NPUSIM_BY(sizeof(T)), [bits](auto a) { return decltype(a)(a op bits); }, npusim::operand(dst, p.dstBlkStride, p.dstRepStride), npusim::operand(src, p.srcBlkStride, p.srcRepStride)); \
    }                                                                                                                         \
    template <typename T, typename U> NPUSIM_CALLED void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<U> &bits, int32_t count, NPUSIM_AT) \
    {                                                                                                                         \
        npusim::compute(#Name, intrinsic, at, npusim::by_count(count), [](auto a, auto b) { return decltype(a)(a op b); }, npusim::operand(dst), npusim::operand(src), npusim::operand(bits)); \
    }
NPUSIM_SHIFT(ShiftLeft, "vshl", <<)
NPUSIM_SHIFT(ShiftRight, "vshr", >>)
#undef NPUSIM_SHIFT

template <typename T, typename U> NPUSIM_CALLED void Axpy(const LocalTensor<T> &dst, const LocalTensor<U> &src, U number, int32_t count, NPUSIM_AT)
{
    npusim::compute("Axpy", "vaxpy", at, npusim::by_count(count), [b = npusim::Wide<T>(number)](auto a, auto d) { return decltype(d)(d + a * b); }, npusim::operand(dst), npusim::operand(src), npusim::operand(dst));
}
template <typename T, typename U, bool isSetMask = true, typename Mask> NPUSIM_CALLED void Axpy(const LocalTensor<T> &dst, const LocalTensor<U> &src, U number, Mask mask, int32_t times, const UnaryRepeatParams &p, NPUSIM_AT)
{
    npusim::compute("Axpy", "vaxpy", at, NPUSIM_BY(sizeof(T) > sizeof(U) ? sizeof(T) : sizeof(U)), [b = npusim::Wide<T>(number)](auto a, auto d) { return decltype(d)(d + a * b); },
                    npusim::operand(dst, p.dstBlkStride, p.dstRepStride), npusim::operand(src, p.srcBlkStride, p.srcRepStride), npusim::operand(dst, p.dstBlkStride, p.dstRepStride));
}

template <typename T> NPUSIM_CALLED void Duplicate(const LocalTensor<T> &dst, const T &number, int32_t count, NPUSIM_AT)
{
    npusim::compute("Duplicate", "vector_dup", at, npusim::by_count(count), [b = npusim::load(&number)] { return b; }, npusim::operand(dst));
}
template <typename T, bool isSetMask = true, typename Mask> NPUSIM_CALLED void Duplicate(const LocalTensor<T> &dst, const T &number, Mask mask, int32_t times, uint16_t block, uint8_t repeat, NPUSIM_AT)
{
    npusim::compute("Duplicate", "vector_dup", at, NPUSIM_BY(sizeof(T)), [b = npusim::load(&number)] { return b; }, npusim::operand(dst, block, repeat));
}
template <typename T> void Duplicate(const LocalTensor<T> &dst, const LocalTensor<T> &number, int32_t count, NPUSIM_AT) { Duplicate(dst, number.as_operand(at), count, at); }

template <typename T, bool isSetMask = true, typename Mask> NPUSIM_CALLED void Copy(const LocalTensor<T> &dst, const LocalTensor<T> &src, Mask mask, int32_t times, const CopyRepeatParams &p, NPUSIM_AT)
{
    npusim::compute("Copy", "vcopy", at, NPUSIM_BY(sizeof(T)), [](auto a) { return a; }, npusim::operand(dst, p.dstStride, p.dstRepeatSize), npusim::operand(src, p.srcStride, p.srcRepeatSize));
}
template <typename T> NPUSIM_CALLED void Copy(const LocalTensor<T> &dst, const LocalTensor<T> &src, int32_t count, NPUSIM_AT)
{
    npusim::compute("Copy", "vcopy", at, npusim::by_count(count), [](auto a) { return a; }, npusim::operand(dst), npusim::operand(src));
}

} // namespace AscendC

namespace npusim {

using AscendC::RoundMode;

template <RoundMode mode> inline double rounded(double value)
{
    if constexpr (mode == RoundMode::CAST_FLOOR) return std::floor(value);
    else if constexpr (mode == RoundMode::CAST_CEIL) return std::ceil(value);
    else if constexpr (mode == RoundMode::CAST_ROUND) return std::round(value);
    else if constexpr (mode == RoundMode::CAST_TRUNC) return std::trunc(value);
    else return std::nearbyint(value);
}
template <typename D, typename S> D to_whole(S value)
{
    double wide = double(value);
    if (wide != wide) return D(0);
    constexpr D least = std::numeric_limits<D>::min(), most = std::numeric_limits<D>::max();
    return wide <= double(least) ? least : wide >= double(most) ? most : D(wide);
}
/* A float with fewer bits behind the point, in a mode that isn't to nearest. */
template <typename D, RoundMode mode> float shortened(float value)
{
    D near = D(value);
    float told = float(near);
    if constexpr (mode == RoundMode::CAST_NONE || mode == RoundMode::CAST_RINT || mode == RoundMode::CAST_ROUND) return told;
    if (told == value || told != told) return told;
    bool up = mode == RoundMode::CAST_CEIL || (mode == RoundMode::CAST_TRUNC && value < 0);
    if constexpr (mode == RoundMode::CAST_ODD) {
        D other = near;
        other.bits = uint16_t((told > value) == (told > 0) ? near.bits - 1 : near.bits + 1);
        return near.bits & 1 ? told : float(other);
    }
    if (up == (told > value)) return told;
    near.bits = uint16_t(up == (told >= 0 && !(near.bits & 0x8000)) ? near.bits + 1 : near.bits - 1);
    return float(near);
}
template <typename D, RoundMode mode, typename S> Wide<D> converted(S value)
{
    if constexpr (is_half<D>) return shortened<D, mode>(float(value));
    else if constexpr (std::is_floating_point_v<D>) {
        if constexpr (std::is_floating_point_v<S> && mode != RoundMode::CAST_NONE) return D(rounded<mode>(double(value)));
        else return D(value);
    } else if constexpr (std::is_floating_point_v<S>) return to_whole<D>(rounded<mode>(double(value)));
    else return sizeof(D) < sizeof(S) ? to_whole<D>(value) : D(value);
}
inline float from_bits(uint32_t bits)
{
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}
/* Ways to round that give the same numbers are computed as one. */
template <typename D, typename S> constexpr RoundMode computed_as(RoundMode mode)
{
    constexpr bool whole = std::is_integral_v<S>, narrow = sizeof(S) < sizeof(float);
    if constexpr (std::is_floating_point_v<D>) return whole || narrow ? RoundMode::CAST_NONE : mode;
    else if constexpr (is_half<D>) return mode == RoundMode::CAST_RINT || mode == RoundMode::CAST_ROUND ? RoundMode::CAST_NONE : mode;
    else return whole || mode == RoundMode::CAST_RINT || mode == RoundMode::CAST_ODD ? RoundMode::CAST_NONE : mode;
}
template <RoundMode mode, typename D, typename S> void cast_as(const Lanes &lanes, const Operand<D> &dst, const Operand<S> &src)
{
    float scale = 1; /* of 32 bits to half: what SetDeqScale told */
    if constexpr (is_half<D> && std::is_same_v<S, int32_t>) scale = current->registers[8] ? from_bits(uint32_t(current->registers[8])) : 1;
    in_runs(lanes, [&](int64_t turn, int64_t first, int64_t count) {
        D *to = dst.at(turn, first);
        const S *from = src.at(turn, first);
        if (scale != 1) {
            for (int64_t each = 0; each < count; each++) store(to + each, converted<D, mode>(scale * float(load(from + each))));
            return;
        }
#pragma GCC ivdep
        for (int64_t each = 0; each < count; each++) store(to + each, converted<D, mode>(load(from + each)));
    }, dst, src);
}
template <typename D, typename S> NPUSIM_CALLED void cast(const Lanes &lanes, const Operand<D> &dst, const Operand<S> &src, RoundMode mode, Site at)
{
    /* the source's type, and the target's behind it */
    Instruction told = {"Cast", "vconv", VECTOR, V, type_of<S>(), 1, 1, {lanes.rows(), lanes.each(), 0, dst.block * 32, src.block * 32, 0, type_of<D>() + 1, int64_t(mode)}, {src.span(lanes)}, {dst.span(lanes)}};
    issue(told, at);
#define NPUSIM_WAY(way) case RoundMode::way: return cast_as<computed_as<D, S>(RoundMode::way)>(lanes, dst, src);
    switch (mode) {
        NPUSIM_WAY(CAST_RINT) NPUSIM_WAY(CAST_FLOOR) NPUSIM_WAY(CAST_CEIL) NPUSIM_WAY(CAST_ROUND) NPUSIM_WAY(CAST_TRUNC) NPUSIM_WAY(CAST_ODD)
    default: return cast_as<RoundMode::CAST_NONE>(lanes, dst, src);
    }
#undef NPUSIM_WAY
}

} // namespace npusim

namespace AscendC {

template <typename T> void SetDeqScale(T scale)
{
    float value = float(scale);
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    npusim::current->registers[8] = bits;
}
template <typename T, typename U> NPUSIM_CALLED void Cast(const LocalTensor<T> &dst, const LocalTensor<U> &src, RoundMode mode, uint32_t count, NPUSIM_AT)
{
    if constexpr (std::is_same_v<U, int4b_t> || std::is_same_v<T, int4b_t>) {
        /* as long as from and to 8 bits: profiles have no times for 4 */
        constexpr int source = std::is_same_v<U, int4b_t> ? 2 : npusim::type_of<U>(), target = std::is_same_v<T, int4b_t> ? 2 : npusim::type_of<T>();
        npusim::Instruction told = {"Cast", "vconv", npusim::VECTOR, npusim::V, source, 1, 1, {1, int64_t(count), 0, 32, 32, 0, target + 1, int64_t(mode)}, {npusim::row(src, count)}, {npusim::row(dst, count)}};
        npusim::issue(told, at);
        for (uint32_t each = 0; each < count; each++) {
            int shift = each & 1 ? 4 : 0;
            if constexpr (std::is_same_v<U, int4b_t>) npusim::store(dst.data() + each, float(int8_t((src.data()[each / 2].bits >> shift & 15) << 4) >> 4));
            else {
                float value = float(src.data()[each]);
                int whole = int(mode == RoundMode::CAST_CEIL ? std::ceil(value) : mode == RoundMode::CAST_FLOOR ? std::floor(value) : mode == RoundMode::CAST_ROUND ? std::round(value) : mode == RoundMode::CAST_TRUNC ? std::trunc(value) : std::nearbyint(value));
                whole = whole < -8 ? -8 : whole > 7 ? 7 : whole;
                uint8_t &bits = dst.data()[each / 2].bits;
                bits = uint8_t((bits & ~(15 << shift)) | (whole & 15) << shift);
            }
        }
    } else npusim::cast(npusim::by_count(count), npusim::operand(dst), npusim::operand(src), mode, at);
}
template <typename T, typename U, bool isSetMask = true, typename Mask> NPUSIM_CALLED void Cast(const LocalTensor<T> &dst, const LocalTensor<U> &src, RoundMode mode, Mask mask, int32_t times, const UnaryRepeatParams &p, NPUSIM_AT)
{
    if constexpr (std::is_same_v<U, int4b_t> || std::is_same_v<T, int4b_t>) { /* two to a byte: repeat by repeat */
        for (uint32_t turn = 0; turn < times; turn++)
            Cast(dst[turn * p.dstRepStride * (std::is_same_v<T, int4b_t> ? 64 : 32 / uint32_t(sizeof(T)))], src[turn * p.srcRepStride * (std::is_same_v<U, int4b_t> ? 64 : 32 / uint32_t(sizeof(U)))], mode, uint32_t(mask), at);
    } else npusim::cast(NPUSIM_BY(sizeof(T) > sizeof(U) ? sizeof(T) : sizeof(U)), npusim::operand(dst, p.dstBlkStride, p.dstRepStride), npusim::operand(src, p.srcBlkStride, p.srcRepStride), mode, at);
}
template <typename D, typename S, RoundMode mode = RoundMode::CAST_NONE> D ScalarCast(S value) { return D(npusim::converted<D, mode>(npusim::load(&value))); }
template <typename D, typename S, RoundMode mode> D Cast(S value) { return D(npusim::converted<D, mode>(npusim::load(&value))); }
inline bfloat16_t ToBfloat16(const float &value) { return bfloat16_t(value); }
inline float ToFloat(const bfloat16_t &value) { return float(value); }

} // namespace AscendC

#endif

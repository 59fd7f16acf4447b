/* Libraries of Ascend C that work element by element: mathematics and activations.
 *
 * Each is a chain of vector instructions, which is what it costs; its numbers are computed at once, in float. */
#ifndef NPUSIM_KERNEL_MATH_H
#define NPUSIM_KERNEL_MATH_H

namespace npusim {

using Steps = std::initializer_list<const char *>;

/* A chain of instructions: the first one reads the sources, all of them write what the next one reads. */
template <typename P> void chain(const char *name, Site at, int64_t rows, int64_t count, Steps steps, const Span &to, std::initializer_list<Span> from)
{
    bool first = true;
    for (const char *step : steps) {
        if (first) announce_rows<P>(name, step, at, rows, count, {to}, from);
        else announce_rows<P>(name, step, at, rows, count, {to}, {to});
        first = false;
    }
}
template <typename T> using Priced = std::conditional_t<is_half<T>, float, T>;

template <typename D, typename F, typename... S> void mapped(const char *name, Site at, int64_t count, Steps steps, F function, const LocalTensor<D> &dst, const LocalTensor<S> &...src)
{
    chain<Priced<D>>(name, at, 1, count, steps, row(dst, count), {row(src, count)...});
    auto loop = [count, &function](D *to, const S *...from) {
#pragma GCC ivdep
        for (int64_t each = 0; each < count; each++) store(to + each, function(load(from + each)...));
    };
    loop(dst.data(), src.data()...);
}

} // namespace npusim

namespace AscendC {

inline float npusim_digamma(float number)
{
    double x = number, sum = 0;
    for (; x < 6; x++) sum -= 1 / x;
    double inverse = 1 / (x * x);
    return float(sum + std::log(x) - 0.5 / x - inverse * (1.0 / 12 - inverse * (1.0 / 120 - inverse / 252)));
}

/* Each by count or for all of the source, with scratch memory or without, and by the signature that libraries pass on. */
#define NPUSIM_MATH(Name, body, ...)                                                                                          \
    template <typename T, bool isReuseSource = false> void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<uint8_t> &, uint32_t count, NPUSIM_AT) \
    {                                                                                                                         \
        npusim::mapped(#Name, at, count, {__VA_ARGS__}, [](auto x) { return decltype(x)(body); }, dst, src);                  \
    }                                                                                                                         \
    template <typename T, bool isReuseSource = false> void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<uint8_t> &tmp, NPUSIM_AT) { Name(dst, src, tmp, src.GetSize(), at); }
#define NPUSIM_MATH_PLAIN(Name)                                                                                               \
    template <typename T, bool isReuseSource = false> void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src, uint32_t count, NPUSIM_AT) { Name(dst, src, LocalTensor<uint8_t>(), count, at); } \
    template <typename T, bool isReuseSource = false> void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src, NPUSIM_AT) { Name(dst, src, LocalTensor<uint8_t>(), src.GetSize(), at); } \
    template <typename T, bool isReuseSource = false, typename D = LocalTensor<T>> void Name(const D &dst, const LocalTensor<T> &src, const uint32_t count) { Name(static_cast<const LocalTensor<T> &>(dst), src, LocalTensor<uint8_t>(), count, npusim::Site{__FILE__, __LINE__}); }
#define NPUSIM_SERIES "vmul", "vmuls", "vadds", "vmul", "vadds", "vmul", "vadds", "vmul", "vadds", "vmul", "vadds", "vmul"
NPUSIM_MATH(Acos, std::acos(x), "vmuls", NPUSIM_SERIES, "vsqrt", "vmul", "vadds") NPUSIM_MATH_PLAIN(Acos)
NPUSIM_MATH(Acosh, std::acosh(x), "vmul", "vadds", "vsqrt", "vadd", "vln") NPUSIM_MATH_PLAIN(Acosh)
NPUSIM_MATH(Asin, std::asin(x), "vmuls", NPUSIM_SERIES, "vsqrt", "vmul", "vadds") NPUSIM_MATH_PLAIN(Asin)
NPUSIM_MATH(Asinh, std::asinh(x), "vmul", "vadds", "vsqrt", "vadd", "vln") NPUSIM_MATH_PLAIN(Asinh)
NPUSIM_MATH(Atan, std::atan(x), "vmuls", NPUSIM_SERIES, "vmul", "vadds") NPUSIM_MATH_PLAIN(Atan)
NPUSIM_MATH(Atanh, std::atanh(x), "vadds", "vmuls", "vdiv", "vln", "vmuls") NPUSIM_MATH_PLAIN(Atanh)
NPUSIM_MATH(Cos, std::cos(x), "vmuls", NPUSIM_SERIES, "vmul") NPUSIM_MATH_PLAIN(Cos)
NPUSIM_MATH(Cosh, std::cosh(x), "vexp", "vrec", "vadd", "vmuls") NPUSIM_MATH_PLAIN(Cosh)
NPUSIM_MATH(Digamma, npusim_digamma(x), NPUSIM_SERIES, "vln", "vrec", "vsub") NPUSIM_MATH_PLAIN(Digamma)
NPUSIM_MATH(Erf, std::erf(x), NPUSIM_SERIES, NPUSIM_SERIES, "vdiv", "vmul") NPUSIM_MATH_PLAIN(Erf)
NPUSIM_MATH(Erfc, std::erfc(x), NPUSIM_SERIES, NPUSIM_SERIES, "vdiv", "vmul", "vadds") NPUSIM_MATH_PLAIN(Erfc)
NPUSIM_MATH(Frac, x - std::trunc(x), "vmuls", "vmuls", "vsub") NPUSIM_MATH_PLAIN(Frac)
NPUSIM_MATH(Lgamma, std::lgamma(x), NPUSIM_SERIES, "vln", "vmul", "vsub") NPUSIM_MATH_PLAIN(Lgamma)
NPUSIM_MATH(Log, std::log(x), "vln") NPUSIM_MATH_PLAIN(Log)
NPUSIM_MATH(Log2, std::log2(x), "vln", "vmuls") NPUSIM_MATH_PLAIN(Log2)
NPUSIM_MATH(Log10, std::log10(x), "vln", "vmuls") NPUSIM_MATH_PLAIN(Log10)
NPUSIM_MATH(Round, std::nearbyint(x), "vmuls", "vmuls") NPUSIM_MATH_PLAIN(Round)
NPUSIM_MATH(Rint, std::nearbyint(x), "vmuls", "vmuls") NPUSIM_MATH_PLAIN(Rint)
NPUSIM_MATH(Trunc, std::trunc(x), "vmuls", "vmuls") NPUSIM_MATH_PLAIN(Trunc)
NPUSIM_MATH(Ceil, std::ceil(x), "vmuls", "vmuls") NPUSIM_MATH_PLAIN(Ceil)
NPUSIM_MATH(Floor, std::floor(x), "vmuls", "vmuls") NPUSIM_MATH_PLAIN(Floor)
NPUSIM_MATH(Sign, (x > 0) - (x < 0), "vmuls", "vmaxs", "vmins", "vadd") NPUSIM_MATH_PLAIN(Sign)
NPUSIM_MATH(Sin, std::sin(x), "vmuls", NPUSIM_SERIES, "vmul") NPUSIM_MATH_PLAIN(Sin)
NPUSIM_MATH(Sinh, std::sinh(x), "vexp", "vrec", "vsub", "vmuls") NPUSIM_MATH_PLAIN(Sinh)
NPUSIM_MATH(Tan, std::tan(x), "vmuls", NPUSIM_SERIES, "vdiv") NPUSIM_MATH_PLAIN(Tan)
NPUSIM_MATH(Tanh, std::tanh(x), "vmins", "vmaxs", "vmuls", "vexp", "vadds", "vdiv") NPUSIM_MATH_PLAIN(Tanh)
NPUSIM_MATH(Sigmoid, 1 / (1 + std::exp(-x)), "vmuls", "vexp", "vadds", "vdiv") NPUSIM_MATH_PLAIN(Sigmoid)
NPUSIM_MATH(Silu, x / (1 + std::exp(-x)), "vmuls", "vexp", "vadds", "vdiv") NPUSIM_MATH_PLAIN(Silu)
NPUSIM_MATH(Gelu, x / (1 + std::exp(-1.5957691f * (x + 0.044715f * x * x * x))), "vmul", "vmul", "vmuls", "vadd", "vmuls", "vexp", "vadds", "vdiv")
template <typename T, bool highPrecision = false, bool highPerformance = false> void Gelu(const LocalTensor<T> &dst, const LocalTensor<T> &src, uint32_t count, NPUSIM_AT) { Gelu<T>(dst, src, LocalTensor<uint8_t>(), count, at); }
NPUSIM_MATH(FasterGelu, x / (1 + std::exp(-1.702f * x)), "vmuls", "vexp", "vadds", "vdiv") NPUSIM_MATH_PLAIN(FasterGelu)
NPUSIM_MATH(FasterGeluV2, x / (1 + std::exp(-1.702f * x)), "vmuls", "vmins", "vmul", "vmuls", "vadds", "vabs", "vadd", "vmul") NPUSIM_MATH_PLAIN(FasterGeluV2)
#undef NPUSIM_MATH
#undef NPUSIM_MATH_PLAIN
template <typename T, uint8_t order = 0, bool isReuseSource = false> void Exp(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<uint8_t> &, uint32_t count, NPUSIM_AT)
{
    npusim::mapped("Exp", at, count, {"vmuls", "vsub", "vexp", "vmul", "vadds", "vmul"}, [](auto x) { return decltype(x)(std::exp(x)); }, dst, src);
}
template <typename T, bool isReuseSource = false> void Swish(const LocalTensor<T> &dst, const LocalTensor<T> &src, uint32_t count, T scale, NPUSIM_AT)
{
    npusim::mapped("Swish", at, count, {"vmuls", "vexp", "vadds", "vdiv"}, [b = npusim::load(&scale)](auto x) { return decltype(x)(x / (1 + std::exp(-b * x))); }, dst, src);
}
template <typename T, typename U, bool isReuseSource = false> void Axpy(const LocalTensor<T> &dst, const LocalTensor<U> &src, U number, const LocalTensor<uint8_t> &, uint32_t count, NPUSIM_AT)
{
    npusim::mapped("Axpy", at, count, {"vmuls", "vadd"}, [b = npusim::Wide<T>(number)](auto x, auto d) { return decltype(d)(d + x * b); }, dst, src, dst);
}

/* Two operands. */
#define NPUSIM_TWO(Name, body, ...)                                                                                           \
    template <typename T, bool isReuseSource = false> void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1, const LocalTensor<uint8_t> &, uint32_t count, NPUSIM_AT) \
    {                                                                                                                         \
        npusim::mapped(#Name, at, count, {__VA_ARGS__}, [](auto x, auto y) { return decltype(x)(body); }, dst, src0, src1);   \
    }                                                                                                                         \
    template <typename T, bool isReuseSource = false> void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1, const LocalTensor<uint8_t> &tmp, NPUSIM_AT) { Name(dst, src0, src1, tmp, src0.GetSize(), at); } \
    template <typename T, bool isReuseSource = false> void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1, uint32_t count, NPUSIM_AT) { Name(dst, src0, src1, LocalTensor<uint8_t>(), count, at); } \
    template <typename T, bool isReuseSource = false> void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1, NPUSIM_AT) { Name(dst, src0, src1, LocalTensor<uint8_t>(), src0.GetSize(), at); }
NPUSIM_TWO(Xor, x ^ y, "vand", "vor", "vnot", "vand")
NPUSIM_TWO(GeGLU, x * (y / (1 + std::exp(-1.5957691f * (y + 0.044715f * y * y * y)))), "vmul", "vmul", "vmuls", "vadd", "vmuls", "vexp", "vadds", "vdiv", "vmul")
NPUSIM_TWO(ReGlu, x *(y > 0 ? y : 0), "vmaxs", "vmul")
#undef NPUSIM_TWO
template <typename T, bool isReuseSource = false> void SwiGLU(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1, const float &scale, const LocalTensor<uint8_t> &, uint32_t count, NPUSIM_AT)
{
    npusim::mapped("SwiGLU", at, count, {"vmuls", "vexp", "vadds", "vdiv", "vmul"}, [scale](auto x, auto y) { return decltype(x)(x * (y / (1 + std::exp(-scale * y)))); }, dst, src0, src1);
}
template <typename T, bool isReuseSource = false> void SwiGLU(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1, const float &scale, const LocalTensor<uint8_t> &tmp, NPUSIM_AT) { SwiGLU(dst, src0, src1, scale, tmp, src0.GetSize(), at); }
template <typename T, bool isReuseSource = false> void SwiGLU(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1, const float &scale, uint32_t count, NPUSIM_AT) { SwiGLU(dst, src0, src1, scale, LocalTensor<uint8_t>(), count, at); }
template <typename T, bool isReuseSource = false> void SwiGLU(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1, const float &scale, NPUSIM_AT) { SwiGLU(dst, src0, src1, scale, LocalTensor<uint8_t>(), src0.GetSize(), at); }

enum class FmodAlgo { NORMAL = 0, ITERATION_COMPENSATION = 1 };
constexpr uint32_t FMOD_ITERATION_NUM_MAX = 11;
struct FmodConfig {
    FmodAlgo algo = FmodAlgo::NORMAL;
    uint32_t iterationNum = FMOD_ITERATION_NUM_MAX;
};
inline constexpr FmodConfig DEFAULT_FMOD_CONFIG = {};
template <typename T, bool isReuseSource = false, NPUSIM_SETTING(FmodConfig) config = DEFAULT_FMOD_CONFIG> void Fmod(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1, const LocalTensor<uint8_t> &, uint32_t count, NPUSIM_AT)
{
    npusim::mapped("Fmod", at, count, {"vdiv", "vmuls", "vmul", "vsub"}, [](auto x, auto y) { return decltype(x)(std::fmod(x, y)); }, dst, src0, src1);
}
template <typename T, bool isReuseSource = false, NPUSIM_SETTING(FmodConfig) config = DEFAULT_FMOD_CONFIG> void Fmod(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1, const LocalTensor<uint8_t> &tmp, NPUSIM_AT) { Fmod(dst, src0, src1, tmp, src0.GetSize(), at); }
template <typename T, bool isReuseSource = false, NPUSIM_SETTING(FmodConfig) config = DEFAULT_FMOD_CONFIG> void Fmod(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1, uint32_t count, NPUSIM_AT) { Fmod(dst, src0, src1, LocalTensor<uint8_t>(), count, at); }
template <typename T, bool isReuseSource = false, NPUSIM_SETTING(FmodConfig) config = DEFAULT_FMOD_CONFIG> void Fmod(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1, NPUSIM_AT) { Fmod(dst, src0, src1, LocalTensor<uint8_t>(), src0.GetSize(), at); }

enum class PowerAlgo { INTRINSIC = 0, DOUBLE_FLOAT_TECH };
struct PowerConfig {
    PowerAlgo algo = PowerAlgo::INTRINSIC;
};
inline constexpr PowerConfig defaultPowerConfig = {};
template <typename T, bool isReuseSource = false, NPUSIM_SETTING(PowerConfig) config = defaultPowerConfig, typename X, typename Y> void Power(const LocalTensor<T> &dst, const X &base, const Y &exponent, const LocalTensor<uint8_t> &, uint32_t count, NPUSIM_AT)
{
    auto power = [](auto x, auto y) { return decltype(x)(std::pow(double(x), double(y))); };
    npusim::Steps steps = {"vln", "vmul", "vexp", "vmuls", "vadds", "vmul"};
    if constexpr (npusim::IsTensor<X>::value && npusim::IsTensor<Y>::value) npusim::mapped("Power", at, count, steps, power, dst, base, exponent);
    else if constexpr (npusim::IsTensor<X>::value) npusim::mapped("Power", at, count, steps, [&, y = npusim::Wide<T>(exponent)](auto x) { return power(x, y); }, dst, base);
    else npusim::mapped("Power", at, count, steps, [&, x = npusim::Wide<T>(base)](auto y) { return power(x, y); }, dst, exponent);
}
template <typename T, bool isReuseSource = false, NPUSIM_SETTING(PowerConfig) config = defaultPowerConfig, typename X, typename Y> void Power(const LocalTensor<T> &dst, const X &base, const Y &exponent, const LocalTensor<uint8_t> &tmp, NPUSIM_AT)
{
    uint32_t count;
    if constexpr (npusim::IsTensor<X>::value) count = base.GetSize();
    else count = exponent.GetSize();
    Power<T>(dst, base, exponent, tmp, count, at);
}
#define NPUSIM_CLAMP(Name, body, step)                                                                                        \
    template <typename T, bool isReuseSource = false> void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<uint8_t> &, T bound, uint32_t count, NPUSIM_AT) \
    {                                                                                                                         \
        npusim::mapped(#Name, at, count, {step}, [b = npusim::load(&bound)](auto x) { return decltype(x)(body); }, dst, src); \
    }                                                                                                                         \
    template <typename T, bool isReuseSource = false> void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src, T bound, uint32_t count, NPUSIM_AT) { Name(dst, src, LocalTensor<uint8_t>(), bound, count, at); }
NPUSIM_CLAMP(ClampMax, x < b ? x : b, "vmins")
NPUSIM_CLAMP(ClampMin, x > b ? x : b, "vmaxs")
#undef NPUSIM_CLAMP

} // namespace AscendC

#endif

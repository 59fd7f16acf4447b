/* Words and types of device code: qualifiers, half types with their conversions. */
#ifndef NPUSIM_KERNEL_TYPES_H
#define NPUSIM_KERNEL_TYPES_H

#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <type_traits>

#define __global__
#define __aicore__
#define __vector__
#define __cube__
#define __mix__(...)
#define __gm__
#ifndef NPUSIM_MEMORIES_STAY /* which a translation takes away, npusim/capi/launch_syntax.py */
#define __ubuf__
#define __cbuf__
#define __ca__
#define __cb__
#define __cc__
#define __fbuf__
#define __biasbuf__
#endif
#define __kfc_workspace__
#define __simd_callee__
#define __sync_alias__
#define __no_simd_vf_fusion__
#define __check_sync_alias__
#define __inout_pipe__(...)
#define __in_pipe__(...)
#define __out_pipe__(...)
#ifndef __NPU_ARCH__
#define __NPU_ARCH__ 2201
#endif
#ifndef __CCE_AICORE__
#define __CCE_AICORE__ 220
#endif
#define GM_ADDR uint8_t *
/* A setting as a template's argument: by its value, where it may be; GCC 12 breaks at references to those of functions. */
#ifdef NPUSIM_SETTINGS_BY_VALUE
#define NPUSIM_SETTING(Type) Type
#else
#define NPUSIM_SETTING(Type) const Type &
#endif
#define ASSERT(...) /* nothing, as on the device: some write it behind an expression */
#define ascendc_assert(...) ((void)0)
#define KERNEL_TASK_TYPE_DEFAULT(kind)
#define KERNEL_TASK_TYPE(key, kind)
#define ASCENDC_ASSERT(...) ((void)0)
#define KERNEL_LOG(...) ((void)0)
#define REGISTER_NONE_TILING
#ifndef likely
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#endif

namespace npusim {

/* Conversions without branches, so that the compiler makes them for several elements at a time. */
inline float widened(uint16_t bits)
{
    uint32_t sign = uint32_t(bits & 0x8000u) << 16, rest = uint32_t(bits & 0x7fffu) << 13;
    float number;
    std::memcpy(&number, &rest, 4);
    number *= 0x1p112f;
    uint32_t word;
    std::memcpy(&word, &number, 4);
    word = (rest >= 0x0f800000u ? rest | 0x7f800000u : word) | sign;
    std::memcpy(&number, &word, 4);
    return number;
}
inline uint16_t narrowed(float number)
{
    uint32_t word, sign, small;
    std::memcpy(&word, &number, 4);
    sign = word >> 16 & 0x8000u;
    word &= 0x7fffffffu;
    float above;
    std::memcpy(&above, &word, 4);
    above += 0.5f; /* below the normal numbers, the adder rounds */
    std::memcpy(&small, &above, 4);
    small -= 0x3f000000u;
    uint32_t normal = (word + 0xc8000fffu + (word >> 13 & 1)) >> 13;
    uint32_t large = word > 0x7f800000u ? 0x7e00u : 0x7c00u;
    uint32_t told = word < 0x38800000u ? small : word >= 0x47800000u ? large : normal;
    return uint16_t(told | sign);
}
inline float widened_bf16(uint16_t bits)
{
    uint32_t word = uint32_t(bits) << 16;
    float number;
    std::memcpy(&number, &word, 4);
    return number;
}
inline uint16_t narrowed_bf16(float number)
{
    uint32_t word;
    std::memcpy(&word, &number, 4);
    uint32_t told = (word + 0x7fffu + (word >> 16 & 1)) >> 16;
    return uint16_t((word & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : told);
}

} // namespace npusim

#define NPUSIM_HALF(Name, widen, narrow)                                              \
    struct Name {                                                                     \
        uint16_t bits;                                                                \
        Name() = default;                                                             \
        constexpr Name(const Name &) = default;                                       \
        Name &operator=(const Name &) = default;                                      \
        template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>   \
        Name(T number) : bits(npusim::narrow(float(number))) {}                       \
        operator float() const { return npusim::widen(bits); }                        \
        template <typename T> Name &operator+=(T other) { return *this = Name(float(*this) + float(other)); } \
        template <typename T> Name &operator-=(T other) { return *this = Name(float(*this) - float(other)); } \
        template <typename T> Name &operator*=(T other) { return *this = Name(float(*this) * float(other)); } \
        template <typename T> Name &operator/=(T other) { return *this = Name(float(*this) / float(other)); } \
    };
NPUSIM_HALF(half, widened, narrowed)
NPUSIM_HALF(bfloat16_t, widened_bf16, narrowed_bf16)
#undef NPUSIM_HALF
/* Two of them make one that is rounded, as where the type is the machine's. */
template <typename T, typename U> constexpr bool npusim_halves = std::is_same_v<T, half> && std::is_same_v<U, half>;
template <typename T, typename U> std::enable_if_t<npusim_halves<T, U>, half> operator+(T one, U other) { return half(float(one) + float(other)); }
template <typename T, typename U> std::enable_if_t<npusim_halves<T, U>, half> operator-(T one, U other) { return half(float(one) - float(other)); }
template <typename T, typename U> std::enable_if_t<npusim_halves<T, U>, half> operator*(T one, U other) { return half(float(one) * float(other)); }
template <typename T, typename U> std::enable_if_t<npusim_halves<T, U>, half> operator/(T one, U other) { return half(float(one) / float(other)); }
using float16_t = half;

namespace AscendC {
struct int4b_t { /* two to a byte */
    uint8_t bits;
    int4b_t() = default;
    int4b_t(int number) : bits(uint8_t(number & 15)) {}
    operator int() const { return int8_t(bits << 4) >> 4; }
};
struct fp8_e4m3fn_t { uint8_t bits; };
struct fp8_e5m2_t { uint8_t bits; };
} // namespace AscendC
using AscendC::int4b_t;

namespace npusim {

/* The number of a type, that of aclDataType. */
template <typename T> constexpr int type_of()
{
    using U = std::remove_cv_t<T>;
    if constexpr (std::is_same_v<U, half>) return 1;
    else if constexpr (std::is_same_v<U, bfloat16_t>) return 27;
    else if constexpr (std::is_same_v<U, float>) return 0;
    else if constexpr (std::is_same_v<U, double>) return 11;
    else if constexpr (std::is_same_v<U, bool>) return 12;
    else if constexpr (std::is_same_v<U, AscendC::int4b_t>) return 29;
    else if constexpr (!std::is_integral_v<U>) return 4;
    else if constexpr (std::is_signed_v<U>) return sizeof(U) == 1 ? 2 : sizeof(U) == 2 ? 6 : sizeof(U) == 4 ? 3 : 9;
    else return sizeof(U) == 1 ? 4 : sizeof(U) == 2 ? 7 : sizeof(U) == 4 ? 8 : 10;
}

template <typename T> constexpr bool is_half = std::is_same_v<std::remove_cv_t<T>, half> || std::is_same_v<std::remove_cv_t<T>, bfloat16_t>;
/* What a type is computed in. */
template <typename T> using Wide = std::conditional_t<is_half<T>, float, T>;
template <typename T> constexpr int64_t bytes_of(int64_t count)
{
    return std::is_same_v<T, AscendC::int4b_t> ? (count + 1) / 2 : count * int64_t(sizeof(T));
}

} // namespace npusim

#endif

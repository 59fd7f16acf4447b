/* What a kernel's functions and the simulator tell each other, and the launch of kernels. */
#ifndef NPUSIM_KERNEL_CALL_H
#define NPUSIM_KERNEL_CALL_H

#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>

#include "acl/acl.h"

#define __global__
#define __aicore__
#define __vector__
#define __cube__
#define __mix__(...)
#define __gm__
#define __ubuf__
#define __cbuf__
#define __aiv__
#define __aic__
#define __NPU_ARCH__ 2201
#define GM_ADDR uint8_t *
#define block_idx (::npusim::ask("GetBlockIdx"))
#define NPUSIM_LINE const char *file = __builtin_FILE(), int line = __builtin_LINE()

extern "C" {
/* @npusim_call@ */
int npusim_kernel_call(npusim_call_t *call);
int npusim_kernel_launch(const char *name, int kind, uint32_t blocks, uintptr_t stream,
                         uintptr_t run, uintptr_t context);
}

/* Half types: numbers are computed by the simulator, so these only hold and convert them. */
struct half {
    uint16_t bits = 0;
    half() = default;
    half(float value)
    {
        uint32_t word;
        std::memcpy(&word, &value, 4);
        uint32_t sign = word >> 16 & 0x8000u, mantissa = word & 0x7fffffu;
        int32_t exponent = int32_t(word >> 23 & 0xff) - 112;
        if (exponent >= 31) {
            bool nan = (word & 0x7fffffffu) > 0x7f800000u;
            bits = uint16_t(sign | 0x7c00u | (nan ? 0x200u : 0u));
            return;
        }
        if (exponent <= 0) {
            if (exponent < -10) {
                bits = uint16_t(sign);
                return;
            }
            mantissa |= 0x800000u;
            uint32_t shift = uint32_t(14 - exponent), kept = mantissa >> shift;
            uint32_t rest = mantissa & ((1u << shift) - 1), middle = 1u << (shift - 1);
            bits = uint16_t(sign | (kept + (rest > middle || (rest == middle && (kept & 1)))));
            return;
        }
        uint32_t kept = uint32_t(exponent) << 10 | mantissa >> 13, rest = mantissa & 0x1fffu;
        bits = uint16_t(sign | (kept + (rest > 0x1000u || (rest == 0x1000u && (kept & 1)))));
    }
    operator float() const
    {
        uint32_t sign = uint32_t(bits & 0x8000u) << 16, exponent = bits >> 10 & 31, part = bits & 1023;
        float value = exponent == 0    ? float(part) / 16777216.0f
                      : exponent == 31 ? (part ? __builtin_nanf("") : __builtin_inff())
                                       : __builtin_ldexpf(float(part + 1024), int(exponent) - 25);
        return sign ? -value : value;
    }
};
struct bfloat16_t {
    uint16_t bits = 0;
    bfloat16_t() = default;
    bfloat16_t(float value)
    {
        uint32_t word;
        std::memcpy(&word, &value, 4);
        bits = uint16_t((word + 0x7fffu + (word >> 16 & 1)) >> 16);
    }
    operator float() const
    {
        uint32_t word = uint32_t(bits) << 16;
        float value;
        std::memcpy(&value, &word, 4);
        return value;
    }
};

namespace npusim {

struct Ended {}; /* the simulator has refused an instruction: the kernel is left */

/* The number of a type, that of aclDataType. */
template <typename T> constexpr int type_of()
{
    if constexpr (std::is_same_v<T, half>) return 1;
    else if constexpr (std::is_same_v<T, bfloat16_t>) return 27;
    else if constexpr (std::is_same_v<T, float>) return 0;
    else if constexpr (std::is_same_v<T, int8_t>) return 2;
    else if constexpr (std::is_same_v<T, uint8_t>) return 4;
    else if constexpr (std::is_same_v<T, int16_t>) return 6;
    else if constexpr (std::is_same_v<T, uint16_t>) return 7;
    else if constexpr (std::is_same_v<T, int32_t>) return 3;
    else if constexpr (std::is_same_v<T, uint32_t>) return 8;
    else if constexpr (std::is_same_v<T, int64_t>) return 9;
    else if constexpr (std::is_same_v<T, uint64_t>) return 10;
    else if constexpr (std::is_same_v<T, double>) return 11;
    else return 12;
}

class Call {
public:
    Call(const char *name, const char *file, int line)
    {
        call_.name = name;
        call_.file = file;
        call_.line = line;
    }
    Call &with(const npusim_operand_t &operand)
    {
        call_.operand[call_.operands++] = operand;
        return *this;
    }
    Call &with(int64_t number)
    {
        call_.integer[call_.integers++] = number;
        return *this;
    }
    Call &real(double number)
    {
        call_.real[call_.reals++] = number;
        return *this;
    }
    npusim_call_t &play()
    {
        if (npusim_kernel_call(&call_)) throw Ended();
        return call_;
    }

private:
    npusim_call_t call_ = {};
};

inline int64_t ask(const char *what, NPUSIM_LINE) { return Call(what, file, line).play().whole; }

inline int run(uintptr_t context, int ends)
{
    auto *kernel = reinterpret_cast<std::function<void()> *>(context);
    if (ends) {
        delete kernel;
        return 0;
    }
    try {
        (*kernel)();
    } catch (const Ended &) {
        return 1;
    }
    return 0;
}

/* name<<<blocks, l2ctrl, stream>>>(...): kind is 0 on vector cores, 1 on cube cores, 2 on both. */
inline void launch(const char *name, int kind, uint32_t blocks, aclrtStream stream,
                   std::function<void()> kernel)
{
    auto context = reinterpret_cast<uintptr_t>(new std::function<void()>(std::move(kernel)));
    npusim_kernel_launch(name, kind, blocks, reinterpret_cast<uintptr_t>(stream),
                         reinterpret_cast<uintptr_t>(&run), context);
}

} // namespace npusim

#endif

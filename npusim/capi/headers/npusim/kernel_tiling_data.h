/* Tiling data of a kernel by macros, as kernels of operator projects read them; the structure is named in the kernel. */
#ifndef NPUSIM_KERNEL_TILING_DATA_H
#define NPUSIM_KERNEL_TILING_DATA_H

#include <cstring>

#define REGISTER_TILING_FOR_TILINGKEY(condition, Type) static_assert(sizeof(Type) > 0) /* kernels name it where they read it */
#define REGISTER_TILING_DEFAULT(Type) using NpusimTilingData [[maybe_unused]] = Type
#define GET_TILING_DATA_WITH_STRUCT(Type, name, from)                                                                          \
    Type name;                                                                                                                 \
    std::memcpy(static_cast<void *>(&name), reinterpret_cast<const void *>(from), sizeof name)
#define GET_TILING_DATA(name, from) GET_TILING_DATA_WITH_STRUCT(NpusimTilingData, name, from)
#define GET_TILING_DATA_MEMBER(Type, member, name, from) auto name = reinterpret_cast<const Type *>(from)->member
/* A structure from its bytes while a kernel is compiled, as the device's compiler has it. */
template <typename T> constexpr T convert_from_bytes(const uint8_t *bytes)
{
    struct Bytes {
        uint8_t all[sizeof(T)];
    } copied{};
    for (size_t each = 0; each < sizeof(T); each++) copied.all[each] = bytes[each];
    return __builtin_bit_cast(T, copied);
}
/* The key that an operator's host side would choose: -DTILING_KEY_VAR=... */
#ifndef TILING_KEY_VAR
#define TILING_KEY_VAR 0
#endif
#define TILING_KEY_IS(key) (TILING_KEY_VAR == (key))

#endif

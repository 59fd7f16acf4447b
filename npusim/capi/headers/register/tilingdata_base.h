/* Tiling data as a class on the host, and as its bytes on the device. */
#ifndef NPUSIM_TILINGDATA_BASE_H
#define NPUSIM_TILINGDATA_BASE_H

#include <cstdint>
#include <cstring>

#include "kernel_tiling/kernel_tiling.h"
#include "securec.h"

#define BEGIN_TILING_DATA_DEF(Name)                                                              \
    class Name {                                                                                 \
    public:                                                                                      \
        size_t GetDataSize() const { return sizeof(Name); }                                      \
        void SaveToBuffer(void *to, size_t size) const { std::memcpy(to, static_cast<const void *>(this), size < sizeof(Name) ? size : sizeof(Name)); }
#define TILING_DATA_FIELD_DEF(Type, name)                                                        \
    Type name{};                                                                                 \
    void set_##name(Type value) { name = value; }                                                \
    Type get_##name() const { return name; }
#define TILING_DATA_FIELD_DEF_ARR(Type, count, name)                                             \
    Type name[count]{};                                                                          \
    void set_##name(const Type *value) { std::memcpy(name, value, sizeof name); }                \
    Type *get_##name() { return name; }
#define TILING_DATA_FIELD_DEF_STRUCT(Type, name) Type name{};
#define END_TILING_DATA_DEF };
#define REGISTER_TILING_DATA_CLASS(Op, Name) using NpusimTilingOf##Op [[maybe_unused]] = Name;

#endif

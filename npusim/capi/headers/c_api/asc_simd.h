/* The C interface of vector cores: instructions on addresses in UB, each waiting for the others where its name ends in _sync. */
#ifndef NPUSIM_C_API_ASC_SIMD_H
#define NPUSIM_C_API_ASC_SIMD_H

#include "kernel_operator.h"

#define ASC_IS_AIV (g_coreType == ::AscendC::AIV)
#define ASC_IS_AIC (g_coreType == ::AscendC::AIC)

namespace npusim {

/* `__ubuf__ T name[size];` of a kernel: bytes of a memory until the end of its block (npusim/capi/launch_syntax.py). */
struct Array {
    int32_t memory;
    int64_t before, start;
    Array(int32_t in, int64_t bytes, NPUSIM_AT) : memory(in), before(pipe_used(in)), start(new_buffer(in, bytes, at)) {}
    Array(const Array &) = delete;
    ~Array() { pipe_move(memory, before); }
    template <typename T> operator T *() const { return reinterpret_cast<T *>(uintptr_t(start)); }
};
/* A count is left in the mask register, where repeats find it as bits: asc-devkit, asc_set_mask_count_begin. */
inline void count_as_mask(uint32_t count) { current->mask[0] = count, current->mask[1] = 0; }
using AscendC::npusim_in_gm;
using AscendC::npusim_in_ub;

} // namespace npusim

/* The core and its registers. */
inline void asc_set_mask_norm() { AscendC::SetMaskNorm(); }
inline void asc_set_mask_count() { AscendC::SetMaskCount(); }
inline void asc_set_vector_mask(uint64_t high, uint64_t low) { AscendC::SetVectorMask<half>(high, low); }
inline void asc_init() { AscendC::SetAtomicNone(), AscendC::SetMaskNorm(), AscendC::ResetMask(); }
inline int64_t asc_get_block_idx() { return npusim::current->block; }
inline int64_t asc_get_block_num() { return npusim::current->blocks; }
inline int64_t asc_get_sub_block_id() { return AscendC::GetSubBlockIdx(); }
inline int64_t asc_get_sub_block_num() { return AscendC::GetSubBlockNum(); }
inline int64_t asc_get_system_cycle() { return AscendC::GetSystemCycle(); }

/* Order. */
inline void asc_sync(NPUSIM_AT) { npusim::join(at); }
inline void asc_sync_vec(NPUSIM_AT) { npusim::join(at); }
inline void asc_sync_pipe(pipe_t pipe, NPUSIM_AT) { pipe_barrier(pipe, at); }
inline void asc_sync_notify(pipe_t from, pipe_t to, int32_t id, NPUSIM_AT) { npusim::set_flag(npusim::pipe_of(from), npusim::pipe_of(to), id, at); }
inline void asc_sync_wait(pipe_t from, pipe_t to, int32_t id, NPUSIM_AT) { npusim::wait_flag(npusim::pipe_of(from), npusim::pipe_of(to), id, at); }
inline void npusim_sync_two(pipe_t from, pipe_t first, pipe_t second, int32_t id, npusim::Site at)
{
    for (pipe_t to : {first, second}) asc_sync_notify(from, to, id, at);
    for (pipe_t to : {first, second}) asc_sync_wait(from, to, id, at);
}
inline void asc_sync_mte2(int32_t id, NPUSIM_AT) { npusim_sync_two(PIPE_MTE2, PIPE_MTE3, PIPE_V, id, at); }
inline void asc_sync_mte3(int32_t id, NPUSIM_AT) { npusim_sync_two(PIPE_MTE3, PIPE_MTE2, PIPE_V, id, at); }

/* What stores do: the type is told with the operation, copies know addresses alone. */
#define NPUSIM_ATOMIC(word, how)                                                                                            \
    inline void asc_set_atomic_##word##_float(NPUSIM_AT) { AscendC::SetAtomic##how<float>(at), npusim::current->atomic_type = 0; }       \
    inline void asc_set_atomic_##word##_float16(NPUSIM_AT) { AscendC::SetAtomic##how<half>(at), npusim::current->atomic_type = 1; }      \
    inline void asc_set_atomic_##word##_bfloat(NPUSIM_AT) { AscendC::SetAtomic##how<bfloat16_t>(at), npusim::current->atomic_type = 27; } \
    inline void asc_set_atomic_##word##_int(NPUSIM_AT) { AscendC::SetAtomic##how<int32_t>(at), npusim::current->atomic_type = 3; }       \
    inline void asc_set_atomic_##word##_int16(NPUSIM_AT) { AscendC::SetAtomic##how<int16_t>(at), npusim::current->atomic_type = 6; }     \
    inline void asc_set_atomic_##word##_int8(NPUSIM_AT) { AscendC::SetAtomic##how<int8_t>(at), npusim::current->atomic_type = 2; }
NPUSIM_ATOMIC(add, Add) NPUSIM_ATOMIC(max, Max) NPUSIM_ATOMIC(min, Min)
#undef NPUSIM_ATOMIC
inline void asc_set_atomic_none() { AscendC::SetAtomicNone(); }
template <typename Copy> void npusim_by_atomic(Copy copy)
{
    if (!npusim::current->atomic) return copy(uint8_t());
    switch (npusim::current->atomic_type) {
    case 0: return copy(float());
    case 1: return copy(half());
    case 27: return copy(bfloat16_t());
    case 3: return copy(int32_t());
    case 6: return copy(int16_t());
    default: return copy(int8_t());
    }
}

/* Copies: runs of blocks of 32 bytes with gaps between them, or bytes (asc_copy_*_align: any number of them). */
inline void asc_copy_gm2ub(void *dst, void *src, uint16_t runs, uint16_t blocks, uint16_t src_gap, uint16_t dst_gap, NPUSIM_AT)
{
    AscendC::DataCopy(npusim::npusim_in_ub(static_cast<uint8_t *>(dst)), npusim::npusim_in_gm(static_cast<uint8_t *>(src)), AscendC::DataCopyParams(runs, blocks, src_gap, dst_gap), at);
}
inline void asc_copy_gm2ub(void *dst, void *src, uint32_t bytes, NPUSIM_AT) { asc_copy_gm2ub(dst, src, 1, uint16_t(bytes / 32), 0, 0, at); }
inline void asc_copy_ub2gm(void *dst, void *src, uint16_t runs, uint16_t blocks, uint16_t src_gap, uint16_t dst_gap, NPUSIM_AT)
{
    npusim_by_atomic([&](auto one) {
        using T = decltype(one);
        AscendC::DataCopy(npusim::npusim_in_gm(static_cast<T *>(dst)), npusim::npusim_in_ub(static_cast<T *>(src)), AscendC::DataCopyParams(runs, blocks, src_gap, dst_gap), at);
    });
}
inline void asc_copy_ub2gm(void *dst, void *src, uint32_t bytes, NPUSIM_AT) { asc_copy_ub2gm(dst, src, 1, uint16_t(bytes / 32), 0, 0, at); }
inline void asc_copy_ub2ub(void *dst, void *src, uint16_t runs, uint16_t blocks, uint16_t src_gap, uint16_t dst_gap, NPUSIM_AT)
{
    AscendC::DataCopy(npusim::npusim_in_ub(static_cast<uint8_t *>(dst)), npusim::npusim_in_ub(static_cast<uint8_t *>(src)), AscendC::DataCopyParams(runs, blocks, src_gap, dst_gap), at);
}
inline void asc_copy_ub2ub(void *dst, void *src, uint32_t bytes, NPUSIM_AT) { asc_copy_ub2ub(dst, src, 1, uint16_t(bytes / 32), 0, 0, at); }
template <typename T> void asc_set_copy_pad_val(T value) { AscendC::SetPadValue<T>(value); }
template <typename T> void asc_copy_gm2ub_align(T *dst, T *src, uint16_t runs, uint32_t bytes, uint8_t left, uint8_t right, uint32_t src_gap, uint32_t dst_gap, NPUSIM_AT)
{
    T value;
    std::memcpy(static_cast<void *>(&value), &npusim::current->registers[2], sizeof(T)); /* of asc_set_copy_pad_val */
    AscendC::DataCopyPad(npusim::npusim_in_ub(dst), npusim::npusim_in_gm(src), AscendC::DataCopyExtParams(runs, bytes, src_gap, dst_gap, 0), AscendC::DataCopyPadExtParams<T>(true, left, right, value), at);
}
template <typename T> void asc_copy_gm2ub_align(T *dst, T *src, uint32_t bytes, NPUSIM_AT) { asc_copy_gm2ub_align(dst, src, 1, bytes, 0, 0, 0, 0, at); }
template <typename T> void asc_copy_ub2gm_align(T *dst, T *src, uint16_t runs, uint32_t bytes, uint8_t, uint8_t, uint32_t src_gap, uint32_t dst_gap, NPUSIM_AT)
{
    AscendC::DataCopyPad(npusim::npusim_in_gm(dst), npusim::npusim_in_ub(src), AscendC::DataCopyExtParams(runs, bytes, src_gap, dst_gap, 0), at);
}
template <typename T> void asc_copy_ub2gm_align(T *dst, T *src, uint32_t bytes, NPUSIM_AT) { asc_copy_ub2gm_align(dst, src, 1, bytes, 0, 0, 0, 0, at); }

#define NPUSIM_AND_WAIT(name)                                                        \
    template <typename T, typename U> void name##_sync(T *dst, U *src, uint32_t bytes, NPUSIM_AT) \
    {                                                                                \
        name(dst, src, bytes, at);                                                   \
        npusim::join(at);                                                            \
    }
NPUSIM_AND_WAIT(asc_copy_gm2ub) NPUSIM_AND_WAIT(asc_copy_ub2gm) NPUSIM_AND_WAIT(asc_copy_ub2ub) NPUSIM_AND_WAIT(asc_copy_gm2ub_align) NPUSIM_AND_WAIT(asc_copy_ub2gm_align)
#undef NPUSIM_AND_WAIT

/* An instruction by count, by count with a wait behind it, and by repeats under the mask register. */
#define NPUSIM_COUNTED(name, given, passed, ...)                                                          \
    template <NPUSIM_TYPES> void name(given, uint32_t count, NPUSIM_AT)                                   \
    {                                                                                                     \
        __VA_ARGS__;                                                                                      \
        npusim::count_as_mask(count);                                                                     \
    }                                                                                                     \
    template <NPUSIM_TYPES> void name##_sync(given, uint32_t count, NPUSIM_AT)                            \
    {                                                                                                     \
        name(passed, count, at);                                                                          \
        npusim::join(at);                                                                                 \
    }
#define NPUSIM_LIST(...) __VA_ARGS__
#define NPUSIM_TYPES typename T, typename U
#define NPUSIM_BINARY(name, Name)                                                                                                  \
    NPUSIM_COUNTED(name, NPUSIM_LIST(T *dst, U *src0, U *src1), NPUSIM_LIST(dst, src0, src1), AscendC::Name(npusim::npusim_in_ub(dst), npusim::npusim_in_ub(src0), npusim::npusim_in_ub(src1), int32_t(count), at)) \
    template <NPUSIM_TYPES> void name(T *dst, U *src0, U *src1, uint8_t times, uint8_t a, uint8_t b, uint8_t c, uint8_t d, uint8_t e, uint8_t f, NPUSIM_AT) \
    {                                                                                                                              \
        NPUSIM_FORM(Name)(npusim::npusim_in_ub(dst), npusim::npusim_in_ub(src0), npusim::npusim_in_ub(src1), uint64_t(0), int32_t(times), AscendC::BinaryRepeatParams(a, b, c, d, e, f), at); \
    }
#define NPUSIM_FORM(Name) AscendC::Name<T, false>
NPUSIM_BINARY(asc_add, Add) NPUSIM_BINARY(asc_sub, Sub) NPUSIM_BINARY(asc_mul, Mul) NPUSIM_BINARY(asc_div, Div)
NPUSIM_BINARY(asc_max, Max) NPUSIM_BINARY(asc_min, Min) NPUSIM_BINARY(asc_and, And) NPUSIM_BINARY(asc_or, Or)
NPUSIM_BINARY(asc_add_relu, AddRelu) NPUSIM_BINARY(asc_sub_relu, SubRelu)
#undef NPUSIM_FORM
#define NPUSIM_FORM(Name) AscendC::Name<T, U, false>
NPUSIM_BINARY(asc_mul_add, FusedMulAdd) NPUSIM_BINARY(asc_mul_add_relu, FusedMulAddRelu) NPUSIM_BINARY(asc_fma, MulAddDst)
#undef NPUSIM_FORM
#undef NPUSIM_BINARY
#define NPUSIM_UNARY(name, given, passed, Form, arguments)                                                                          \
    NPUSIM_COUNTED(name, NPUSIM_LIST(given), NPUSIM_LIST(passed), Form(npusim::npusim_in_ub(dst), npusim::npusim_in_ub(src) arguments, int32_t(count), at)) \
    template <NPUSIM_TYPES> void name(given, uint8_t times, uint16_t a, uint16_t b, uint16_t c, uint16_t d, NPUSIM_AT)              \
    {                                                                                                                              \
        NPUSIM_FORM(Form)(npusim::npusim_in_ub(dst), npusim::npusim_in_ub(src) arguments, uint64_t(0), int32_t(times), AscendC::UnaryRepeatParams(a, b, c, d), NPUSIM_BEHIND at); \
    }
#define NPUSIM_BEHIND
#define NPUSIM_FORM(Form) Form<T, false>
#undef NPUSIM_TYPES
#define NPUSIM_TYPES typename T
#define NPUSIM_OF_ONE(name, Name) NPUSIM_UNARY(name, NPUSIM_LIST(T *dst, T *src), NPUSIM_LIST(dst, src), AscendC::Name, )
NPUSIM_OF_ONE(asc_abs, Abs) NPUSIM_OF_ONE(asc_exp, Exp) NPUSIM_OF_ONE(asc_log, Ln) NPUSIM_OF_ONE(asc_sqrt, Sqrt) NPUSIM_OF_ONE(asc_rsqrt, Rsqrt)
NPUSIM_OF_ONE(asc_rcp, Reciprocal) NPUSIM_OF_ONE(asc_relu, Relu) NPUSIM_OF_ONE(asc_not, Not)
#undef NPUSIM_OF_ONE
#undef NPUSIM_TYPES
#define NPUSIM_TYPES typename T, typename V
#define NPUSIM_WITH(name, Name) NPUSIM_UNARY(name, NPUSIM_LIST(T *dst, T *src, V value), NPUSIM_LIST(dst, src, value), AscendC::Name, NPUSIM_LIST(, T(value)))
NPUSIM_WITH(asc_add_scalar, Adds) NPUSIM_WITH(asc_sub_scalar, Subs) NPUSIM_WITH(asc_mul_scalar, Muls) NPUSIM_WITH(asc_max_scalar, Maxs) NPUSIM_WITH(asc_min_scalar, Mins) NPUSIM_WITH(asc_leakyrelu, LeakyRelu)
#undef NPUSIM_WITH
#undef NPUSIM_BEHIND
#define NPUSIM_BEHIND false,
#define NPUSIM_SHIFT(name, Name) NPUSIM_UNARY(name, NPUSIM_LIST(T *dst, T *src, V value), NPUSIM_LIST(dst, src, value), AscendC::Name, NPUSIM_LIST(, value))
NPUSIM_SHIFT(asc_shiftleft, ShiftLeft) NPUSIM_SHIFT(asc_shiftright, ShiftRight)
#undef NPUSIM_SHIFT
#undef NPUSIM_BEHIND
#define NPUSIM_BEHIND
#undef NPUSIM_TYPES
#undef NPUSIM_FORM
#define NPUSIM_TYPES typename T, typename U
#define NPUSIM_FORM(Form) Form<T, U, false>
NPUSIM_UNARY(asc_axpy, NPUSIM_LIST(T *dst, U *src, U value), NPUSIM_LIST(dst, src, value), AscendC::Axpy, NPUSIM_LIST(, value))
#undef NPUSIM_TYPES

/* Conversions, with the way they round behind the types: nearest even, down, up, nearest away, to zero, odd. */
#define NPUSIM_TYPES typename npusim_none = void
#define NPUSIM_CAST(name, T, U, mode)                                                                                               \
    NPUSIM_COUNTED(name, NPUSIM_LIST(T *dst, U *src), NPUSIM_LIST(dst, src), AscendC::Cast(npusim::npusim_in_ub(dst), npusim::npusim_in_ub(src), AscendC::RoundMode::mode, count, at)) \
    template <NPUSIM_TYPES> void name(T *dst, U *src, uint8_t times, uint16_t a, uint16_t b, uint16_t c, uint16_t d, NPUSIM_AT)      \
    {                                                                                                                              \
        AscendC::Cast<T, U, false>(npusim::npusim_in_ub(dst), npusim::npusim_in_ub(src), AscendC::RoundMode::mode, uint64_t(0), int32_t(times), AscendC::UnaryRepeatParams(a, b, c, d), at); \
    }
#define NPUSIM_ROUNDED(name, T, U) NPUSIM_CAST(name##_rn, T, U, CAST_RINT) NPUSIM_CAST(name##_rd, T, U, CAST_FLOOR) NPUSIM_CAST(name##_ru, T, U, CAST_CEIL) NPUSIM_CAST(name##_rna, T, U, CAST_ROUND) NPUSIM_CAST(name##_rz, T, U, CAST_TRUNC)
NPUSIM_CAST(asc_half2float, float, half, CAST_NONE) NPUSIM_CAST(asc_bfloat162float, float, bfloat16_t, CAST_NONE) NPUSIM_CAST(asc_int162float, float, int16_t, CAST_NONE)
NPUSIM_CAST(asc_int322float, float, int32_t, CAST_NONE) NPUSIM_CAST(asc_int82half, half, int8_t, CAST_NONE) NPUSIM_CAST(asc_uint82half, half, uint8_t, CAST_NONE)
NPUSIM_CAST(asc_float2half, half, float, CAST_NONE) NPUSIM_CAST(asc_int162half, half, int16_t, CAST_NONE) NPUSIM_CAST(asc_int322int16, int16_t, int32_t, CAST_NONE)
NPUSIM_CAST(asc_half2int8, int8_t, half, CAST_NONE) NPUSIM_CAST(asc_half2uint8, uint8_t, half, CAST_NONE) NPUSIM_CAST(asc_int322int64, int64_t, int32_t, CAST_NONE) NPUSIM_CAST(asc_int642int32, int32_t, int64_t, CAST_NONE)
NPUSIM_CAST(asc_float2half_ro, half, float, CAST_ODD)
NPUSIM_ROUNDED(asc_float2half, half, float) NPUSIM_ROUNDED(asc_float2bfloat16, bfloat16_t, float) NPUSIM_ROUNDED(asc_float2float, float, float) NPUSIM_ROUNDED(asc_float2int16, int16_t, float)
NPUSIM_ROUNDED(asc_float2int32, int32_t, float) NPUSIM_ROUNDED(asc_float2int64, int64_t, float) NPUSIM_ROUNDED(asc_half2int16, int16_t, half) NPUSIM_ROUNDED(asc_half2int32, int32_t, half)
NPUSIM_ROUNDED(asc_half2int8, int8_t, half) NPUSIM_ROUNDED(asc_half2uint8, uint8_t, half) NPUSIM_ROUNDED(asc_bfloat162int32, int32_t, bfloat16_t) NPUSIM_ROUNDED(asc_int162half, half, int16_t)
NPUSIM_ROUNDED(asc_int322float, float, int32_t) NPUSIM_ROUNDED(asc_int642float, float, int64_t)
#undef NPUSIM_ROUNDED
#undef NPUSIM_CAST
#undef NPUSIM_TYPES

/* One number for all, and reductions of repeats and blocks. */
#define NPUSIM_TYPES typename T, typename V
NPUSIM_COUNTED(asc_duplicate, NPUSIM_LIST(T *dst, V value), NPUSIM_LIST(dst, value), AscendC::Duplicate(npusim::npusim_in_ub(dst), T(value), int32_t(count), at))
template <NPUSIM_TYPES> void asc_duplicate(T *dst, V value, uint8_t times, uint16_t block, uint16_t repeat, NPUSIM_AT) { AscendC::Duplicate<T, false>(npusim::npusim_in_ub(dst), T(value), uint64_t(0), int32_t(times), block, uint8_t(repeat), at); }
#undef NPUSIM_TYPES
#define NPUSIM_REDUCE(name, call) \
    template <typename T> void name(T *dst, T *src, uint8_t times, uint16_t apart, uint16_t block, uint16_t repeat, NPUSIM_AT) { auto to = npusim::npusim_in_ub(dst), from = npusim::npusim_in_ub(src); call; }
#define NPUSIM_ORDERED(name, Name, order) NPUSIM_REDUCE(name, (AscendC::WholeReduce##Name<T, false>(to, from, uint64_t(0), int32_t(times), apart, block, repeat, AscendC::ReduceOrder::order, at)))
#define NPUSIM_WHOLE(name, Name) NPUSIM_ORDERED(name##_value_index, Name, ORDER_VALUE_INDEX) NPUSIM_ORDERED(name##_index_value, Name, ORDER_INDEX_VALUE) NPUSIM_ORDERED(name##_only_value, Name, ORDER_ONLY_VALUE) NPUSIM_ORDERED(name##_only_index, Name, ORDER_ONLY_INDEX)
NPUSIM_ORDERED(asc_repeat_reduce_sum, Sum, ORDER_VALUE_INDEX) NPUSIM_WHOLE(asc_repeat_reduce_max, Max) NPUSIM_WHOLE(asc_repeat_reduce_min, Min)
NPUSIM_REDUCE(asc_datablock_reduce_sum, (AscendC::BlockReduceSum<T, false>(to, from, int32_t(times), uint64_t(0), apart, block, repeat, at)))
NPUSIM_REDUCE(asc_datablock_reduce_max, (AscendC::BlockReduceMax<T, false>(to, from, int32_t(times), uint64_t(0), apart, block, repeat, at)))
NPUSIM_REDUCE(asc_datablock_reduce_min, (AscendC::BlockReduceMin<T, false>(to, from, int32_t(times), uint64_t(0), apart, block, repeat, at)))
NPUSIM_REDUCE(asc_pair_reduce_sum, (AscendC::PairReduceSum<T, false>(to, from, int32_t(times), uint64_t(0), apart, block, repeat, at)))
#undef NPUSIM_WHOLE
#undef NPUSIM_ORDERED
#undef NPUSIM_REDUCE
#undef NPUSIM_UNARY
#undef NPUSIM_FORM
#undef NPUSIM_BEHIND
#undef NPUSIM_COUNTED
#undef NPUSIM_LIST

#endif

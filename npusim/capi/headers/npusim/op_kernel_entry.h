/* What the simulator calls in the library of a project's kernel: its body on one core. Included behind the kernel. */
#ifndef NPUSIM_OP_KERNEL_ENTRY_H
#define NPUSIM_OP_KERNEL_ENTRY_H

#include <tuple>
#include <utility>

#include "npusim/kernel_runtime.h"

namespace npusim {

template <typename... P> constexpr int parameters(void (*)(P...)) { return int(sizeof...(P)); }
template <typename... P, size_t... I> void call_with(void (*kernel)(P...), const uint64_t *given, std::index_sequence<I...>) { kernel(reinterpret_cast<P>(uintptr_t(given[I]))...); }
template <typename... P> void call_with(void (*kernel)(P...), const uint64_t *given) { call_with(kernel, given, std::index_sequence_for<P...>()); }

inline void refuse_key(uint64_t key) { refuse(Site{}, "Select its template arguments with ASCENDC_TPL_SEL, or let the tiling return another key.", "no instance of the kernel is for the tiling key %llu", static_cast<unsigned long long>(key)); }

} // namespace npusim

/* `given`: the tiling key, then the addresses of tensors, workspace and tiling data. */
/* `instance` is any of them: all have the same parameters; `call` finds the one of the tiling key. */
#define NPUSIM_OP_UNBRACKETED(...) __VA_ARGS__
#define NPUSIM_OP_KERNELS(instance, call)                                                                                                              \
    extern "C" __attribute__((visibility("default"))) int npusim_op_parameters() { return npusim::parameters(&NPUSIM_OP_UNBRACKETED instance); }        \
    extern "C" __attribute__((visibility("default"))) uintptr_t npusim_op_player() { return reinterpret_cast<uintptr_t>(&npusim::play); }               \
    extern "C" __attribute__((visibility("default"))) void npusim_op_body(const uint64_t *given)                                                        \
    {                                                                                                                                                   \
        npusim_tiling_key = given[0];                                                                                                                   \
        if (!call(given + 1)) npusim::refuse_key(given[0]);                                                                                             \
    }
#define NPUSIM_OP_KERNEL(name)                                                                                  \
    extern "C" __attribute__((visibility("default"))) int npusim_op_parameters() { return npusim::parameters(&name); }                                 \
    extern "C" __attribute__((visibility("default"))) uintptr_t npusim_op_player() { return reinterpret_cast<uintptr_t>(&npusim::play); }              \
    extern "C" __attribute__((visibility("default"))) void npusim_op_body(const uint64_t *given)                                                       \
    {                                                                                                           \
        npusim_tiling_key = given[0];                                                                           \
        npusim::call_with(&name, given + 1);                                                                    \
    }

#endif

/* ACLRT_LAUNCH_KERNEL(name)(blocks, stream, arguments...): kernels launched by functions of other files. */
#ifndef NPUSIM_KERNEL_LAUNCH_H
#define NPUSIM_KERNEL_LAUNCH_H

#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include "npusim/kernel_runtime.h"

namespace npusim {

/* An argument on its way: a pointer (structures come by theirs), or a number both ways. */
struct Given {
    uint64_t whole;
    double real;
};
template <typename T> Given given(T value)
{
    if constexpr (std::is_pointer_v<T>) return {uint64_t(reinterpret_cast<uintptr_t>(value)), 0};
    else if constexpr (std::is_null_pointer_v<T>) return {0, 0};
    else if constexpr (std::is_enum_v<T>) return {uint64_t(value), double(uint64_t(value))};
    else return {uint64_t(int64_t(value)), double(value)};
}
template <typename P> P taken(const Given &from)
{
    if constexpr (std::is_pointer_v<P>) return reinterpret_cast<P>(uintptr_t(from.whole));
    else if constexpr (std::is_floating_point_v<P>) return P(from.real);
    else if constexpr (std::is_class_v<P>) return *reinterpret_cast<const P *>(uintptr_t(from.whole));
    else return P(from.whole);
}
template <typename... P, size_t... I> uint32_t launch_taken(const char *name, int kind, uint32_t blocks, void *stream, void (*kernel)(P...), const Given *all, std::index_sequence<I...>)
{
    (void)all;
    return uint32_t(launch(name, kind, blocks, stream, [kernel, own = std::tuple<std::decay_t<P>...>(taken<std::decay_t<P>>(all[I])...)]() mutable { std::apply(kernel, own); }));
}
/* 107000 where the arguments aren't as many as the kernel's. */
template <typename... P> uint32_t launch_given(const char *name, int kind, uint32_t blocks, void *stream, void (*kernel)(P...), const Given *all, int count)
{
    if (count != int(sizeof...(P))) return 107000;
    return launch_taken(name, kind, blocks, stream, kernel, all, std::index_sequence_for<P...>());
}

template <typename... P, size_t... I> uint32_t launch_array(const char *name, int kind, uint32_t blocks, void *stream, void (*kernel)(P...), void *const *all, std::index_sequence<I...>)
{
    (void)all;
    return uint32_t(launch(name, kind, blocks, stream, [kernel, own = std::tuple<std::decay_t<P>...>(*static_cast<const std::decay_t<P> *>(all[I])...)]() mutable { std::apply(kernel, own); }));
}
template <typename... P> uint32_t launch_array(const char *name, int kind, uint32_t blocks, void *stream, void (*kernel)(P...), void *const *all)
{
    return launch_array(name, kind, blocks, stream, kernel, all, std::index_sequence_for<P...>());
}

} // namespace npusim

/* Of a source that a program compiles: launched by the addresses of its arguments. */
#define NPUSIM_ARRAY_LAUNCHED(name, kind, ...)                                                                                 \
    extern "C" __attribute__((visibility("default"))) uint32_t npusim_array_##name(uint32_t blocks, void *stream, void *const *all) \
    {                                                                                                                          \
        return npusim::launch_array(#name, kind, blocks, stream, &__VA_ARGS__, all);                                           \
    }
/* In the file of the kernel, and in those that launch it. */
#define NPUSIM_LAUNCHED(name, kind)                                                                                            \
    extern "C" __attribute__((weak)) uint32_t npusim_launch_##name(uint32_t blocks, void *stream, const npusim::Given *all, int count) \
    {                                                                                                                          \
        return npusim::launch_given(#name, kind, blocks, stream, &name, all, count);                                           \
    }
#define NPUSIM_LAUNCHES(name)                                                                                                  \
    extern "C" uint32_t npusim_launch_##name(uint32_t blocks, void *stream, const npusim::Given *all, int count);              \
    template <typename... A> uint32_t aclrtlaunch_##name(uint32_t blocks, void *stream, A... arguments)                        \
    {                                                                                                                          \
        const npusim::Given all[] = {npusim::given(arguments)..., {0, 0}};                                                     \
        return npusim_launch_##name(blocks, stream, all, int(sizeof...(A)));                                                   \
    }
#ifndef ACLRT_LAUNCH_KERNEL
#define ACLRT_LAUNCH_KERNEL(name) aclrtlaunch_##name
#endif

#endif

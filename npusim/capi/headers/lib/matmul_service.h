/* REGIST_MATMUL_OBJ: products get their tiling, and cube cores serve vector cores. */
#ifndef NPUSIM_MATMUL_SERVICE_H
#define NPUSIM_MATMUL_SERVICE_H

namespace npusim {

inline void settle_products(AscendC::TPipe *) {}
template <typename Object> auto settle_products(AscendC::TPipe *pipe, Object &object) -> std::enable_if_t<std::is_class_v<Object>> { object.pipe_ = pipe; }
template <typename Object, typename Tiling, typename... Rest> auto settle_products(AscendC::TPipe *pipe, Object &object, Tiling *tiling, Rest &&...rest) -> std::enable_if_t<std::is_class_v<Object>>
{
    object.Init(tiling, pipe);
    settle_products(pipe, rest...);
}
template <typename Object, typename Other, typename... Rest> auto settle_products(AscendC::TPipe *pipe, Object &object, Other &other, Rest &&...rest) -> std::enable_if_t<std::is_class_v<Object> && std::is_class_v<Other>>
{
    object.pipe_ = pipe;
    settle_products(pipe, other, rest...);
}
/* Cube cores beside vector cores that ask for products do nothing else: true when they are done. */
template <typename... Objects> bool register_products(bool cube_only, Site at, AscendC::TPipe *pipe, const void *, Objects &&...objects)
{
    if (!cube_only && current->mix && current->cube) {
        serve(at);
        return true;
    }
    settle_products(pipe, objects...);
    return false;
}

} // namespace npusim

using namespace AscendC; /* programs rely on it */

#ifdef ASCENDC_CUBE_ONLY
#define NPUSIM_CUBE_ONLY true
#else
#define NPUSIM_CUBE_ONLY false
#endif
#define REGIST_MATMUL_OBJ(pipe, ...)                                                                                   \
    if (::npusim::register_products(NPUSIM_CUBE_ONLY, {__FILE__, __LINE__}, pipe, __VA_ARGS__)) return

#endif

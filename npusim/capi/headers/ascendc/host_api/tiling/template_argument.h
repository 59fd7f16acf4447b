/* Kernels with template arguments: what each may be, which go together, and the tiling key that says which are meant.
 * The numbers of keys are npusim's own; both sides make them by npusim::tpl_key. */
#ifndef NPUSIM_TEMPLATE_ARGUMENT_H
#define NPUSIM_TEMPLATE_ARGUMENT_H

#include <cstddef>
#include <cstdint>

namespace npusim {

struct TplParameter {
    int bits = 0; /* of its part of the key, which is the place in `values` where it has some */
    int count = 0;
    uint64_t values[64] = {};
};
template <size_t N> constexpr TplParameter tpl_listed(int bits, const uint64_t (&values)[N])
{
    TplParameter made = {bits, int(N), {}};
    for (size_t place = 0; place < N && place < 64; place++) made.values[place] = values[place];
    return made;
}
constexpr TplParameter tpl_plain(int bits) { return {bits, 0, {}}; }
template <size_t N, typename... T> constexpr uint64_t tpl_key(const TplParameter (&declared)[N], T... given)
{
    const uint64_t values[] = {uint64_t(given)...};
    uint64_t key = 0;
    int shift = 0;
    for (size_t place = 0; place < N && place < sizeof...(T); place++) {
        const TplParameter &one = declared[place];
        uint64_t part = values[place];
        for (int each = 0; each < one.count; each++) if (one.values[each] == values[place]) part = uint64_t(each);
        key |= part << shift, shift += one.bits;
    }
    return key;
}

} // namespace npusim

#define ASCENDC_TPL_1_BW 1
#define ASCENDC_TPL_2_BW 2
#define ASCENDC_TPL_3_BW 3
#define ASCENDC_TPL_4_BW 4
#define ASCENDC_TPL_5_BW 5
#define ASCENDC_TPL_6_BW 6
#define ASCENDC_TPL_7_BW 7
#define ASCENDC_TPL_8_BW 8

/* npusim reads the selections behind these words, and calls the kernel with each. */
#ifdef NPUSIM_TPL_SCAN
#define ASCENDC_TPL_ARGS_DECL(Op, ...) npusim_tpl_declares(Op, __VA_ARGS__)
#define ASCENDC_TPL_SEL(...) npusim_tpl_selects(__VA_ARGS__)
#define ASCENDC_TPL_ARGS_SEL(...) npusim_tpl_set(__VA_ARGS__)
#define ASCENDC_TPL_DTYPE_SEL(name, ...) npusim_tpl_list(name, __VA_ARGS__)
#define ASCENDC_TPL_DATATYPE_SEL(name, ...) npusim_tpl_list(name, __VA_ARGS__)
#define ASCENDC_TPL_FORMAT_SEL(name, ...) npusim_tpl_list(name, __VA_ARGS__)
#define ASCENDC_TPL_BOOL_SEL(name, ...) npusim_tpl_list(name, __VA_ARGS__)
#define ASCENDC_TPL_UINT_SEL(name, kind, ...) npusim_tpl_##kind(name, __VA_ARGS__)
#define ASCENDC_TPL_KERNEL_TYPE_SEL(kind) npusim_tpl_kernel(kind)
#define ASCENDC_TPL_TILING_STRUCT_SEL(Type) npusim_tpl_struct(Type)
#define ASCENDC_TPL_DETERMINISTIC_SEL(...) npusim_tpl_nothing()
#define ASCENDC_TPL_DTYPE_DECL(name, ...) npusim_tpl_values(name, __VA_ARGS__)
#define ASCENDC_TPL_DATATYPE_DECL(name, ...) npusim_tpl_values(name, __VA_ARGS__)
#define ASCENDC_TPL_FORMAT_DECL(name, ...) npusim_tpl_values(name, __VA_ARGS__)
#define ASCENDC_TPL_BOOL_DECL(name, ...) npusim_tpl_values(name, __VA_ARGS__)
#define ASCENDC_TPL_UINT_DECL(name, bits, kind, ...) npusim_tpl_##kind(name, __VA_ARGS__)
#else
#define ASCENDC_TPL_ARGS_DECL(Op, ...) [[maybe_unused]] static constexpr ::npusim::TplParameter npusim_tpl_declared[] = {__VA_ARGS__}
#define ASCENDC_TPL_SEL(...) static_assert(true)
#define ASCENDC_TPL_DTYPE_DECL(name, ...) ::npusim::tpl_plain(8)
#define ASCENDC_TPL_DATATYPE_DECL(name, ...) ::npusim::tpl_plain(8)
#define ASCENDC_TPL_FORMAT_DECL(name, ...) ::npusim::tpl_plain(8)
#define ASCENDC_TPL_BOOL_DECL(name, ...) ::npusim::tpl_plain(1)
#define ASCENDC_TPL_UINT_DECL(name, bits, kind, ...) ::npusim::tpl_##kind(bits, {__VA_ARGS__})
#define GET_TPL_TILING_KEY(...) (::npusim::tpl_key(npusim_tpl_declared, __VA_ARGS__))
#define ASCENDC_TPL_SEL_PARAM(context, ...) (context)->SetTilingKey(GET_TPL_TILING_KEY(__VA_ARGS__))
#endif
/* Types by their numbers, which are those of ge::DataType; as template arguments npusim writes the types. */
enum NpusimTplType : uint64_t { C_DT_FLOAT = 0, C_DT_FLOAT16 = 1, C_DT_INT8 = 2, C_DT_INT32 = 3, C_DT_UINT8 = 4, C_DT_INT16 = 6, C_DT_UINT16 = 7, C_DT_UINT32 = 8, C_DT_INT64 = 9, C_DT_UINT64 = 10, C_DT_BOOL = 12, C_DT_BF16 = 27 };

namespace npusim {
/* Lists give places, ranges the numbers themselves. */
template <size_t N> constexpr TplParameter tpl_ASCENDC_TPL_UI_LIST(int bits, const uint64_t (&values)[N]) { return tpl_listed(bits, values); }
template <size_t N> constexpr TplParameter tpl_ASCENDC_TPL_UI_RANGE(int bits, const uint64_t (&)[N]) { return tpl_plain(bits); }
} // namespace npusim

#endif

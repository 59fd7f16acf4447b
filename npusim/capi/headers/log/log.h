/* Messages of host code: what it says as an error is the reason when it refuses a call. */
#ifndef NPUSIM_LOG_H
#define NPUSIM_LOG_H

#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "npusim/op_context.h"

namespace npusim {

inline std::string &refusal()
{
    static std::string words;
    return words;
}
/* Each function says that the one below it failed: the first one knows why. */
inline void note_refusal(const std::string &words)
{
    if (refusal().empty()) refusal() = words;
}
template <typename T> decltype(auto) printed(const T &value)
{
    if constexpr (std::is_same_v<T, std::string>) return value.c_str();
    else return (value);
}
template <typename Who, typename... T> void refuse(const Who &, const char *form, const T &...given)
{
    char words[512];
    if constexpr (sizeof...(T) == 0) std::snprintf(words, sizeof words, "%s", form);
    else std::snprintf(words, sizeof words, form, printed(given)...);
    note_refusal(words);
}
template <typename Who, typename... T> void refuse(const Who &who, const std::string &form, const T &...given) { refuse(who, form.c_str(), given...); }
template <typename Who> void refuse(const Who &) {}
template <typename Who, typename... T> void refuse_words(const Who &, const T &...given)
{
    std::ostringstream words;
    ((words << given << ' '), ...);
    note_refusal(words.str());
}
template <typename... T> void say_nothing(T &&...) {}

} // namespace npusim

namespace Ops::Base {
inline const char *GetSafeStr(const char *words) { return words ? words : "nil"; }
template <typename Who> std::string GetOpInfo(const Who &who)
{
    if constexpr (std::is_pointer_v<Who> && !std::is_same_v<std::remove_cv_t<std::remove_pointer_t<Who>>, char>) return who ? who->GetNodeName() : "nil";
    else return who;
}
inline const char *GetSafeStr(const std::string &words) { return words.c_str(); }
template <typename Shape> std::string ShapeWords(const Shape &shape)
{
    std::ostringstream words;
    words << '[';
    for (size_t axis = 0; axis < shape.GetDimNum(); axis++) words << (axis ? ", " : "") << shape.GetDim(axis);
    return words << ']', words.str();
}
inline std::string ToString(const gert::Shape &shape) { return ShapeWords(shape); }
inline std::string ToString(ge::DataType type) { return ge::TypeUtils::DataTypeToSerialString(type); }
inline std::string ToString(ge::Format format) { return ge::TypeUtils::FormatToSerialString(format); }
template <typename T> std::string ToString(const std::vector<T> &all)
{
    std::ostringstream words;
    words << '[';
    for (size_t place = 0; place < all.size(); place++) words << (place ? ", " : "") << all[place];
    return words << ']', words.str();
}
} // namespace Ops::Base

#ifndef likely
#define likely(condition) __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)
#endif
#define OP_LOGE(...) ::npusim::refuse(__VA_ARGS__)
#define OP_LOGE_WITHOUT_REPORT(...) ::npusim::refuse(__VA_ARGS__)
#define OP_LOGD(...) ::npusim::say_nothing(__VA_ARGS__)
#define OP_LOGI(...) ::npusim::say_nothing(__VA_ARGS__)
#define OP_LOGW(...) ::npusim::say_nothing(__VA_ARGS__)
#define OP_EVENT(...) ::npusim::say_nothing(__VA_ARGS__)
#define OP_LOGD_FULL(...) ::npusim::say_nothing(__VA_ARGS__)
#define D_OP_LOGD(...) ::npusim::say_nothing(__VA_ARGS__)
#define D_OP_LOGE(...) ::npusim::refuse(__VA_ARGS__)
#define OP 63
#define DLOG_DEBUG 0
#define DLOG_INFO 1
#define DLOG_WARN 2
#define DLOG_ERROR 3
inline int CheckLogLevel(int, int) { return 0; }
#define OpLogSub(module, level, who, ...) ((level) == DLOG_ERROR ? ::npusim::refuse(who, __VA_ARGS__) : ::npusim::say_nothing(who, __VA_ARGS__))
#define REPORT_INNER_ERR_MSG(...) ::npusim::say_nothing(__VA_ARGS__)
#define REPORT_INNER_ERROR(...) ::npusim::say_nothing(__VA_ARGS__)
#define OP_LOGI_IF_RETURN(condition, result, ...) do { if (condition) return result; } while (0)
#define OP_LOGW_IF(condition, ...) ((void)0)
#define OP_LOGE_IF(condition, result, ...)            \
    do {                                              \
        if (condition) {                              \
            ::npusim::refuse(__VA_ARGS__);            \
            return result;                            \
        }                                             \
    } while (0)
#define OP_CHECK_IF(condition, told, leave) \
    do {                                    \
        if (condition) {                    \
            told;                           \
            leave;                          \
        }                                   \
    } while (0)
#define OP_CHECK(condition, told, leave) OP_CHECK_IF(condition, told, leave)
#define OP_CHECK_NULL_WITH_CONTEXT(context, pointer)                      \
    do {                                                                  \
        if ((pointer) == nullptr) {                                       \
            ::npusim::refuse(context, #pointer " isn't there (null)");    \
            return ge::GRAPH_FAILED;                                      \
        }                                                                 \
    } while (0)
#define OP_CHECK_NULL_WITH_CONTEXT_RET(context, pointer, result)          \
    do {                                                                  \
        if ((pointer) == nullptr) {                                       \
            ::npusim::refuse(context, #pointer " isn't there (null)");    \
            return result;                                                \
        }                                                                 \
    } while (0)
#define OPS_CHECK_NULL_WITH_CONTEXT(context, pointer) OP_CHECK_NULL_WITH_CONTEXT(context, pointer)
#define OPS_CHECK_NULL_WITH_CONTEXT_RET(context, pointer, result) OP_CHECK_NULL_WITH_CONTEXT_RET(context, pointer, result)
/* Told with what was given and what is allowed, as words. */
#define OP_LOGE_FOR_INVALID_DTYPE(...) ::npusim::refuse_words(__VA_ARGS__)
#define OP_LOGE_FOR_INVALID_DTYPE_WITH_REASON(...) ::npusim::refuse_words(__VA_ARGS__)
#define OP_LOGE_FOR_INVALID_DTYPES_WITH_REASON(...) ::npusim::refuse_words(__VA_ARGS__)
#define OP_LOGE_FOR_INVALID_SHAPE(...) ::npusim::refuse_words(__VA_ARGS__)
#define OP_LOGE_FOR_INVALID_SHAPE_WITH_REASON(...) ::npusim::refuse_words(__VA_ARGS__)
#define OP_LOGE_FOR_INVALID_SHAPES_WITH_REASON(...) ::npusim::refuse_words(__VA_ARGS__)
#define OP_LOGE_FOR_INVALID_SHAPEDIM(...) ::npusim::refuse_words(__VA_ARGS__)
#define OP_LOGE_FOR_INVALID_SHAPEDIM_WITH_REASON(...) ::npusim::refuse_words(__VA_ARGS__)
#define OP_LOGE_FOR_INVALID_SHAPEDIMS_WITH_REASON(...) ::npusim::refuse_words(__VA_ARGS__)
#define OP_LOGE_FOR_INVALID_SHAPESIZE(...) ::npusim::refuse_words(__VA_ARGS__)
#define OP_LOGE_FOR_INVALID_SHAPESIZE_WITH_REASON(...) ::npusim::refuse_words(__VA_ARGS__)
#define OP_LOGE_FOR_INVALID_SHAPESIZES_WITH_REASON(...) ::npusim::refuse_words(__VA_ARGS__)
#define OP_LOGE_FOR_INVALID_VALUE(...) ::npusim::refuse_words(__VA_ARGS__)
#define OP_LOGE_FOR_INVALID_VALUE_WITH_REASON(...) ::npusim::refuse_words(__VA_ARGS__)
#define OP_LOGE_FOR_INVALID_VALUES_WITH_REASON(...) ::npusim::refuse_words(__VA_ARGS__)
#define OP_LOGE_FOR_INVALID_TENSORNUM(...) ::npusim::refuse_words(__VA_ARGS__)
#define OP_LOGE_FOR_INVALID_TENSORNUM_WITH_REASON(...) ::npusim::refuse_words(__VA_ARGS__)
#define OP_LOGE_FOR_INVALID_TENSORNUMS_WITH_REASON(...) ::npusim::refuse_words(__VA_ARGS__)
#define OP_LOGE_FOR_INVALID_FORMAT(...) ::npusim::refuse_words(__VA_ARGS__)
#define OP_LOGE_FOR_INVALID_FORMAT_WITH_REASON(...) ::npusim::refuse_words(__VA_ARGS__)
#define OP_LOGE_FOR_INVALID_FORMATS_WITH_REASON(...) ::npusim::refuse_words(__VA_ARGS__)
#define OP_LOGE_FOR_INVALID_CONFIG_WITH_REASON(...) ::npusim::refuse_words(__VA_ARGS__)
#define OP_LOGE_WITH_INVALID_INPUT(...) ::npusim::refuse_words(__VA_ARGS__)
#define OP_LOGE_WITH_INVALID_ATTR(...) ::npusim::refuse_words(__VA_ARGS__)
#define OP_LOGE_WITH_INVALID_ATTR_SIZE(...) ::npusim::refuse_words(__VA_ARGS__)

#endif

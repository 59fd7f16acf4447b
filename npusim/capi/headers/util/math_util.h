/* Whole numbers as host code rounds them; a divisor of zero leaves the number as it is. */
#ifndef NPUSIM_MATH_UTIL_H
#define NPUSIM_MATH_UTIL_H

#include <cmath>
#include <cstdint>
#include <type_traits>

namespace Ops::Base {
template <typename T, typename U> constexpr std::common_type_t<T, U> CeilDiv(T number, U by) { return by == 0 ? number : (number + by - 1) / by; }
template <typename T, typename U> constexpr std::common_type_t<T, U> CeilAlign(T number, U by) { return by == 0 ? number : (number + by - 1) / by * by; }
template <typename T, typename U> constexpr std::common_type_t<T, U> FloorDiv(T number, U by) { return by == 0 ? number : number / by; }
template <typename T, typename U> constexpr std::common_type_t<T, U> FloorAlign(T number, U by) { return by == 0 ? number : number / by * by; }
} // namespace Ops::Base

#endif

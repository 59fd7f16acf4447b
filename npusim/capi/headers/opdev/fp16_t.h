/* Half numbers as hosts name them. */
#ifndef NPUSIM_OPDEV_FP16_T_H
#define NPUSIM_OPDEV_FP16_T_H

#include "npusim/kernel_types.h"

namespace op {
using fp16_t = half;
} // namespace op

#endif

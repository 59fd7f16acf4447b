/* Brain floats as hosts name them. */
#ifndef NPUSIM_OPDEV_BFLOAT16_H
#define NPUSIM_OPDEV_BFLOAT16_H

#include "npusim/kernel_types.h"

namespace op {
using bfloat16 = bfloat16_t;
} // namespace op

#endif

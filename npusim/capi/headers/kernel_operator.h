/* Ascend C kernels on the simulator: every instruction is one call of npusim_kernel_call. */
#ifndef NPUSIM_KERNEL_OPERATOR_H
#define NPUSIM_KERNEL_OPERATOR_H

#include "npusim/kernel_call.h"
#include "npusim/kernel_tensors.h"
#include "npusim/kernel_vector.h"
#include "npusim/kernel_copies.h"

#endif

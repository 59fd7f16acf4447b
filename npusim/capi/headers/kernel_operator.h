/* Ascend C kernels on the host: every instruction is computed here, and written down for its time. */
#ifndef NPUSIM_KERNEL_OPERATOR_H
#define NPUSIM_KERNEL_OPERATOR_H

#include "acl/acl.h"
#include "npusim/kernel_types.h"
#include "npusim/kernel_runtime.h"
#include "npusim/kernel_tensors.h"
#include "npusim/kernel_cores.h"
#include "npusim/kernel_lanes.h"
#include "npusim/kernel_vector.h"
#include "npusim/kernel_copies.h"
#include "npusim/kernel_reduce.h"
#include "npusim/kernel_rearrange.h"
#include "npusim/kernel_cube.h"
#include "npusim/kernel_sparse.h"
#include "npusim/kernel_sync.h"
#include "npusim/kernel_math.h"
#include "npusim/kernel_rows.h"
#include "npusim/kernel_sort.h"
#include "npusim/kernel_norms.h"
#include "npusim/kernel_shapes.h"
#include "npusim/kernel_layouts.h"
#include "npusim/kernel_tiling_data.h"

#endif

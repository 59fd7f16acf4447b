#ifndef SCALED_SHIFT_TILING_H
#define SCALED_SHIFT_TILING_H

#include "register/tilingdata_base.h"

namespace optiling {

BEGIN_TILING_DATA_DEF(ScaledShiftTilingData)
TILING_DATA_FIELD_DEF(uint32_t, total);  // elements of x
TILING_DATA_FIELD_DEF(uint32_t, share);  // elements of a core; the last one may have fewer
TILING_DATA_FIELD_DEF(uint32_t, tile);   // elements that are in UB at once
TILING_DATA_FIELD_DEF(float, scale);
END_TILING_DATA_DEF;

REGISTER_TILING_DATA_CLASS(ScaledShift, ScaledShiftTilingData)

} // namespace optiling

#endif

/* Where flags between cores lie, as programs of the runtime's older interface ask: kernels find it themselves. */
#ifndef NPUSIM_RUNTIME_RT_FFTS_H
#define NPUSIM_RUNTIME_RT_FFTS_H

#include <stdint.h>

static inline int32_t rtGetC2cCtrlAddr(uint64_t *address, uint32_t *length)
{
    *address = 1, *length = 0;
    return 0;
}

#endif

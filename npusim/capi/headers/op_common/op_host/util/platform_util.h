/* Sizes of the chip that host code takes for granted. */
#ifndef NPUSIM_PLATFORM_UTIL_H
#define NPUSIM_PLATFORM_UTIL_H

#include "npusim/op_context.h"

namespace Ops::Base {
template <typename Context> uint32_t GetUbBlockSize(const Context *) { return 32; }
template <typename Context> uint32_t GetVRegSize(const Context *) { return 256; }
template <typename Context> uint32_t GetCacheLineSize(const Context *) { return 512; }
template <typename Context> uint64_t GetUbSize(const Context *)
{
    uint64_t size = 0;
    return platform_ascendc::PlatformAscendCManager::GetInstance()->GetCoreMemSize(platform_ascendc::CoreMemType::UB, size), size;
}
template <typename Context> uint32_t GetAivCoreNum(const Context *) { return platform_ascendc::PlatformAscendCManager::GetInstance()->GetCoreNumAiv(); }
} // namespace Ops::Base

#endif

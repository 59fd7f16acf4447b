/* What programs ask about the chip: its cores and memories. */
#ifndef NPUSIM_PLATFORM_ASCENDC_H
#define NPUSIM_PLATFORM_ASCENDC_H

#include <cstdint>
#include <string>

extern "C" int64_t npusim_chip(int what);

enum class NpuArch : uint32_t { DAV_1001 = 1001, DAV_2002 = 2002, DAV_2201 = 2201, DAV_3002 = 3002, DAV_3003 = 3003, DAV_3113 = 3113, DAV_3510 = 3510, DAV_5102 = 5102, DAV_RESV = 65535 };

namespace platform_ascendc {

using ::NpuArch;
enum class CoreMemType { L0_A = 0, L0_B, L0_C, L1, L2, UB, HBM, FB, BT, RESERVED };
enum class SocVersion { ASCEND910 = 0, ASCEND910B, ASCEND310P, ASCEND310B, ASCEND910_95, ASCEND950, ASCEND910_93 = 17, KIRINX90, KIRIN9030, MC62CM12A, RESERVED_VERSION = 99999 };

class PlatformAscendC {
public:
    PlatformAscendC() = default;
    explicit PlatformAscendC(void *) {}
    uint32_t GetCoreNum() const { return uint32_t(npusim_chip(0)); }
    uint32_t GetCoreNumAic() const { return uint32_t(npusim_chip(0)); }
    uint32_t GetCoreNumAiv() const { return uint32_t(npusim_chip(1)); }
    uint32_t GetCoreNumVector() const { return 0; }
    uint32_t CalcTschBlockDim(uint32_t slices, uint32_t cubes, uint32_t vectors) const { return cubes && vectors ? (slices + vectors / cubes - 1) / (vectors / cubes) : slices; }
    uint32_t CalcTschNumBlocks(uint32_t slices, uint32_t cubes, uint32_t vectors) const { return CalcTschBlockDim(slices, cubes, vectors); }
    /* What the vendor's operators set aside (public ops-nn, ASCEND_WORKSPACE); nothing here needs it. */
    uint32_t GetLibApiWorkSpaceSize() const { return 16u << 20; }
    SocVersion GetSocVersion() const { return SocVersion(npusim_chip(2)); }
    NpuArch GetCurNpuArch() const { return NpuArch(npusim_chip(3)); }
    template <typename Number> void GetCoreMemSize(CoreMemType kind, Number &size) const { size = Number(npusim_chip(10 + int(kind))); }
    template <typename Number> void GetCoreMemBw(CoreMemType, Number &) const {}
};
class PlatformAscendCManager {
public:
    static PlatformAscendC *GetInstance()
    {
        static PlatformAscendC chip;
        return &chip;
    }
    static PlatformAscendC *GetInstance(const char *) { return GetInstance(); }
};

} // namespace platform_ascendc

#endif

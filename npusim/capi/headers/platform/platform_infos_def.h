/* What host code asks a chip by name: cores and memories are those of the profile. */
#ifndef NPUSIM_PLATFORM_INFOS_DEF_H
#define NPUSIM_PLATFORM_INFOS_DEF_H

#include <cstdint>
#include <cstring>
#include <map>
#include <string>

#include "tiling/platform/platform_ascendc.h"

namespace fe {

enum class LocalMemType { L0_A = 0, L0_B, L0_C, L1, L2, UB, HBM, RESERVED };

class PlatFormInfos {
public:
    uint32_t GetCoreNum() const { return chip().GetCoreNum(); }
    uint32_t GetCoreNumByType(const std::string &kind) const { return kind == "VectorCore" ? chip().GetCoreNumAiv() : chip().GetCoreNumAic(); }
    template <typename Number> void GetLocalMemSize(LocalMemType kind, Number &size) const { chip().GetCoreMemSize(platform_ascendc::CoreMemType(int(kind)), size); }
    template <typename Number> void GetLocalMemBw(LocalMemType, Number &) const {}
    /* Names of the public platform configuration files. What isn't known stays as it is, and the answer is no. */
    bool GetPlatformRes(const std::string &, const std::string &name, std::string &value) const
    {
        static const std::map<std::string, int> memories = {{"ub_size", 5}, {"l1_size", 3}, {"l0_a_size", 0}, {"l0_b_size", 1}, {"l0_c_size", 2}, {"l2_size", 4}, {"bt_size", 8}, {"fb_size", 7}};
        static const std::map<int, const char *> products = {{1001, "Ascend910"}, {2002, "Ascend310P"}, {2201, "Ascend910B"}};
        if (name == "ai_core_cnt" || name == "cube_core_cnt") return value = std::to_string(chip().GetCoreNumAic()), true;
        if (name == "vector_core_cnt") return value = std::to_string(chip().GetCoreNumAiv()), true;
        if (auto found = memories.find(name); found != memories.end()) {
            uint64_t size = 0;
            return chip().GetCoreMemSize(platform_ascendc::CoreMemType(found->second), size), value = std::to_string(size), true;
        }
        int architecture = int(chip().GetCurNpuArch());
        if (name == "NpuArch") return value = std::to_string(architecture), true;
        auto product = products.find(architecture);
        bool asks_product = name == "Short_SoC_version" || name == "SoC_version";
        if (asks_product && product != products.end()) return value = product->second, true;
        if (name == "Intrinsic_data_move_l12bt" || name == "Intrinsic_data_move_l0c2out") return architecture == 2201 && (value = "float32", true);
        if (name == "cube_vector_combine") return value = architecture == 2201 ? "split" : "fuse", true;
        return false;
    }
    bool GetPlatformResWithLock(const std::string &label, const std::string &name, std::string &value) const { return GetPlatformRes(label, name, value); }
    bool GetPlatformResWithLock(const std::string &, std::map<std::string, std::string> &) const { return false; }

private:
    static platform_ascendc::PlatformAscendC &chip() { return *platform_ascendc::PlatformAscendCManager::GetInstance(); }
};
class OptionalInfos {
public:
    std::string soc_version;
};
using OptionalInfo = OptionalInfos;
struct PlatformInfo {
    struct {
        std::string short_soc_version;
    } str_info;
};
class PlatformInfoManager {
public:
    static PlatformInfoManager &Instance()
    {
        static PlatformInfoManager only;
        return only;
    }
    static PlatformInfoManager &GeInstance() { return Instance(); }
    uint32_t GetPlatformInfoWithOutSocVersion(PlatformInfo &info, OptionalInfos &) const { return info.str_info.short_soc_version = named(), 0; }
    uint32_t GetPlatformInfoWithOutSocVersion(PlatFormInfos &, OptionalInfos &) const { return 0; }

private:
    static std::string named()
    {
        std::string name;
        return PlatFormInfos().GetPlatformRes("version", "Short_SoC_version", name), name;
    }
};

} // namespace fe

#endif

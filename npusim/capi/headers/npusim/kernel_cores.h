/* What a core asks and tells: its number, flags and barriers, words of global memory, lines of text. */
#ifndef NPUSIM_KERNEL_CORES_H
#define NPUSIM_KERNEL_CORES_H

namespace AscendC {

inline int64_t GetBlockIdx() { return npusim::current->mix && !npusim::current->cube ? npusim::current->block * npusim::current->sub_blocks + npusim::current->sub_block : npusim::current->block; }
inline int64_t GetBlockNum() { return npusim::current->blocks; }
inline int64_t GetSubBlockIdx() { return npusim::current->sub_block; }
inline int64_t GetSubBlockNum() { return npusim::current->mix ? npusim::current->sub_blocks : 1; }
inline int64_t GetTaskRation() { return npusim::current->mix && !npusim::current->cube ? npusim::current->sub_blocks : 1; }
inline int64_t GetTaskRatio() { return GetTaskRation(); }
inline void SetSyncBaseAddr(uint64_t) {}
template <typename T = int> void ICachePreLoad(T) {}
inline void InitSocState() {}
inline void ResetCtrlSpr() {}
inline int64_t GetSystemCycle() { static int64_t cycles = 0; return cycles += 50; }
inline uint32_t GetUBSizeInBytes() { return uint32_t(npusim::current->size[npusim::UB]); }
inline uint32_t GetRuntimeUBSize() { return GetUBSizeInBytes(); }
inline uint64_t GetVecLen() { return 256; }
inline uint64_t GetDataBlockSizeInBytes() { return 32; }
inline void DisableDmaAtomic() { npusim::current->atomic = 0; }
inline void SetAtomicNone() { npusim::current->atomic = 0; }
template <typename T> void SetAtomicAdd(NPUSIM_AT) { npusim::current->atomic = 1, npusim::current->atomic_at = at; }
template <typename T> void SetAtomicMax(NPUSIM_AT) { npusim::current->atomic = 2, npusim::current->atomic_at = at; }
template <typename T> void SetAtomicMin(NPUSIM_AT) { npusim::current->atomic = 3, npusim::current->atomic_at = at; }
template <bool isAIVOnly = true> void SyncAll(NPUSIM_AT) { npusim::sync_all(isAIVOnly && !npusim::current->cube, at); }
template <bool isAIVOnly = true, typename T, typename U> void SyncAll(const GlobalTensor<T> &, const LocalTensor<U> &, int32_t = 0, NPUSIM_AT) { npusim::sync_all(isAIVOnly, at); }
template <HardEvent event> void SetFlag(int32_t id, NPUSIM_AT) { npusim::set_flag(npusim::setter_of(event), npusim::waiter_of(event), id, at); }
template <HardEvent event> void WaitFlag(int32_t id, NPUSIM_AT) { npusim::wait_flag(npusim::setter_of(event), npusim::waiter_of(event), id, at); }
template <pipe_t pipe> void PipeBarrier(NPUSIM_AT)
{
    if constexpr (pipe == PIPE_ALL) npusim::join(at);
}
template <uint8_t mode = 0, pipe_t pipe = PIPE_S> void CrossCoreSetFlag(uint16_t id, NPUSIM_AT) { npusim::cross_set(mode, npusim::pipe_of(pipe), id, at); }
template <uint8_t mode = 2, pipe_t pipe = PIPE_S> void CrossCoreWaitFlag(uint16_t id, NPUSIM_AT)
{
    npusim::cross_wait(mode, id, at);
}
template <MemDsbT kind> void DataSyncBarrier(NPUSIM_AT) { npusim::scalar(0, 0, 1, 0, 0, at); }
template <typename T, CacheLine line, DcciDst dst = DcciDst::CACHELINE_ALL> void DataCacheCleanAndInvalid(const GlobalTensor<T> &gm, NPUSIM_AT) { npusim::refresh_line(gm.address, line == CacheLine::ENTIRE_DATA_CACHE, at); }
template <typename T, CacheLine line> void DataCachePreload(const GlobalTensor<T> &, int64_t, NPUSIM_AT) { npusim::scalar(0, 0, 1, 0, 0, at); }
template <typename T> T ReadGmByPassDCache(T *address, NPUSIM_AT)
{
    npusim::read_word(address, address, true, at);
    return *reinterpret_cast<T *>(npusim::global(uint64_t(reinterpret_cast<uintptr_t>(address)), sizeof(T), "ReadGmByPassDCache", at));
}
template <typename T> void WriteGmByPassDCache(T *address, T value, NPUSIM_AT)
{
    npusim::write_word(address, address, true, at);
    *reinterpret_cast<T *>(npusim::global(uint64_t(reinterpret_cast<uintptr_t>(address)), sizeof(T), "WriteGmByPassDCache", at)) = value;
}

template <typename T, typename U> struct IsSameType { static constexpr bool value = std::is_same_v<std::remove_cv_t<T>, std::remove_cv_t<U>>; };
template <bool condition, typename T, typename U> using Conditional = std::conditional<condition, T, U>;
template <typename T> struct SizeOfBits { static constexpr int value = std::is_same_v<std::remove_cv_t<T>, int4b_t> ? 4 : int(sizeof(T)) * 8; };
namespace Std {
using namespace std;
template <typename T, typename... U> constexpr bool is_one_of_v = (std::is_same_v<T, U> || ...);
} // namespace Std
template <typename T, typename U> constexpr auto DivCeil(T a, U b) { return (a + b - 1) / b; }
template <typename T, typename U> constexpr auto CeilDivision(T a, U b) { return b == 0 ? 0 : (a + b - 1) / b; }
template <typename T, typename U> constexpr auto Ceil(T a, U b) { return (a + b - 1) / b; }
template <typename T, typename U> constexpr auto CeilAlign(T a, U b) { return (a + b - 1) / b * b; }
template <typename T, typename U> constexpr auto AlignUp(T a, U b) { return (a + b - 1) / b * b; }
inline uint8_t *GetUserWorkspace(uint8_t *workspace) { return workspace; }
template <typename... T> int printf(const char *format, T... values)
{
    if constexpr (sizeof...(T) == 0) return std::fputs(format, stdout);
    else return std::printf(format, values...);
}
template <typename... T> int PRINTF(const char *format, T... values) { return AscendC::printf(format, values...); }

} // namespace AscendC

namespace AscendC {
constexpr int AIV = 0, AIC = 1, MIX = 2;
}
#if defined(__DAV_CUBE__) /* one side of two, npusim/capi/two_sides.py */
constexpr int32_t g_coreType = AscendC::AIC;
#elif defined(__DAV_VEC__)
constexpr int32_t g_coreType = AscendC::AIV;
#else
#define g_coreType (::npusim::current->cube ? ::AscendC::AIC : ::AscendC::AIV)
#endif
#define ASCEND_IS_AIC (g_coreType == ::AscendC::AIC)
#define ASCEND_IS_AIV (g_coreType == ::AscendC::AIV)
inline uint8_t *GetSysWorkSpacePtr()
{
    static uint8_t none[16];
    return none;
}
using AscendC::GetUserWorkspace;
using AscendC::GetTPipePtr;
inline void SetSysWorkspace(uint8_t *) {}
inline uint8_t *SetSysWorkspaceForce(uint8_t *place) { return place; }
/* Names of the device's compiler, which a kernel's own may hide. */
struct NpusimBlock {
    int32_t npusim::Core::*number;
    operator int64_t() const { return npusim::current->*number; }
};
static constexpr NpusimBlock block_idx = {&npusim::Core::block}, block_num = {&npusim::Core::blocks};
#define NPUSIM_LEAST_MOST(T)                                       \
    inline T min(T one, T other) { return other < one ? other : one; } \
    inline T max(T one, T other) { return one < other ? other : one; }
NPUSIM_LEAST_MOST(int32_t) NPUSIM_LEAST_MOST(uint32_t) NPUSIM_LEAST_MOST(int64_t) NPUSIM_LEAST_MOST(uint64_t) NPUSIM_LEAST_MOST(float)
#undef NPUSIM_LEAST_MOST
inline int64_t get_block_idx() { return npusim::current->block; }
inline int64_t get_block_num() { return npusim::current->blocks; }
inline void pipe_barrier(pipe_t pipe, NPUSIM_AT) { if (pipe == PIPE_ALL) npusim::join(at); }

inline void icache_preload(int64_t) {}

#endif

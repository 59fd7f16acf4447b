/* Where tensors lie, and what Ascend C calls pipes, events and places. */
#ifndef NPUSIM_KERNEL_POSITIONS_H
#define NPUSIM_KERNEL_POSITIONS_H

enum pipe_t { PIPE_S, PIPE_V, PIPE_M, PIPE_MTE1, PIPE_MTE2, PIPE_MTE3, PIPE_ALL, PIPE_MTE4, PIPE_MTE5, PIPE_V2, PIPE_FIX };
enum event_t { EVENT_ID0, EVENT_ID1, EVENT_ID2, EVENT_ID3, EVENT_ID4, EVENT_ID5, EVENT_ID6, EVENT_ID7 };

namespace AscendC {

enum class TPosition : uint8_t {
    GM, A1, A2, B1, B2, C1, C2, CO1, CO2, VECIN, VECOUT, VECCALC, LCM = VECCALC, SPM, SHM = SPM, TSCM, C2PIPE2GM, C2PIPE2LOCAL, MAX
};
using QuePosition = TPosition;
using TEventID = int8_t;
enum class Hardware : uint8_t { GM, UB, L1, L0A, L0B, L0C, BIAS, FIXBUF, MAX };
enum class HardEvent : uint8_t {
    MTE2_MTE1, MTE1_MTE2, MTE1_M, M_MTE1, MTE2_V, V_MTE2, MTE3_V, V_MTE3, M_V, V_M, V_V, MTE3_MTE1, MTE1_MTE3, MTE1_V, MTE2_M, M_MTE2, V_MTE1, M_FIX,
    FIX_M, MTE3_MTE2, MTE2_MTE3, S_V, V_S, S_MTE2, MTE2_S, S_MTE3, MTE3_S, MTE2_FIX, FIX_MTE2, FIX_S, M_S, FIX_MTE3, MTE1_FIX, FIX_MTE1, FIX_FIX, MAX
};
enum class MemDsbT : uint8_t { ALL, DDR, UB, SEQ };
enum class CacheMode : uint8_t { CACHE_MODE_NORMAL = 0, CACHE_MODE_DISABLE = 1, CACHE_MODE_LAST = 2, CACHE_MODE_PERSISTENT = 4 };
enum class CacheRwMode : uint8_t { READ = 1, WRITE = 2, RW = 3 };
enum class CacheLine : uint64_t { SINGLE_CACHE_LINE = 0, ENTIRE_DATA_CACHE };
enum class DcciDst : uint64_t { CACHELINE_ALL = 0, CACHELINE_UB, CACHELINE_OUT, CACHELINE_ATOMIC };
enum class MaskMode : uint8_t { NORMAL = 0, COUNTER };
enum class DataFormat : uint8_t { ND = 0, NZ, NCHW, NC1HWC0, NHWC, NCDHW, NDC1HWC0, FRACTAL_Z_3D };
/* A tensor's shape as programs note it; interfaces take theirs as parameters. */
struct ShapeInfo {
    uint8_t shapeDim = 0, originalShapeDim = 0;
    uint32_t shape[8] = {}, originalShape[8] = {};
    DataFormat dataFormat = DataFormat::ND;
    ShapeInfo() = default;
    ShapeInfo(uint8_t dims, const uint32_t *sizes, uint8_t original, const uint32_t *sizes_before, DataFormat format) : shapeDim(dims), originalShapeDim(original), dataFormat(format)
    {
        for (int each = 0; each < dims; each++) shape[each] = sizes[each];
        for (int each = 0; each < original; each++) originalShape[each] = sizes_before[each];
    }
    ShapeInfo(uint8_t dims, const uint32_t *sizes, DataFormat format) : ShapeInfo(dims, sizes, dims, sizes, format) {}
    ShapeInfo(uint8_t dims, const uint32_t *sizes) : ShapeInfo(dims, sizes, dims, sizes, DataFormat::ND) {}
};

constexpr int32_t ONE_BLK_SIZE = 32, ONE_BLK_FLOAT_NUM = 8, ONE_BLK_HALF_NUM = 16, DEFAULT_C0_SIZE = 32, TOTAL_VEC_LOCAL_SIZE = 184 * 1024, TOTAL_UB_SIZE = 192 * 1024, TOTAL_L1_SIZE = 512 * 1024;
constexpr int32_t TOTAL_L0A_SIZE = 64 * 1024, TOTAL_L0B_SIZE = 64 * 1024, TOTAL_L0C_SIZE = 128 * 1024, ONE_REPEAT_BYTE_SIZE = 256;
constexpr int32_t DEFAULT_BLK_NUM = 8, DEFAULT_BLK_STRIDE = 1, DEFAULT_REPEAT_STRIDE = 8, MAX_REPEAT_TIMES = 255, CUBE_MAX_SIZE = 256, BLOCK_CUBE = 16;
constexpr uint64_t MASK_PLACEHOLDER = 0;
constexpr int8_t INVALID_TEVENTID = -1;

} // namespace AscendC

namespace npusim {

constexpr int memory_of(AscendC::TPosition position)
{
    using P = AscendC::TPosition;
    switch (position) {
    case P::A1: case P::B1: case P::C1: case P::TSCM: return L1;
    case P::A2: return L0A;
    case P::B2: return L0B;
    case P::C2: return BIAS;
    case P::CO1: return L0C;
    case P::C2PIPE2GM: case P::C2PIPE2LOCAL: return FIXBUF;
    default: return UB;
    }
}
constexpr int pipe_of(pipe_t pipe)
{
    return pipe == PIPE_FIX ? FIX : pipe == PIPE_MTE3 ? MTE3 : pipe == PIPE_MTE2 ? MTE2 : pipe == PIPE_MTE1 ? MTE1 : pipe == PIPE_M ? M : pipe == PIPE_V ? V : S;
}
constexpr int EVENTS[][2] = {{MTE2, MTE1}, {MTE1, MTE2}, {MTE1, M}, {M, MTE1}, {MTE2, V}, {V, MTE2}, {MTE3, V}, {V, MTE3}, {M, V}, {V, M}, {V, V},
    {MTE3, MTE1}, {MTE1, MTE3}, {MTE1, V}, {MTE2, M}, {M, MTE2}, {V, MTE1}, {M, FIX}, {FIX, M}, {MTE3, MTE2}, {MTE2, MTE3}, {S, V}, {V, S}, {S, MTE2},
    {MTE2, S}, {S, MTE3}, {MTE3, S}, {MTE2, FIX}, {FIX, MTE2}, {FIX, S}, {M, S}, {FIX, MTE3}, {MTE1, FIX}, {FIX, MTE1}, {FIX, FIX}};
constexpr int setter_of(AscendC::HardEvent event) { return EVENTS[int(event)][0]; }
constexpr int waiter_of(AscendC::HardEvent event) { return EVENTS[int(event)][1]; }
constexpr int producer_of(AscendC::TPosition src)
{
    using P = AscendC::TPosition;
    return src == P::VECOUT || src == P::VECCALC ? V : src == P::A2 || src == P::B2 || src == P::C2 ? MTE1 : src == P::CO1 ? M : src == P::CO2 ? FIX : MTE2;
}
constexpr int consumer_of(AscendC::TPosition dst)
{
    using P = AscendC::TPosition;
    switch (dst) {
    case P::VECOUT: return MTE3;
    case P::A1: case P::B1: case P::C1: case P::TSCM: return MTE1;
    case P::A2: case P::B2: case P::C2: return M;
    case P::CO1: case P::C2PIPE2GM: return FIX;
    default: return V;
    }
}

} // namespace npusim

#endif

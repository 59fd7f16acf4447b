/* Tensors, queues, scratch memory and flags of Ascend C. */
#ifndef NPUSIM_KERNEL_TENSORS_H
#define NPUSIM_KERNEL_TENSORS_H

enum pipe_t { PIPE_S, PIPE_V, PIPE_M, PIPE_MTE1, PIPE_MTE2, PIPE_MTE3, PIPE_ALL, PIPE_MTE4, PIPE_MTE5, PIPE_V2, PIPE_FIX };
enum event_t { EVENT_ID0, EVENT_ID1, EVENT_ID2, EVENT_ID3, EVENT_ID4, EVENT_ID5, EVENT_ID6, EVENT_ID7 };
enum class CubeFormat { ND = 0, NZ, ZN, ZZ, NN, ND_ALIGN, SCALAR, VECTOR, ROW_MAJOR, COLUMN_MAJOR };

namespace AscendC {

enum class TPosition : uint8_t {
    GM, A1, A2, B1, B2, C1, C2, CO1, CO2, VECIN, VECOUT, VECCALC, LCM = VECCALC, SPM, SHM = SPM, TSCM, C2PIPE2GM, C2PIPE2LOCAL, MAX
};
using QuePosition = TPosition;
using ::CubeFormat;
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

constexpr int32_t ONE_BLK_SIZE = 32, DEFAULT_C0_SIZE = 32, TOTAL_VEC_LOCAL_SIZE = 184 * 1024, TOTAL_UB_SIZE = 192 * 1024, TOTAL_L1_SIZE = 512 * 1024;
constexpr int32_t TOTAL_L0A_SIZE = 64 * 1024, TOTAL_L0B_SIZE = 64 * 1024, TOTAL_L0C_SIZE = 128 * 1024, ONE_REPEAT_BYTE_SIZE = 256;
constexpr int32_t DEFAULT_BLK_NUM = 8, DEFAULT_BLK_STRIDE = 1, DEFAULT_REPEAT_STRIDE = 8, MAX_REPEAT_TIMES = 255, CUBE_MAX_SIZE = 256;
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

/* One element of a local tensor, as the scalar unit reads or writes it. */
template <typename T> Span element(int memory, int64_t start, int64_t limit)
{
    return {memory, 1, 1, start, limit, int64_t(sizeof(T)), 0, 0, true, false};
}

} // namespace npusim

namespace AscendC {

template <typename T> class GlobalTensor {
public:
    using PrimType = T;
    T *address = nullptr;
    int64_t count = INT64_MAX;
    uint8_t past_l2 = 0; /* CacheRwMode: which of its copies bypass L2 */

    void SetGlobalBuffer(T *buffer, uint64_t size) { address = buffer, count = int64_t(size); }
    void SetGlobalBuffer(T *buffer) { address = buffer, count = INT64_MAX; }
    GlobalTensor operator[](uint64_t offset) const
    {
        GlobalTensor moved = *this;
        moved.address = reinterpret_cast<T *>(reinterpret_cast<uintptr_t>(address) + uintptr_t(npusim::bytes_of<T>(int64_t(offset))));
        if (count != INT64_MAX) moved.count = count - int64_t(offset);
        return moved;
    }
    T GetValue(uint64_t offset, NPUSIM_AT) const { return *at_element(offset, "GetValue", at, false); }
    T operator()(uint64_t offset, NPUSIM_AT) const { return GetValue(offset, at); }
    void SetValue(uint64_t offset, T value, NPUSIM_AT) { *at_element(offset, "SetValue", at, true) = value; }
    T *GetPhyAddr(uint64_t offset = 0) const { return address + offset; }
    uint64_t GetSize() const { return uint64_t(count); }
    template <CacheRwMode rw = CacheRwMode::RW> void SetL2CacheHint(CacheMode mode)
    {
        past_l2 = uint8_t((past_l2 & ~uint8_t(rw)) | (mode == CacheMode::CACHE_MODE_DISABLE ? uint8_t(rw) : 0));
    }
    int64_t way(CacheRwMode rw) const { return (past_l2 & uint8_t(rw)) ? int64_t(npusim::BYPASSES_L2) : 0; }
    template <typename Shape> void SetShapeInfo(const Shape &) {}

private:
    T *at_element(uint64_t offset, const char *what, npusim::Site at, bool writes) const
    {
        if (int64_t(offset) >= count) npusim::refuse(at, "Read or write inside of the tensor.", "%s: element %llu of a tensor of %lld", what, (unsigned long long)offset, (long long)count);
        (writes ? npusim::write_word : npusim::read_word)(address + offset, false, at);
        return reinterpret_cast<T *>(npusim::global(uint64_t(reinterpret_cast<uintptr_t>(address + offset)), sizeof(T), what, at));
    }
};

template <typename T> class LocalTensor {
public:
    using PrimType = T;
    int32_t memory = -1, queue = -1;
    int64_t start = 0, limit = 0;
    TPosition position = TPosition::VECCALC;
    uint32_t user_tag = 0;

    LocalTensor() = default;
    LocalTensor(TPosition place, uint32_t address, uint32_t length, NPUSIM_AT)
        : memory(npusim::memory_of(place)), start(address), limit(address + npusim::bytes_of<T>(length)), position(place)
    {
        int64_t size = npusim::current->size[memory];
        if (limit > size) npusim::refuse(at, "Use a lower address or fewer elements.", "a tensor of %lld bytes at byte %lld needs %lld bytes, the chip has %lld", (long long)(limit - start), (long long)start, (long long)limit, (long long)size);
    }
    LocalTensor operator[](uint32_t offset) const
    {
        LocalTensor moved = *this;
        moved.start += npusim::bytes_of<T>(offset);
        return moved;
    }
    template <typename U> LocalTensor<U> ReinterpretCast() const
    {
        LocalTensor<U> same;
        same.memory = memory, same.queue = queue, same.start = start, same.limit = limit, same.position = position;
        return same;
    }
    T GetValue(uint32_t index, NPUSIM_AT) const { return *at_element(index, "GetValue", at, true); }
    T operator()(uint32_t index, NPUSIM_AT) const { return GetValue(index, at); }
    template <typename U> void SetValue(uint32_t index, U value, NPUSIM_AT) const { *at_element(index, "SetValue", at, false) = T(value); }
    uint32_t GetSize() const { return uint32_t((limit - start) / int64_t(sizeof(T)) * (std::is_same_v<T, int4b_t> ? 2 : 1)); }
    uint32_t GetLength() const { return uint32_t(limit - start); }
    void SetSize(uint32_t size) { limit = start + npusim::bytes_of<T>(size); }
    uint32_t GetPosition() const { return uint32_t(position); }
    void SetUserTag(uint32_t tag) { user_tag = tag; }
    uint32_t GetUserTag() const { return user_tag; }
    template <typename Shape> void SetShapeInfo(const Shape &) {}
    T *data() const { return reinterpret_cast<T *>(npusim::current->memory[memory] + start); }
    uint64_t GetPhyAddr(uint32_t offset = 0) const { return uint64_t(start + npusim::bytes_of<T>(offset)); }

private:
    T *at_element(uint32_t index, const char *what, npusim::Site at, bool reads) const
    {
        npusim::Instruction told = {what, "scalar", npusim::SCALAR, npusim::S, npusim::type_of<T>(), reads, !reads, {reads, !reads}, {}, {}};
        (reads ? told.read : told.write)[0] = npusim::element<T>(memory, start + int64_t(index) * int64_t(sizeof(T)), limit);
        npusim::issue(told, at);
        return data() + index;
    }
};

template <Hardware hard = Hardware::UB> class LocalMemAllocator {
public:
    template <typename T, uint32_t length> LocalTensor<T> Alloc(NPUSIM_AT) { return place<T>(position(), length, at); }
    template <typename T> LocalTensor<T> Alloc(uint32_t length, NPUSIM_AT) { return place<T>(position(), length, at); }
    template <TPosition pos, typename T, uint32_t length> LocalTensor<T> Alloc(NPUSIM_AT) { return place<T>(pos, length, at); }
    template <TPosition pos, typename T> LocalTensor<T> Alloc(uint32_t length, NPUSIM_AT) { return place<T>(pos, length, at); }
    uint32_t GetCurAddr() const { return next_; }

private:
    static constexpr TPosition position()
    {
        return hard == Hardware::UB ? TPosition::VECCALC : hard == Hardware::L1 ? TPosition::A1 : hard == Hardware::L0A ? TPosition::A2
             : hard == Hardware::L0B ? TPosition::B2 : hard == Hardware::BIAS ? TPosition::C2 : hard == Hardware::FIXBUF ? TPosition::C2PIPE2GM : TPosition::CO1;
    }
    template <typename T> LocalTensor<T> place(TPosition pos, uint32_t length, npusim::Site at)
    {
        LocalTensor<T> tensor(pos, next_, length, at);
        next_ += uint32_t((npusim::bytes_of<T>(length) + 31) / 32 * 32);
        return tensor;
    }
    uint32_t next_ = 0;
};

struct TQueConfig {
    bool nd2nz = false, nz2nd = false, scmBlockGroup = false;
    uint32_t bufferLen = 0, bufferNumber = 0, consumerSize = 0;
};

template <TPosition src, TPosition dst, int32_t depth, auto mask = 0> class TQueBind {
public:
    int32_t handle = -1;
    static constexpr TPosition position = src, target = dst;
    static constexpr int32_t slots = depth;

    template <typename T> LocalTensor<T> AllocTensor(NPUSIM_AT) { return tile<T>(npusim::alloc_slot(handle, at)); }
    template <typename T> void AllocTensor(LocalTensor<T> &tensor, NPUSIM_AT) { tensor = tile<T>(npusim::alloc_slot(handle, at)); }
    template <typename T> LocalTensor<T> DeQue(NPUSIM_AT) { return tile<T>(npusim::deque_slot(handle, at)); }
    template <typename T> void DeQue(LocalTensor<T> &tensor, NPUSIM_AT) { tensor = tile<T>(npusim::deque_slot(handle, at)); }
    template <TPosition from, TPosition to, typename T> LocalTensor<T> DeQue(NPUSIM_AT) { return tile<T>(npusim::deque_slot(handle, at)); }
    template <typename T> bool EnQue(const LocalTensor<T> &tensor, NPUSIM_AT)
    {
        npusim::enque_slot(handle, tensor.start, at);
        return true;
    }
    template <TPosition from, TPosition to, typename T> bool EnQue(const LocalTensor<T> &tensor, NPUSIM_AT) { return EnQue(tensor, at); }
    template <typename T> void FreeTensor(const LocalTensor<T> &tensor, NPUSIM_AT) { npusim::free_slot(handle, tensor.start, at); }
    bool HasTensorInQue() const { return npusim::queue_has(handle, true); }
    bool VacantInQue() const { return !npusim::queue_has(handle, true); }
    bool HasIdleBuffer() const { return npusim::queue_has(handle, false); }
    int32_t GetTensorCountInQue() const { return npusim::queue_has(handle, true); }
    void FreeAllEvent() {}

private:
    template <typename T> LocalTensor<T> tile(const npusim::Slot &slot) const
    {
        LocalTensor<T> tensor;
        tensor.memory = npusim::memory_of(src), tensor.queue = slot.queue, tensor.start = slot.start, tensor.limit = slot.start + slot.bytes, tensor.position = src;
        return tensor;
    }
};
template <TPosition pos, int32_t depth, auto mask = 0> class TQue : public TQueBind<pos, pos, depth, mask> {};
template <TPosition pos, int32_t depth = 1, auto mask = 0> class TSCM : public TQueBind<pos, TPosition::TSCM, depth, mask> {};

template <TPosition pos = TPosition::VECCALC> class TBuf {
public:
    int64_t start = -1, bytes = 0;
    static constexpr TPosition position = pos;

    template <typename T> LocalTensor<T> Get() const { return GetWithOffset<T>(uint32_t(bytes / int64_t(sizeof(T))), 0); }
    template <typename T> LocalTensor<T> Get(uint32_t length) const { return GetWithOffset<T>(length, 0); }
    template <typename T> LocalTensor<T> GetWithOffset(uint32_t length, uint32_t offset) const
    {
        LocalTensor<T> tensor;
        tensor.memory = start < 0 ? -1 : npusim::memory_of(pos), tensor.start = start + offset, tensor.position = pos;
        tensor.limit = tensor.start + npusim::bytes_of<T>(length) < start + bytes ? tensor.start + npusim::bytes_of<T>(length) : start + bytes;
        return tensor;
    }
    template <typename T> LocalTensor<T> AllocTensor() const { return Get<T>(); }
    template <typename T> void FreeTensor(const LocalTensor<T> &) const {}
    template <typename T> void EnQue(const LocalTensor<T> &) const {}
    template <typename T> LocalTensor<T> DeQue() const { return Get<T>(); }
    uint32_t GetBufLen() const { return uint32_t(bytes); }
};

/* What places queues and buffers: a pipe, or a pool of one of its buffers. */
class TBufPlaces {
public:
    template <TPosition src, TPosition dst, int32_t depth, auto mask> bool InitBuffer(TQueBind<src, dst, depth, mask> &queue, uint8_t number, uint32_t bytes, NPUSIM_AT)
    {
        constexpr int producer = npusim::producer_of(src), consumer = npusim::consumer_of(dst);
        int memory = npusim::memory_of(src);
        place(memory, [&] { queue.handle = npusim::new_queue(memory, producer, consumer, depth, number, bytes, at); }, at);
        return true;
    }
    template <TPosition pos> bool InitBuffer(TBuf<pos> &buffer, uint32_t bytes, NPUSIM_AT)
    {
        int memory = npusim::memory_of(pos);
        place(memory, [&] { buffer.start = npusim::new_buffer(memory, bytes, at); }, at);
        buffer.bytes = (int64_t(bytes) + 31) / 32 * 32;
        return true;
    }

protected:
    int64_t next_ = -1, end_ = 0; /* of a pool */
    template <typename Work> void place(int memory, Work work, npusim::Site at)
    {
        if (next_ < 0) {
            work();
            return;
        }
        int64_t before = npusim::pipe_used(memory);
        npusim::pipe_move(memory, next_);
        work();
        next_ = npusim::pipe_used(memory);
        npusim::pipe_move(memory, before);
        if (next_ > end_) npusim::refuse(at, "Make the pool larger.", "a pool of a buffer has %lld bytes too few", (long long)(next_ - end_));
    }
    friend class TPipe;
};
template <TPosition pos, uint32_t number = 4> class TBufPool : public TBufPlaces {
public:
    int64_t first = -1;
    using TBufPlaces::InitBuffer;
    template <typename Pool> bool InitBufPool(Pool &pool, uint32_t bytes, NPUSIM_AT)
    {
        pool.begin(next_, bytes);
        next_ += (int64_t(bytes) + 31) / 32 * 32;
        if (next_ > end_) npusim::refuse(at, "Make the pool larger.", "a pool of a buffer has %lld bytes too few", (long long)(next_ - end_));
        return true;
    }
    template <typename Pool, typename Other> bool InitBufPool(Pool &pool, uint32_t bytes, Other &shared)
    {
        pool.begin(shared.first, bytes);
        return true;
    }
    void begin(int64_t start, int64_t bytes) { first = next_ = start, end_ = start + (bytes + 31) / 32 * 32; }
    void Reset(NPUSIM_AT)
    {
        npusim::join(at);
        next_ = first;
    }
    static constexpr TPosition position = pos;
};

class TPipe : public TBufPlaces {
public:
    TPipe() { npusim::current->pipe = this; }
    using TBufPlaces::InitBuffer;
    template <TPosition pos, uint32_t number> bool InitBufPool(TBufPool<pos, number> &pool, uint32_t bytes, NPUSIM_AT)
    {
        pool.begin(npusim::new_buffer(npusim::memory_of(pos), bytes, at), bytes);
        return true;
    }
    template <TPosition pos, uint32_t number, typename Other> bool InitBufPool(TBufPool<pos, number> &pool, uint32_t bytes, Other &shared)
    {
        pool.begin(shared.first, bytes);
        return true;
    }
    template <HardEvent event> TEventID AllocEventID(NPUSIM_AT) { return TEventID(npusim::new_event(npusim::setter_of(event), npusim::waiter_of(event), at)); }
    template <HardEvent event> void ReleaseEventID(TEventID number) { npusim::give_event(npusim::setter_of(event), npusim::waiter_of(event), number); }
    TEventID FetchEventID(HardEvent) { return 0; }
    template <HardEvent event> TEventID FetchEventID() { return 0; }
    template <TPosition pos> uint64_t GetBaseAddr() const { return 0; }
    uint64_t GetBaseAddr(int8_t) const { return 0; }
    void Init() {}
    void Reset(NPUSIM_AT) { npusim::reset_pipe(at); }
    void Destroy(NPUSIM_AT) { npusim::reset_pipe(at); }
};
inline TPipe *GetTPipePtr() { return static_cast<TPipe *>(npusim::current->pipe); }

inline int64_t GetBlockIdx() { return npusim::current->mix && !npusim::current->cube ? npusim::current->block * npusim::current->sub_blocks + npusim::current->sub_block : npusim::current->block; }
inline int64_t GetBlockNum() { return npusim::current->blocks; }
inline int64_t GetSubBlockIdx() { return npusim::current->sub_block; }
inline int64_t GetSubBlockNum() { return npusim::current->mix ? npusim::current->sub_blocks : 1; }
inline int64_t GetTaskRation() { return npusim::current->mix && !npusim::current->cube ? npusim::current->sub_blocks : 1; }
inline int64_t GetTaskRatio() { return GetTaskRation(); }
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
template <MemDsbT kind> void DataSyncBarrier(NPUSIM_AT) { npusim::scalar(0, 0, 1, 0, at); }
template <typename T, CacheLine line, DcciDst dst = DcciDst::CACHELINE_ALL> void DataCacheCleanAndInvalid(const GlobalTensor<T> &gm, NPUSIM_AT) { npusim::refresh_line(gm.address, line == CacheLine::ENTIRE_DATA_CACHE, at); }
template <typename T, CacheLine line> void DataCachePreload(const GlobalTensor<T> &, int64_t, NPUSIM_AT) { npusim::scalar(0, 0, 1, 0, at); }
template <typename T> T ReadGmByPassDCache(T *address, NPUSIM_AT)
{
    npusim::read_word(address, true, at);
    return *reinterpret_cast<T *>(npusim::global(uint64_t(reinterpret_cast<uintptr_t>(address)), sizeof(T), "ReadGmByPassDCache", at));
}
template <typename T> void WriteGmByPassDCache(T *address, T value, NPUSIM_AT)
{
    npusim::write_word(address, true, at);
    *reinterpret_cast<T *>(npusim::global(uint64_t(reinterpret_cast<uintptr_t>(address)), sizeof(T), "WriteGmByPassDCache", at)) = value;
}

template <typename T, typename U> struct IsSameType { static constexpr bool value = std::is_same_v<std::remove_cv_t<T>, std::remove_cv_t<U>>; };
template <bool condition, typename T, typename U> using Conditional = std::conditional<condition, T, U>;
namespace Std {
using namespace std;
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

#define ASCEND_IS_AIC (::npusim::current->cube)
#define ASCEND_IS_AIV (!::npusim::current->cube)
inline uint8_t *GetSysWorkSpacePtr()
{
    static uint8_t none[16];
    return none;
}
using AscendC::GetUserWorkspace;
using AscendC::GetTPipePtr;
inline void SetSysWorkspace(uint8_t *) {}
inline uint8_t *SetSysWorkspaceForce(uint8_t *place) { return place; }
inline int64_t get_block_idx() { return npusim::current->block; }
inline int64_t get_block_num() { return npusim::current->blocks; }
inline void pipe_barrier(pipe_t pipe, NPUSIM_AT) { if (pipe == PIPE_ALL) npusim::join(at); }

#endif

/* Tensors, queues and scratch memory of Ascend C. */
#ifndef NPUSIM_KERNEL_TENSORS_H
#define NPUSIM_KERNEL_TENSORS_H

#include "npusim/kernel_positions.h"

namespace npusim {

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
    NPUSIM_CALLED T *at_element(uint64_t offset, const char *what, npusim::Site at, bool writes) const
    {
        if (int64_t(offset) >= count) npusim::beyond_tensor(int64_t(offset) + 1, count, "element", what, at);
        (writes ? npusim::write_word : npusim::read_word)(address + offset, address, false, at);
        return reinterpret_cast<T *>(npusim::global(uint64_t(reinterpret_cast<uintptr_t>(address + offset)), sizeof(T), what, at));
    }
};

template <typename T, char operation> struct NpusimResult;
struct TBuffAddr { /* where a tensor of a core's memories lies */
    int32_t memory = -1, queue = -1;
    int64_t start = 0, limit = 0;
};

template <typename T> class LocalTensor {
public:
    using PrimType = T;
    /* dst = a + b, of as many elements as dst has */
    template <char operation> LocalTensor &operator=(const NpusimResult<T, operation> &found);
    union { /* the same words under both names */
        TBuffAddr address_ = {};
        struct {
            int32_t memory, queue;
            int64_t start, limit;
        };
    };
    TPosition position = TPosition::VECCALC;
    uint32_t user_tag = 0;

    LocalTensor() = default;
    LocalTensor(TPosition place, uint32_t address, uint32_t length, NPUSIM_AT)
        : address_{npusim::memory_of(place), -1, address, address + npusim::bytes_of<T>(length)}, position(place)
    {
        int64_t size = npusim::current->size[memory];
        if (size && limit > size) npusim::refuse(at, "Use a lower address or fewer elements.", "a tensor of %lld bytes at byte %lld needs %lld bytes, the chip has %lld", (long long)(limit - start), (long long)start, (long long)limit, (long long)size);
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
    T as_operand(npusim::Site at) const { return *at_element(0, "an operand of one element", at, true); }
    T operator()(uint32_t index, NPUSIM_AT) const { return GetValue(index, at); }
    template <typename U> void SetValue(uint32_t index, U value, NPUSIM_AT) const { *at_element(index, "SetValue", at, false) = T(value); }
    uint32_t GetSize() const { return uint32_t((limit - start) / int64_t(sizeof(T)) * (std::is_same_v<T, int4b_t> ? 2 : 1)); }
    uint32_t GetLength() const { return uint32_t(limit - start); }
    void SetSize(uint32_t size) { limit = start + npusim::bytes_of<T>(size); }
    uint32_t GetPosition() const { return uint32_t(position); }
    void SetUserTag(uint32_t tag) { user_tag = tag; }
    uint32_t GetUserTag() const { return user_tag; }
    void SetAddr(const TBuffAddr &address) { address_ = address; }
    template <typename Shape> void SetShapeInfo(const Shape &) {}
    T *data() const { return reinterpret_cast<T *>(npusim::current->memory[memory] + start); }
    uint64_t GetPhyAddr(uint32_t offset = 0) const { return uint64_t(start + npusim::bytes_of<T>(offset)); }

private:
    NPUSIM_CALLED T *at_element(uint32_t index, const char *what, npusim::Site at, bool reads) const
    {
        npusim::Instruction told = {what, "scalar", npusim::SCALAR, npusim::S, npusim::type_of<T>(), reads, !reads, {reads, !reads, 0, 0, 0, start}, {}, {}};
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
    /* What pools of a program's own call: so many tiles of so many bytes, and where each lies. */
    template <typename Handle> void InitStartBufHandle(Handle, uint8_t number, uint32_t) { tiles_ = number; }
    template <typename Pool, typename Handle> void InitBufHandle(Pool *, uint32_t each, Handle, uint32_t address, uint32_t bytes, NPUSIM_AT)
    {
        constexpr int memory = npusim::memory_of(src);
        if (each) {
            if (address != first_ + each * bytes) npusim::refuse(at, "Put them one behind the other.", "tile %u of a queue lies at byte %u, the one before it doesn't end there", each, address);
            return;
        }
        first_ = address;
        int64_t before = npusim::pipe_used(memory);
        npusim::pipe_move(memory, address);
        handle = npusim::new_queue(memory, npusim::producer_of(src), npusim::consumer_of(dst), depth, tiles_, bytes, at);
        npusim::pipe_move(memory, before);
    }

private:
    uint8_t tiles_ = 0;
    uint32_t first_ = 0;
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
    template <typename Handle> void InitStartBufHandle(Handle, uint8_t, uint32_t) {}
    template <typename Pool, typename Handle> void InitBufHandle(Pool *, uint32_t, Handle, uint32_t address, uint32_t length, NPUSIM_AT)
    {
        constexpr int memory = npusim::memory_of(pos);
        int64_t before = npusim::pipe_used(memory);
        npusim::pipe_move(memory, address);
        start = npusim::new_buffer(memory, length, at), bytes = length;
        npusim::pipe_move(memory, before);
    }
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
    /* Older toolkits take a buffer as a queue of `number` tiles. */
    template <TPosition pos> bool InitBuffer(TBuf<pos> &buffer, uint8_t number, uint32_t bytes, NPUSIM_AT) { return InitBuffer(buffer, uint32_t(number * ((bytes + 31) / 32 * 32)), at); }

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
    /* Pools of a program's own, see EXTERN_IMPL_BUFPOOL. */
    template <typename Pool> auto InitBufPool(Pool &pool, uint32_t bytes, NPUSIM_AT) -> std::enable_if_t<Pool::isTbufPool, bool>
    {
        pool.npusim_begin(uint32_t(npusim::new_buffer(npusim::memory_of(Pool::poolPos), bytes, at)));
        return true;
    }
    template <typename Pool, typename Other> auto InitBufPool(Pool &pool, uint32_t, Other &shared) -> std::enable_if_t<Pool::isTbufPool, bool>
    {
        pool.npusim_begin(uint32_t(shared.npusim_first));
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
using TBufHandle = uint8_t *;

/* The rest of a pool that a program writes itself: where the next buffer goes, and how many there are. */
#define EXTERN_IMPL_BUFPOOL(Name, position, most)                                                     \
public:                                                                                               \
    static constexpr ::AscendC::TPosition poolPos = position;                                         \
    static constexpr bool isTbufPool = true;                                                          \
    uint32_t npusim_first = 0, npusim_next = 0;                                                       \
    uint8_t npusim_count = 0;                                                                         \
    void npusim_begin(uint32_t first) { npusim_first = npusim_next = first, npusim_count = 0; }       \
    void Init() { npusim_begin(0); }                                                                  \
    void Reset(NPUSIM_AT)                                                                             \
    {                                                                                                 \
        ::npusim::join(at);                                                                           \
        npusim_begin(npusim_first);                                                                   \
    }                                                                                                 \
    ::AscendC::TBufHandle GetBufHandle(uint8_t) { return nullptr; }                                   \
    void SetCurAddr(uint32_t address) { npusim_next = address; }                                      \
    uint32_t GetCurAddr() const { return npusim_next; }                                               \
    void SetCurBufSize(uint8_t count) { npusim_count = count; }                                       \
    uint8_t GetCurBufSize() const { return npusim_count; }                                            \
    static_assert(most > 0, "a pool has buffers")

inline TPipe *GetTPipePtr() { return static_cast<TPipe *>(npusim::current->pipe); }


} // namespace AscendC

#endif

/* Tensors, queues, scratch memory and flags of Ascend C. */
#ifndef NPUSIM_KERNEL_TENSORS_H
#define NPUSIM_KERNEL_TENSORS_H

enum pipe_t {
    PIPE_S, PIPE_V, PIPE_M, PIPE_MTE1, PIPE_MTE2, PIPE_MTE3, PIPE_ALL, PIPE_MTE4, PIPE_MTE5, PIPE_V2,
    PIPE_FIX
};
enum event_t {
    EVENT_ID0, EVENT_ID1, EVENT_ID2, EVENT_ID3, EVENT_ID4, EVENT_ID5, EVENT_ID6, EVENT_ID7
};

namespace AscendC {

enum class TPosition : uint8_t {
    GM, A1, A2, B1, B2, C1, C2, CO1, CO2, VECIN, VECOUT, VECCALC, LCM = VECCALC, MAX
};
using QuePosition = TPosition;
using TEventID = int8_t;
enum class Hardware : uint8_t { GM, UB, L1, L0A, L0B, L0C, BIAS, FIXBUF, MAX };
enum class HardEvent : uint8_t {
    MTE2_MTE1, MTE1_MTE2, MTE1_M, M_MTE1, MTE2_V, V_MTE2, MTE3_V, V_MTE3, M_V, V_M, V_V, MTE3_MTE1,
    MTE1_MTE3, MTE1_V, MTE2_M, M_MTE2, V_MTE1, M_FIX, FIX_M, MTE3_MTE2, MTE2_MTE3, S_V, V_S, S_MTE2,
    MTE2_S, S_MTE3, MTE3_S, MTE2_FIX, FIX_MTE2, FIX_S, M_S, FIX_MTE3, MTE1_FIX, FIX_MTE1, FIX_FIX
};

constexpr int ONE_BLK_SIZE = 32, DEFAULT_C0_SIZE = 32, TOTAL_VEC_LOCAL_SIZE = 184 * 1024;

inline int64_t GetBlockIdx(NPUSIM_LINE) { return npusim::ask("GetBlockIdx", file, line); }
inline int64_t GetBlockNum(NPUSIM_LINE) { return npusim::ask("GetBlockNum", file, line); }
inline int64_t GetSubBlockIdx(NPUSIM_LINE) { return npusim::ask("GetSubBlockIdx", file, line); }
inline void InitSocState() {}
inline void DisableDmaAtomic(NPUSIM_LINE) { npusim::ask("SetAtomicNone", file, line); }
inline void SetAtomicNone(NPUSIM_LINE) { npusim::ask("SetAtomicNone", file, line); }
template <typename T> void SetAtomicAdd(NPUSIM_LINE) { npusim::ask("SetAtomicAdd", file, line); }
template <bool isAIVOnly = true> void SyncAll(NPUSIM_LINE) { npusim::ask("SyncAll", file, line); }

template <typename T> class GlobalTensor {
public:
    using PrimType = T;
    npusim_operand_t operand = {2, npusim::type_of<T>(), 0, 0, INT64_MAX};

    void SetGlobalBuffer(T *buffer, uint64_t size)
    {
        SetGlobalBuffer(buffer);
        operand.limit = operand.start + int64_t(size * sizeof(T));
    }
    void SetGlobalBuffer(T *buffer)
    {
        operand.start = int64_t(reinterpret_cast<uintptr_t>(buffer));
        operand.limit = INT64_MAX;
    }
    GlobalTensor operator[](uint64_t offset) const
    {
        GlobalTensor moved = *this;
        moved.operand.start += int64_t(offset * sizeof(T));
        return moved;
    }
    T GetValue(uint64_t offset, NPUSIM_LINE) const
    {
        return T(npusim::Call("GetValue", file, line).with(operand).with(int64_t(offset)).play().answer);
    }
    T operator()(uint64_t offset, NPUSIM_LINE) const { return GetValue(offset, file, line); }
    void SetValue(uint64_t offset, T value, NPUSIM_LINE)
    {
        npusim::Call("SetValue", file, line).with(operand).with(int64_t(offset)).real(double(value)).play();
    }
    T *GetPhyAddr(uint64_t offset = 0) const { return reinterpret_cast<T *>(operand.start) + offset; }
    uint64_t GetSize() const { return uint64_t(operand.limit - operand.start) / sizeof(T); }
    template <typename Mode> void SetL2CacheHint(Mode) {}
};

template <typename T> class LocalTensor {
public:
    using PrimType = T;
    npusim_operand_t operand = {1, npusim::type_of<T>(), -1, 0, 0};

    LocalTensor() = default;
    LocalTensor(TPosition position, uint32_t address, uint32_t length, NPUSIM_LINE)
    {
        auto &told = npusim::Call("LocalTensor", file, line).with(operand).with(int64_t(position))
                         .with(int64_t(address)).with(int64_t(length)).play();
        operand.handle = told.whole;
        operand.limit = int64_t(length) * int64_t(sizeof(T));
    }
    LocalTensor operator[](uint64_t offset) const
    {
        LocalTensor moved = *this;
        moved.operand.start += int64_t(offset * sizeof(T));
        return moved;
    }
    template <typename U> LocalTensor<U> ReinterpretCast() const
    {
        LocalTensor<U> same;
        same.operand = operand;
        same.operand.dtype = npusim::type_of<U>();
        return same;
    }
    T GetValue(uint32_t index, NPUSIM_LINE) const
    {
        return T(npusim::Call("GetValue", file, line).with(operand).with(int64_t(index)).play().answer);
    }
    T operator()(uint32_t index, NPUSIM_LINE) const { return GetValue(index, file, line); }
    template <typename U> void SetValue(uint32_t index, U value, NPUSIM_LINE) const
    {
        npusim::Call("SetValue", file, line).with(operand).with(int64_t(index)).real(double(value)).play();
    }
    uint32_t GetSize() const { return uint32_t((operand.limit - operand.start) / int64_t(sizeof(T))); }
    uint32_t GetLength() const { return uint32_t(operand.limit - operand.start); }
    void SetSize(uint32_t size) { operand.limit = operand.start + int64_t(size) * int64_t(sizeof(T)); }
};

template <Hardware hard = Hardware::UB> class LocalMemAllocator {
public:
    template <typename T, uint32_t length> LocalTensor<T> Alloc(NPUSIM_LINE) { return at<T>(position(), length, file, line); }
    template <typename T> LocalTensor<T> Alloc(uint32_t length, NPUSIM_LINE) { return at<T>(position(), length, file, line); }
    template <TPosition pos, typename T, uint32_t length> LocalTensor<T> Alloc(NPUSIM_LINE) { return at<T>(pos, length, file, line); }
    template <TPosition pos, typename T> LocalTensor<T> Alloc(uint32_t length, NPUSIM_LINE) { return at<T>(pos, length, file, line); }
    uint32_t GetCurAddr() const { return next_; }

private:
    static constexpr TPosition position()
    {
        return hard == Hardware::UB ? TPosition::VECCALC : hard == Hardware::L1 ? TPosition::A1
             : hard == Hardware::L0A ? TPosition::A2 : hard == Hardware::L0B ? TPosition::B2 : TPosition::CO1;
    }
    template <typename T> LocalTensor<T> at(TPosition pos, uint32_t length, const char *file, int line)
    {
        LocalTensor<T> tensor(pos, next_, length, file, line);
        next_ += (length * uint32_t(sizeof(T)) + 31) / 32 * 32;
        return tensor;
    }
    uint32_t next_ = 0;
};

template <TPosition src, TPosition dst, int32_t depth> class TQueBind {
public:
    int64_t handle = -1;
    static constexpr TPosition position = dst == TPosition::VECOUT ? dst : src;
    static constexpr int32_t slots = depth;

    template <typename T> LocalTensor<T> AllocTensor(NPUSIM_LINE) { return told<T>("AllocTensor", file, line); }
    template <typename T> LocalTensor<T> DeQue(NPUSIM_LINE) { return told<T>("DeQue", file, line); }
    template <typename T> void DeQue(LocalTensor<T> &tensor, NPUSIM_LINE) { tensor = told<T>("DeQue", file, line); }
    template <typename T> void AllocTensor(LocalTensor<T> &tensor, NPUSIM_LINE) { tensor = told<T>("AllocTensor", file, line); }
    template <typename T> bool EnQue(const LocalTensor<T> &tensor, NPUSIM_LINE) { return tell("EnQue", tensor.operand, file, line); }
    template <typename T> void FreeTensor(const LocalTensor<T> &tensor, NPUSIM_LINE) { tell("FreeTensor", tensor.operand, file, line); }

private:
    template <typename T> LocalTensor<T> told(const char *what, const char *file, int line)
    {
        LocalTensor<T> tensor;
        auto call = npusim::Call(what, file, line);
        auto &found = call.with(tensor.operand).with(handle).play();
        tensor.operand.handle = found.whole;
        tensor.operand.limit = int64_t(found.answer);
        return tensor;
    }
    bool tell(const char *what, const npusim_operand_t &operand, const char *file, int line)
    {
        npusim::Call(what, file, line).with(operand).with(handle).play();
        return true;
    }
};
template <TPosition pos, int32_t depth, int32_t mask = 0> class TQue : public TQueBind<pos, pos, depth> {};

template <TPosition pos = TPosition::VECCALC> class TBuf {
public:
    int64_t handle = -1, bytes = 0;
    static constexpr TPosition position = pos;

    template <typename T> LocalTensor<T> Get() const { return GetWithOffset<T>(uint32_t(bytes / int64_t(sizeof(T))), 0); }
    template <typename T> LocalTensor<T> Get(uint32_t length) const { return GetWithOffset<T>(length, 0); }
    template <typename T> LocalTensor<T> GetWithOffset(uint32_t length, uint32_t offset) const
    {
        LocalTensor<T> tensor;
        tensor.operand.handle = handle;
        tensor.operand.start = offset;
        tensor.operand.limit = offset + int64_t(length) * int64_t(sizeof(T));
        return tensor;
    }
};

class TPipe {
public:
    template <TPosition src, TPosition dst, int32_t depth>
    bool InitBuffer(TQueBind<src, dst, depth> &queue, uint8_t slots, uint32_t bytes, NPUSIM_LINE)
    {
        queue.handle = init("InitQueue", TQueBind<src, dst, depth>::position, depth, slots, bytes, file, line);
        return true;
    }
    template <TPosition pos> bool InitBuffer(TBuf<pos> &buffer, uint32_t bytes, NPUSIM_LINE)
    {
        buffer.handle = init("InitBuf", pos, 1, 1, bytes, file, line);
        buffer.bytes = (int64_t(bytes) + 31) / 32 * 32;
        return true;
    }
    template <HardEvent event> TEventID AllocEventID() { return 0; }
    template <HardEvent event> void ReleaseEventID(TEventID) {}
    TEventID FetchEventID(HardEvent) { return 0; }
    void Reset(NPUSIM_LINE) { npusim::ask("Reset", file, line); }
    void Destroy(NPUSIM_LINE) { npusim::ask("Reset", file, line); }

private:
    int64_t init(const char *what, TPosition pos, int64_t depth, int64_t slots, int64_t bytes, const char *file, int line)
    {
        return npusim::Call(what, file, line).with(int64_t(pos)).with(depth).with(slots).with(bytes).play().whole;
    }
};

template <HardEvent event> void SetFlag(int32_t id, NPUSIM_LINE) { npusim::Call("SetFlag", file, line).with(int64_t(event)).with(int64_t(id)).play(); }
template <HardEvent event> void WaitFlag(int32_t id, NPUSIM_LINE) { npusim::Call("WaitFlag", file, line).with(int64_t(event)).with(int64_t(id)).play(); }
template <pipe_t pipe> void PipeBarrier(NPUSIM_LINE) { npusim::Call("PipeBarrier", file, line).with(int64_t(pipe)).play(); }

} // namespace AscendC

#endif

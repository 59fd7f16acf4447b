/* Blocks that wait for each other through global memory, and what is left of the framework. */
#ifndef NPUSIM_KERNEL_SYNC_H
#define NPUSIM_KERNEL_SYNC_H

namespace npusim {

struct Word {
    volatile int32_t *place;
    int32_t wanted;
};
inline bool word_is(void *context)
{
    auto *word = static_cast<Word *>(context);
    return *word->place == word->wanted;
}
/* The core waits until another one has written a number to global memory. */
inline void wait_word(volatile int32_t *place, int32_t wanted, Site at)
{
    Word word = {place, wanted};
    scalar(0, 0, 1, 1, 0, at);
    wait_until(word_is, &word, at);
    join(at);
}

} // namespace npusim

namespace AscendC {

/* A block's event has a line of 32 bytes of global memory: 1 when it is set. */
template <bool isAIVOnly = true> void IBSet(const GlobalTensor<int32_t> &gm, const LocalTensor<int32_t> &, int32_t block, int32_t event, NPUSIM_AT)
{
    npusim::join(at);
    auto *word = reinterpret_cast<volatile int32_t *>(npusim::global(uint64_t(reinterpret_cast<uintptr_t>(gm.address + (int64_t(GetBlockNum()) * event + block) * 8)), 4, "IBSet", at));
    npusim::Word free = {word, 0};
    npusim::wait_until(npusim::word_is, &free, at);
    npusim::scalar(0, 1, 0, 0, 0, at);
    *word = 1;
}
template <bool isAIVOnly = true> void IBWait(const GlobalTensor<int32_t> &gm, const LocalTensor<int32_t> &, int32_t block, int32_t event, NPUSIM_AT)
{
    auto *word = reinterpret_cast<volatile int32_t *>(npusim::global(uint64_t(reinterpret_cast<uintptr_t>(gm.address + (int64_t(GetBlockNum()) * event + block) * 8)), 4, "IBWait", at));
    npusim::wait_word(word, 1, at);
    *word = 0;
}
inline void InitDetermineComputeWorkspace(GlobalTensor<int32_t> &gm, LocalTensor<int32_t> &, NPUSIM_AT)
{
    if (GetBlockIdx() == 0) *reinterpret_cast<int32_t *>(npusim::global(uint64_t(reinterpret_cast<uintptr_t>(gm.address)), 4, "InitDetermineComputeWorkspace", at)) = 0;
    npusim::sync_all(true, at);
}
inline void WaitPreBlock(GlobalTensor<int32_t> &gm, LocalTensor<int32_t> &, NPUSIM_AT)
{
    auto *word = reinterpret_cast<volatile int32_t *>(npusim::global(uint64_t(reinterpret_cast<uintptr_t>(gm.address)), 4, "WaitPreBlock", at));
    npusim::wait_word(word, int32_t(GetBlockIdx()), at);
}
inline void NotifyNextBlock(GlobalTensor<int32_t> &gm, LocalTensor<int32_t> &, NPUSIM_AT)
{
    npusim::join(at);
    auto *word = reinterpret_cast<volatile int32_t *>(npusim::global(uint64_t(reinterpret_cast<uintptr_t>(gm.address)), 4, "NotifyNextBlock", at));
    *word = GetBlockIdx() + 1 == GetBlockNum() ? 0 : int32_t(GetBlockIdx() + 1);
}
inline void SetNextTaskStart() {}
inline void WaitPreTaskEnd() {}

enum class PipeMode : uint8_t { SCALAR_MODE, MTE3_MODE, MAX };
/* Cores that arrive, and cores that wait until all of them have. */
template <PipeMode mode> class GroupBarrier {
public:
    GroupBarrier(uint8_t *space, uint32_t arrive, uint32_t wait) : word_(reinterpret_cast<int32_t *>(space)), arrive_(int32_t(arrive)), wait_(int32_t(wait)) {}
    void Arrive(uint32_t, NPUSIM_AT)
    {
        npusim::join(at);
        npusim::scalar(0, 1, 0, 0, 0, at);
        ++*reinterpret_cast<int32_t *>(npusim::global(uint64_t(reinterpret_cast<uintptr_t>(word_)), 4, "Arrive", at));
        turn_++;
    }
    void Wait(uint32_t, NPUSIM_AT)
    {
        struct Reached {
            volatile int32_t *word;
            int32_t least;
        } reached = {reinterpret_cast<volatile int32_t *>(npusim::global(uint64_t(reinterpret_cast<uintptr_t>(word_)), 4, "Wait", at)), arrive_ * ++waited_};
        npusim::scalar(0, 0, 1, 1, 0, at);
        npusim::wait_until([](void *context) { auto *found = static_cast<Reached *>(context); return *found->word >= found->least; }, &reached, at);
        npusim::join(at);
    }
    uint64_t GetWorkspaceLen() const { return 512 * uint64_t(arrive_ > wait_ ? arrive_ : wait_); }

private:
    int32_t *word_, arrive_, wait_, turn_ = 0, waited_ = 0;
};

template <typename T> void InitOutput(GlobalTensor<T> gm, uint32_t size, T value = T(0), NPUSIM_AT)
{
    npusim::scalar(0, 0, 1, 0, 0, at);
    T *place = reinterpret_cast<T *>(npusim::check_global(gm, int64_t(size) * int64_t(sizeof(T)), "InitOutput", at));
    for (uint32_t each = 0; each < size; each++) place[each] = value;
    npusim::join(at);
    npusim::let_others_begin(at); /* every core may clear the same memory */
}
template <typename T> void InitGlobalMemory(GlobalTensor<T> &gm, uint64_t size, T value, NPUSIM_AT) { InitOutput(gm, uint32_t(size), value, at); }
template <typename Tensor> void DumpTensor(const Tensor &tensor, uint32_t tag, uint32_t count)
{
    std::printf("DumpTensor: desc=%u, block %lld:", tag, (long long)GetBlockIdx());
    for (uint32_t each = 0; each < count; each++) {
        const void *place;
        if constexpr (npusim::IsTensor<Tensor>::value) place = tensor.data() + each;
        else place = tensor.address + each;
        std::printf(" %g", double(*static_cast<const typename Tensor::PrimType *>(place)));
    }
    std::printf("\n");
}
inline void DumpAccChkPoint() {}

} // namespace AscendC

namespace npusim {

/* A pointer into a memory of the core's is the place of its byte there. */
template <typename T> void dump(const char *name, const T *from, int memory, uint32_t desc, uint32_t count, Site at)
{
    const T *place = from;
    if (memory < 0) global(uint64_t(reinterpret_cast<uintptr_t>(from)), bytes_of<T>(count), name, at);
    else {
        int64_t start = int64_t(reinterpret_cast<uintptr_t>(from));
        int64_t held = current->size[memory];
        if (start < 0 || start + bytes_of<T>(count) > held) refuse(at, "Print fewer elements.", "%s: a dump ends at byte %lld of a memory of %lld", name, (long long)(start + bytes_of<T>(count)), (long long)held);
        place = reinterpret_cast<const T *>(current->memory[memory] + start);
    }
    std::printf("%s: desc=%u, block %lld:", name, desc, (long long)AscendC::GetBlockIdx());
    for (uint32_t each = 0; each < count; each++) std::printf(" %g", double(place[each]));
    std::printf("\n");
}

} // namespace npusim

#define NPUSIM_DUMP(name, memory) template <typename T> void name(const T *from, uint32_t desc, uint32_t count, NPUSIM_AT) { npusim::dump(#name, from, memory, desc, count, at); }
NPUSIM_DUMP(asc_dump_gm, -1)
NPUSIM_DUMP(asc_dump_ubuf, npusim::UB)
NPUSIM_DUMP(asc_dump_l1buf, npusim::L1)
NPUSIM_DUMP(asc_dump_cbuf, npusim::L0C)
#undef NPUSIM_DUMP

namespace AscendC {

/* A list of tensors in global memory: words that say where each lies and how large it is. */
template <typename T> class TensorDesc {
public:
    void SetShapeAddr(uint64_t *place) { shape_ = place; }
    uint64_t GetDim() const { return dim_; }
    uint64_t GetIndex() const { return index_; }
    uint64_t GetShape(uint32_t axis) const { return shape_[axis]; }
    T *GetDataPtr() const { return data_; }
    GlobalTensor<T> GetDataObj() const
    {
        GlobalTensor<T> found;
        found.SetGlobalBuffer(data_);
        return found;
    }
    uint64_t *shape_ = nullptr;
    uint64_t dim_ = 0, index_ = 0;
    T *data_ = nullptr;
};
class ListTensorDesc {
public:
    ListTensorDesc() = default;
    explicit ListTensorDesc(void *data, uint32_t = UINT32_MAX, uint32_t = UINT32_MAX) { Init(data); }
    void Init(void *data, uint32_t = UINT32_MAX, uint32_t = UINT32_MAX) { words_ = static_cast<uint64_t *>(data); }
    uint32_t GetSize() const
    {
        uint32_t count = 0;
        for (uint64_t *at = words_ + 1; at < words_ + words_[0] / 8; at += 1 + (*at & 0xffffffff)) count++;
        return count;
    }
    template <typename T> T *GetDataPtr(uint32_t index) const { return reinterpret_cast<T *>(words_[words_[0] / 8 + index]); }
    template <typename T> void GetDesc(TensorDesc<T> &desc, uint32_t index) const
    {
        uint64_t *at = words_ + 1;
        for (uint32_t each = 0; each < index; each++) at += 1 + (*at & 0xffffffff);
        desc.dim_ = *at & 0xffffffff, desc.index_ = *at >> 32;
        if (desc.shape_) std::memcpy(desc.shape_, at + 1, size_t(desc.dim_) * 8);
        desc.data_ = GetDataPtr<T>(index);
    }

private:
    uint64_t *words_ = nullptr;
};

} // namespace AscendC

#endif

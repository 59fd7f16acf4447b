/* Copies of Ascend C between global memory and UB, and within UB. */
#ifndef NPUSIM_KERNEL_COPIES_H
#define NPUSIM_KERNEL_COPIES_H

namespace AscendC {

struct DataCopyParams {
    uint16_t blockCount = 1, blockLen = 0, srcStride = 0, dstStride = 0;
    DataCopyParams() = default;
    DataCopyParams(uint16_t count, uint16_t length, uint16_t source, uint16_t target)
        : blockCount(count), blockLen(length), srcStride(source), dstStride(target) {}
};
struct DataCopyExtParams {
    uint16_t blockCount = 1;
    uint32_t blockLen = 0;
    int64_t srcStride = 0, dstStride = 0;
    uint32_t rsv = 0;
    DataCopyExtParams() = default;
    DataCopyExtParams(uint16_t count, uint32_t length, int64_t source, int64_t target, uint32_t reserved)
        : blockCount(count), blockLen(length), srcStride(source), dstStride(target), rsv(reserved) {}
};
template <typename T> struct DataCopyPadExtParams {
    bool isPad = false;
    uint8_t leftPadding = 0, rightPadding = 0;
    T paddingValue = T(0);
    DataCopyPadExtParams() = default;
    DataCopyPadExtParams(bool pads, uint8_t left, uint8_t right, T value)
        : isPad(pads), leftPadding(left), rightPadding(right), paddingValue(value) {}
};

template <template <typename> class To, template <typename> class From, typename T>
void DataCopy(const To<T> &dst, const From<T> &src, uint32_t count, NPUSIM_LINE)
{
    npusim::Call("DataCopy", file, line).with(dst.operand).with(src.operand).with(int64_t(count)).play();
}
template <template <typename> class To, template <typename> class From, typename T>
void DataCopy(const To<T> &dst, const From<T> &src, const DataCopyParams &p, NPUSIM_LINE)
{
    npusim::Call("DataCopyBlocks", file, line).with(dst.operand).with(src.operand).with(p.blockCount)
        .with(p.blockLen).with(p.srcStride).with(p.dstStride).play();
}
template <typename T>
void DataCopyPad(const LocalTensor<T> &dst, const GlobalTensor<T> &src, const DataCopyExtParams &p, const DataCopyPadExtParams<T> &pad, NPUSIM_LINE)
{
    npusim::Call("DataCopyPad", file, line).with(dst.operand).with(src.operand).with(p.blockCount)
        .with(int64_t(p.blockLen)).with(p.srcStride).with(p.dstStride).with(int64_t(pad.isPad))
        .with(pad.leftPadding).with(pad.rightPadding).real(double(pad.paddingValue)).play();
}
template <typename T>
void DataCopyPad(const GlobalTensor<T> &dst, const LocalTensor<T> &src, const DataCopyExtParams &p, NPUSIM_LINE)
{
    npusim::Call("DataCopyPad", file, line).with(dst.operand).with(src.operand).with(p.blockCount)
        .with(int64_t(p.blockLen)).with(p.srcStride).with(p.dstStride).with(int64_t(0)).with(int64_t(0))
        .with(int64_t(0)).real(0).play();
}

} // namespace AscendC

#endif

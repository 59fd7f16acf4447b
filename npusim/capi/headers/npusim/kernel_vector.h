/* Vector instructions of Ascend C: by count, and by mask and repeats. */
#ifndef NPUSIM_KERNEL_VECTOR_H
#define NPUSIM_KERNEL_VECTOR_H

namespace AscendC {

enum class RoundMode : uint8_t { CAST_NONE, CAST_RINT, CAST_FLOOR, CAST_CEIL, CAST_ROUND, CAST_TRUNC, CAST_ODD };
enum class CMPMODE : uint8_t { LT, GT, EQ, LE, GE, NE };
enum class SELMODE : uint8_t { VSEL_CMPMASK_SPR, VSEL_TENSOR_SCALAR_MODE, VSEL_TENSOR_TENSOR_MODE };

struct BinaryRepeatParams {
    uint8_t dstBlkStride = 1, src0BlkStride = 1, src1BlkStride = 1, dstRepStride = 8, src0RepStride = 8, src1RepStride = 8;
    BinaryRepeatParams() = default;
    BinaryRepeatParams(uint8_t a, uint8_t b, uint8_t c, uint8_t d, uint8_t e, uint8_t f)
        : dstBlkStride(a), src0BlkStride(b), src1BlkStride(c), dstRepStride(d), src0RepStride(e), src1RepStride(f) {}
};
struct UnaryRepeatParams {
    uint16_t dstBlkStride = 1, srcBlkStride = 1, dstRepStride = 8, srcRepStride = 8;
    UnaryRepeatParams() = default;
    UnaryRepeatParams(uint16_t a, uint16_t b, uint16_t c, uint16_t d) : dstBlkStride(a), srcBlkStride(b), dstRepStride(c), srcRepStride(d) {}
};

/* Integers of a call: 0 and a count; or 1, repeats, the words of a mask, and the strides. */
inline npusim::Call &counted(npusim::Call &call, int64_t count) { return call.with(int64_t(0)).with(count); }
inline npusim::Call &repeated(npusim::Call &call, uint64_t mask, int64_t times)
{
    return call.with(int64_t(1)).with(times).with(int64_t(1)).with(int64_t(mask));
}
inline npusim::Call &repeated(npusim::Call &call, const uint64_t *mask, int64_t times)
{
    return call.with(int64_t(1)).with(times).with(int64_t(2)).with(int64_t(mask[0])).with(int64_t(mask[1]));
}
inline npusim::Call &strides(npusim::Call &call, const BinaryRepeatParams &p)
{
    return call.with(p.dstBlkStride).with(p.dstRepStride).with(p.src0BlkStride).with(p.src0RepStride)
        .with(p.src1BlkStride).with(p.src1RepStride);
}
inline npusim::Call &strides(npusim::Call &call, const UnaryRepeatParams &p)
{
    return call.with(p.dstBlkStride).with(p.dstRepStride).with(p.srcBlkStride).with(p.srcRepStride);
}

#define NPUSIM_BINARY(Name)                                                                         \
    template <typename T> void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1, int32_t count, NPUSIM_LINE) \
    {                                                                                               \
        npusim::Call call(#Name, file, line);                                                       \
        counted(call.with(dst.operand).with(src0.operand).with(src1.operand), count).play();        \
    }                                                                                               \
    template <typename T, bool isSetMask = true, typename Mask> void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1, const Mask &mask, uint8_t times, const BinaryRepeatParams &params, NPUSIM_LINE) \
    {                                                                                               \
        npusim::Call call(#Name, file, line);                                                       \
        strides(repeated(call.with(dst.operand).with(src0.operand).with(src1.operand), mask, times), params).play(); \
    }
NPUSIM_BINARY(Add)
NPUSIM_BINARY(Sub)
NPUSIM_BINARY(Mul)
NPUSIM_BINARY(Div)
NPUSIM_BINARY(Max)
NPUSIM_BINARY(Min)
NPUSIM_BINARY(And)
NPUSIM_BINARY(Or)
NPUSIM_BINARY(AddRelu)
NPUSIM_BINARY(FusedMulAdd)
NPUSIM_BINARY(FusedMulAddRelu)
NPUSIM_BINARY(MulAddDst)
#undef NPUSIM_BINARY

#define NPUSIM_UNARY(Name)                                                                          \
    template <typename T> void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src, int32_t count, NPUSIM_LINE) \
    {                                                                                               \
        npusim::Call call(#Name, file, line);                                                       \
        counted(call.with(dst.operand).with(src.operand), count).play();                            \
    }                                                                                               \
    template <typename T, bool isSetMask = true, typename Mask> void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src, const Mask &mask, uint8_t times, const UnaryRepeatParams &params, NPUSIM_LINE) \
    {                                                                                               \
        npusim::Call call(#Name, file, line);                                                       \
        strides(repeated(call.with(dst.operand).with(src.operand), mask, times), params).play();    \
    }
NPUSIM_UNARY(Abs)
NPUSIM_UNARY(Exp)
NPUSIM_UNARY(Ln)
NPUSIM_UNARY(Sqrt)
NPUSIM_UNARY(Rsqrt)
NPUSIM_UNARY(Reciprocal)
NPUSIM_UNARY(Relu)
NPUSIM_UNARY(Not)
#undef NPUSIM_UNARY

#define NPUSIM_SCALAR(Name)                                                                         \
    template <typename T, typename U> void Name(const LocalTensor<T> &dst, const LocalTensor<U> &src, const U &number, int32_t count, NPUSIM_LINE) \
    {                                                                                               \
        npusim::Call call(#Name, file, line);                                                       \
        counted(call.with(dst.operand).with(src.operand).real(double(number)), count).play();       \
    }                                                                                               \
    template <typename T, bool isSetMask = true, typename U, typename Mask> void Name(const LocalTensor<T> &dst, const LocalTensor<U> &src, const U &number, const Mask &mask, uint8_t times, const UnaryRepeatParams &params, NPUSIM_LINE) \
    {                                                                                               \
        npusim::Call call(#Name, file, line);                                                       \
        strides(repeated(call.with(dst.operand).with(src.operand).real(double(number)), mask, times), params).play(); \
    }
NPUSIM_SCALAR(Adds)
NPUSIM_SCALAR(Muls)
NPUSIM_SCALAR(Maxs)
NPUSIM_SCALAR(Mins)
NPUSIM_SCALAR(LeakyRelu)
NPUSIM_SCALAR(Axpy)
NPUSIM_SCALAR(ShiftLeft)
NPUSIM_SCALAR(ShiftRight)
#undef NPUSIM_SCALAR

template <typename T> void Duplicate(const LocalTensor<T> &dst, const T &number, int32_t count, NPUSIM_LINE)
{
    npusim::Call call("Duplicate", file, line);
    counted(call.with(dst.operand).real(double(number)), count).play();
}
template <typename T, bool isSetMask = true, typename Mask> void Duplicate(const LocalTensor<T> &dst, const T &number, const Mask &mask, uint8_t times, uint16_t block, uint8_t repeat, NPUSIM_LINE)
{
    npusim::Call call("Duplicate", file, line);
    repeated(call.with(dst.operand).real(double(number)), mask, times).with(block).with(repeat).play();
}
template <typename T, typename U> void Cast(const LocalTensor<T> &dst, const LocalTensor<U> &src, RoundMode mode, uint32_t count, NPUSIM_LINE)
{
    npusim::Call call("Cast", file, line);
    counted(call.with(dst.operand).with(src.operand).real(double(mode)), count).play();
}
template <typename T, typename U> void Compare(const LocalTensor<U> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1, CMPMODE mode, uint32_t count, NPUSIM_LINE)
{
    npusim::Call("Compare", file, line).with(dst.operand).with(src0.operand).with(src1.operand).with(int64_t(mode)).with(int64_t(count)).play();
}
template <typename T, typename U> void CompareScalar(const LocalTensor<U> &dst, const LocalTensor<T> &src0, const T &src1, CMPMODE mode, uint32_t count, NPUSIM_LINE)
{
    npusim::Call("Compare", file, line).with(dst.operand).with(src0.operand).real(double(src1)).with(int64_t(mode)).with(int64_t(count)).play();
}
template <typename T, typename U> void Select(const LocalTensor<T> &dst, const LocalTensor<U> &mask, const LocalTensor<T> &src0, const LocalTensor<T> &src1, SELMODE, uint32_t count, NPUSIM_LINE)
{
    npusim::Call("Select", file, line).with(dst.operand).with(mask.operand).with(src0.operand).with(src1.operand).with(int64_t(count)).play();
}
template <typename T, typename U> void Select(const LocalTensor<T> &dst, const LocalTensor<U> &mask, const LocalTensor<T> &src0, T src1, SELMODE, uint32_t count, NPUSIM_LINE)
{
    npusim::Call("Select", file, line).with(dst.operand).with(mask.operand).with(src0.operand).real(double(src1)).with(int64_t(count)).play();
}

#define NPUSIM_REDUCE(Name)                                                                         \
    template <typename T> void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<T> &, int32_t count, NPUSIM_LINE) \
    {                                                                                               \
        npusim::Call(#Name, file, line).with(dst.operand).with(src.operand).with(int64_t(count)).play(); \
    }
NPUSIM_REDUCE(ReduceSum)
NPUSIM_REDUCE(ReduceMax)
NPUSIM_REDUCE(ReduceMin)
#undef NPUSIM_REDUCE

} // namespace AscendC

#endif

/* How products and other interfaces are cut: plain words that go from host to device.
 * Source of the fields: public asc-devkit documentation of each interface's tiling. */
#ifndef NPUSIM_KERNEL_TILING_H
#define NPUSIM_KERNEL_TILING_H

#include <cstddef>
#include <cstdint>
#include <cstring>

#define NPUSIM_WORD(name)                                \
    int32_t name = 0;                                    \
    void set_##name(int32_t value) { name = value; }     \
    int32_t get_##name() const { return name; }
#define NPUSIM_SAVED                                     \
    size_t GetDataSize() const { return sizeof *this; }  \
    void SaveToBuffer(void *to, size_t size) const { std::memcpy(to, static_cast<const void *>(this), size < sizeof *this ? size : sizeof *this); }

struct TCubeTiling {
    NPUSIM_WORD(usedCoreNum) NPUSIM_WORD(M) NPUSIM_WORD(N) NPUSIM_WORD(Ka) NPUSIM_WORD(Kb)
    NPUSIM_WORD(singleCoreM) NPUSIM_WORD(singleCoreN) NPUSIM_WORD(singleCoreK)
    NPUSIM_WORD(baseM) NPUSIM_WORD(baseN) NPUSIM_WORD(baseK)
    NPUSIM_WORD(depthA1) NPUSIM_WORD(depthB1) NPUSIM_WORD(stepM) NPUSIM_WORD(stepN)
    NPUSIM_WORD(isBias) NPUSIM_WORD(transLength) NPUSIM_WORD(iterateOrder)
    NPUSIM_WORD(shareMode) NPUSIM_WORD(shareL1Size) NPUSIM_WORD(shareL0CSize) NPUSIM_WORD(shareUbSize)
    NPUSIM_WORD(batchM) NPUSIM_WORD(batchN) NPUSIM_WORD(singleBatchM) NPUSIM_WORD(singleBatchN)
    NPUSIM_WORD(stepKa) NPUSIM_WORD(stepKb) NPUSIM_WORD(depthAL1CacheUB) NPUSIM_WORD(depthBL1CacheUB)
    NPUSIM_WORD(dbL0A) NPUSIM_WORD(dbL0B) NPUSIM_WORD(dbL0C)
    NPUSIM_WORD(ALayoutInfoB) NPUSIM_WORD(ALayoutInfoS) NPUSIM_WORD(ALayoutInfoN) NPUSIM_WORD(ALayoutInfoG) NPUSIM_WORD(ALayoutInfoD)
    NPUSIM_WORD(BLayoutInfoB) NPUSIM_WORD(BLayoutInfoS) NPUSIM_WORD(BLayoutInfoN) NPUSIM_WORD(BLayoutInfoG) NPUSIM_WORD(BLayoutInfoD)
    NPUSIM_WORD(CLayoutInfoB) NPUSIM_WORD(CLayoutInfoS1) NPUSIM_WORD(CLayoutInfoN) NPUSIM_WORD(CLayoutInfoG) NPUSIM_WORD(CLayoutInfoS2)
    NPUSIM_WORD(BatchNum) NPUSIM_WORD(mxTypePara)
    NPUSIM_SAVED
};

/* Interfaces that compute row by row keep what their call repeats: rows, columns, scratch. */
struct NpusimRows {
    NPUSIM_WORD(srcM) NPUSIM_WORD(srcK) NPUSIM_WORD(srcSize) NPUSIM_WORD(outMaxM) NPUSIM_WORD(outMaxK) NPUSIM_WORD(outMaxSize)
    NPUSIM_WORD(splitM) NPUSIM_WORD(splitK) NPUSIM_WORD(splitSize) NPUSIM_WORD(reduceM) NPUSIM_WORD(reduceK) NPUSIM_WORD(reduceSize)
    NPUSIM_WORD(rangeM) NPUSIM_WORD(tailM) NPUSIM_WORD(tailSplitSize) NPUSIM_WORD(tailReduceSize)
    NPUSIM_SAVED
};
struct SoftMaxTiling : NpusimRows {};
struct LogSoftMaxTiling : NpusimRows {};
struct NpusimNorm {
    uint32_t bLength = 0, sLength = 0, hLength = 0, originalHLength = 0;
    float reciprocalOfHLength = 0;
    uint32_t mainBshLength = 0, mainBsLength = 0, mainBsLengthAlign = 0, loopRound = 0, inputTailPos = 0, tailBshLength = 0, tailBsLength = 0;
    uint32_t rest[24] = {};
    void set_hLength(uint32_t value) { hLength = value; }
    NPUSIM_SAVED
};
struct LayerNormTiling : NpusimNorm {};
struct LayerNormGradTiling : NpusimNorm {};
struct LayerNormGradBetaTiling : NpusimNorm {};
struct LayerNormSeparateTiling : NpusimNorm {};
struct DeepNormTiling : NpusimNorm {};
struct RmsNormTiling {
    uint32_t bLength = 0, sLength = 0, hLength = 0, originalHLength = 0;
    float reciprocalOfHLength = 0;
    uint32_t mainBshLength = 0, mainBsLength = 0, mainBsLengthAlign = 0, loopRound = 0, inputTailPos = 0, tailBshLength = 0, tailBsLength = 0;
    NPUSIM_SAVED
};
struct TopkTiling {
    int32_t words[20] = {};
    NPUSIM_SAVED
};
struct ConfusionTransposeTiling {
    uint32_t words[18] = {};
    NPUSIM_SAVED
};
struct PadTiling {
    uint32_t srcHeight = 0, srcWidth = 0, srcOriWidth = 0, widthWithoutLastBlock = 0, blocksPerRow = 0, heightTiling = 0, heightFractal = 0, heightFractalTail = 0,
             mainLoopOffset = 0, tailBlockOffset = 0, tmpBuffer1BlockNum = 0, tmpBuffer1RowNum = 0, tmpBuffer2Offset = 0, widthTiling = 0, widthFractal = 0, widthFractalTail = 0,
             widthFractalTailAlingned = 0, brcbTiling = 0, brcbFractal = 0, brcbFractalTail = 0, maxRepeatTimes = 0, brcbTilingRepeatTimes = 0, brcbTilingRepeatTimesTail = 0;
    NPUSIM_SAVED
};
struct UnPadTiling {
    uint32_t srcHeight = 0, srcWidth = 0, tmpBuffer1BlockNum = 0, tmpBuffer1RowNum = 0, tmpBuffer2Offset = 0, widthTiling = 0, widthFractal = 0, widthFractalTail = 0;
    NPUSIM_SAVED
};
#undef NPUSIM_WORD
#undef NPUSIM_SAVED

namespace optiling {
using ::TCubeTiling;
using ::SoftMaxTiling;
using ::LogSoftMaxTiling;
using ::LayerNormTiling;
using ::LayerNormGradTiling;
using ::LayerNormGradBetaTiling;
using ::LayerNormSeparateTiling;
using ::DeepNormTiling;
using ::RmsNormTiling;
using ::TopkTiling;
using ::ConfusionTransposeTiling;
using ::PadTiling;
using ::UnPadTiling;
} // namespace optiling
namespace AscendC::tiling {
using namespace optiling;
} // namespace AscendC::tiling

#endif

/* What LoadData, Mmad and Fixpipe are told. */
#ifndef NPUSIM_KERNEL_CUBE_PARAMETERS_H
#define NPUSIM_KERNEL_CUBE_PARAMETERS_H

enum QuantMode_t : uint8_t {
    NoQuant = 0, F322F16 = 1, F322BF16 = 16, DEQF16 = 5, VDEQF16 = 4, QF322B8_PRE = 24, VQF322B8_PRE = 23, REQ8 = 3, VREQ8 = 2
};

namespace AscendC {

constexpr int32_t PAD_SIZE = 4;
struct LoadData2DParams {
    uint16_t startIndex = 0, dstGap = 0, srcStride = 0;
    bool ifTranspose = false;
    uint8_t repeatTimes = 0, sid = 0, addrMode = 0;
    LoadData2DParams() = default;
    LoadData2DParams(uint16_t start, uint8_t times, uint16_t stride, uint8_t id, uint16_t gap, bool turn, uint8_t mode) : startIndex(start), dstGap(gap), srcStride(stride), ifTranspose(turn), repeatTimes(times), sid(id), addrMode(mode) {}
};
using LoadData2dParams = LoadData2DParams;
struct LoadData2DParamsV2 {
    uint32_t mStartPosition = 0, kStartPosition = 0;
    uint16_t mStep = 0, kStep = 0;
    int32_t srcStride = 0;
    uint16_t dstStride = 0;
    bool ifTranspose = false;
    uint8_t sid = 0;
};
struct LoadData2dTransposeParams {
    uint16_t startIndex = 0;
    uint8_t repeatTimes = 0;
    uint16_t srcStride = 0, dstGap = 0, dstFracGap = 0;
    uint8_t addrMode = 0;
    LoadData2dTransposeParams() = default;
    LoadData2dTransposeParams(uint16_t start, uint8_t times, uint16_t stride, uint16_t gap, uint16_t inner) : startIndex(start), repeatTimes(times), srcStride(stride), dstGap(gap), dstFracGap(inner) {}
};
template <typename T> struct LoadData3DParamsV2 {
    uint8_t padList[PAD_SIZE] = {};
    uint16_t l1H = 0, l1W = 0, channelSize = 0, kExtension = 0, mExtension = 0, kStartPt = 0, mStartPt = 0;
    uint8_t strideW = 1, strideH = 1, filterW = 1, filterH = 1, dilationFilterW = 1, dilationFilterH = 1;
    bool enTranspose = false, enSmallK = false;
    T padValue = T(0);
    bool filterSizeW = false, filterSizeH = false, fMatrixCtrl = false;
    LoadData3DParamsV2() = default;
    LoadData3DParamsV2(const uint8_t pads[PAD_SIZE], uint16_t h, uint16_t w, uint16_t channels, uint16_t k, uint16_t m, uint16_t k0, uint16_t m0, uint8_t sw, uint8_t sh, uint8_t fw, uint8_t fh,
                       uint8_t dw, uint8_t dh, bool turn, bool small, T value, bool wide = false, bool high = false, bool control = false)
        : l1H(h), l1W(w), channelSize(channels), kExtension(k), mExtension(m), kStartPt(k0), mStartPt(m0), strideW(sw), strideH(sh), filterW(fw), filterH(fh), dilationFilterW(dw), dilationFilterH(dh),
          enTranspose(turn), enSmallK(small), padValue(value), filterSizeW(wide), filterSizeH(high), fMatrixCtrl(control)
    {
        for (int each = 0; each < PAD_SIZE; each++) padList[each] = pads[each];
    }
};
struct LoadData3DParamsV2Pro {
    uint16_t channelSize = 0;
    bool enTranspose = false, enSmallK = false, filterSizeW = false, filterSizeH = false, fMatrixCtrl = false;
    uint64_t extConfig = 0, filterConfig = 0x10101010101;
    LoadData3DParamsV2Pro() = default;
    LoadData3DParamsV2Pro(uint16_t channels, bool turn, bool small, bool wide, bool high, bool control, uint64_t extents, uint64_t filter)
        : channelSize(channels), enTranspose(turn), enSmallK(small), filterSizeW(wide), filterSizeH(high), fMatrixCtrl(control), extConfig(extents), filterConfig(filter) {}
};
enum class FmatrixMode : uint8_t { FMATRIX_LEFT, FMATRIX_RIGHT };
struct IsResetLoad3dConfig {
    bool isSetFMatrix = true, isSetPadding = true;
};
inline constexpr IsResetLoad3dConfig IS_RESER_LOAD3D_DEFAULT_CONFIG = {true, true};
struct LoadDataRepeatParam {
    uint16_t repeatStride = 0;
    uint8_t repeatTime = 1, repeatMode = 0;
};
template <typename T> struct InitConstValueParams {
    uint16_t repeatTimes = 0, blockNum = 0, dstGap = 0;
    T initValue = T(0);
    InitConstValueParams() = default;
    InitConstValueParams(uint16_t times, uint16_t blocks, uint16_t gap, T value) : repeatTimes(times), blockNum(blocks), dstGap(gap), initValue(value) {}
};
struct MmadParams {
    uint16_t m = 0, n = 0, k = 0;
    bool isBias = false;
    int32_t fmOffset = 0;
    bool enSsparse = false, enWinogradA = false, enWinogradB = false;
    uint8_t unitFlag = 0;
    bool kDirectionAlign = false, cmatrixSource = false, cmatrixInitVal = true;
    MmadParams() = default;
    MmadParams(uint16_t m_, uint16_t n_, uint16_t k_, bool bias, int32_t offset, bool sparse, bool a, bool b) : m(m_), n(n_), k(k_), isBias(bias), fmOffset(offset), enSsparse(sparse), enWinogradA(a), enWinogradB(b) {}
    MmadParams(uint16_t m_, uint16_t n_, uint16_t k_, uint8_t unit, bool source, bool init) : m(m_), n(n_), k(k_), unitFlag(unit), cmatrixSource(source), cmatrixInitVal(init) {}
};
enum class CO2Layout : uint8_t { NZ = 0, ROW_MAJOR, COLUMN_MAJOR };
struct FixpipeConfig {
    CO2Layout format;
    bool isToUB = false;
};
inline constexpr FixpipeConfig CFG_NZ = {CO2Layout::NZ}, CFG_ROW_MAJOR = {CO2Layout::ROW_MAJOR}, CFG_COLUMN_MAJOR = {CO2Layout::COLUMN_MAJOR};
struct FixpipeParamsV220 {
    uint16_t nSize = 0, mSize = 0, srcStride = 0;
    uint32_t dstStride = 0;
    QuantMode_t quantPre = QuantMode_t::NoQuant;
    uint64_t deqScalar = 0;
    uint16_t ndNum = 1, srcNdStride = 0, dstNdStride = 0;
    bool reluEn = false;
    uint8_t unitFlag = 0;
    bool isChannelSplit = false;
    FixpipeParamsV220() = default;
    FixpipeParamsV220(uint16_t n, uint16_t m, uint16_t source, uint32_t target, bool relu) : nSize(n), mSize(m), srcStride(source), dstStride(target), reluEn(relu) {}
    FixpipeParamsV220(uint16_t n, uint16_t m, uint16_t source, uint32_t target, bool relu, QuantMode_t quant, int64_t scalar, uint16_t number, uint16_t from, uint16_t to, uint8_t unit, bool split = false)
        : nSize(n), mSize(m), srcStride(source), dstStride(target), quantPre(quant), deqScalar(uint64_t(scalar)), ndNum(number), srcNdStride(from), dstNdStride(to), reluEn(relu), unitFlag(unit), isChannelSplit(split) {}
};
struct DataCopyCO12DstParams {
    uint8_t sid = 0;
    uint16_t nSize = 0, mSize = 0;
    uint32_t dstStride = 0;
    uint16_t srcStride = 0;
    uint8_t unitFlag = 0, clipReluPre = 0, eltWiseOp = 0;
    QuantMode_t quantPre = QuantMode_t::NoQuant;
    uint8_t reluPre = 0;
    bool channelSplit = false, nz2ndEn = false;
    DataCopyCO12DstParams() = default;
    DataCopyCO12DstParams(uint16_t n, uint16_t m, uint32_t target, uint16_t source, QuantMode_t quant, uint8_t relu, bool split, bool nd) : nSize(n), mSize(m), dstStride(target), srcStride(source), quantPre(quant), reluPre(relu), channelSplit(split), nz2ndEn(nd) {}
};

} // namespace AscendC

#endif

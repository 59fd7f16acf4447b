/* Products with weights of which two in four are kept: the index says which rows of the depth they belong to.
 *
 * Each fractal of weights (16 columns of 32 bytes) has 128 bytes of index, two bits a weight, the first lowest.
 * Of four rows the first weight's is its index, the second's one more than its own.
 * Source: public asc-devkit documentation of LoadDataWithSparse and MmadWithSparse. */
#ifndef NPUSIM_KERNEL_SPARSE_H
#define NPUSIM_KERNEL_SPARSE_H

#include <map>

#include "npusim/kernel_cube.h"

namespace npusim {

constexpr int64_t INDEX_FRACTAL = 128;

/* The index of the weights in a core's L0B, which has its own memory. */
inline uint8_t *sparse_index(int64_t place)
{
    static std::map<int32_t, std::vector<uint8_t>> held;
    auto &index = held[current->block];
    index.resize(size_t(current->size[L0B] / 4 + INDEX_FRACTAL));
    return index.data() + place / 4;
}

/* Weights with zeros where none is kept: twice as deep, in L0B's order. */
inline std::vector<int8_t> whole_weights(const int8_t *kept, const uint8_t *index, int64_t n, int64_t k)
{
    int64_t wide = (n + 15) / 16, blocks = (k + 31) / 32;
    std::vector<int8_t> whole(size_t(blocks * wide * FRACTAL));
    for (int64_t column = 0; column < wide * 16; column++)
        for (int64_t each = 0; each < (k + 1) / 2; each++) {
            int64_t fractal = each / 32 * wide + column / 16, lane = column % 16 * 32 + each % 32;
            int64_t skipped = index[fractal * INDEX_FRACTAL + lane / 4] >> lane % 4 * 2 & 3;
            int64_t row = each / 2 * 4 + each % 2 + skipped;
            if (row < blocks * 32) whole[size_t((row / 32 * wide + column / 16) * FRACTAL + column % 16 * 32 + row % 32)] += kept[fractal * FRACTAL + lane];
        }
    return whole;
}

} // namespace npusim

namespace AscendC {

inline void LoadDataWithSparse(const LocalTensor<int8_t> &dst, const LocalTensor<int8_t> &src, const LocalTensor<uint8_t> &idx, const LoadData2DParams &p, NPUSIM_AT)
{
    LoadData(dst, src, LoadData2DParams(p.startIndex, p.repeatTimes, 1, 0, 0, false, 0), at);
    std::memcpy(npusim::sparse_index(dst.start), idx.data() + p.startIndex * npusim::INDEX_FRACTAL, size_t(p.repeatTimes * npusim::INDEX_FRACTAL));
}
inline void MmadWithSparse(const LocalTensor<int32_t> &c, const LocalTensor<int8_t> &a, const LocalTensor<int8_t> &b, const MmadParams &p, NPUSIM_AT)
{
    auto whole = npusim::whole_weights(b.data(), npusim::sparse_index(b.start), p.n, p.k);
    npusim::mmad(c, a, b, static_cast<const LocalTensor<int32_t> *>(nullptr), p, at, whole.data());
}

} // namespace AscendC

#endif

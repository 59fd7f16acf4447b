/* Operands of a product, and what L1 holds of them. */
#ifndef NPUSIM_MATMUL_OPERANDS_H
#define NPUSIM_MATMUL_OPERANDS_H

namespace npusim {

/* One operand as the object sees it: rows and columns of the product, wherever they lie. */
struct Matrix {
    const uint8_t *place = nullptr;
    uint64_t address = 0; /* in global memory */
    int64_t stride = 0, rows = 0; /* elements of a line; lines of blocks of columns (NZ) */
    bool transposed = false, blocked = false, vector = false;
    template <typename T, typename W> void read(W *to, int64_t row, int64_t column, int64_t m, int64_t n) const
    {
        constexpr int64_t lanes = std::is_same_v<T, int4b_t> ? 64 : 32 / int64_t(sizeof(T));
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) {
                int64_t y = transposed ? column + j : row + i, x = transposed ? row + i : column + j;
                int64_t at = vector ? x + y : blocked ? x / lanes * rows * lanes + y * lanes + x % lanes : y * stride + x;
                if constexpr (std::is_same_v<T, int4b_t>) to[i * n + j] = W(int8_t(nibble(place, at) << 4) >> 4);
                else to[i * n + j] = W(load(reinterpret_cast<const T *>(place) + at));
            }
    }
};

inline void note_copy(const char *intrinsic, int pipe, Path path, int type, uint64_t address, int64_t bytes, int64_t runs, bool turns, int64_t apart, Site at)
{
    Instruction told = {"Matmul", intrinsic, GM_COPY, pipe, type, 0, 0, {path, int64_t(address), bytes, runs, 0, 0, turns, apart}, {}, {}};
    issue(told, at);
}
inline void note_chip(const char *intrinsic, int pipe, Path path, int64_t bytes, Site at)
{
    Instruction told = {"Matmul", intrinsic, CHIP_COPY, pipe, 0, 0, 0, {path, bytes, 0, 0, 0, 0, 0, 0}, {}, {}};
    issue(told, at);
}

/* Which parts of an operand L1 holds. */
struct Panel {
    std::vector<int64_t> held;
    size_t next = 0;
};

} // namespace npusim

#endif

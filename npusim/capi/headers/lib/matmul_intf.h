/* The matrix product as an object: blocks of C, one after the other, through L1, L0 and the fixpipe.
 *
 * A block's numbers are found at once; what is written down is the way of its parts: each of A and B
 * into L1 unless it is still there, into L0, the products, and the sums out of L0C. */
#ifndef NPUSIM_MATMUL_INTF_H
#define NPUSIM_MATMUL_INTF_H

#ifdef __clang__ /* [=, this], which each standard wants otherwise */
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wc++20-extensions"
#endif
#include "kernel_operator.h"
#include "kernel_tiling/kernel_tiling.h"
#include "lib/matmul_settings.h"
#include "lib/matmul_operands.h"

namespace AscendC {

template <typename A, typename B, typename C, typename Bias = C, const auto &CFG = CFG_NORM, typename CallBack = MatmulCallBackFunc<nullptr, nullptr, nullptr>, template <const auto &, typename...> class Policy = MatmulPolicy> class MatmulImpl {
    using AT = typename A::T;
    using BT = typename B::T;
    using CT = typename C::T;
    using BiasT = typename Bias::T;
    using W = std::conditional_t<std::is_same_v<AT, int8_t> || std::is_same_v<AT, int4b_t>, int32_t, float>;

public:
    using AType = A;
    using BType = B;
    using CType = C;
    TPipe *pipe_ = nullptr;

    MatmulImpl() = default;
    void Init(const TCubeTiling *tiling, TPipe *pipe = nullptr)
    {
        pipe_ = pipe;
        if (tiling) tiling_ = *tiling;
        else if constexpr (std::is_same_v<std::decay_t<decltype(CFG)>, MatmulApiStaticTiling>) {
#define NPUSIM_SAME(name) tiling_.name = CFG.name;
            NPUSIM_SAME(M) NPUSIM_SAME(N) NPUSIM_SAME(Ka) NPUSIM_SAME(Kb) NPUSIM_SAME(baseM) NPUSIM_SAME(baseN) NPUSIM_SAME(baseK) NPUSIM_SAME(depthA1) NPUSIM_SAME(depthB1)
            NPUSIM_SAME(stepKa) NPUSIM_SAME(stepKb) NPUSIM_SAME(stepM) NPUSIM_SAME(stepN) NPUSIM_SAME(singleCoreM) NPUSIM_SAME(singleCoreN) NPUSIM_SAME(singleCoreK) NPUSIM_SAME(dbL0C)
#undef NPUSIM_SAME
        }
        m_ = tiling_.singleCoreM, n_ = tiling_.singleCoreN, k_ = tiling_.singleCoreK;
        org_m_ = tiling_.M, org_n_ = tiling_.N, org_ka_ = tiling_.Ka, org_kb_ = tiling_.Kb;
    }
    void SetTensorA(const GlobalTensor<AT> &gm, bool transposed = A::isTrans) { set(a_, gm, transposed, A::format); }
    void SetTensorB(const GlobalTensor<BT> &gm, bool transposed = B::isTrans) { set(b_, gm, transposed, B::format); }
    void SetTensorA(const LocalTensor<AT> &local, bool transposed = A::isTrans) { set(a_, local, transposed, A::format); }
    void SetTensorB(const LocalTensor<BT> &local, bool transposed = B::isTrans) { set(b_, local, transposed, B::format); }
    void SetTensorA(AT scalar) { set_scalar(a_, scalar, a_scalar_); }
    void SetTensorB(BT scalar) { set_scalar(b_, scalar, b_scalar_); }
    void SetBias(const GlobalTensor<BiasT> &gm) { bias_ = reinterpret_cast<const BiasT *>(gm.address), bias_gm_ = uint64_t(reinterpret_cast<uintptr_t>(gm.address)); }
    void SetBias(const LocalTensor<BiasT> &local) { bias_ = local.data(), bias_gm_ = 0; }
    void DisableBias() { bias_ = nullptr; }
    void ClearBias() { bias_ = nullptr; }
    void SetTail(int m = -1, int n = -1, int k = -1) { SetSingleShape(m, n, k); }
    void SetSingleShape(int m = -1, int n = -1, int k = -1)
    {
        if (m > 0) m_ = m;
        if (n > 0) n_ = n;
        if (k > 0) k_ = k;
    }
    void SetOrgShape(int m, int n, int k) { SetOrgShape(m, n, k, k); }
    void SetOrgShape(int m, int n, int ka, int kb, int nc = 0) { org_m_ = m, org_n_ = n, org_ka_ = ka, org_kb_ = kb, org_c_ = nc; }
    void SetWorkspace(GlobalTensor<CT> &gm) { work_ = reinterpret_cast<uint8_t *>(gm.address); }
    template <typename T> void SetWorkspace(T *gm, uint64_t) { work_ = reinterpret_cast<uint8_t *>(gm); }
    void SetLocalWorkspace(const LocalTensor<uint8_t> &) {}
    void SetUserDefInfo(uint64_t address) { user_ = address; }
    template <typename T> void SetSelfDefineData(T data) { std::memcpy(&self_, &data, sizeof data < 8 ? sizeof data : 8); }
    void SetQuantScalar(uint64_t scalar) { scalar_ = scalar, scales_ = nullptr, quantised_ = true; }
    void SetQuantVector(const GlobalTensor<uint64_t> &gm) { scales_ = gm.address, quantised_ = true; }
    void SetHF32(bool, int32_t = 0) {}
    void SetBatchNum(int32_t, int32_t) {}
    void SetSubBlockIdx(uint8_t) {}
    void End() { started_ = false; }

    template <bool sync = true> bool Iterate(bool partial = false, NPUSIM_AT)
    {
        (void)partial;
        if (!started_) started_ = true, turn_ = 0;
        else turn_++;
        if (!sync) async_ = true;
        bool more = turn_ < high() * wide();
        if (!more) started_ = false, turn_ = 0;
        (void)at;
        return more;
    }
    /* The next block, left in the program's own part of L0C. */
    template <bool sync = true> bool Iterate(bool partial, const LocalTensor<CT> &local, NPUSIM_AT)
    {
        if (!Iterate<sync>(partial, at)) return false;
        auto [row, column] = place(turn_);
        leave_in_l0c(local, row, column, at);
        return true;
    }
    template <bool sync = true> void GetTensorC(const GlobalTensor<CT> &gm, uint8_t atomic = 0, bool packed = false, NPUSIM_AT)
    {
        auto [row, column] = take();
        on_cube(at, [=, this] { block(row, column, reinterpret_cast<uint8_t *>(gm.address), nullptr, atomic, packed, at); });
    }
    template <bool sync = true> void GetTensorC(const LocalTensor<CT> &local, uint8_t atomic = 0, bool packed = false, NPUSIM_AT)
    {
        (void)packed;
        auto [row, column] = take();
        uint8_t *to = reinterpret_cast<uint8_t *>(local.data());
        if (local.memory == npusim::L0C) {
            leave_in_l0c(local, row, column, at);
            return;
        }
        on_cube(at, [=, this] { block(row, column, nullptr, to, atomic, true, at); });
        into_ub(local, row, column, at);
    }
    template <bool sync = true> void GetTensorC(const GlobalTensor<CT> &gm, const LocalTensor<CT> &local, uint8_t atomic = 0, bool packed = false, NPUSIM_AT)
    {
        int64_t turn = turn_;
        GetTensorC<sync>(gm, atomic, packed, at);
        turn_ = turn;
        GetTensorC<sync>(local, atomic, packed, at);
    }
    template <bool sync = true> void IterateAll(const GlobalTensor<CT> &gm, uint8_t atomic = 0, bool packed = false, bool waits = false, bool = false, NPUSIM_AT)
    {
        (void)waits;
        on_cube(at, [=, this] { all(reinterpret_cast<uint8_t *>(gm.address), nullptr, atomic, packed, at); });
    }
    template <bool sync = true> void IterateAll(const LocalTensor<CT> &local, uint8_t atomic = 0, NPUSIM_AT)
    {
        uint8_t *to = reinterpret_cast<uint8_t *>(local.data());
        on_cube(at, [=, this] { all(nullptr, to, atomic, false, at); });
        npusim::Instruction told = {"IterateAll", "copy_cbuf", npusim::CHIP_COPY, npusim::current->cube ? npusim::FIX : npusim::MTE2, 0, 0, 1, {local.memory == npusim::UB ? npusim::GM_TO_UB : npusim::L0C_TO_L1, int64_t(m_ * n_ * sizeof(CT)), 0, 0, 0, 0, 0, 0}, {}, {npusim::row(local, local_size())}};
        npusim::issue(told, at);
    }
    void WaitIterateAll() {}
    void WaitGetTensorC() {}
    void WaitIterateBatch() {}
    /* Several products whose operands follow each other, or lie between each other (BSNGD). */
    template <bool sync = true, bool waits = false> void IterateBatch(const GlobalTensor<CT> &gm, uint32_t batch_a, uint32_t batch_b, bool packed = false, uint32_t step_a = 0, uint32_t step_b = 0, uint32_t step_c = 0, bool = false, uint8_t atomic = 0, NPUSIM_AT)
    {
        on_cube(at, [=, this] { batches(gm, batch_a, batch_b, packed, step_a, step_b, step_c, atomic, at); });
    }
    template <bool sync = true, bool waits = false> void IterateNBatch(uint32_t times, uint32_t batch_a, uint32_t batch_b, bool packed, uint32_t step_a = 0, uint32_t step_b = 0, uint32_t step_c = 0, NPUSIM_AT)
    {
        GlobalTensor<CT> gm;
        gm.SetGlobalBuffer(reinterpret_cast<CT *>(work_));
        npusim::Matrix a = a_, b = b_;
        for (uint32_t each = 0; each < times; each++) {
            IterateBatch<true>(gm, batch_a, batch_b, packed, step_a, step_b, step_c, false, 0, at);
            move<AT>(a_, int64_t(batch_a) * m_ * k_), move<BT>(b_, int64_t(batch_b) * n_ * k_);
            gm.address += int64_t(batch_a > batch_b ? batch_a : batch_b) * m_ * n_;
        }
        a_ = a, b_ = b;
    }
    TCubeTiling tiling_;

private:
    npusim::Matrix a_, b_;
    npusim::Panel in_a_, in_b_;
    const BiasT *bias_ = nullptr;
    const uint64_t *scales_ = nullptr;
    uint64_t bias_gm_ = 0, scalar_ = 0, user_ = 0, self_ = 0;
    uint8_t *work_ = nullptr;
    int64_t m_ = 0, n_ = 0, k_ = 0, org_m_ = 0, org_n_ = 0, org_ka_ = 0, org_kb_ = 0, org_c_ = 0, turn_ = 0, got_ = 0, parts_ = 0, count_a_ = 0, count_b_ = 0, count_0_ = 0, count_c_ = 0;
    bool started_ = false, quantised_ = false, async_ = false;
    std::vector<AT> a_scalar_;
    std::vector<BT> b_scalar_;

    int64_t high() const { return (m_ + tiling_.baseM - 1) / tiling_.baseM; }
    int64_t wide() const { return (n_ + tiling_.baseN - 1) / tiling_.baseN; }
    /* NZ results of 32 bits as two halves of a block of 16 columns. */
    static constexpr bool splits_channels()
    {
        if constexpr (std::is_same_v<std::decay_t<decltype(CFG)>, MatmulApiStaticTiling>) return sizeof(CT) == 4 && CFG.cfg.isEnableChannelSplit;
        else return sizeof(CT) == 4 && CFG.isEnableChannelSplit;
    }
    int64_t local_size() const
    {
        if constexpr (C::format == CubeFormat::NZ) return (m_ + 15) / 16 * 16 * ((n_ + 15) / 16 * 16);
        else return m_ * n_;
    }
    /* Whether a block of C is one that the policy computes: all, or those on one side of the diagonal of blocks. */
    bool wanted(int64_t row, int64_t column) const
    {
        constexpr int side = Policy<CFG>::triangle;
        if constexpr (side > 0) return row <= column;
        else if constexpr (side < 0) return row >= column;
        else return true;
    }
    std::pair<int64_t, int64_t> place(int64_t turn) const
    {
        bool by_rows = tiling_.iterateOrder == 0;
        return by_rows ? std::pair{turn % high(), turn / high()} : std::pair{turn / wide(), turn % wide()};
    }
    std::pair<int64_t, int64_t> take()
    {
        if (async_) return place(got_++ % (high() * wide()));
        return place(turn_);
    }
    template <typename Tensor> void set(npusim::Matrix &to, const Tensor &given, bool transposed, CubeFormat format)
    {
        bool is_a = &to == &a_;
        to = npusim::Matrix{};
        if constexpr (npusim::IsTensor<Tensor>::value) to.place = reinterpret_cast<const uint8_t *>(given.data());
        else to.place = reinterpret_cast<const uint8_t *>(given.address), to.address = uint64_t(reinterpret_cast<uintptr_t>(given.address));
        to.transposed = transposed, to.blocked = format == CubeFormat::NZ, to.vector = format == CubeFormat::VECTOR;
        bool local = !to.address;
        int64_t lines = is_a ? (transposed ? org_ka_ : org_m_) : transposed ? org_n_ : org_kb_, stride = is_a ? (transposed ? org_m_ : org_ka_) : transposed ? org_kb_ : org_n_;
        if (local) lines = is_a ? (transposed ? k_ : m_) : transposed ? n_ : k_, stride = is_a ? (transposed ? m_ : k_) : transposed ? k_ : n_;
        to.stride = format == CubeFormat::ND_ALIGN ? (stride + 15) / 16 * 16 : stride, to.rows = (lines + 15) / 16 * 16;
        (is_a ? in_a_ : in_b_).held.clear();
    }
    template <typename T> void set_scalar(npusim::Matrix &to, T scalar, std::vector<T> &held)
    {
        held.assign(size_t(&to == static_cast<void *>(&a_) ? k_ : k_), scalar);
        to = npusim::Matrix{};
        to.place = reinterpret_cast<const uint8_t *>(held.data()), to.vector = true;
    }
    template <typename T> void move(npusim::Matrix &to, int64_t elements) { to.place += npusim::bytes_of<T>(elements), to.address += to.address ? uint64_t(npusim::bytes_of<T>(elements)) : 0; }
    template <typename Work> void on_cube(npusim::Site at, Work work)
    {
        npusim::Acting acting(at);
        if (npusim::current->cube || !npusim::current->mix) {
            work();
            return;
        }
        npusim::ask_cube([](void *context) { (*static_cast<Work *>(context))(); }, &work, at);
    }
    void all(uint8_t *gm, uint8_t *local, uint8_t atomic, bool packed, npusim::Site at)
    {
        for (int64_t turn = 0; turn < high() * wide(); turn++) {
            auto [row, column] = place(turn);
            if (!wanted(row, column)) continue;
            block(row, column, gm, local, atomic, packed, at);
        }
    }
    /* A part of an operand into L1, unless it is there; its number of flags comes back. */
    template <typename T> int64_t bring(npusim::Panel &panel, const npusim::Matrix &from, int64_t name, int64_t slots, int64_t base, int64_t row, int64_t column, int64_t m, int64_t n, npusim::Site at)
    {
        if (panel.held.empty()) panel.held.assign(size_t(slots < 1 ? 1 : slots), -1);
        for (size_t each = 0; each < panel.held.size(); each++)
            if (panel.held[each] == name) return -1 - base - int64_t(each);
        size_t slot = panel.next++ % panel.held.size();
        panel.held[slot] = name;
        npusim::await(npusim::MTE1, npusim::MTE2, base + int64_t(slot), 1, at);
        int64_t y = from.transposed ? column : row, x = from.transposed ? row : column, lines = from.transposed ? n : m, length = from.transposed ? m : n;
        if (from.address) {
            constexpr int64_t lanes = std::is_same_v<T, int4b_t> ? 64 : 32 / int64_t(sizeof(T));
            int64_t columns = (length + lanes - 1) / lanes, apart = from.rows * 32; /* of blocks: lanes columns of all rows */
            int64_t offset = from.blocked ? x / lanes * apart + y * 32 : npusim::bytes_of<T>(from.vector ? x + y : y * from.stride + x);
            int64_t extent = from.blocked ? (columns - 1) * apart + lines * 32 : npusim::bytes_of<T>(from.vector ? lines * length : (lines - 1) * from.stride + length);
            uint64_t address = from.address + uint64_t(offset);
            npusim::global(address, extent, "Matmul", at);
            if (from.blocked) npusim::note_copy("copy_gm_to_cbuf", npusim::MTE2, npusim::GM_TO_L1, npusim::type_of<T>(), address, lines * 32, columns, false, apart, at);
            else npusim::note_copy("copy_gm_to_cbuf_multi_nd2nz", npusim::MTE2, npusim::GM_TO_L1, npusim::type_of<T>(), address, npusim::bytes_of<T>(length), lines, true, npusim::bytes_of<T>(from.stride), at);
        }
        npusim::mark(npusim::MTE2, npusim::MTE1, base + int64_t(slot), 0, at);
        npusim::await(npusim::MTE2, npusim::MTE1, base + int64_t(slot), 0, at);
        return base + int64_t(slot);
    }
    /* The depth of one block of C, part by part: what the units do. */
    void schedule(int64_t row, int64_t column, int64_t m, int64_t n, npusim::Site at)
    {
        using namespace npusim;
        int64_t deep = (k_ + tiling_.baseK - 1) / tiling_.baseK, step_a = tiling_.stepKa > 0 ? tiling_.stepKa : 1, step_b = tiling_.stepKb > 0 ? tiling_.stepKb : 1;
        int64_t lanes = std::is_same_v<AT, int4b_t> ? 64 : 32 / int64_t(sizeof(AT));
        int64_t slots_a = tiling_.depthA1 / step_a, slots_b = tiling_.depthB1 / step_b, free_a = -1, free_b = -1;
        await(FIX, M, 2200 + count_c_ % (tiling_.dbL0C > 1 ? 2 : 1), 1, at);
        for (int64_t part = 0; part < deep; part++) {
            int64_t k = k_ - part * tiling_.baseK < tiling_.baseK ? k_ - part * tiling_.baseK : tiling_.baseK;
            if (part % step_a == 0) {
                int64_t whole = k_ - part * tiling_.baseK < step_a * tiling_.baseK ? k_ - part * tiling_.baseK : step_a * tiling_.baseK;
                free_a = bring<AT>(in_a_, a_, row * 65536 + part, slots_a, 2000, row * tiling_.baseM, part * tiling_.baseK, m, whole, at);
            }
            if (part % step_b == 0) {
                int64_t whole = k_ - part * tiling_.baseK < step_b * tiling_.baseK ? k_ - part * tiling_.baseK : step_b * tiling_.baseK;
                free_b = bring<BT>(in_b_, b_, column * 65536 + part, slots_b, 2100, part * tiling_.baseK, column * tiling_.baseN, whole, n, at);
            }
            int64_t slot = 2300 + count_0_++ % 2;
            await(M, MTE1, slot, 1, at);
            int64_t blocks = (k + lanes - 1) / lanes;
            note_chip("load_cbuf_to_ca", MTE1, L1_TO_L0A, (m + 15) / 16 * blocks * FRACTAL, at);
            note_chip("load_cbuf_to_cb", MTE1, L1_TO_L0B, (n + 15) / 16 * blocks * FRACTAL, at);
            bool last_a = part % step_a == step_a - 1 || part == deep - 1, last_b = part % step_b == step_b - 1 || part == deep - 1;
            if (last_a && free_a >= 0) mark(MTE1, MTE2, free_a, 1, at);
            if (last_b && free_b >= 0) mark(MTE1, MTE2, free_b, 1, at);
            mark(MTE1, M, slot, 0, at);
            await(MTE1, M, slot, 0, at);
            Instruction told = {"Matmul", "mad", MMAD, M, type_of<AT>(), 0, 0, {m, n, k, type_of<BT>(), std::is_same_v<W, int32_t> ? 3 : 0, 0, 0, 0}, {}, {}};
            issue(told, at);
            mark(M, MTE1, slot, 1, at);
        }
        mark(M, FIX, 2200 + count_c_ % (tiling_.dbL0C > 1 ? 2 : 1), 0, at);
        await(M, FIX, 2200 + count_c_ % (tiling_.dbL0C > 1 ? 2 : 1), 0, at);
    }
    void sums(std::vector<W> &c, int64_t row, int64_t column, int64_t m, int64_t n)
    {
        if (!npusim::computes_products) return;
        std::vector<W> a(size_t(m * k_)), b(size_t(k_ * n));
        a_.template read<AT>(a.data(), row * tiling_.baseM, 0, m, k_);
        b_.template read<BT>(b.data(), 0, column * tiling_.baseN, k_, n);
        c.assign(size_t(m * n), W(0));
        if (bias_)
            for (int64_t i = 0; i < m; i++)
                for (int64_t j = 0; j < n; j++) c[size_t(i * n + j)] = W(bias_[column * tiling_.baseN + j]);
        npusim::multiply(c.data(), a.data(), b.data(), m, n, k_);
    }
    /* One block of C, to its place in global memory or to a local tensor. */
    void block(int64_t row, int64_t column, uint8_t *gm, uint8_t *local, uint8_t atomic, bool packed, npusim::Site at)
    {
        using namespace npusim;
        int64_t m = m_ - row * tiling_.baseM < tiling_.baseM ? m_ - row * tiling_.baseM : tiling_.baseM, n = n_ - column * tiling_.baseN < tiling_.baseN ? n_ - column * tiling_.baseN : tiling_.baseN;
        schedule(row, column, m, n, at);
        std::vector<W> c;
        sums(c, row, column, m, n);
        int64_t size = sizeof(CT), lanes = size == 1 ? 32 : splits_channels() ? 8 : 16, columns = org_c_ ? org_c_ : org_n_;
        bool nz = C::format == CubeFormat::NZ;
        int64_t stride = C::format == CubeFormat::ND_ALIGN ? (columns + lanes - 1) / lanes * lanes : columns, first_row = row * tiling_.baseM, first_column = column * tiling_.baseN, lines = (org_m_ + 15) / 16 * 16;
        if (local || packed) lines = (m + 15) / 16 * 16, first_row = first_column = 0, stride = C::format == CubeFormat::ND_ALIGN ? (tiling_.baseN + lanes - 1) / lanes * lanes : packed && !local ? n : tiling_.baseN;
        if (local && !packed) stride = n_, first_row = row * tiling_.baseM, first_column = column * tiling_.baseN, lines = (m_ + 15) / 16 * 16;
        if (nz && gm && !packed) lines = org_m_;
        auto offset = [&](int64_t i, int64_t j) { return nz ? (first_column + j) / lanes * lines * lanes + (first_row + i) * lanes + (first_column + j) % lanes : (first_row + i) * stride + first_column + j; };
        Finish finish;
        finish.scalar = scalar_, finish.line = scales_ ? scales_ + column * tiling_.baseN : nullptr;
        if (quantised_ || (std::is_same_v<W, int32_t> && !std::is_same_v<CT, int32_t>)) finish.mode = DEQF16;
        CT *to = reinterpret_cast<CT *>(gm ? gm : local), one;
        int before = current->atomic;
        current->atomic = gm ? (atomic ? atomic : before) : 0;
        if (gm) {
            int64_t last = offset(m - 1, n - 1);
            global(uint64_t(reinterpret_cast<uintptr_t>(gm)), (last + 1) * size, "Matmul", at);
            note_copy("copy_matrix_cc_to_gm", FIX, L0C_TO_GM, type_of<CT>(), uint64_t(reinterpret_cast<uintptr_t>(to + offset(0, 0))), nz ? m * lanes * size : n * size, nz ? (n + lanes - 1) / lanes : m, false, (nz ? lines * lanes : stride) * size, at);
        } else note_chip("copy_matrix_cc_to_cbuf", FIX, L0C_TO_L1, m * n * size, at);
        for (int64_t i = 0; i < m && computes_products; i++)
            for (int64_t j = 0; j < n; j++) {
                finish.put(&one, c[size_t(i * n + j)], j);
                put(to + offset(i, j), &one, 1);
            }
        current->atomic = before;
        mark(FIX, M, 2200 + count_c_ % (tiling_.dbL0C > 1 ? 2 : 1), 1, at);
        count_c_++;
    }
    /* A block that its vector core takes from the workspace into UB. */
    void into_ub(const LocalTensor<CT> &local, int64_t row, int64_t column, npusim::Site at)
    {
        int64_t m = m_ - row * tiling_.baseM < tiling_.baseM ? m_ - row * tiling_.baseM : tiling_.baseM, n = n_ - column * tiling_.baseN < tiling_.baseN ? n_ - column * tiling_.baseN : tiling_.baseN;
        int64_t lanes = 16, size = C::format == CubeFormat::NZ ? (m + 15) / 16 * 16 * ((n + lanes - 1) / lanes * lanes) : (m - 1) * tiling_.baseN + n;
        npusim::Instruction told = {"GetTensorC", "copy_gm_to_ubuf", npusim::CHIP_COPY, npusim::MTE2, 0, 0, 1, {npusim::GM_TO_UB, int64_t(m * n * sizeof(CT)), 0, 0, 0, 0, 0, 0}, {}, {npusim::row(local, size)}};
        npusim::issue(told, at);
        npusim::link_pipes(npusim::MTE2, npusim::V, at); /* it comes back when the data are there */
    }
    void leave_in_l0c(const LocalTensor<CT> &local, int64_t row, int64_t column, npusim::Site at)
    {
        int64_t m = m_ - row * tiling_.baseM < tiling_.baseM ? m_ - row * tiling_.baseM : tiling_.baseM, n = n_ - column * tiling_.baseN < tiling_.baseN ? n_ - column * tiling_.baseN : tiling_.baseN;
        schedule(row, column, m, n, at);
        std::vector<W> c;
        sums(c, row, column, m, n);
        int64_t lines = (m + 15) / 16 * 16;
        npusim::Instruction told = {"GetTensorC", "mad", npusim::CHIP_COPY, npusim::M, 0, 0, 1, {-1, 0, 0, 0, 0, 0, 0, 0}, {}, {npusim::row(local, lines * ((n + 15) / 16 * 16))}};
        npusim::issue(told, at);
        for (int64_t i = 0; i < m && npusim::computes_products; i++)
            for (int64_t j = 0; j < n; j++) npusim::store(local.data() + j / 16 * lines * 16 + i * 16 + j % 16, c[size_t(i * n + j)]);
        npusim::mark(npusim::FIX, npusim::M, 2200 + count_c_ % (tiling_.dbL0C > 1 ? 2 : 1), 1, at);
        count_c_++;
    }
    void batches(const GlobalTensor<CT> &gm, int64_t batch_a, int64_t batch_b, bool packed, int64_t step_a, int64_t step_b, int64_t step_c, uint8_t atomic, npusim::Site at)
    {
        npusim::Matrix a = a_, b = b_;
        const BiasT *bias = bias_;
        int64_t most = batch_a > batch_b ? batch_a : batch_b, m = tiling_.singleCoreM, n = tiling_.singleCoreN, k = tiling_.singleCoreK;
        m_ = m, n_ = n, k_ = k, org_m_ = m, org_n_ = n, org_ka_ = org_kb_ = k;
        constexpr bool between = A::layout == LayoutMode::BSNGD || A::layout == LayoutMode::SBNGD;
        int64_t each_a = m * k, each_b = k * n, each_c = m * n;
        org_c_ = 0;
        a_.stride = a.transposed ? m : k, b_.stride = b.transposed ? k : n;
        if constexpr (between) {
            int64_t heads_a = int64_t(tiling_.ALayoutInfoN) * tiling_.ALayoutInfoG, heads_b = int64_t(tiling_.BLayoutInfoN) * tiling_.BLayoutInfoG, heads_c = int64_t(tiling_.CLayoutInfoN) * tiling_.CLayoutInfoG;
            each_a = tiling_.ALayoutInfoD, each_b = tiling_.BLayoutInfoD, each_c = tiling_.CLayoutInfoS2;
            a_.stride = heads_a * each_a, b_.stride = heads_b * each_b, org_c_ = heads_c * each_c;
        }
        (void)step_a, (void)step_b, (void)step_c, (void)packed;
        npusim::Matrix first_a = a_, first_b = b_;
        for (int64_t batch = 0; batch < most; batch++) {
            a_ = first_a, b_ = first_b;
            move<AT>(a_, batch % batch_a * each_a), move<BT>(b_, batch % batch_b * each_b);
            if (bias) {
                bool own = true;
                if constexpr (std::is_same_v<std::decay_t<decltype(CFG)>, MatmulConfig>) own = CFG.isBiasBatch;
                bias_ = bias + (own ? batch * n : 0);
            }
            in_a_.held.clear(), in_b_.held.clear();
            all(reinterpret_cast<uint8_t *>(gm.address + batch * each_c), nullptr, atomic, false, at);
        }
        a_ = a, b_ = b, bias_ = bias;
    }
};
template <typename A, typename B, typename C, typename Bias = C, const auto &CFG = CFG_NORM, typename CallBack = MatmulCallBackFunc<nullptr, nullptr, nullptr>, template <const auto &, typename...> class Policy = MatmulPolicy>
using Matmul = MatmulImpl<A, B, C, Bias, CFG, CallBack, Policy>;
template <typename T> struct GetMmDstType { using Type = float; };
template <> struct GetMmDstType<int8_t> { using Type = int32_t; };

} // namespace AscendC
namespace matmul {
using namespace AscendC;
} // namespace matmul
using AscendC::GetMatmulApiTiling;

#include "lib/matmul_service.h"

#ifdef __clang__
#pragma clang diagnostic pop
#endif

#endif

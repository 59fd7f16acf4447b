// d = (a b) by the scales of rows and columns, of int8 in rows, by CATLASS's kernels; its headers aren't part of npusim (-I CATLASS/include -DCATLASS_ARCH=2201).
// Macros: SIZE_M, SIZE_N, SIZE_K, FULL_A (a part of a stays in L1 as long as its rows do).
#include "catlass/gemm/kernel/quant_matmul_full_loadA_tla.hpp"
#include "catlass/gemm/kernel/quant_matmul_multistage_workspace.hpp"

#include "catlass/arch/arch.hpp"
#include "catlass/catlass.hpp"
#include "catlass/epilogue/block/block_epilogue.hpp"
#include "catlass/epilogue/dispatch_policy.hpp"
#include "catlass/epilogue/tile/tile_broadcast_mul.hpp"
#include "catlass/epilogue/tile/tile_broadcast_one_blk.hpp"
#include "catlass/epilogue/tile/tile_swizzle.hpp"
#include "catlass/gemm/block/block_mmad.hpp"
#include "catlass/gemm/block/block_swizzle.hpp"
#include "catlass/gemm/device/device_gemm.hpp"
#include "catlass/gemm/dispatch_policy.hpp"
#include "catlass/gemm/gemm_type.hpp"
#include "catlass/layout/layout.hpp"
#include "tla/layout.hpp"

#include "acl/acl.h"
#include "tiling/platform/platform_ascendc.h"

using namespace Catlass;
using Chip = Arch::AtlasA2;
using Rows = layout::RowMajor;
constexpr uint32_t BUFFERS = 2;
template <class T> using In = Gemm::GemmType<T, Rows>;

#if FULL_A
using Tile = tla::Shape<tla::Int<128>, tla::Int<256>, tla::Int<512>>;
using InL0 = tla::Shape<tla::Int<128>, tla::Int<256>, tla::Int<128>>;
using Scale = float;
using Result = bfloat16_t;
using Block = Gemm::Block::BlockMmadTla<Gemm::MmadFullLoadA<Chip, false, true, false, 1, false, 1, BUFFERS, BUFFERS, BUFFERS>, Tile, InL0, int8_t, int8_t, int32_t, void,
                                        Gemm::Tile::PackedTileCopyTla<Chip, int8_t, Rows, int8_t, Rows, int32_t, Rows, void>>;
using Finish = Epilogue::Block::BlockEpilogue<
    Epilogue::EpilogueAtlasA2PerTokenDequantTla<BUFFERS>, int32_t, Scale, Scale, Result, Epilogue::Tile::TileRowBroadcastMulTla<Chip, float, MatrixShape<32, 256>>,
    Epilogue::Tile::TileBroadcastOneBlkTla<Chip, float, 32>, Epilogue::Tile::TileOneBlkColumnBroadcastMulTla<Chip, float, MatrixShape<32, 256>>,
    Epilogue::Tile::TileCopyDequantTla<Chip, int32_t, Rows, Scale, Rows, Scale, Rows, Result, Rows>, Epilogue::Tile::EpilogueHorizontalTileSwizzle>;
using Order = std::conditional_t<(SIZE_M > 128), Gemm::Block::GemmIdentityBlockSwizzleL1FullLoad<1, 0>, Gemm::Block::GemmIdentityBlockSwizzle<3, 0>>;
using Kernel = Gemm::Kernel::QuantMatmulFullLoadATla<Block, Finish, Order, BUFFERS>;
#else
using Scale = half;
using Result = half;
using Block = Gemm::Block::BlockMmad<Gemm::MmadAtlasA2PreloadAsyncWithCallback<1, BUFFERS, BUFFERS, BUFFERS, 1, false, true>, GemmShape<128, 256, 512>, GemmShape<128, 256, 128>,
                                     In<int8_t>, In<int8_t>, In<int32_t>>;
using ScaleType = Gemm::GemmType<half, layout::VectorLayout>;
using Finish = Epilogue::Block::BlockEpilogue<
    Epilogue::EpilogueAtlasA2PerTokenDequant<BUFFERS>, In<int32_t>, ScaleType, ScaleType, In<half>, Epilogue::Tile::TileRowBroadcastMul<Chip, In<float>, MatrixShape<32, 256>>,
    Epilogue::Tile::TileBroadcastOneBlk<Chip, In<float>, 32>, Epilogue::Tile::TileOneBlkColumnBroadcastMul<Chip, In<float>, MatrixShape<32, 256>>,
    Epilogue::Tile::TileCopy<Chip, In<int32_t>, ScaleType, ScaleType, In<half>>, Epilogue::Tile::EpilogueHorizontalTileSwizzle>;
using Order = Gemm::Block::GemmIdentityBlockSwizzle<3, (SIZE_M > SIZE_N ? 0 : 1)>;
using Kernel = Gemm::Kernel::QuantMatmulMultiStageWorkspace<Block, Finish, Order, BUFFERS>;
#endif

int main()
{
    aclInit(nullptr);
    aclrtSetDevice(0);
    aclrtStream stream;
    aclrtCreateStream(&stream);
    auto allocate = [](size_t bytes) {
        void *made = nullptr;
        aclrtMalloc(&made, bytes, ACL_MEM_MALLOC_HUGE_FIRST);
        return static_cast<uint8_t *>(made);
    };
    uint8_t *a = allocate(size_t(SIZE_M) * SIZE_K), *b = allocate(size_t(SIZE_K) * SIZE_N), *columns = allocate(SIZE_N * sizeof(Scale)), *rows = allocate(SIZE_M * sizeof(Scale));
    uint8_t *d = allocate(size_t(SIZE_M) * SIZE_N * sizeof(Result));
    uint64_t synchronisation = 0;
    aclrtGetHardwareSyncAddr(reinterpret_cast<void **>(&synchronisation));
    uint32_t cores = platform_ascendc::PlatformAscendCManager::GetInstance()->GetCoreNumAic();
#if FULL_A
    auto tagged = [](auto element, uint32_t high, uint32_t wide) { return tla::MakeLayout<decltype(element), Rows>(high, wide); };
    Kernel::Arguments given{GemmCoord{SIZE_M, SIZE_N, SIZE_K}, cores, {a, tagged(int8_t(), SIZE_M, SIZE_K), b, tagged(int8_t(), SIZE_K, SIZE_N), nullptr},
                            {columns, tagged(Scale(), 1, SIZE_N), rows, tagged(Scale(), 1, SIZE_M), d, tagged(Result(), SIZE_M, SIZE_N)}};
    uint32_t blocks = CeilDiv(uint32_t(SIZE_M), 128u) * CeilDiv(uint32_t(SIZE_N), 256u);
    blocks = blocks < cores ? blocks : cores;
#else
    Kernel::Arguments given{GemmCoord{SIZE_M, SIZE_N, SIZE_K}, cores, a, b, columns, rows, d};
    uint32_t blocks = cores;
#endif
    Gemm::Device::DeviceGemm<Kernel> product;
    product.Initialize(given, allocate(product.GetWorkspaceSize(given)));
    product(stream, blocks, synchronisation);
    return aclrtSynchronizeStream(stream);
}

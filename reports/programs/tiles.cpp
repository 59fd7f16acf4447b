// c = a b by CATLASS's kernels, with the tiles and the order of blocks that macros name; its headers aren't part of npusim (-I CATLASS/include -DCATLASS_ARCH=2201).
// Macros: KERNEL_NAME (BasicMatmul, BasicMatmulPreload or UnpaddedMatmul), PRELOADS (its tiles come before they are needed), SIZE_M, SIZE_N, SIZE_K, ELEMENT, LAYOUT_B (RowMajor, ColumnMajor, zN), TILE_L1
// (M, N, K of a tile in L1), DEPTH_L0 (its K in L0), SWIZZLE_OFFSET and SWIZZLE_DIRECTION.
#include "catlass/gemm/kernel/basic_matmul.hpp"
#include "catlass/gemm/kernel/basic_matmul_preload.hpp"
#include "catlass/gemm/kernel/optimized_matmul.hpp"

#include "catlass/arch/arch.hpp"
#include "catlass/catlass.hpp"
#include "catlass/gemm/block/block_mmad.hpp"
#include "catlass/gemm/block/block_swizzle.hpp"
#include "catlass/gemm/device/device_gemm.hpp"
#include "catlass/gemm/dispatch_policy.hpp"
#include "catlass/gemm/gemm_type.hpp"
#include "catlass/layout/layout.hpp"

#include "acl/acl.h"
#include "tiling/platform/platform_ascendc.h"

#ifndef SWIZZLE_OFFSET
#define SWIZZLE_OFFSET 3
#endif
#ifndef SWIZZLE_DIRECTION
#define SWIZZLE_DIRECTION 0
#endif

using namespace Catlass;
namespace Catlass::Gemm::Kernel {
template <class Block, class Epilogue, class Order> using UnpaddedMatmul = OptimizedMatmul<void, void, Block, Epilogue, Order>;
}

template <int M1, int N1, int K1> struct Tiles {
    using InL1 = GemmShape<M1, N1, K1>;
    using InL0 = GemmShape<M1, N1, DEPTH_L0>;
};
using Policy = std::conditional_t<PRELOADS, Gemm::MmadAtlasA2Preload<true, true>, Gemm::MmadAtlasA2Pingpong<true>>;
using InA = Gemm::GemmType<ELEMENT, layout::RowMajor>;
using InB = Gemm::GemmType<ELEMENT, layout::LAYOUT_B>;
using OutC = Gemm::GemmType<ELEMENT, layout::RowMajor>;
using Block = Gemm::Block::BlockMmad<Policy, Tiles<TILE_L1>::InL1, Tiles<TILE_L1>::InL0, InA, InB, OutC>;
using Order = Gemm::Block::GemmIdentityBlockSwizzle<SWIZZLE_OFFSET, SWIZZLE_DIRECTION>;
using Kernel = Gemm::Kernel::KERNEL_NAME<Block, void, Order>;

int main()
{
    aclInit(nullptr);
    aclrtSetDevice(0);
    aclrtStream stream;
    aclrtCreateStream(&stream);
    uint8_t *a, *b, *c;
    auto allocate = [](uint8_t *&to, size_t elements) { aclrtMalloc(reinterpret_cast<void **>(&to), elements * sizeof(ELEMENT), ACL_MEM_MALLOC_HUGE_FIRST); };
    allocate(a, size_t(SIZE_M) * SIZE_K), allocate(b, size_t(SIZE_K) * SIZE_N), allocate(c, size_t(SIZE_M) * SIZE_N);
    uint64_t synchronisation = 0;
    aclrtGetHardwareSyncAddr(reinterpret_cast<void **>(&synchronisation));
    Gemm::Device::DeviceGemm<Kernel> product;
    product.Initialize({GemmCoord{SIZE_M, SIZE_N, SIZE_K}, a, b, c}, nullptr);
    product(stream, platform_ascendc::PlatformAscendCManager::GetInstance()->GetCoreNumAic(), synchronisation);
    return aclrtSynchronizeStream(stream);
}

/* Launches a kernel of another file, as programs did before <<<>>>; then one with too many blocks. */
#include <cstdio>
#include <vector>

#include "acl/acl.h"
#include "aclrtlaunch_scaled_add.h"

struct Sizes {
    uint32_t total;
    float scale;
};

int main()
{
    aclInit(nullptr);
    aclrtSetDevice(0);
    aclrtStream stream;
    aclrtCreateStream(&stream);
    std::vector<float> host(1024, 2.0f);
    void *memory[3];
    for (auto &each : memory) {
        if (aclrtMalloc(&each, 4096, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_ERROR_NONE) return 3;
        aclrtMemcpy(each, 4096, host.data(), 4096, ACL_MEMCPY_HOST_TO_DEVICE);
    }
    Sizes sizes{1024, 3.0f};
    int32_t parts[] = {8, 0};
    void *tiling;
    aclrtMalloc(&tiling, sizeof parts, ACL_MEM_MALLOC_HUGE_FIRST);
    aclrtMemcpy(tiling, sizeof parts, parts, sizeof parts, ACL_MEMCPY_HOST_TO_DEVICE);
    std::printf("launch %u\n", ACLRT_LAUNCH_KERNEL(scaled_add)(8, stream, memory[0], memory[1], memory[2], &sizes, 0.5, tiling));
    std::printf("synchronize %d\n", aclrtSynchronizeStream(stream));
    aclrtMemcpy(host.data(), 4096, memory[2], 4096, ACL_MEMCPY_DEVICE_TO_HOST);
    std::printf("ends %g %g\n", host[0], host[1023]);
    for (uint32_t blocks : {0u, 65536u})
        std::printf("launch %u\n", ACLRT_LAUNCH_KERNEL(scaled_add)(blocks, stream, memory[0], memory[1], memory[2], &sizes, 0.5, tiling));
    std::printf("arguments %u\n", ACLRT_LAUNCH_KERNEL(scaled_add)(8, stream, memory[0]));
    std::printf("last %d", aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL));
    for (int turn = 0; turn < 2; turn++) std::printf(" %d", aclrtGetLastError(ACL_RT_THREAD_LEVEL));
    std::printf("\n");
    return 0;
}

#include <cstdio>
#include <utility>
#include "acl/acl.h"
#include "aclnn_scaled_shift.h"
int main()
{
    aclInit(nullptr), aclrtSetDevice(0);
    float x[77], y[77], shift = 0.25f;
    for (float &each : x) each = 1.5f;
    int64_t size = 77, one = 1;
    auto tensor = [](void *host, int64_t *size) {
        void *place;
        aclrtMalloc(&place, size_t(*size) * 4, ACL_MEM_MALLOC_HUGE_FIRST);
        aclrtMemcpy(place, size_t(*size) * 4, host, size_t(*size) * 4, ACL_MEMCPY_HOST_TO_DEVICE);
        int64_t step = 1;
        return std::make_pair(place, aclCreateTensor(size, 1, ACL_FLOAT, &step, 0, ACL_FORMAT_ND, size, 1, place));
    };
    auto from = tensor(x, &size), added = tensor(&shift, &one), to = tensor(y, &size);
    uint64_t bytes = 0;
    aclOpExecutor *executor = nullptr;
    int planned = aclnnScaledShiftGetWorkspaceSize(from.second, added.second, 2.5, to.second, &bytes, &executor);
    int done = aclnnScaledShift(nullptr, 0, executor, nullptr);
    aclrtSynchronizeStream(nullptr);
    aclrtMemcpy(y, sizeof y, to.first, sizeof y, ACL_MEMCPY_DEVICE_TO_HOST);
    printf("%d %d %g %g\n", planned, done, y[0], y[76]);
}

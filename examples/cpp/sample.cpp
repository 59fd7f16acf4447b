// out = x + alpha * y on a simulated chip: one aclnn call, from aclInit to aclFinalize.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include "acl/acl.h"
#include "aclnnop/aclnn_add.h"

static void Check(int code, const char* what) {
  if (code != ACL_SUCCESS) {
    std::printf("%s: %d, %s\n", what, code, aclGetRecentErrMsg());
    std::exit(1);
  }
}

struct DeviceTensor {
  void* data = nullptr;
  aclTensor* tensor = nullptr;

  DeviceTensor(const std::vector<float>& host, const std::vector<int64_t>& shape) {
    size_t bytes = host.size() * sizeof(float);
    Check(aclrtMalloc(&data, bytes, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc");
    Check(aclrtMemcpy(data, bytes, host.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE), "aclrtMemcpy");
    std::vector<int64_t> strides(shape.size(), 1);
    for (size_t i = shape.size() - 1; i > 0; i--) strides[i - 1] = strides[i] * shape[i];
    tensor = aclCreateTensor(shape.data(), shape.size(), ACL_FLOAT, strides.data(), 0, ACL_FORMAT_ND, shape.data(),
                             shape.size(), data);
  }
  ~DeviceTensor() {
    aclDestroyTensor(tensor);
    aclrtFree(data);
  }
};

int main() {
  aclrtStream stream;
  Check(aclInit(nullptr), "aclInit");
  Check(aclrtSetDevice(0), "aclrtSetDevice");
  Check(aclrtCreateStream(&stream), "aclrtCreateStream");
  {
    const std::vector<int64_t> shape = {64, 4096};
    std::vector<float> host(64 * 4096, 1.0f);
    DeviceTensor x(host, shape), y(host, shape), out(host, shape);
    float factor = 3.0f;
    aclScalar* alpha = aclCreateScalar(&factor, ACL_FLOAT);

    uint64_t bytes = 0;
    aclOpExecutor* executor = nullptr;
    Check(aclnnAddGetWorkspaceSize(x.tensor, y.tensor, alpha, out.tensor, &bytes, &executor), "aclnnAddGetWorkspaceSize");
    void* workspace = nullptr;
    if (bytes > 0) Check(aclrtMalloc(&workspace, bytes, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc");
    Check(aclnnAdd(workspace, bytes, executor, stream), "aclnnAdd");
    Check(aclrtSynchronizeStream(stream), "aclrtSynchronizeStream");

    size_t size = host.size() * sizeof(float);
    Check(aclrtMemcpy(host.data(), size, out.data, size, ACL_MEMCPY_DEVICE_TO_HOST), "aclrtMemcpy");
    std::printf("1 + 3 * 1 = %g\n", host[0]);
    if (workspace != nullptr) aclrtFree(workspace);
    aclDestroyScalar(alpha);
  }
  aclrtDestroyStream(stream);
  aclrtResetDevice(0);
  aclFinalize();
  return 0;
}

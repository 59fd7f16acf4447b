// What every sample on the operator pages begins with.
#pragma once
#include <iostream>
#include <vector>
#include "acl/acl.h"
#include "aclnn/acl_meta.h"

#define CHECK_RET(cond, return_expr) \
  do {                               \
    if (!(cond)) {                   \
      return_expr;                   \
    }                                \
  } while (0)

#define LOG_PRINT(message, ...)     \
  do {                              \
    printf(message, ##__VA_ARGS__); \
  } while (0)

inline int64_t GetShapeSize(const std::vector<int64_t>& shape) {
  int64_t shapeSize = 1;
  for (auto i : shape) {
    shapeSize *= i;
  }
  return shapeSize;
}

inline int Init(int32_t deviceId, aclrtStream* stream) {
  auto ret = aclInit(nullptr);
  CHECK_RET(ret == ACL_SUCCESS, LOG_PRINT("aclInit failed. ERROR: %d\n", ret); return ret);
  ret = aclrtSetDevice(deviceId);
  CHECK_RET(ret == ACL_SUCCESS, LOG_PRINT("aclrtSetDevice failed. ERROR: %d\n", ret); return ret);
  ret = aclrtCreateStream(stream);
  CHECK_RET(ret == ACL_SUCCESS, LOG_PRINT("aclrtCreateStream failed. ERROR: %d\n", ret); return ret);
  return 0;
}

template <typename T>
int CreateAclTensor(const std::vector<T>& hostData, const std::vector<int64_t>& shape, void** deviceAddr,
                    aclDataType dataType, aclTensor** tensor, aclFormat format = aclFormat::ACL_FORMAT_ND) {
  auto size = GetShapeSize(shape) * sizeof(T);
  auto ret = aclrtMalloc(deviceAddr, size, ACL_MEM_MALLOC_HUGE_FIRST);
  CHECK_RET(ret == ACL_SUCCESS, LOG_PRINT("aclrtMalloc failed. ERROR: %d\n", ret); return ret);
  ret = aclrtMemcpy(*deviceAddr, size, hostData.data(), size, ACL_MEMCPY_HOST_TO_DEVICE);
  CHECK_RET(ret == ACL_SUCCESS, LOG_PRINT("aclrtMemcpy failed. ERROR: %d\n", ret); return ret);
  std::vector<int64_t> strides(shape.size(), 1);
  for (int64_t i = shape.size() - 2; i >= 0; i--) {
    strides[i] = shape[i + 1] * strides[i + 1];
  }
  *tensor = aclCreateTensor(shape.data(), shape.size(), dataType, strides.data(), 0, format, shape.data(),
                            shape.size(), *deviceAddr);
  return 0;
}

// The second phase, the synchronise and the copy back, as in the samples.
#define EXECUTE(api, ...)                                                                       \
  do {                                                                                          \
    uint64_t workspaceSize = 0;                                                                 \
    aclOpExecutor* executor = nullptr;                                                          \
    auto status = api##GetWorkspaceSize(__VA_ARGS__, &workspaceSize, &executor);                \
    CHECK_RET(status == ACL_SUCCESS, LOG_PRINT("first phase: %d\n", status); return status);    \
    void* workspaceAddr = nullptr;                                                              \
    if (workspaceSize > 0) {                                                                    \
      status = aclrtMalloc(&workspaceAddr, workspaceSize, ACL_MEM_MALLOC_HUGE_FIRST);           \
      CHECK_RET(status == ACL_SUCCESS, LOG_PRINT("workspace: %d\n", status); return status);    \
    }                                                                                           \
    status = api(workspaceAddr, workspaceSize, executor, stream);                               \
    CHECK_RET(status == ACL_SUCCESS, LOG_PRINT("second phase: %d\n", status); return status);   \
    status = aclrtSynchronizeStream(stream);                                                    \
    if (workspaceSize > 0) {                                                                    \
      aclrtFree(workspaceAddr);                                                                 \
    }                                                                                           \
    CHECK_RET(status == ACL_SUCCESS, LOG_PRINT("synchronize: %d\n", status); return status);    \
  } while (0)

inline int PrintOutResult(const char* name, const std::vector<int64_t>& shape, void* deviceAddr) {
  auto size = GetShapeSize(shape);
  std::vector<float> resultData(size, 0);
  auto ret = aclrtMemcpy(resultData.data(), resultData.size() * sizeof(resultData[0]), deviceAddr,
                         size * sizeof(resultData[0]), ACL_MEMCPY_DEVICE_TO_HOST);
  CHECK_RET(ret == ACL_SUCCESS, LOG_PRINT("copy back: %d\n", ret); return ret);
  for (int64_t i = 0; i < size; i++) {
    LOG_PRINT("%s[%ld] is: %f\n", name, i, resultData[i]);
  }
  return ACL_SUCCESS;
}

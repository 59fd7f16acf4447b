// A weight that is brought into FRACTAL_NZ where it lies, is multiplied, and is read back.
#include "sample.h"
#include "aclnnop/aclnn_matmul.h"
#include "aclnnop/aclnn_npu_format_cast.h"
#include "aclnnop/aclnn_trans_matmul_weight.h"

int main() {
  aclrtStream stream;
  CHECK_RET(Init(0, &stream) == 0, return 1);
  const int64_t m = 3, k = 40, n = 24;
  std::vector<std::vector<int64_t>> shapes = {{m, k}, {k, n}, {m, n}, {k, n}};
  uint64_t room = 0;
  aclIntArray* sizes = aclCreateIntArray(shapes[1].data(), 2);
  CHECK_RET(aclnnCalculateMatmulWeightSizeV2(sizes, ACL_FLOAT16, &room) == 0, return 2);
  LOG_PRINT("room[] is: %lu\n", room);
  void* address[4];
  aclTensor* tensor[4];
  for (int i = 0; i < 4; i++) {
    int64_t count = GetShapeSize(shapes[i]);
    std::vector<aclFloat16> values(count, 0);
    for (int64_t j = 0; i < 2 && j < count; j++) values[j] = aclFloatToFloat16(float(j % (7 + i)) - 3);
    aclrtMalloc(&address[i], (i == 1 ? room : count) * 2, ACL_MEM_MALLOC_HUGE_FIRST);
    aclrtMemcpy(address[i], count * 2, values.data(), count * 2, ACL_MEMCPY_HOST_TO_DEVICE);
    tensor[i] = aclCreateTensor(shapes[i].data(), 2, ACL_FLOAT16, nullptr, 0, ACL_FORMAT_ND, shapes[i].data(), 2,
                                address[i]);
  }
  EXECUTE(aclnnTransMatmulWeight, tensor[1]);
  aclFormat format;
  aclGetFormat(tensor[1], &format);
  LOG_PRINT("format[] is: %d\n", format);
  EXECUTE(aclnnMatmulWeightNz, tensor[0], tensor[1], tensor[2], int8_t(1));
  EXECUTE(aclnnNpuFormatCast, tensor[1], tensor[3]);
  const char* names[] = {"", "", "out", "weight"};
  for (int i = 2; i < 4; i++) {
    std::vector<aclFloat16> values(GetShapeSize(shapes[i]));
    aclrtMemcpy(values.data(), values.size() * 2, address[i], values.size() * 2, ACL_MEMCPY_DEVICE_TO_HOST);
    for (auto bits : values) LOG_PRINT("%s[] is: %f\n", names[i], aclFloat16ToFloat(bits));
  }
  uint64_t size;
  aclOpExecutor* executor;
  LOG_PRINT("again[] is: %d\n", aclnnTransMatmulWeightGetWorkspaceSize(tensor[1], &size, &executor));
  aclDestroyIntArray(sizes);
  for (auto each : tensor) aclDestroyTensor(each);
  for (auto each : address) aclrtFree(each);
  aclrtDestroyStream(stream);
  aclrtResetDevice(0);
  aclFinalize();
  return 0;
}

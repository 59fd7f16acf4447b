// Operators that npusim has without a page of their own: scalars, tensor lists and data types.
#include "sample.h"
#include "aclnnop/aclnn_add.h"
#include "aclnnop/aclnn_cast.h"
#include "aclnnop/aclnn_cat.h"
#include "aclnnop/aclnn_softmax.h"

int main() {
  aclrtStream stream;
  CHECK_RET(Init(0, &stream) == 0, return 1);
  void* address[6];
  aclTensor* tensor[6];
  std::vector<std::vector<int64_t>> shapes = {{2, 2}, {2, 2}, {2, 2}, {2, 4}, {2, 4}, {2, 2}};
  std::vector<std::vector<float>> data = {{1, 2, 3, 4}, {10, 20, 30, 40}, {0, 0, 0, 0}};
  for (int i = 0; i < 6; i++) {
    auto values = i < 2 ? data[i] : std::vector<float>(GetShapeSize(shapes[i]), 0);
    CreateAclTensor(values, shapes[i], &address[i], ACL_FLOAT, &tensor[i]);
  }
  float one = 1;
  aclScalar* alpha = aclCreateScalar(&one, ACL_FLOAT);
  EXECUTE(aclnnAdd, tensor[0], tensor[1], alpha, tensor[2]);
  PrintOutResult("add", shapes[2], address[2]);
  // A list owns its tensors, so it gets some of its own on the same memory.
  aclTensor* members[2];
  for (int i = 0; i < 2; i++) {
    members[i] = aclCreateTensor(shapes[i].data(), 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, shapes[i].data(), 2,
                                 address[i]);
  }
  aclTensorList* list = aclCreateTensorList(members, 2);
  EXECUTE(aclnnCat, list, 1, tensor[3]);
  PrintOutResult("cat", shapes[3], address[3]);
  EXECUTE(aclnnSoftmax, tensor[3], -1, tensor[4]);
  PrintOutResult("softmax", shapes[4], address[4]);
  aclTensor* half = aclCreateTensor(shapes[5].data(), 2, ACL_FLOAT16, nullptr, 0, ACL_FORMAT_ND, shapes[5].data(), 2,
                                    address[5]);
  EXECUTE(aclnnCast, tensor[1], ACL_FLOAT16, half);
  uint16_t halves[4];
  aclrtMemcpy(halves, 8, address[5], 8, ACL_MEMCPY_DEVICE_TO_HOST);
  for (auto bits : halves) LOG_PRINT("cast[] is: %f\n", aclFloat16ToFloat(bits));
  aclDestroyTensor(half);
  aclDestroyTensorList(list);
  aclDestroyScalar(alpha);
  for (auto each : tensor) aclDestroyTensor(each);
  for (auto each : address) aclrtFree(each);
  aclrtDestroyStream(stream);
  aclrtResetDevice(0);
  aclFinalize();
  return 0;
}

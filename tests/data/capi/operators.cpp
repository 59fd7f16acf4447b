// One call of each operator, with the numbers that the samples of the operator pages use.
#include <cstring>
#include <string>
#include <thread>
#include "sample.h"
#include "aclnnop/aclnn_binary_cross_entropy_backward.h"
#include "aclnnop/aclnn_group_norm_backward.h"
#include "aclnnop/aclnn_matmul.h"
#include "aclnnop/aclnn_multi_scale_deformable_attention_grad.h"
#include "aclnnop/aclnn_roi_align_v2_backward.h"
#include "aclnnop/aclnn_upsample_nearest_exact1d_backward.h"

static aclrtStream stream;

static int RoiAlign() {
  std::vector<float> gradData = {4.5, 6.5, 8.5, 16.5, 18.5, 20.5, 28.5, 30.5, 32.5};
  std::vector<float> boxData = {0, -2, -2, 22, 22};
  std::vector<int64_t> outShape = {1, 1, 6, 6};
  std::vector<float> outData(36, 0);
  void *gradAddr = nullptr, *boxAddr = nullptr, *outAddr = nullptr;
  aclTensor *grad = nullptr, *boxes = nullptr, *out = nullptr;
  CreateAclTensor(gradData, {1, 1, 3, 3}, &gradAddr, aclDataType::ACL_FLOAT, &grad, aclFormat::ACL_FORMAT_NCHW);
  CreateAclTensor(boxData, {1, 5}, &boxAddr, aclDataType::ACL_FLOAT, &boxes);
  CreateAclTensor(outData, outShape, &outAddr, aclDataType::ACL_FLOAT, &out, aclFormat::ACL_FORMAT_NCHW);
  aclIntArray* inputShape = aclCreateIntArray(outShape.data(), outShape.size());
  EXECUTE(aclnnRoiAlignV2Backward, grad, boxes, inputShape, 3, 3, 0.25f, 2, false, out);
  PrintOutResult("result", outShape, outAddr);
  aclDestroyTensor(grad);
  aclDestroyTensor(boxes);
  aclDestroyTensor(out);
  aclDestroyIntArray(inputShape);
  aclrtFree(gradAddr);
  aclrtFree(boxAddr);
  aclrtFree(outAddr);
  return 0;
}

static int Upsample() {
  std::vector<float> gradData = {1, 2, 3, 4, 5};
  std::vector<int64_t> outputSizeData = {5}, inputSizeData = {1, 1, 7};
  std::vector<int64_t> outShape = {1, 1, 7};
  void *gradAddr = nullptr, *outAddr = nullptr;
  aclTensor *grad = nullptr, *out = nullptr;
  CreateAclTensor(gradData, {1, 1, 5}, &gradAddr, aclDataType::ACL_FLOAT, &grad, aclFormat::ACL_FORMAT_NCL);
  CreateAclTensor(std::vector<float>(7, 0), outShape, &outAddr, aclDataType::ACL_FLOAT, &out,
                  aclFormat::ACL_FORMAT_NCL);
  aclIntArray* outputSize = aclCreateIntArray(outputSizeData.data(), outputSizeData.size());
  aclIntArray* inputSize = aclCreateIntArray(inputSizeData.data(), inputSizeData.size());
  EXECUTE(aclnnUpsampleNearestExact1dBackward, grad, outputSize, inputSize, 0.0, out);
  PrintOutResult("result", outShape, outAddr);
  aclDestroyTensor(grad);
  aclDestroyTensor(out);
  aclDestroyIntArray(outputSize);
  aclDestroyIntArray(inputSize);
  aclrtFree(gradAddr);
  aclrtFree(outAddr);
  return 0;
}

static int DeformableAttention(bool outOfRange) {
  // The page's sample fills INT32 tensors from floats; so do we, the bits are what they are.
  std::vector<std::vector<int64_t>> shapes = {{1, 1, 1, 8},        {1, 2},         {1},
                                              {1, 32, 1, 1, 1, 2}, {1, 32, 1, 1, 1}, {1, 32, 8}};
  std::vector<std::vector<float>> data = {std::vector<float>(8, 1),  {1, 1},
                                          {0},                       std::vector<float>(64, 0),
                                          std::vector<float>(32, 1), std::vector<float>(256, 1)};
  if (outOfRange) {
    int32_t start = 5;
    memcpy(data[2].data(), &start, sizeof(start));
  }
  std::vector<std::vector<int64_t>> outShapes = {shapes[0], shapes[3], shapes[4]};
  std::vector<void*> inAddr(6, nullptr), outAddr(3, nullptr);
  std::vector<aclTensor*> in(6, nullptr), out(3, nullptr);
  for (int i = 0; i < 6; i++) {
    bool isIndex = i == 1 || i == 2;
    CreateAclTensor(data[i], shapes[i], &inAddr[i], isIndex ? aclDataType::ACL_INT32 : aclDataType::ACL_FLOAT, &in[i]);
  }
  for (int i = 0; i < 3; i++) {
    std::vector<float> zeros(GetShapeSize(outShapes[i]), 0);
    CreateAclTensor(zeros, outShapes[i], &outAddr[i], aclDataType::ACL_FLOAT, &out[i]);
  }
  EXECUTE(aclnnMultiScaleDeformableAttentionGrad, in[0], in[1], in[2], in[3], in[4], in[5], out[0], out[1], out[2]);
  PrintOutResult("result", outShapes[0], outAddr[0]);
  for (auto tensor : in) aclDestroyTensor(tensor);
  for (auto tensor : out) aclDestroyTensor(tensor);
  for (auto address : inAddr) aclrtFree(address);
  for (auto address : outAddr) aclrtFree(address);
  return 0;
}

static int GroupNorm() {
  const int64_t N = 2, C = 3, HxW = 4, group = 1;
  std::vector<float> ascending(N * C * HxW);
  for (size_t i = 0; i < ascending.size(); i++) ascending[i] = i + 1;
  std::vector<std::vector<int64_t>> shapes = {{N, C, HxW}, {N, C, HxW}, {N, group}, {N, group}, {C},
                                              {N, C, HxW}, {C},         {C}};
  std::vector<std::vector<float>> data = {ascending, ascending, {6.5, 18.5}, {0.2896827f, 0.2896827f}, {1, 1, 1},
                                          std::vector<float>(24, 0), std::vector<float>(3, 0), std::vector<float>(3, 0)};
  std::vector<void*> address(8, nullptr);
  std::vector<aclTensor*> tensor(8, nullptr);
  for (int i = 0; i < 8; i++) {
    CreateAclTensor(data[i], shapes[i], &address[i], aclDataType::ACL_FLOAT, &tensor[i]);
  }
  std::array<bool, 3> mask = {true, true, true};  // <array> comes with the operator's header
  auto outputMask = aclCreateBoolArray(mask.data(), mask.size());
  EXECUTE(aclnnGroupNormBackward, tensor[0], tensor[1], tensor[2], tensor[3], tensor[4], N, C, HxW, group, outputMask,
          tensor[5], tensor[6], tensor[7]);
  PrintOutResult("gradInputResultData", shapes[5], address[5]);
  PrintOutResult("gradGammaOutResultData", shapes[6], address[6]);
  PrintOutResult("gradBetaOutResultData", shapes[7], address[7]);
  for (auto each : tensor) aclDestroyTensor(each);
  for (auto each : address) aclrtFree(each);
  aclDestroyBoolArray(outputMask);
  return 0;
}

static int CrossEntropyOn(aclrtStream stream) {
  std::vector<int64_t> shape = {2, 2};
  std::vector<float> values = {1, 0.3f, 0.5f, 0.1f, 0};
  std::vector<void*> address(5, nullptr);
  std::vector<aclTensor*> tensor(5, nullptr);
  for (int i = 0; i < 5; i++) {
    CreateAclTensor(std::vector<float>(4, values[i]), shape, &address[i], aclDataType::ACL_FLOAT, &tensor[i]);
  }
  EXECUTE(aclnnBinaryCrossEntropyBackward, tensor[0], tensor[1], tensor[2], tensor[3], 0, tensor[4]);
  PrintOutResult("result", shape, address[4]);
  for (auto each : tensor) aclDestroyTensor(each);
  for (auto each : address) aclrtFree(each);
  return 0;
}

static int Matmul() {
  std::vector<std::vector<int64_t>> shapes = {{2, 3}, {3, 2}, {2, 2}};
  std::vector<std::vector<float>> data = {{1, 2, 3, 4, 5, 6}, {1, 0, 0, 1, 1, 1}, {0, 0, 0, 0}};
  std::vector<void*> address(3, nullptr);
  std::vector<aclTensor*> tensor(3, nullptr);
  for (int i = 0; i < 3; i++) {
    CreateAclTensor(data[i], shapes[i], &address[i], aclDataType::ACL_FLOAT, &tensor[i]);
  }
  int8_t cubeMathType = 1;
  EXECUTE(aclnnMatmul, tensor[0], tensor[1], tensor[2], cubeMathType);
  PrintOutResult("result", shapes[2], address[2]);
  for (auto each : tensor) aclDestroyTensor(each);
  for (auto each : address) aclrtFree(each);
  return 0;
}

// Several threads, each with its own stream; a thread sets the device for itself.
static int Threads() {
  std::vector<int> codes(3, -1);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < codes.size(); i++) {
    threads.emplace_back([i, &codes] {
      aclrtStream own;
      if (aclrtCreateStream(&own) != ACL_ERROR_RT_CONTEXT_NULL) return;
      if (aclrtSetDevice(0) != 0 || aclrtCreateStream(&own) != 0) return;
      for (int round = 0; round < 5; round++) {
        codes[i] = CrossEntropyOn(own);
        if (codes[i] != 0) return;
      }
      codes[i] = aclrtDestroyStream(own);
    });
  }
  for (auto& thread : threads) thread.join();
  return codes[0] | codes[1] | codes[2];
}

int main(int argc, char** argv) {
  int failures = 0;
  auto ret = Init(0, &stream);
  CHECK_RET(ret == 0, return 1);
  for (int i = 1; i < argc; i++) {
    std::string which = argv[i];
    LOG_PRINT("## %s\n", argv[i]);
    int code = -1;
    if (which == "RoiAlignV2Backward") code = RoiAlign();
    if (which == "UpsampleNearestExact1dBackward") code = Upsample();
    if (which == "MultiScaleDeformableAttentionGrad") code = DeformableAttention(false);
    if (which == "OutOfRange") code = DeformableAttention(true);
    if (which == "GroupNormBackward") code = GroupNorm();
    if (which == "BinaryCrossEntropyBackward") code = CrossEntropyOn(stream);
    if (which == "Matmul") code = Matmul();
    if (which == "Threads") code = Threads();
    LOG_PRINT("code: %d\n", code);
    failures += code != 0;
  }
  aclrtDestroyStream(stream);
  aclrtResetDevice(0);
  aclFinalize();
  return failures;
}

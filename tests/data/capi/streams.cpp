// Views that aren't contiguous, 16-bit floats, two streams and events. Writes the outputs' storage to
// the folder that is its argument, and prints times.
#include <cstring>
#include <fstream>
#include <string>
#include "sample.h"
#include "aclnnop/aclnn_binary_cross_entropy_backward.h"
#include "aclnnop/aclnn_group_norm_backward.h"

#define MUST(call)                                                                             \
  do {                                                                                         \
    auto code = (call);                                                                        \
    if (code != 0) {                                                                           \
      const char* why = aclGetRecentErrMsg();                                                  \
      LOG_PRINT("line %d: %d: %s\n", __LINE__, static_cast<int>(code), why ? why : "no reason"); \
      exit(1);                                                                                 \
    }                                                                                          \
  } while (0)

// Multiples of 1/128 below 1: exact in every floating type.
static float Number(int64_t i, int64_t salt) { return static_cast<float>(1 + (i * 37 + salt) % 100) / 128; }

struct Storage {
  void* address = nullptr;
  size_t bytes = 0;
};

static uint16_t Half(float value) { return aclFloatToFloat16(value); }

static uint16_t Brain(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return static_cast<uint16_t>(bits >> 16);
}

template <typename T>
static Storage Fill(int64_t count, int64_t salt, T (*convert)(float)) {
  std::vector<T> data(count);
  for (int64_t i = 0; i < count; i++) data[i] = convert(Number(i, salt));
  Storage made;
  made.bytes = count * sizeof(T);
  MUST(aclrtMalloc(&made.address, made.bytes, ACL_MEM_MALLOC_HUGE_FIRST));
  MUST(aclrtMemcpy(made.address, made.bytes, data.data(), made.bytes, ACL_MEMCPY_HOST_TO_DEVICE));
  return made;
}

static float Same(float value) { return value; }

static aclTensor* View(Storage storage, aclDataType type, std::vector<int64_t> shape, std::vector<int64_t> strides,
                       int64_t offset, std::vector<int64_t> storageShape) {
  return aclCreateTensor(shape.data(), shape.size(), type, strides.data(), offset, ACL_FORMAT_ND, storageShape.data(),
                         storageShape.size(), storage.address);
}

static aclTensor* Plain(Storage storage, aclDataType type, std::vector<int64_t> shape) {
  return aclCreateTensor(shape.data(), shape.size(), type, nullptr, 0, ACL_FORMAT_ND, shape.data(), shape.size(),
                         storage.address);
}

static void Save(const std::string& path, Storage storage) {
  std::vector<char> bytes(storage.bytes);
  MUST(aclrtMemcpy(bytes.data(), bytes.size(), storage.address, storage.bytes, ACL_MEMCPY_DEVICE_TO_HOST));
  std::ofstream(path, std::ios::binary).write(bytes.data(), bytes.size());
}

static void* Workspace(uint64_t size) {
  void* address = nullptr;
  if (size > 0) MUST(aclrtMalloc(&address, size, ACL_MEM_MALLOC_NORMAL_ONLY));
  return address;
}

static void Print(const char* name, aclrtEvent from, aclrtEvent to) {
  float ms = -1;
  MUST(aclrtEventElapsedTime(&ms, from, to));
  LOG_PRINT("%s %.9g\n", name, ms);
}

int main(int argc, char** argv) {
  std::string folder = argc > 1 ? argv[1] : ".";
  bool hasBrainFloat = argc > 2;
  MUST(aclInit(nullptr));
  MUST(aclrtSetDevice(0));
  aclrtStream one, two;
  MUST(aclrtCreateStream(&one));
  MUST(aclrtCreateStream(&two));
  aclrtEvent begin, middle, end, begin2, middle2, end2;
  for (auto event : {&begin, &middle, &end, &begin2, &middle2, &end2}) MUST(aclrtCreateEvent(event));

  // Cross entropy on a transposed self, a slice of a wider target and a transposed output.
  auto grad = Fill<float>(1, 5, Same);
  auto self = Fill<float>(48 * 32, 1, Same);
  auto target = Fill<float>(32 * 64, 2, Same);
  auto out = Fill<float>(48 * 32, 3, Same);
  aclTensor* viewed[] = {View(grad, ACL_FLOAT, {32, 48}, {0, 0}, 0, {1}),
                         View(self, ACL_FLOAT, {32, 48}, {1, 32}, 0, {48, 32}),
                         View(target, ACL_FLOAT, {32, 48}, {64, 1}, 8, {32, 64}),
                         View(out, ACL_FLOAT, {32, 48}, {1, 32}, 0, {48, 32})};
  uint64_t size1 = 0, size2 = 0, size3 = 0;
  aclOpExecutor *executor1 = nullptr, *executor2 = nullptr, *executor3 = nullptr;
  MUST(aclnnBinaryCrossEntropyBackwardGetWorkspaceSize(viewed[0], viewed[1], viewed[2], nullptr, 1, viewed[3], &size1,
                                                       &executor1));

  // Group norm in FP16 on the other stream.
  std::vector<int64_t> image = {2, 6, 40}, groups = {2, 3}, channels = {6};
  Storage norm[] = {Fill<uint16_t>(480, 1, Half), Fill<uint16_t>(480, 2, Half), Fill<uint16_t>(6, 3, Half),
                    Fill<uint16_t>(6, 4, Half),   Fill<uint16_t>(6, 5, Half),   Fill<uint16_t>(480, 0, Half),
                    Fill<uint16_t>(6, 0, Half),   Fill<uint16_t>(6, 0, Half)};
  std::vector<int64_t>* shapes[] = {&image, &image, &groups, &groups, &channels, &image, &channels, &channels};
  aclTensor* tensors[8];
  for (int i = 0; i < 8; i++) tensors[i] = Plain(norm[i], ACL_FLOAT16, *shapes[i]);
  bool wanted[] = {true, true, true};
  auto mask = aclCreateBoolArray(wanted, 3);
  MUST(aclnnGroupNormBackwardGetWorkspaceSize(tensors[0], tensors[1], tensors[2], tensors[3], tensors[4], 2, 6, 40, 3,
                                              mask, tensors[5], tensors[6], tensors[7], &size2, &executor2));

  // Cross entropy in BF16, or FP16 where there is no BF16.
  auto convert = hasBrainFloat ? Brain : Half;
  auto type = hasBrainFloat ? ACL_BF16 : ACL_FLOAT16;
  Storage low[] = {Fill<uint16_t>(3000, 1, convert), Fill<uint16_t>(3000, 2, convert), Fill<uint16_t>(3000, 3, convert),
                   Fill<uint16_t>(3000, 0, convert)};
  aclTensor* lows[4];
  for (int i = 0; i < 4; i++) lows[i] = Plain(low[i], type, {30, 100});
  MUST(aclnnBinaryCrossEntropyBackwardGetWorkspaceSize(lows[0], lows[1], lows[2], nullptr, 0, lows[3], &size3,
                                                       &executor3));

  void *workspace1 = Workspace(size1), *workspace2 = Workspace(size2), *workspace3 = Workspace(size3);
  MUST(aclrtRecordEvent(begin, one));
  MUST(aclnnBinaryCrossEntropyBackward(workspace1, size1, executor1, one));
  MUST(aclrtRecordEvent(middle, one));
  MUST(aclrtRecordEvent(begin2, two));
  MUST(aclnnGroupNormBackward(workspace2, size2, executor2, two));
  MUST(aclrtRecordEvent(middle2, two));
  MUST(aclrtStreamWaitEvent(two, middle));
  MUST(aclnnBinaryCrossEntropyBackward(workspace3, size3, executor3, two));
  MUST(aclrtRecordEvent(end2, two));
  std::vector<float> before(48 * 32);
  MUST(aclrtMemcpy(before.data(), out.bytes, out.address, out.bytes, ACL_MEMCPY_DEVICE_TO_HOST));
  LOG_PRINT("before %g\n", before[0]);
  MUST(aclrtSynchronizeStream(two));
  MUST(aclrtSynchronizeStream(one));
  MUST(aclrtRecordEvent(end, one));
  MUST(aclrtSynchronizeEvent(end));
  Print("viewed_ms", begin, middle);
  Print("norm_ms", begin2, middle2);
  Print("both_ms", begin2, end2);
  Print("all_ms", begin, end);

  Save(folder + "/viewed.bin", out);
  Save(folder + "/gradInput.bin", norm[5]);
  Save(folder + "/gradGammaOut.bin", norm[6]);
  Save(folder + "/gradBetaOut.bin", norm[7]);
  Save(folder + "/low.bin", low[3]);

  for (auto tensor : viewed) MUST(aclDestroyTensor(tensor));
  for (auto tensor : tensors) MUST(aclDestroyTensor(tensor));
  for (auto tensor : lows) MUST(aclDestroyTensor(tensor));
  MUST(aclDestroyBoolArray(mask));
  for (auto each : {grad, self, target, out}) MUST(aclrtFree(each.address));
  for (auto each : norm) MUST(aclrtFree(each.address));
  for (auto each : low) MUST(aclrtFree(each.address));
  for (auto workspace : {workspace1, workspace2, workspace3}) {
    if (workspace) MUST(aclrtFree(workspace));
  }
  for (auto event : {begin, middle, end, begin2, middle2, end2}) MUST(aclrtDestroyEvent(event));
  MUST(aclrtDestroyStream(one));
  MUST(aclrtDestroyStream(two));
  MUST(aclrtResetDevice(0));
  MUST(aclFinalize());
  return 0;
}

// Everything that a C programmer can get wrong, and what the functions answer: a line per attempt.
#include <cstring>
#include "sample.h"
#include "aclnnop/aclnn_binary_cross_entropy_backward.h"
#include "aclnnop/aclnn_group_norm_backward.h"

#define TRY(name, call) LOG_PRINT("%s %d\n", name, static_cast<int>(call))
#define IS_NULL(name, call) LOG_PRINT("%s %s\n", name, (call) == nullptr ? "null" : "given")

static const int64_t kShape[] = {4, 4};
static const int64_t kStrides[] = {4, 1};
static const size_t kBytes = 64;

static aclTensor* Tensor(void* address, aclDataType type = ACL_FLOAT) {
  return aclCreateTensor(kShape, 2, type, kStrides, 0, ACL_FORMAT_ND, kShape, 2, address);
}

static void* Memory(size_t bytes = kBytes) {
  void* address = nullptr;
  aclrtMalloc(&address, bytes, ACL_MEM_MALLOC_HUGE_FIRST);
  return address;
}

static aclrtStream stream;

struct Planned {
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  aclnnStatus status = 0;
};

static Planned Plan(aclTensor* grad, aclTensor* self, aclTensor* target, aclTensor* out) {
  Planned made;
  made.status = aclnnBinaryCrossEntropyBackwardGetWorkspaceSize(grad, self, target, self, 0, out, &made.size,
                                                                &made.executor);
  return made;
}

static void Beginning() {
  TRY("finalize_first", aclFinalize());
  TRY("device_before_init", aclrtSetDevice(0));
  TRY("reset_before_init", aclrtResetDevice(0));
  TRY("init_without_file", aclInit("/nowhere/acl.json"));
  TRY("init", aclInit(nullptr));
  TRY("init_twice", aclInit(nullptr));
  void* address = nullptr;
  TRY("malloc_without_device", aclrtMalloc(&address, 8, ACL_MEM_MALLOC_HUGE_FIRST));
  TRY("stream_without_device", aclrtCreateStream(&stream));
  TRY("device_99", aclrtSetDevice(99));
  TRY("device_negative", aclrtSetDevice(-1));
  TRY("reset_unset_device", aclrtResetDevice(3));
  TRY("device", aclrtSetDevice(0));
}

static void MemoryMisuse(bool wild) {
  void* address = nullptr;
  char host[256] = {0};
  TRY("malloc_null", aclrtMalloc(nullptr, 8, ACL_MEM_MALLOC_HUGE_FIRST));
  TRY("malloc_zero", aclrtMalloc(&address, 0, ACL_MEM_MALLOC_HUGE_FIRST));
  TRY("malloc_too_much", aclrtMalloc(&address, 1ull << 50, ACL_MEM_MALLOC_HUGE_FIRST));
  TRY("malloc_policy", aclrtMalloc(&address, 8, static_cast<aclrtMemMallocPolicy>(77)));
  char* block = static_cast<char*>(Memory());
  TRY("free_null", aclrtFree(nullptr));
  TRY("free_inside", aclrtFree(block + 8));
  TRY("free_host", aclrtFree(host));
  TRY("copy", aclrtMemcpy(block + 32, 32, host, 32, ACL_MEMCPY_HOST_TO_DEVICE));
  TRY("copy_null", aclrtMemcpy(nullptr, 8, host, 8, ACL_MEMCPY_HOST_TO_DEVICE));
  TRY("copy_dest_max", aclrtMemcpy(block, 16, host, 32, ACL_MEMCPY_HOST_TO_DEVICE));
  TRY("copy_past_end", aclrtMemcpy(block + 72, 256, host, 32, ACL_MEMCPY_HOST_TO_DEVICE));
  TRY("copy_before_start", aclrtMemcpy(block - 8, 256, host, 8, ACL_MEMCPY_HOST_TO_DEVICE));
  TRY("copy_back_too_much", aclrtMemcpy(host, 256, block, 97, ACL_MEMCPY_DEVICE_TO_HOST));
  TRY("copy_wrong_way", aclrtMemcpy(host, 64, block, 64, ACL_MEMCPY_HOST_TO_DEVICE));
  TRY("copy_device_as_host", aclrtMemcpy(block, 64, block, 64, ACL_MEMCPY_HOST_TO_DEVICE));
  TRY("copy_unknown_kind", aclrtMemcpy(block, 64, host, 64, static_cast<aclrtMemcpyKind>(9)));
  TRY("copy_nothing", aclrtMemcpy(block, 64, host, 0, ACL_MEMCPY_HOST_TO_DEVICE));
  if (wild) {  // a sanitised program finds these itself
    TRY("copy_from_nowhere", aclrtMemcpy(block, 64, reinterpret_cast<void*>(16), 64, ACL_MEMCPY_HOST_TO_DEVICE));
    TRY("copy_to_nowhere", aclrtMemcpy(reinterpret_cast<void*>(16), 64, block, 64, ACL_MEMCPY_DEVICE_TO_HOST));
  }
  TRY("set_past_end", aclrtMemset(block, 256, 0, 97));
  TRY("set_max_count", aclrtMemset(block, 8, 0, 64));
  TRY("free", aclrtFree(block));
  TRY("free_twice", aclrtFree(block));
  TRY("copy_freed", aclrtMemcpy(block, 64, host, 64, ACL_MEMCPY_HOST_TO_DEVICE));
  void* pinned = nullptr;
  TRY("malloc_host", aclrtMallocHost(&pinned, 64));
  void* endless = nullptr;
  TRY("malloc_host_endless", aclrtMallocHost(&endless, static_cast<size_t>(-1)));
  TRY("free_host_memory", aclrtFreeHost(pinned));
  TRY("free_host_twice", aclrtFreeHost(pinned));
}

static void StreamMisuse() {
  TRY("stream_null", aclrtCreateStream(nullptr));
  aclrtStream gone = nullptr;
  aclrtCreateStream(&gone);
  TRY("destroy_stream", aclrtDestroyStream(gone));
  TRY("destroy_stream_twice", aclrtDestroyStream(gone));
  TRY("destroy_null_stream", aclrtDestroyStream(nullptr));
  TRY("synchronize_destroyed", aclrtSynchronizeStream(gone));
  TRY("synchronize_invented", aclrtSynchronizeStream(reinterpret_cast<aclrtStream>(0x1234)));
  aclrtCreateStream(&stream);
  TRY("failure_mode", aclrtSetStreamFailureMode(stream, 5));
  aclrtEvent first, second;
  aclrtCreateEvent(&first);
  aclrtCreateEvent(&second);
  float ms = 0;
  TRY("elapsed_null", aclrtEventElapsedTime(nullptr, first, second));
  TRY("elapsed_unrecorded", aclrtEventElapsedTime(&ms, first, second));
  TRY("record_on_event", aclrtRecordEvent(first, second));
  aclrtRecordEvent(first, stream);
  TRY("elapsed_too_early", aclrtEventElapsedTime(&ms, first, first));
  aclrtSynchronizeStream(stream);
  TRY("elapsed_nothing", aclrtEventElapsedTime(&ms, first, first));
  TRY("wait_unrecorded", aclrtStreamWaitEvent(stream, second));
  TRY("synchronize_wait_unrecorded", aclrtSynchronizeStream(stream));
  TRY("synchronize_again", aclrtSynchronizeStream(stream));
  TRY("destroy_event", aclrtDestroyEvent(first));
  TRY("destroy_event_twice", aclrtDestroyEvent(first));
  TRY("record_destroyed", aclrtRecordEvent(first, stream));
  aclrtDestroyEvent(second);
  TRY("other_device", aclrtSetDevice(1));
  TRY("stream_of_other_device", aclrtSynchronizeStream(stream));
  aclrtResetDevice(1);
  aclrtSetDevice(0);
}

static void ObjectMisuse(void* memory, bool wild) {
  const int64_t negative[] = {4, -4};
  IS_NULL("tensor_without_dims", aclCreateTensor(nullptr, 2, ACL_FLOAT, kStrides, 0, ACL_FORMAT_ND, kShape, 2, memory));
  IS_NULL("tensor_negative", aclCreateTensor(negative, 2, ACL_FLOAT, kStrides, 0, ACL_FORMAT_ND, kShape, 2, memory));
  IS_NULL("tensor_of_rank_999", aclCreateTensor(kShape, 999, ACL_FLOAT, kStrides, 0, ACL_FORMAT_ND, kShape, 2, memory));
  IS_NULL("tensor_of_no_dtype", Tensor(memory, static_cast<aclDataType>(99)));
  IS_NULL("array_without_values", aclCreateIntArray(nullptr, 3));
  if (wild) {
    IS_NULL("array_from_nowhere", aclCreateIntArray(reinterpret_cast<int64_t*>(16), 3));
  }
  aclTensor* tensor = Tensor(memory);
  TRY("destroy_tensor", aclDestroyTensor(tensor));
  TRY("destroy_tensor_twice", aclDestroyTensor(tensor));
  TRY("destroy_null", aclDestroyTensor(nullptr));
  aclIntArray* array = aclCreateIntArray(kShape, 2);
  TRY("destroy_array_as_tensor", aclDestroyTensor(reinterpret_cast<aclTensor*>(array)));
  uint64_t size = 0;
  TRY("size_of_null", aclGetIntArraySize(nullptr, &size));
  TRY("size_of_array", aclGetIntArraySize(array, &size));
  TRY("destroy_array", aclDestroyIntArray(array));
  TRY("size_of_destroyed", aclGetIntArraySize(array, &size));
}

static void CallMisuse() {
  void* memory[] = {Memory(), Memory(), Memory(), Memory()};
  aclTensor *grad = Tensor(memory[0]), *self = Tensor(memory[1]), *target = Tensor(memory[2]), *out = Tensor(memory[3]);
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  TRY("no_size", aclnnBinaryCrossEntropyBackwardGetWorkspaceSize(grad, self, target, self, 0, out, nullptr, &executor));
  TRY("no_executor", aclnnBinaryCrossEntropyBackwardGetWorkspaceSize(grad, self, target, self, 0, out, &size, nullptr));
  TRY("null_self", Plan(grad, nullptr, target, out).status);
  TRY("null_out", Plan(grad, self, target, nullptr).status);
  aclTensor* whole = Tensor(memory[0], ACL_INT32);
  TRY("wrong_dtype", Plan(whole, self, target, out).status);
  aclDestroyTensor(whole);
  TRY("destroyed_tensor", Plan(whole, self, target, out).status);
  aclIntArray* array = aclCreateIntArray(kShape, 2);
  TRY("array_as_tensor", Plan(reinterpret_cast<aclTensor*>(array), self, target, out).status);
  aclDestroyIntArray(array);
  TRY("invented_tensor", Plan(reinterpret_cast<aclTensor*>(&size), self, target, out).status);

  auto plan = Plan(grad, self, target, out);
  TRY("planned", plan.status);
  TRY("execute_nothing", aclnnBinaryCrossEntropyBackward(nullptr, 0, nullptr, stream));
  TRY("execute_other_operator", aclnnGroupNormBackward(nullptr, 0, plan.executor, stream));
  TRY("execute_on_no_stream", aclnnBinaryCrossEntropyBackward(nullptr, 0, plan.executor, grad));
  TRY("execute_null_workspace", aclnnBinaryCrossEntropyBackward(nullptr, 512, plan.executor, stream));
  TRY("execute", aclnnBinaryCrossEntropyBackward(nullptr, plan.size, plan.executor, stream));
  TRY("execute_twice", aclnnBinaryCrossEntropyBackward(nullptr, plan.size, plan.executor, stream));
  TRY("execute_tensor", aclnnBinaryCrossEntropyBackward(nullptr, 0, reinterpret_cast<aclOpExecutor*>(self), stream));
  TRY("synchronize", aclrtSynchronizeStream(stream));
  plan = Plan(grad, self, target, out);
  TRY("make_repeatable", aclSetAclOpExecutorRepeatable(plan.executor));
  TRY("repeat_once", aclnnBinaryCrossEntropyBackward(nullptr, plan.size, plan.executor, stream));
  TRY("repeat_twice", aclnnBinaryCrossEntropyBackward(nullptr, plan.size, plan.executor, stream));
  TRY("synchronize_repeated", aclrtSynchronizeStream(stream));
  TRY("destroy_executor", aclDestroyAclOpExecutor(plan.executor));
  TRY("execute_destroyed", aclnnBinaryCrossEntropyBackward(nullptr, plan.size, plan.executor, stream));

  aclnnBinaryCrossEntropyBackwardGetWorkspaceSize(grad, self, target, nullptr, 0, out, &size, &executor);
  TRY("workspace_too_small", aclnnBinaryCrossEntropyBackward(memory[0], size - 1, executor, stream));
  TRY("workspace_on_host", aclnnBinaryCrossEntropyBackward(&size, size, executor, stream));
  TRY("synchronize_workspace", aclrtSynchronizeStream(stream));

  aclTensor* onHost = Tensor(&size);
  plan = Plan(grad, onHost, target, out);
  aclnnBinaryCrossEntropyBackward(nullptr, plan.size, plan.executor, stream);
  TRY("synchronize_host_tensor", aclrtSynchronizeStream(stream));
  aclDestroyTensor(onHost);
  void* small = Memory(32);  // of which the device makes 64
  aclTensor* tooLarge = Tensor(static_cast<char*>(small) + 32);
  plan = Plan(grad, self, target, tooLarge);
  aclnnBinaryCrossEntropyBackward(nullptr, plan.size, plan.executor, stream);
  TRY("synchronize_small_memory", aclrtSynchronizeStream(stream));
  plan = Plan(grad, self, target, out);
  aclnnBinaryCrossEntropyBackward(nullptr, plan.size, plan.executor, stream);
  aclrtFree(memory[3]);
  TRY("synchronize_freed_early", aclrtSynchronizeStream(stream));
  aclDestroyTensor(tooLarge);
  aclrtFree(small);
  aclDestroyTensor(grad);
  aclDestroyTensor(self);
  aclDestroyTensor(target);
  aclDestroyTensor(out);
  for (int i = 0; i < 3; i++) aclrtFree(memory[i]);
}

// What a tensor says of itself; the caller frees the arrays.
static void Questions() {
  const int64_t sizes[] = {2, 3}, strides[] = {1, 2}, storage[] = {4, 5};
  aclTensor* tensor = aclCreateTensor(sizes, 2, ACL_BF16, strides, 7, ACL_FORMAT_ND, storage, 2, nullptr);
  int64_t *shape = nullptr, *steps = nullptr, *stored = nullptr, offset = 0;
  uint64_t rank = 0, stepCount = 0, storedRank = 0;
  aclDataType type;
  aclFormat format;
  aclGetViewShape(tensor, &shape, &rank);
  aclGetViewStrides(tensor, &steps, &stepCount);
  aclGetStorageShape(tensor, &stored, &storedRank);
  aclGetViewOffset(tensor, &offset);
  aclGetDataType(tensor, &type);
  aclGetFormat(tensor, &format);
  LOG_PRINT("tensor_says %d %d %d %d %d %d %d %d %d\n", int(rank), int(shape[0]), int(shape[1]), int(steps[1]),
            int(stored[1]), int(offset), type == ACL_BF16, format == ACL_FORMAT_ND, int(aclDataTypeSize(type)));
  delete[] shape;
  delete[] steps;
  delete[] stored;
  TRY("shape_into_nothing", aclGetViewShape(tensor, nullptr, &rank));
  aclTensor* second = aclCreateTensor(sizes, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, sizes, 2, nullptr);
  aclTensor* members[] = {tensor, second};
  aclTensorList* list = aclCreateTensorList(members, 2);
  TRY("destroy_list", aclDestroyTensorList(list));
  TRY("destroy_member_of_destroyed_list", aclDestroyTensor(second));
  float value = 0.5f;
  aclScalar* scalar = aclCreateScalar(&value, ACL_FLOAT);
  IS_NULL("scalar", scalar);
  IS_NULL("scalar_of_nothing", aclCreateScalar(nullptr, ACL_FLOAT));
  aclScalarList* scalars = aclCreateScalarList(&scalar, 1);
  uint64_t count = 0;
  TRY("size_of_list", aclGetScalarListSize(scalars, &count));
  LOG_PRINT("list_has %d\n", int(count));
  TRY("destroy_scalar_list", aclDestroyScalarList(scalars));
  TRY("destroy_scalar_of_list", aclDestroyScalar(scalar));
  aclFloatArray* floats = aclCreateFloatArray(&value, 1);
  TRY("destroy_floats", aclDestroyFloatArray(floats));
  LOG_PRINT("half %g\n", aclFloat16ToFloat(aclFloatToFloat16(0.1f)));
}

// Copies and fills in a stream happen when somebody waits.
static void InStream() {
  int32_t numbers[4] = {1, 2, 3, 4}, back[4] = {0};
  void* block = Memory(16);
  TRY("copy_later", aclrtMemcpyAsync(block, 16, numbers, 16, ACL_MEMCPY_HOST_TO_DEVICE, stream));
  TRY("fill_later", aclrtMemsetAsync(block, 4, 0xFF, 4, stream));
  aclrtMemcpy(back, 16, block, 16, ACL_MEMCPY_DEVICE_TO_HOST);
  LOG_PRINT("not_yet %d %d\n", back[0], back[3]);
  aclrtStreamStatus status = ACL_STREAM_STATUS_NOT_READY;
  TRY("query", aclrtStreamQuery(stream, &status));
  aclrtMemcpy(back, 16, block, 16, ACL_MEMCPY_DEVICE_TO_HOST);
  LOG_PRINT("then %d %d %d\n", back[0], back[3], status == ACL_STREAM_STATUS_COMPLETE);
  TRY("copy_later_into_freed", aclrtMemcpyAsync(block, 16, numbers, 16, ACL_MEMCPY_DEFAULT, stream));
  aclrtFree(block);
  TRY("synchronize_copy_into_freed", aclrtSynchronizeStream(stream));
  aclrtMalloc(&block, 16, ACL_MEM_MALLOC_HUGE_FIRST);
  TRY("fill_once_more", aclrtMemsetAsync(block, 16, 1, 16, stream));
  TRY("free_with_sync", aclrtFreeWithDevSync(block));
  size_t free = 0, total = 0;
  TRY("memory_info", aclrtGetMemInfo(ACL_HBM_MEM, &free, &total));
  LOG_PRINT("all_free %d\n", free == total);
  aclrtContext context = nullptr, current = nullptr;
  aclrtContext own = nullptr;
  TRY("own_context", aclrtGetCurrentContext(&own));
  TRY("set_own_context", aclrtSetCurrentContext(own));
  TRY("context", aclrtCreateContext(&context, 0));
  TRY("get_context", aclrtGetCurrentContext(&current));
  LOG_PRINT("same_context %d\n", context == current);
  TRY("destroy_context", aclrtDestroyContext(context));
  TRY("set_destroyed_context", aclrtSetCurrentContext(context));
  TRY("device_again", aclrtSetDevice(0));
}

// Sizes that no memory has.
static void HugeTensors(void* memory) {
  for (int64_t size : {int64_t(1) << 40, int64_t(1) << 31}) {
    int64_t sizes[2] = {size, size};
    aclTensor* huge = aclCreateTensor(sizes, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, sizes, 2, memory);
    TRY(size >> 40 ? "huge_tensor" : "large_tensor", Plan(huge, huge, huge, huge).status);
    aclDestroyTensor(huge);
  }
}

// After all that, a proper call still gives the right numbers.
static void ProperCall() {
  void* address[4];
  aclTensor* tensor[4];
  float values[] = {1, 0.3f, 0.5f, 0};
  for (int i = 0; i < 4; i++) {
    CreateAclTensor(std::vector<float>(16, values[i]), {4, 4}, &address[i], ACL_FLOAT, &tensor[i]);
  }
  auto plan = Plan(tensor[0], tensor[1], tensor[2], tensor[3]);
  TRY("proper_call", aclnnBinaryCrossEntropyBackward(nullptr, plan.size, plan.executor, stream));
  TRY("proper_synchronize", aclrtSynchronizeStream(stream));
  float result[16];
  aclrtMemcpy(result, sizeof(result), address[3], sizeof(result), ACL_MEMCPY_DEVICE_TO_HOST);
  LOG_PRINT("proper_result %.6f\n", result[15]);
  for (auto each : tensor) aclDestroyTensor(each);
  for (auto each : address) aclrtFree(each);
}

int main(int argc, char**) {
  Beginning();
  MemoryMisuse(argc < 2);
  StreamMisuse();
  void* memory = Memory();
  ObjectMisuse(memory, argc < 2);
  HugeTensors(memory);
  aclrtFree(memory);
  Questions();
  InStream();
  CallMisuse();
  ProperCall();
  aclrtFree(reinterpret_cast<void*>(0x77));
  LOG_PRINT("message %s\n", aclGetRecentErrMsg());
  IS_NULL("message_again", aclGetRecentErrMsg());
  TRY("destroy_last_stream", aclrtDestroyStream(stream));
  TRY("reset", aclrtResetDevice(0));
  TRY("finalize", aclFinalize());
  void* late = nullptr;
  TRY("malloc_after_finalize", aclrtMalloc(&late, 64, ACL_MEM_MALLOC_HUGE_FIRST));
  TRY("plan_after_finalize", Plan(nullptr, nullptr, nullptr, nullptr).status);
  TRY("synchronize_after_finalize", aclrtSynchronizeStream(nullptr));
  TRY("finalize_twice", aclFinalize());
  return 0;
}

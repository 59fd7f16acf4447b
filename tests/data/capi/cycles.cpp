// Creates, runs and destroys the same call again and again; prints how the process has grown, and the
// processor time of one round. Arguments: rounds, and "keep" to keep everything but the executor.
#include <cstdlib>
#include <ctime>
#include <fstream>
#include "sample.h"
#include "aclnnop/aclnn_binary_cross_entropy_backward.h"

static long ResidentKilobytes() {
  long pages = 0;
  std::ifstream statm("/proc/self/statm");
  statm >> pages >> pages;
  return pages * 4;
}

struct Tensors {
  void* address[5] = {nullptr};
  aclTensor* tensor[5] = {nullptr};
};

static Tensors Create() {
  Tensors made;
  std::vector<float> values(1024, 0.5f);
  for (int i = 0; i < 5; i++) {
    CreateAclTensor(values, {32, 32}, &made.address[i], aclDataType::ACL_FLOAT, &made.tensor[i]);
  }
  return made;
}

static void Destroy(Tensors& made) {
  for (auto tensor : made.tensor) aclDestroyTensor(tensor);
  for (auto address : made.address) aclrtFree(address);
}

static int Call(Tensors& made, aclrtStream stream) {
  auto tensor = made.tensor;
  EXECUTE(aclnnBinaryCrossEntropyBackward, tensor[0], tensor[1], tensor[2], tensor[3], 0, tensor[4]);
  return 0;
}

int main(int argc, char** argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 1000;
  bool keep = argc > 2;
  CHECK_RET(aclInit(nullptr) == 0 && aclrtSetDevice(0) == 0, return 1);
  aclrtStream stream;
  aclrtEvent event;
  aclrtCreateStream(&stream);
  auto kept = Create();
  for (int i = 0; i < 20; i++) {
    if (Call(kept, stream) != 0) return 1;
  }
  long before = ResidentKilobytes();
  clock_t start = clock();
  for (int i = 0; i < rounds; i++) {
    if (keep) {
      if (Call(kept, stream) != 0) return 1;
      continue;
    }
    aclrtStream another;
    aclrtCreateStream(&another);
    aclrtCreateEvent(&event);
    auto made = Create();
    if (Call(made, another) != 0) return 1;
    aclrtRecordEvent(event, another);
    Destroy(made);
    aclrtDestroyEvent(event);
    aclrtDestroyStream(another);
  }
  LOG_PRINT("microseconds %.1f\n", 1e6 * (clock() - start) / CLOCKS_PER_SEC / rounds);
  LOG_PRINT("grown_kilobytes %ld\n", ResidentKilobytes() - before);
  Destroy(kept);
  aclrtDestroyStream(stream);
  aclrtResetDevice(0);
  aclFinalize();
  return 0;
}

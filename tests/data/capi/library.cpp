// Calls of the library as programs make them: alpha, in place, lists, doubles, what has no kernel,
// functions of the host alone, and memory that is freed after its device was reset.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_add.h"
#include "aclnnop/aclnn_foreach_mul_scalar_list.h"
#include "aclnnop/aclnn_npu_format_cast.h"
#include "aclnnop/aclnn_svd.h"
#include "aclnnop/aclnn_trans_matmul_weight.h"
#include "aclnnop/aclnn_trans_quant_param.h"
#include "aclnn_mul.h"

static aclrtStream stream;
static std::vector<void *> blocks;

template <typename T>
static aclTensor *tensor(const std::vector<T> &values, aclDataType type)
{
    const int64_t size = static_cast<int64_t>(values.size()), step = 1;
    void *memory = nullptr;
    aclrtMalloc(&memory, values.size() * sizeof(T), ACL_MEM_MALLOC_HUGE_FIRST);
    aclrtMemcpy(memory, values.size() * sizeof(T), values.data(), values.size() * sizeof(T),
                ACL_MEMCPY_HOST_TO_DEVICE);
    blocks.push_back(memory);
    return aclCreateTensor(&size, 1, type, &step, 0, ACL_FORMAT_ND, &size, 1, memory);
}

template <typename T>
static void show(const char *name, void *memory, int ret)
{
    T first = 0;
    aclrtSynchronizeStream(stream);
    aclrtMemcpy(&first, sizeof(T), memory, sizeof(T), ACL_MEMCPY_DEVICE_TO_HOST);
    std::printf("%s %d %g\n", name, ret, static_cast<double>(first));
}

template <typename Phase>
static int execute(int ret, uint64_t size, aclOpExecutor *executor, Phase phase)
{
    void *workspace = nullptr;
    if (ret != 0) {
        return ret;
    }
    if (size > 0) {
        aclrtMalloc(&workspace, size, ACL_MEM_MALLOC_HUGE_FIRST);
    }
    return phase(workspace, size, executor, stream);
}

int main()
{
    uint64_t size = 0;
    aclOpExecutor *executor = nullptr;
    aclInit(nullptr);
    aclrtSetDevice(0);
    aclrtCreateStream(&stream);

    float factor = 1.5f;
    aclScalar *alpha = aclCreateScalar(&factor, ACL_FLOAT);
    aclTensor *x = tensor<float>({1, 2, 3}, ACL_FLOAT), *y = tensor<float>({2, 2, 2}, ACL_FLOAT);
    int ret = aclnnInplaceAddGetWorkspaceSize(x, y, alpha, &size, &executor);
    show<float>("InplaceAdd", blocks[0], execute(ret, size, executor, aclnnInplaceAdd));

    aclTensor *a = tensor<double>({1.25, 2}, ACL_DOUBLE), *b = tensor<double>({4, 2}, ACL_DOUBLE);
    aclTensor *c = tensor<double>({0, 0}, ACL_DOUBLE);
    ret = aclnnMulGetWorkspaceSize(a, b, c, &size, &executor);
    show<double>("Mul", blocks[4], execute(ret, size, executor, aclnnMul));

    aclTensor *lists[2] = {x, y}, *results[2] = {tensor<float>({0, 0, 0}, ACL_FLOAT),
                                                 tensor<float>({0, 0, 0}, ACL_FLOAT)};
    float more = 3.0f;
    aclScalar *numbers[2] = {aclCreateScalar(&factor, ACL_FLOAT), aclCreateScalar(&more, ACL_FLOAT)};
    aclTensorList *given = aclCreateTensorList(lists, 2), *made = aclCreateTensorList(results, 2);
    aclScalarList *scalars = aclCreateScalarList(numbers, 2);
    ret = aclnnForeachMulScalarListGetWorkspaceSize(given, scalars, made, &size, &executor);
    show<float>("ForeachMulScalarList", blocks[6],
                execute(ret, size, executor, aclnnForeachMulScalarList));

    const int64_t sides[2] = {20, 33};
    aclIntArray *shape = aclCreateIntArray(sides, 2);
    uint64_t elements = 0;
    ret = aclnnCalculateMatmulWeightSizeV2(shape, ACL_INT8, &elements);
    std::printf("WeightSize %d %d\n", ret, static_cast<int>(elements));

    const float scales[2] = {1.0f, 2.0f}, offsets[2] = {0.0f, -1.0f};
    uint64_t *packed = nullptr, count = 0;
    ret = aclnnTransQuantParam(scales, 2, offsets, 2, &packed, &count);
    std::printf("QuantParam %d %llx\n", ret, static_cast<unsigned long long>(packed[1]));
    delete[] packed;

    int64_t *stored = nullptr;
    uint64_t axes = 0;
    int form = 0;
    aclTensor *matrix = aclCreateTensor(sides, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, sides, 2, blocks[0]);
    ret = aclnnNpuFormatCastCalculateSizeAndFormat(matrix, ACL_FORMAT_FRACTAL_NZ, -1, &stored, &axes, &form);
    std::printf("FormatCast %d %d\n", ret, static_cast<int>(axes));
    delete[] stored;
    aclDestroyTensor(matrix);
    ret = aclnnNpuFormatCastCalculateSizeAndFormat(x, ACL_FORMAT_FRACTAL_NZ, -1, &stored, &axes, &form);
    std::printf("FormatCastOfRow %d 0\n", ret);
    const int64_t sizes[4] = {2, 5, 6, 40}, no_rows[2] = {0, 16};
    aclTensor *images = aclCreateTensor(sizes, 4, ACL_FLOAT16, nullptr, 0, ACL_FORMAT_NHWC, sizes, 4, blocks[0]);
    ret = aclnnNpuFormatCastCalculateSizeAndFormat(images, ACL_FORMAT_NC1HWC0, -1, &stored, &axes, &form);
    std::printf("FormatCastOfImages %d %d\n", ret, static_cast<int>(stored[1] * 1000 + stored[2]));
    delete[] stored;
    ret = aclnnNpuFormatCastCalculateSizeAndFormat(images, ACL_FORMAT_FRACTAL_NZ, -1, &stored, &axes, &form);
    std::printf("FormatCastNotOffered %d 0\n", ret);
    aclDestroyTensor(images);
    matrix = aclCreateTensor(no_rows, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, no_rows, 2, blocks[0]);
    ret = aclnnNpuFormatCastCalculateSizeAndFormat(matrix, ACL_FORMAT_FRACTAL_NZ, -1, &stored, &axes, &form);
    std::printf("FormatCastOfNothing %d 0\n", ret);
    aclDestroyTensor(matrix);
    const int64_t one[1] = {1};
    ret = aclInitTensor(x, one, 1, ACL_FLOAT, one, 0, ACL_FORMAT_ND, one, 1, blocks[0]);
    aclGetViewShape(x, &stored, &axes);
    std::printf("InitTensor %d %d\n", ret, static_cast<int>(stored[0]));
    delete[] stored;

    std::printf("NoTensor %d 0\n", aclnnSvdGetWorkspaceSize(nullptr, true, true, x, x, x, &size, &executor));
    aclrtResetDevice(0);
    std::printf("FreeAfterReset %d 0\n", aclrtFree(blocks[0]));
    std::printf("FreeTwice %d 0\n", aclrtFree(blocks[0]));
    return aclFinalize();
}

/* What tensors in the formats of the cube take, and scales as its output stage reads them. */
#ifndef NPUSIM_ACLNN_STORAGE_SIZES_H
#define NPUSIM_ACLNN_STORAGE_SIZES_H

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY aclnnStatus aclnnCalculateMatmulWeightSize(const aclIntArray *tensorShape, uint64_t *weightTensorSize);
ACL_FUNC_VISIBILITY aclnnStatus aclnnCalculateMatmulWeightSizeV2(const aclIntArray *tensorShape, aclDataType dataType, uint64_t *weightTensorSize);
ACL_FUNC_VISIBILITY aclnnStatus aclnnCalculateConvolutionWeightSize(const aclIntArray *tensorShape, bool transposed, int64_t groups, aclDataType dataType, uint64_t *weightTensorSize);

/* The caller frees the arrays of shapes and of parameters with delete[]. */
ACL_FUNC_VISIBILITY aclnnStatus aclnnNpuFormatCastCalculateSizeAndFormat(const aclTensor *srcTensor, int dstFormat, int additionalDtype, int64_t **dstShape, uint64_t *dstShapeSize, int *actualFormat);
ACL_FUNC_VISIBILITY aclnnStatus aclnnTransQuantParam(const float *scaleArray, uint64_t scaleSize, const float *offsetArray, uint64_t offsetSize, uint64_t **quantParam, uint64_t *quantParamSize);

#ifdef __cplusplus
}
#endif

#endif

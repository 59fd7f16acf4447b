/* Types and values of the whole interface. */
#ifndef NPUSIM_ACL_ACL_BASE_H
#define NPUSIM_ACL_ACL_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h> /* programs that print rely on it */

#define ACL_FUNC_VISIBILITY __attribute__((visibility("default")))

typedef int aclError;
typedef int32_t aclnnStatus;
typedef uint16_t aclFloat16;
typedef void *aclrtStream;
typedef void *aclrtEvent;
typedef void *aclrtContext;

/* @aclError@ */
#ifndef ACL_ERROR_NONE
#define ACL_ERROR_NONE ACL_SUCCESS /* its older name */
#endif
#ifndef ACL_RT_SUCCESS
#define ACL_RT_SUCCESS ACL_SUCCESS /* as the runtime calls it */
#endif

/* @aclnnStatus@ */

/* @aclDataType@ */

/* @aclFormat@ */

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY size_t aclDataTypeSize(aclDataType dataType);
ACL_FUNC_VISIBILITY float aclFloat16ToFloat(aclFloat16 value);
ACL_FUNC_VISIBILITY aclFloat16 aclFloatToFloat16(float value);

#ifdef __cplusplus
}
#endif

#endif

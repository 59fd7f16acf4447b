/* Kernels compiled while a program runs: their source is a text. */
#ifndef NPUSIM_ACL_ACL_RT_COMPILE_H
#define NPUSIM_ACL_ACL_RT_COMPILE_H

#include "acl/acl_base.h"

typedef void *aclrtcProg;

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY aclError aclrtcCreateProg(aclrtcProg *prog, const char *src, const char *name, int numHeaders, const char **headers, const char **includeNames);
ACL_FUNC_VISIBILITY aclError aclrtcDestroyProg(aclrtcProg *prog);
ACL_FUNC_VISIBILITY aclError aclrtcAddNameExpr(aclrtcProg prog, const char *nameExpression);
ACL_FUNC_VISIBILITY aclError aclrtcCompileProg(aclrtcProg prog, int numOptions, const char **options);
ACL_FUNC_VISIBILITY aclError aclrtcGetLoweredName(aclrtcProg prog, const char *nameExpression, const char **loweredName);
ACL_FUNC_VISIBILITY aclError aclrtcGetBinDataSize(aclrtcProg prog, size_t *binDataSize);
ACL_FUNC_VISIBILITY aclError aclrtcGetBinData(aclrtcProg prog, char *binData);
ACL_FUNC_VISIBILITY aclError aclrtcGetCompileLogSize(aclrtcProg prog, size_t *logSize);
ACL_FUNC_VISIBILITY aclError aclrtcGetCompileLog(aclrtcProg prog, char *log);

#ifdef __cplusplus
}
#endif

#endif

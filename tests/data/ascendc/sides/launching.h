// Kernels as a template library has them: one operator for each kind of core, launched from its header.
#ifndef LAUNCHING_H
#define LAUNCHING_H

#include <acl/acl.h>
#if defined(__CCE__)
#include <kernel_operator.h>
#endif

#define ON_DEVICE __forceinline__ __aicore__
#define ON_BOTH __forceinline__[host, aicore]

template <class Operator> __global__ __aicore__ void adapter(typename Operator::Params params)
{
    Operator op;
    op(params);
}

template <class Operator> ON_BOTH void start(typename Operator::Params params, uint32_t blocks, aclrtStream stream)
{
    adapter<Operator><<<blocks, nullptr, stream>>>(params);
}

#endif

#include "register/op_impl_registry.h"
static ge::graphStatus InferListScale(gert::InferShapeContext *context)
{
    for (size_t each = 0; each < context->GetComputeNodeOutputNum(); each++) *context->GetOutputShape(each) = *context->GetDynamicInputShape(0, each);
    return ge::GRAPH_SUCCESS;
}
IMPL_OP_INFERSHAPE(ListScale).InferShape(InferListScale);

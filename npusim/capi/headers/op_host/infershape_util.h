/* Shapes of results that follow from those of all inputs: alike, or broadcast. */
#ifndef NPUSIM_INFERSHAPE_UTIL_H
#define NPUSIM_INFERSHAPE_UTIL_H

#include "log/log.h"
#include "npusim/op_host.h"
#include "util/shape_util.h"

namespace Ops::Base {
inline ge::graphStatus InferShape4Elewise(gert::InferShapeContext *context)
{
    OP_CHECK_NULL_WITH_CONTEXT(context, context->GetInputShape(0));
    *context->GetOutputShape(0) = *context->GetInputShape(0);
    return ge::GRAPH_SUCCESS;
}
inline bool BroadcastShape(const gert::Shape *one, const gert::Shape *other, gert::Shape *made)
{
    gert::Shape found;
    size_t rank = one->GetDimNum() > other->GetDimNum() ? one->GetDimNum() : other->GetDimNum();
    for (size_t axis = 0; axis < rank; axis++) {
        int64_t a = axis + one->GetDimNum() < rank ? 1 : one->GetDim(axis + one->GetDimNum() - rank);
        int64_t b = axis + other->GetDimNum() < rank ? 1 : other->GetDim(axis + other->GetDimNum() - rank);
        if (a != b && a != 1 && b != 1) return false;
        found.AppendDim(a == 1 ? b : a);
    }
    return *made = found, true;
}
inline bool BroadcastShape(const std::vector<const gert::Shape *> &all, gert::Shape *made)
{
    if (all.empty()) return false;
    gert::Shape found = *all[0];
    for (const gert::Shape *each : all) if (!BroadcastShape(&found, each, &found)) return false;
    return *made = found, true;
}
inline ge::graphStatus InferShape4Broadcast(gert::InferShapeContext *context, size_t inputs = 2)
{
    std::vector<const gert::Shape *> all;
    for (size_t place = 0; place < inputs; place++) {
        OP_CHECK_NULL_WITH_CONTEXT(context, context->GetInputShape(place));
        all.push_back(context->GetInputShape(place));
    }
    return BroadcastShape(all, context->GetOutputShape(0)) ? ge::GRAPH_SUCCESS : ge::GRAPH_FAILED;
}
} // namespace Ops::Base

#endif

/* Shapes that aren't known yet: rank -2, sizes -1. */
#ifndef NPUSIM_SHAPE_UTIL_H
#define NPUSIM_SHAPE_UTIL_H

#include "log/log.h"
#include "npusim/op_context.h"

namespace Ops::Base {
constexpr int64_t UNKNOWN_DIM = -1, UNKNOWN_RANK_DIM = -2;
inline bool IsUnknownRank(const gert::Shape &shape) { return shape.GetDimNum() == 1 && shape.GetDim(0) == UNKNOWN_RANK_DIM; }
inline bool IsUnknownRank(const gert::Shape *shape) { return IsUnknownRank(*shape); }
inline bool IsUnknownShape(const gert::Shape &shape)
{
    for (size_t axis = 0; axis < shape.GetDimNum(); axis++) if (shape.GetDim(axis) < 0) return true;
    return false;
}
inline bool IsUnknownShape(const gert::Shape *shape) { return IsUnknownShape(*shape); }
inline void SetUnknownRank(gert::Shape &shape) { shape = gert::Shape{UNKNOWN_RANK_DIM}; }
inline void SetUnknownRank(gert::Shape *shape) { SetUnknownRank(*shape); }
inline void SetUnknownShape(int64_t rank, gert::Shape &shape)
{
    shape.SetDimNum(size_t(rank));
    for (int64_t axis = 0; axis < rank; axis++) shape.SetDim(size_t(axis), UNKNOWN_DIM);
}
inline void SetUnknownShape(int64_t rank, gert::Shape *shape) { SetUnknownShape(rank, *shape); }
inline bool IsConstTensor(const gert::Tensor *tensor) { return tensor && tensor->GetAddr(); }
} // namespace Ops::Base

#endif

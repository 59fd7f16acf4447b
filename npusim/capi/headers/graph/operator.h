/* An operator of a graph, as far as messages name it. */
#ifndef NPUSIM_GRAPH_OPERATOR_H
#define NPUSIM_GRAPH_OPERATOR_H

#include "graph/types.h"

namespace ge {
class Operator {
public:
    graphStatus GetName(AscendString &name) const { return name = "operator", GRAPH_SUCCESS; }
    graphStatus GetOpType(AscendString &name) const { return GetName(name); }
    std::string GetName() const { return "operator"; }
};
} // namespace ge

#endif

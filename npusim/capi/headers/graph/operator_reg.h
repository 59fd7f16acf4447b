/* How operators are told to graphs (REG_OP): nothing that a tiling or a kernel needs. */
#ifndef NPUSIM_GRAPH_OPERATOR_REG_H
#define NPUSIM_GRAPH_OPERATOR_REG_H

#include "graph/operator.h"

namespace npusim {
struct GraphOperator {
    const GraphOperator &told() const { return *this; }
};
} // namespace npusim

#define REG_OP(Type) [[maybe_unused]] static const auto npusim_graph_of_##Type = ::npusim::GraphOperator()
#define INPUT(...) told()
#define OPTIONAL_INPUT(...) told()
#define DYNAMIC_INPUT(...) told()
#define OUTPUT(...) told()
#define DYNAMIC_OUTPUT(...) told()
#define ATTR(...) told()
#define REQUIRED_ATTR(...) told()
#define DATATYPE(...) told()
#define OP_END_FACTORY_REG(Type) told();

#endif

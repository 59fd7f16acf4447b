#include "npusim/op_context.h"

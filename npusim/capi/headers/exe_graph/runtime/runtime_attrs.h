#include "npusim/op_host.h"

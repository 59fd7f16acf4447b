#include "npusim/op_host.h"
#include "register/tilingdata_base.h"

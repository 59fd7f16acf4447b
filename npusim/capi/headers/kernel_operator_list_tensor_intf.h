/* Part of what kernel_operator.h has. */
#include "kernel_operator.h"

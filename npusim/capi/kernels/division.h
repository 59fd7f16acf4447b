/* A division by zero, which ends a program here and nothing on the device: the quotient is 0, the rest what was divided. */
#ifndef NPUSIM_KERNELS_DIVISION_H
#define NPUSIM_KERNELS_DIVISION_H

#include <cstdint>
#include <ucontext.h>

namespace npusim {

/* Goes on behind the division that a context stands at; false where it isn't one that we know. */
static bool pass_division(ucontext_t *context)
{
#ifdef __x86_64__
    auto &registers = context->uc_mcontext.gregs;
    auto *at = reinterpret_cast<const uint8_t *>(registers[REG_RIP]);
    if (*at == 0x66) return false;
    bool is_long = (*at & 0xf8) == 0x48;
    if ((*at & 0xf0) == 0x40) at++;
    if (*at++ != 0xf7) return false; /* div and idiv of 32 and 64 bits */
    uint8_t mode = *at >> 6, operation = *at >> 3 & 7, low = *at & 7;
    if (operation < 6) return false;
    at++;
    bool has_index = mode != 3 && low == 4, is_absolute = has_index && mode == 0 && (*at & 7) == 5;
    at += has_index;
    at += mode == 1 ? 1 : mode == 2 || is_absolute || (mode == 0 && low == 5) ? 4 : 0;
    registers[REG_RDX] = is_long ? registers[REG_RAX] : registers[REG_RAX] & 0xffffffff;
    registers[REG_RAX] = 0;
    registers[REG_RIP] = reinterpret_cast<greg_t>(at);
    return true;
#else
    (void)context;
    return false;
#endif
}

} // namespace npusim

#endif

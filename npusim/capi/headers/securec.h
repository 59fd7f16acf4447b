/* Copies with a check of the room, as toolkits have them. */
#ifndef NPUSIM_SECUREC_H
#define NPUSIM_SECUREC_H

#include <cstdarg>
#include <cstdio>
#include <cstring>

using errno_t = int;
constexpr errno_t EOK = 0;
inline errno_t memcpy_s(void *to, size_t room, const void *from, size_t size)
{
    if (!to || !from || size > room) return 34;
    std::memcpy(to, from, size);
    return EOK;
}
inline errno_t memset_s(void *to, size_t room, int value, size_t size)
{
    if (!to || size > room) return 34;
    std::memset(to, value, size);
    return EOK;
}
inline errno_t strcpy_s(char *to, size_t room, const char *from) { return std::snprintf(to, room, "%s", from) < int(room) ? EOK : 34; }

#endif

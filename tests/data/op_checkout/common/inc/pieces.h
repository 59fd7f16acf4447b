#pragma once
#include <cstdint>
struct ListScaleData {
    int64_t sizes[16];
    uint32_t count;
    float factor;
};

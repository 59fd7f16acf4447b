/* Instructions: checked, noted, written down. */
#ifndef NPUSIM_KERNELS_ISSUE_H
#define NPUSIM_KERNELS_ISSUE_H

#include "global_order.h"

namespace npusim {

static int64_t rounded(int64_t number) /* to two significant bits, so that alike turns of a loop are equal */
{
    int shift = 0;
    while ((number >> shift) > 7) shift++;
    return number >> shift << shift;
}

/* Whether the scalar unit is where it was a turn of its loop ago: at the same line with the same tensor. */
static bool turned(Site at, int64_t start)
{
    Runtime &core = here();
    if (core.turn_start == start && core.turn_at.line == at.line && core.turn_at.file == at.file) return true;
    if (core.turn_start < 0) core.turn_at = at, core.turn_start = start;
    return false;
}

static int buffer_of(uint64_t address)
{
    const npusim_job_t &job = *shared->job;
    int first = 0, last = job.buffers;
    while (first < last) {
        int middle = (first + last) / 2;
        if (job.addresses[middle] <= address) first = middle + 1;
        else last = middle;
    }
    return first - 1;
}

uint8_t *global(uint64_t address, int64_t bytes, const char *what, Site at)
{
    int found = buffer_of(address);
    const npusim_job_t &job = *shared->job;
    if (found < 0 || address > job.addresses[found] + job.sizes[found])
        refuse(at, "Use the addresses that aclrtMalloc gives, and free them last.", "%s: the address %#llx %s", what, (unsigned long long)address,
               address ? "lies in no block of device memory" : "is a null pointer");
    int64_t end = int64_t(address - job.addresses[found]) + bytes;
    /* Blocks take 32 bytes more than their size rounded up (page of aclrtMalloc): libraries of templates look one entry
     * ahead and drop it, kernels of operators copy whole blocks. */
    bool pad = (job.auto_sync || (shared->has_sides && !std::strcmp(what, "GetValue"))) && end <= (int64_t(job.sizes[found]) + 31) / 32 * 32 + 32;
    if (end > int64_t(job.sizes[found]) && !pad)
        refuse(at, "Copy fewer elements, or from an earlier place.", "%s: global memory %d is used up to byte %lld, but ends at byte %lld", what, found,
               (long long)end, (long long)job.sizes[found]);
    return reinterpret_cast<uint8_t *>(address);
}

/* The device doesn't know the size that SetGlobalBuffer was given; kernels of operators give that of other calls, or none. */
void beyond_tensor(int64_t used, int64_t size, const char *unit, const char *what, Site at)
{
    if (!shared->job->auto_sync)
        refuse(at, "Read and write inside of the tensor.", "%s: a tensor in global memory is used up to %s %lld, but ends at %s %lld", what, unit, (long long)used, unit, (long long)size);
}

static void finish_gm(Instruction &told, Site at)
{
    /* number[1] comes as an address; the bytes of all runs and the gaps between them follow */
    Runtime &core = here();
    uint64_t address = uint64_t(told.number[1]);
    int buffer = buffer_of(address);
    int64_t payload = told.number[2] * told.number[3];
    bool writes = told.number[0] == UB_TO_GM || told.number[0] == L0C_TO_GM || told.number[0] == L1_TO_GM;
    shared->job->touched[buffer] |= writes ? 2 : 1;
    int64_t runs = told.number[4] ? told.number[4] : told.number[3]; /* those that lie in equal steps */
    touch_global(buffer, int64_t(address - shared->job->addresses[buffer]), told.number[2], runs, told.number[7], told.pipe, writes, at);
    if (!told.number[7]) told.number[7] = address % BLOCK ? 1 : 0; /* of one run only whether it starts at a whole block */
    if (!writes && told.number[5] & BYPASSES_L2) { /* the first core's loads are what others' are compared with */
        size_t number = core.past_l2++;
        if (number >= shared->past_l2.size()) shared->past_l2.push_back(address);
        else if (shared->past_l2[number] == address) told.number[5] |= AT_ONCE;
    }
    told.number[1] = buffer;
    told.number[4] = -1;
    if (writes && current->atomic) told.number[5] |= ADDS;
    if (!writes) {
        uint64_t key = address * 0x9e3779b97f4a7c15ull ^ uint64_t(payload);
        auto found = core.loaded.find(key);
        if (found != core.loaded.end()) told.number[4] = rounded(core.moved - found->second);
        core.loaded[key] = core.moved;
    }
    core.moved += payload;
}

void issue(Instruction &told, Site at)
{
    act();
    Runtime &core = here();
    check_stored();
    check_overwritten();
    if (told.pipe != V && told.pipe != S && told.pipe != MTE2 && told.pipe != MTE3 && !current->cube && !current->size[L1])
        refuse(at, "Call it on the cube core.", "%s: a vector core has no %s pipe", told.name, PIPE_NAMES[told.pipe]);
    if (told.pipe == V && current->cube) refuse(at, "Call it on vector cores.", "%s: a cube core has no VECTOR pipe", told.name);
    for (int each = 0; each < told.reads; each++) check_place(told, told.read[each], at);
    for (int each = 0; each < told.writes; each++) check_place(told, told.write[each], at);
    for (int each = 0; each < told.reads; each++) check_tile(told, told.read[each], at);
    for (int each = 0; each < told.writes; each++) check_tile(told, told.write[each], at);
    step(told.pipe, at);
    if (told.pipe != S) shared->moves++, core.turn_start = -1;
    else if (told.kind == SCALAR) told.number[4] = turned(at, told.number[5] + told.reads), told.number[5] = 0;
    if (told.pipe == S && core.unread) { /* it waits for the vector unit by itself, but its results need a flag */
        merge(core.clocks[S], core.clocks[V]);
        if (told.kind == SCALAR && !std::strcmp(told.name, "GetValue"))
            for (int each = 0; each < told.reads; each++) check_order(S, told.read[each], false, at);
        merge(core.clocks[S], now(V));
        core.unread = false;
        int64_t number[8] = {V, S, -1, 0};
        write_down("", "", at, SET, V, 0, number);
        write_down("", "", at, WAIT, S, 0, number);
    }
    bool fills = true;
    for (int each = 0; each < told.reads; each++) {
        fills &= check_filled(told, told.read[each], at);
        check_order(told.pipe, told.read[each], false, at);
    }
    for (int each = 0; each < told.writes; each++) check_order(told.pipe, told.write[each], true, at);
    for (int each = 0; told.pipe == V && each < told.writes; each++)
        for (int other = 0; other < told.reads; other++) check_apart(told, told.write[each], told.read[other], at);
    for (int each = 0; each < told.reads; each++) note(told.pipe, told.read[each], false);
    for (int each = 0; each < told.writes; each++) note(told.pipe, told.write[each], true, fills);
    if (told.kind == VECTOR) {
        int64_t chained = 0;
        for (int each = 0; each < told.reads; each++) chained |= told.read[each].start == core.last_result;
        for (int each = 0; each < told.writes; each++) chained |= told.write[each].start == core.last_result;
        told.number[2] = chained;
        core.last_result = told.writes ? told.write[0].start : -1;
        core.unread = true;
    }
    if (told.kind == GM_COPY) finish_gm(told, at);
    write_down(told.intrinsic, told.name, at, told.kind, told.pipe, told.dtype, told.number);
}

void scalar(int loads, int stores, int operations, int global_loads, int turns, Site at, int misses)
{
    act();
    int64_t number[8] = {loads, stores, operations, global_loads, turns, misses};
    step(S, at);
    write_down("scalar", "scalar", at, SCALAR, S, 0, number);
}

} // namespace npusim

#endif

/* The order of cores in global memory: who wrote and read what last, and what another core knows has ended.
 *
 * Kept for each sector of 512 bytes: the last instruction that wrote there and the last one that read, each with the
 * blocks of 32 bytes that it took whole or in part. What is forgotten by that may hide a race, never invent one. */
#ifndef NPUSIM_KERNELS_GLOBAL_ORDER_H
#define NPUSIM_KERNELS_GLOBAL_ORDER_H

#include "order.h"

#include <cstdlib>

namespace npusim {

static constexpr int64_t SECTOR = 512;

static void learn(std::vector<Clocks> &own, const std::vector<Clocks> &other)
{
    if (own.empty()) own.resize(shared->cores.size());
    for (size_t core = 0; core < other.size(); core++) merge(own[core], other[core]);
}

/* What has certainly ended when an instruction of `pipe` does: on this core, and on those it has heard of. */
static std::vector<Clocks> known(int pipe)
{
    std::vector<Clocks> told = here().seen;
    told.resize(shared->cores.size());
    told[here().place] = now(pipe);
    return told;
}

/* All that any core has issued: interfaces that order cores by other means have waited for it. */
static void learn_all()
{
    Runtime &core = here();
    core.seen.resize(shared->cores.size());
    for (auto &other : shared->cores)
        for (int pipe = 0; pipe < PIPES; pipe++) core.seen[other->place].of[pipe] = other->issued[pipe];
}

static bool has_ended(const Access &access, int pipe)
{
    Runtime &core = here();
    size_t place = access.core - 1u;
    int32_t before = shared->cores[place]->core.block, block = core.core.block, at_once = shared->job->at_once;
    if (before < block && at_once > 0 && before % at_once == block % at_once) return true; /* blocks of one core follow each other */
    if (place == core.place) return access.pipe == pipe || core.clocks[pipe].of[access.pipe] >= access.number;
    return place < core.seen.size() && core.seen[place].of[access.pipe] >= access.number;
}

static std::string told_of(const Access &access)
{
    Runtime &other = *shared->cores[access.core - 1u];
    std::string where = spelled(other.sites[access.pipe][access.number % LINES]);
    if (&other == &here()) return where;
    return where + ", block " + std::to_string(other.core.block);
}

[[noreturn]] static void refuse_global(const Access &access, bool writes, int pipe, int64_t byte, Site at)
{
    Runtime &other = *shared->cores[access.core - 1u];
    bool same = &other == &here();
    Site reading = writes ? other.sites[access.pipe][access.number % LINES] : placed(at);
    std::string remedy = same ? std::string("Set a flag ") + EVENT_NAMES[access.pipe] + "_" + EVENT_NAMES[pipe] + " between the two and wait for it."
                              : "Put SyncAll, or flags between cores, behind the copy that writes.";
    refuse(reading, remedy.c_str(), "block %d %s byte %lld of a block of global memory that %s (%s) %s in this launch: nothing orders the two", current->block,
           writes ? "writes" : "reads", (long long)byte, same ? "it also" : "another core", told_of(access).c_str(), writes ? "reads" : "writes");
}

/* Bytes of the sector at `base` that an instruction stores, and another core may store to at any time. */
static void note_both(const Access &other, int buffer, int64_t base, uint32_t both, int64_t from, int64_t to, int pipe, bool known, Site at)
{
    if (known && other.to > other.from) from = from > other.from ? from : other.from, to = to < other.to ? to : other.to;
    if (from >= to || (current->atomic && other.adds) || other.core == here().place + 1 || has_ended(other, pipe)) return;
    const uint8_t *memory = reinterpret_cast<const uint8_t *>(shared->job->addresses[buffer]) + base;
    for (int64_t block = from / BLOCK; block * BLOCK < to; block++) {
        int64_t first = block * BLOCK > from ? block * BLOCK : from, last = (block + 1) * BLOCK < to ? (block + 1) * BLOCK : to;
        if (both >> block & 1) here().stored.push_back({memory + first, std::string(reinterpret_cast<const char *>(memory + first), size_t(last - first)), other, base + first, placed(at)});
    }
}

/* What was stored last is there: refuse it where it isn't what another core has stored. */
static void check_stored()
{
    Runtime &core = here();
    if (core.stored.empty()) return;
    std::vector<Runtime::Stored> stored;
    stored.swap(core.stored);
    for (const auto &each : stored) {
        if (!std::memcmp(each.place, each.before.data(), each.before.size())) continue;
        int other = shared->cores[each.other.core - 1u]->core.block;
        refuse(each.at, "Let every block store to a place of its own, add atomically (SetAtomicAdd), or put SyncAll between the two.",
               "block %d stores other numbers to byte %lld of a block of global memory than block %d (%s): nothing orders the two, and either may win",
               current->block, (long long)each.byte, other, told_of(each.other).c_str());
    }
}

/* An instruction of `pipe` reads or writes `runs` runs of global memory. */
static void touch_global(int buffer, int64_t start, int64_t bytes, int64_t runs, int64_t step, int pipe, bool writes, Site at)
{
    auto &sectors = shared->sectors[size_t(buffer)];
    if (!sectors) sectors.reset(static_cast<Sector *>(std::calloc(shared->job->sizes[buffer] / SECTOR + 2, sizeof(Sector))));
    Access own = {uint32_t(here().issued[pipe]), 0, 0, uint16_t(here().place + 1), uint8_t(pipe), uint8_t(writes && current->atomic), 0, 0};
    for (int64_t run = 0; run < runs; run++) {
        int64_t first = start + run * step, end = first + bytes;
        for (int64_t sector = first / SECTOR; sector * SECTOR < end; sector++) {
            int64_t base = sector * SECTOR, from = first > base ? first - base : 0, to = end < base + SECTOR ? end - base : SECTOR;
            uint32_t any = (2u << (to - 1) / BLOCK) - (1u << from / BLOCK), edges = (from % BLOCK ? 1u << from / BLOCK : 0) | (to % BLOCK ? 1u << to / BLOCK : 0);
            uint16_t whole = uint16_t(any & ~edges), part = uint16_t(any & edges);
            Sector &found = sectors.get()[sector];
            if (!found.written.core && !found.read.core) shared->job->footprint[buffer] += SECTOR;
            if (writes && found.written.core) {
                const Access &other = found.written;
                uint32_t both = (other.whole | other.part) & any, halves = other.part & part;
                bool known = other.to > other.from;
                note_both(other, buffer, base, known ? both : both & ~halves, from, to, pipe, known, at);
            }
            for (Access *other : {&found.written, writes ? &found.read : nullptr}) {
                if (!other || !other->core || (writes && other == &found.written)) continue; /* of two that write, either may win */
                uint32_t both = (other->whole & (whole | part)) | (other->part & whole);
                if (both && !has_ended(*other, pipe)) refuse_global(*other, writes, pipe, base + __builtin_ctz(both) * BLOCK, at);
            }
            Access &last = writes ? found.written : found.read;
            bool again = last.core == own.core && last.pipe == own.pipe && last.number == own.number;
            uint16_t whole_before = again ? last.whole : 0, part_before = again ? last.part : 0;
            last = own, last.whole = whole | whole_before, last.part = part | part_before;
            if (!again) last.from = uint16_t(from), last.to = uint16_t(to);
        }
    }
}

} // namespace npusim

#endif

/* Cores that wait for each other. */
#ifndef NPUSIM_KERNELS_MEETING_H
#define NPUSIM_KERNELS_MEETING_H

#include "flags.h"
#include "issue.h"

namespace npusim {

static void yield_core(bool (*ready)(void *), void *context, Site at)
{
    Runtime &core = here();
    check_stored();
    core.ready = ready, core.ready_context = context, core.waits_at = placed(at);
    Site acting = current->acting;
    swapcontext(&core.context, &core.home);
    current = &core.core;
    current->acting = acting;
    core.ready = nullptr;
    if (shared->failed) throw Ended();
}

static void let_others(bool (*ready)(void *), void *context, Site at)
{
    if (!ready(context)) yield_core(ready, context, at);
}

void wait_until(bool (*ready)(void *), void *context, Site at)
{
    act();
    let_others(ready, context, at);
    learn_all();
}

void let_others_begin(Site at)
{
    yield_core([](void *) { return true; }, nullptr, at);
}

/* Blocks that wait for each other have to run at once. */
static void require_cores(const char *what, Site at)
{
    const npusim_job_t &job = *shared->job;
    if (job.blocks > job.at_once)
        refuse(at, "Launch as many blocks as there are cores, and let each do several shares.", "%s of %d blocks on %d cores: those that haven't begun are waited for for ever", what, job.blocks, job.at_once);
}

struct Awaited {
    int64_t number;
    int flag, mode;
    Runtime *core;
};

static bool arrived(void *context)
{
    auto *wait = static_cast<Awaited *>(context);
    for (auto &other : shared->cores) {
        bool counts = wait->mode < 0 ? wait->flag || !other->core.cube : other->core.cube == wait->core->core.cube;
        if (wait->mode == 1) counts = counts && other->core.block == wait->core->core.block;
        int64_t reached = wait->mode < 0 ? other->barriers : other->crossed[wait->flag].sets;
        if (counts && !other->serving && reached < wait->number) return false;
    }
    return true;
}

void sync_all(bool vectors_only, Site at)
{
    act();
    Runtime &core = here();
    require_cores("SyncAll", at);
    all_meet(core);
    Awaited wait = {++core.barriers, vectors_only ? 0 : 1, -1, &core};
    write_down("", "SyncAll", at, SYNC_ALL, S, 0, nullptr);
    core.last_result = -1;
    learn(shared->meetings[core.barriers], known(S));
    let_others(arrived, &wait, at);
    learn(core.seen, shared->meetings[wait.number]);
}

static bool partners(void *context)
{
    auto *wait = static_cast<Awaited *>(context);
    int64_t &taken = wait->core->taken[wait->flag];
    for (auto &other : shared->cores)
        if (other->core.block == wait->core->core.block && other->core.cube != wait->core->core.cube && other->crossed[wait->flag].sets <= taken) return false;
    return true;
}

void cross_set(int mode, int pipe, int flag, Site at)
{
    act();
    if (flag < 0 || flag > 15) refuse(at, "Use 0 to 10; the others are the framework's.", "flag %d between cores doesn't exist", flag);
    if (mode < 2) require_cores("CrossCoreSetFlag", at);
    auto &crossing = here().crossed[flag];
    crossing.sets++, crossing.mode = mode, crossing.at = placed(at);
    learn(crossing.known, known(pipe));
    int64_t number[8] = {flag, pipe, mode};
    write_down("", "CrossCoreSetFlag", at, CROSS_SET, pipe, 0, number);
}

void cross_wait(int mode, int flag, Site at)
{
    act();
    Runtime &core = here();
    if (flag < 0 || flag > 15) refuse(at, "Use 0 to 10; the others are the framework's.", "flag %d between cores doesn't exist", flag);
    /* The hardware doesn't look at the mode of a wait (page of CrossCoreWaitFlag, Atlas A2): it is that of the flag, which
     * in modes 0 and 1 every core sets before it waits. */
    auto own = core.crossed.find(flag);
    mode = own != core.crossed.end() && own->second.mode < 2 ? own->second.mode : core.core.mix ? 2 : mode;
    bool within = core.core.mix && mode == 2;
    Awaited wait = {core.taken[flag] + 1, flag, mode, &core};
    let_others(within ? partners : arrived, &wait, at);
    for (auto &other : shared->cores)
        if (other.get() != &core && other->crossed.count(flag)) learn(core.seen, other->crossed[flag].known);
    core.taken[flag]++;
    step(S, at);
    for (int pipe = 0; pipe < PIPES; pipe++) merge(core.clocks[pipe], now(S));
    int64_t number[8] = {flag, S, mode};
    write_down("", "CrossCoreWaitFlag", at, CROSS_WAIT, S, 0, number);
}

/* Lines of the scalar units' data caches, by which cores tell each other of words in global memory. */
static constexpr uint64_t LINE = 64, ALL_LINES = ~0ull, PATIENCE = 1 << 16;

static bool at_once(void *) { return true; }

/* Who asks memory for the same line once more, and did nothing else, waits for another core. */
static void look_again(uint64_t line, Site at)
{
    Runtime &core = here();
    if (core.looked_moves != shared->moves) {
        std::memset(core.looked_at, 0, sizeof core.looked_at);
        core.fruitless = 0;
    }
    uint64_t &place = core.looked_at[line % 64], before = core.looked_moves = shared->moves;
    bool again = place == line + 1;
    place = line + 1;
    if (!again) return;
    yield_core(at_once, nullptr, at);
    if (shared->moves == before && ++core.fruitless > PATIENCE)
        refuse(at, "Write the word on another core, and write its line back with DataCacheCleanAndInvalid.",
               "block %d looks at the same words of global memory again and again, which no core writes: it waits for ever", current->block);
}

static uint64_t line_of(const void *place) { return reinterpret_cast<uintptr_t>(place) / LINE; }

void refresh_line(const void *place, bool all, Site at)
{
    uint64_t line = all ? ALL_LINES : line_of(place);
    learn(shared->written_back[line], known(S));
    here().fetched_anew.insert(line);
    scalar(0, 0, 1, 0, 0, at);
    look_again(line, at);
}

void write_word(const void *place, const void *first, bool through, Site at)
{
    scalar(0, 1, 0, 0, turned(at, reinterpret_cast<intptr_t>(first)), at);
    shared->moves++;
    if (through) learn(shared->written_back[line_of(place)], known(S));
}

void read_word(const void *place, const void *first, bool through, Site at)
{
    auto &anew = here().fetched_anew;
    bool all = anew.count(ALL_LINES), misses = through || all || anew.erase(line_of(place));
    if (all) anew.clear();
    scalar(0, 0, 0, !misses, turned(at, reinterpret_cast<intptr_t>(first) + 1), at, misses);
    if (through) look_again(line_of(place), at);
    if (shared->written_back.empty()) return;
    for (uint64_t line : {line_of(place), ALL_LINES}) {
        auto found = shared->written_back.find(line);
        if (found != shared->written_back.end()) learn(here().seen, found->second);
    }
}

static Runtime *cube_of(Runtime &core)
{
    for (auto &other : shared->cores)
        if (other->core.block == core.core.block && other->core.cube) return other.get();
    return nullptr;
}

static bool served(void *context)
{
    auto *wait = static_cast<Awaited *>(context);
    return wait->core->served >= wait->number;
}

static constexpr int ASKS = 14, ANSWERS = 15; /* flags between cores that requests use */

void ask_cube(void (*work)(void *), void *context, Site at)
{
    act();
    Runtime &core = here(), *cube = cube_of(core);
    if (!cube) refuse(at, "Launch it on both, e.g. as __mix__(1, 2).", "a product on a vector core needs a cube core beside it");
    cube->asked.push_back({work, context, core.core.sub_block, placed(at)});
    int64_t asks[8] = {ASKS, S, 2}, answers[8] = {ANSWERS, S, 2};
    write_down("", "matrix product", at, CROSS_SET, S, 0, asks);
    Awaited wait = {++cube->requests, 0, 0, cube};
    wait_until(served, &wait, at);
    write_down("", "matrix product", at, CROSS_WAIT, S, 0, answers);
    step(S, at);
}

static bool asked(void *context)
{
    auto *core = static_cast<Runtime *>(context);
    if (!core->asked.empty()) return true;
    for (auto &other : shared->cores)
        if (other->core.block == core->core.block && !other->core.cube && !other->ended) return false;
    return true;
}

bool serves() { return here().serving; }

void serve(Site at)
{
    act();
    Runtime &core = here();
    core.serving = true;
    std::map<int, Clocks> answered; /* what had ended when a vector core heard of its last product, which it did before it asks again */
    while (true) {
        wait_until(asked, &core, at);
        if (core.asked.empty()) return;
        auto request = core.asked.front();
        core.asked.pop_front();
        int64_t asks[8] = {ASKS, S, 2, request.sub_block + 1}, answers[8] = {ANSWERS, FIX, 2, request.sub_block + 1};
        write_down("", "matrix product", request.at, CROSS_WAIT, S, 0, asks);
        merge(core.clocks[S], answered[request.sub_block]);
        {
            Acting acting(request.at);
            request.work(request.context);
        }
        answered[request.sub_block] = now(FIX);
        write_down("", "matrix product", request.at, CROSS_SET, FIX, 0, answers);
        core.served++;
    }
}

/* Flags between cores that nobody has waited for: the next launch would find them set. */
static void check_crossed()
{
    for (auto &core : shared->cores)
        for (auto &[flag, crossing] : core->crossed)
            for (auto &other : shared->cores) {
                bool near = other->core.block == core->core.block, alike = other->core.cube == core->core.cube;
                bool waits = core->core.mix && crossing.mode == 2 ? near && !alike : alike && (crossing.mode != 1 || near);
                if (!waits || other->taken[flag] >= crossing.sets) continue;
                current = &core->core;
                refuse(crossing.at, "Every CrossCoreSetFlag needs one CrossCoreWaitFlag on the other side.", "flag %d between cores is set %lld times, block %d has waited for it %lld times", flag,
                       (long long)crossing.sets, other->core.block, (long long)other->taken[flag]);
            }
}

} // namespace npusim

#endif

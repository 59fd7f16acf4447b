/* Flags between the pipes of a core. */
#ifndef NPUSIM_KERNELS_FLAGS_H
#define NPUSIM_KERNELS_FLAGS_H

#include "order.h"

namespace npusim {

static int64_t key_of(int setter, int waiter, int64_t number) { return (number * PIPES + setter) * PIPES + waiter; }

static void check_pipes(int setter, int waiter, Site at)
{
    for (int pipe : {setter, waiter})
        if (current->cube ? pipe == V && shared->job->kind >= 0 : (pipe == M || pipe == MTE1 || pipe == FIX) && shared->job->kind >= 0 && !current->size[L1])
            refuse(at, "Use events between pipes that this core has.", "an event from %s to %s: a %s core has no %s pipe", PIPE_NAMES[setter], PIPE_NAMES[waiter],
                   current->cube ? "cube" : "vector", PIPE_NAMES[pipe]);
}

void set_flag(int setter, int waiter, int64_t id, Site at)
{
    check_pipes(setter, waiter, at);
    if (id < 0 || id > 7) refuse(at, "A pair of pipes has events 0 to 7.", "event %lld doesn't exist", (long long)id);
    Flag &flag = here().flags[key_of(setter, waiter, id)];
    /* The device counts: libraries (CATLASS, its examples 17 and 24; operators) set one that is set. */
    if (!flag.set.empty() && !is_a_librarys())
        refuse(at, "Wait for it first, or use another event.", "event %lld from %s to %s is set again before anything has waited for it (%s)", (long long)id, PIPE_NAMES[setter],
               PIPE_NAMES[waiter], spelled(flag.sites.back()).c_str());
    flag.set.push_back(now(setter));
    flag.sites.push_back(placed(at));
    if (flag.sites.size() > 64) flag.sites.pop_front();
    flag.sets++;
    int64_t number[8] = {setter, waiter, id, 0};
    write_down("", "SetFlag", at, SET, setter, 0, number);
}

void wait_flag(int setter, int waiter, int64_t id, Site at)
{
    check_pipes(setter, waiter, at);
    if (id < 0 || id > 7) refuse(at, "A pair of pipes has events 0 to 7.", "event %lld doesn't exist", (long long)id);
    Flag &flag = here().flags[key_of(setter, waiter, id)];
    flag.waits++;
    flag.last = placed(at);
    if (flag.set.empty())
        refuse(at, "Every SetFlag needs one WaitFlag, and the other way round.", "event %lld from %s to %s is waited for, but nothing has set it: the core waits for ever", (long long)id,
               PIPE_NAMES[setter], PIPE_NAMES[waiter]);
    merge(here().clocks[waiter], flag.set.front());
    flag.set.pop_front();
    if (waiter == V) here().unread = true;
    int64_t number[8] = {setter, waiter, id, 0};
    write_down("", "WaitFlag", at, WAIT, waiter, 0, number);
}

int32_t new_event(int setter, int waiter, Site at)
{
    uint32_t &taken = here().events[setter][waiter];
    for (int each = 0; each < 8; each++)
        if (!(taken >> each & 1)) {
            taken |= 1u << each;
            return each;
        }
    refuse(at, "Release events that are done with.", "all 8 events from %s to %s are taken", PIPE_NAMES[setter], PIPE_NAMES[waiter]);
}

void give_event(int setter, int waiter, int32_t number) { here().events[setter][waiter] &= ~(1u << number); }

static void all_meet(Runtime &core)
{
    for (int pipe = 0; pipe < PIPES; pipe++)
        for (int other = 0; other < PIPES; other++)
            if (core.issued[other] > core.clocks[pipe].of[other]) core.clocks[pipe].of[other] = core.issued[other];
}

void join(Site at)
{
    step(S, at);
    all_meet(here());
    write_down("pipe_barrier", "PipeBarrier", at, JOIN, S, 0, nullptr);
}

void link_pipes(int first, int then, Site at)
{
    merge(here().clocks[then], now(first));
    int64_t number[8] = {first, then, 900, 0};
    write_down("", "", at, SET, first, 0, number);
    write_down("", "", at, WAIT, then, 0, number);
}

/* Unit flags: a fixpipe follows the product that fills its part of L0C, the next product there follows the fixpipe. */
static constexpr int64_t UNIT = 901;

void leave_unit(int64_t start, int64_t end, Site at)
{
    here().leaving.push_back({start, end, now(FIX)});
    int64_t number[8] = {FIX, M, UNIT, 0};
    write_down("", "", at, SET, FIX, 0, number);
}

void enter_unit(int64_t start, int64_t end, Site at)
{
    Runtime &core = here();
    size_t last = core.leaving.size();
    while (last && (core.leaving[last - 1].start >= end || core.leaving[last - 1].end <= start)) last--;
    for (; last; last--) {
        merge(core.clocks[M], core.leaving.front().known);
        core.leaving.pop_front();
        int64_t number[8] = {FIX, M, UNIT, 0};
        write_down("", "", at, WAIT, M, 0, number);
    }
}

void mark(int setter, int waiter, int64_t id, int initial, Site at)
{
    here().flags[key_of(setter, waiter, id)].set.push_back(now(setter));
    int64_t number[8] = {setter, waiter, id, initial};
    write_down("", "", at, SET, setter, 0, number);
}

void await(int setter, int waiter, int64_t id, int initial, Site at)
{
    Flag &flag = here().flags[key_of(setter, waiter, id)];
    if (flag.last.line++ >= initial && !flag.set.empty()) {
        merge(here().clocks[waiter], flag.set.front());
        flag.set.pop_front();
    }
    int64_t number[8] = {setter, waiter, id, initial};
    write_down("", "", at, WAIT, waiter, 0, number);
}

static void check_flags(Runtime &core)
{
    for (auto &[key, flag] : core.flags)
        if (flag.sets != flag.waits) {
            int waiter = int(key % PIPES), setter = int(key / PIPES % PIPES);
            Site at = flag.sites.empty() ? Site{} : flag.sites.back();
            refuse(at, "Every SetFlag needs one WaitFlag, and the other way round.", "event %lld from %s to %s is set %lld times and waited for %lld times (%s)",
                   (long long)(key / PIPES / PIPES), PIPE_NAMES[setter], PIPE_NAMES[waiter], (long long)flag.sets, (long long)flag.waits, spelled(at).c_str());
        }
}

static void check_atomics(Runtime &core)
{
    if (core.core.atomic) refuse(core.core.atomic_at, "Call SetAtomicNone behind the copies that add.", "atomic operations are still on when the kernel ends");
}

} // namespace npusim

#endif

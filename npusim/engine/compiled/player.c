/* Plays the instruction streams of a kernel: the events of npusim/engine/player.py, compiled.
 *
 * Every pipe walks through its list of steps. It waits for flags, is busy, moves bytes through
 * bandwidth that all cores share, and sets flags. A pipe's own clock runs ahead of the clock that
 * all have in common; only transfers and barriers bring the two together. Times are cycles.
 *
 * Nothing here is specific to a chip or an operator, and nothing is rounded differently from
 * Python: compile without fused multiply-add.
 */
#include "state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NOBODY = -1, SEVERAL = -2 }; /* Flag.setter */

#define EPSILON 1e-9
#define DONE_CYCLES 1e-6 /* a transfer this close to its end has ended */

/* ---- events ------------------------------------------------------------------------------- */

static int sooner(const Event *a, const Event *b) {
    return a->time < b->time || (a->time == b->time && a->order < b->order);
}

static void rise(Player *p, Event event, int64_t at) {
    while (at > 0 && sooner(&event, &p->heap[(at - 1) / 2])) {
        p->heap[at] = p->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    p->heap[at] = event;
}

static void push(Player *p, double time, int32_t kind, int32_t pipe, double until, int64_t version) {
    if (p->heap_count == p->heap_room) {
        int64_t room = 2 * p->heap_room;
        Event *heap = realloc(p->heap, (size_t)room * sizeof *heap);
        if (!heap) {
            p->failed = NO_MEMORY;
            return;
        }
        p->heap = heap;
        p->heap_room = room;
    }
    rise(p, (Event){time, until, p->order++, version, kind, pipe}, p->heap_count++);
}

static Event pop(Player *p) {
    Event first = p->heap[0], last = p->heap[--p->heap_count];
    int64_t at = 0, count = p->heap_count;
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child >= count) break;
        if (child + 1 < count && sooner(&p->heap[child + 1], &p->heap[child])) child++;
        if (!sooner(&p->heap[child], &last)) break;
        p->heap[at] = p->heap[child];
        at = child;
    }
    p->heap[at] = last;
    return first;
}

/* Put events in order again whose times have changed. */
void restore_heap(Player *p) {
    for (int64_t i = 1; i < p->heap_count; i++) rise(p, p->heap[i], i);
}

static void wake(Player *p, int32_t pipe) {
    int32_t all = p->kernel->pipe_count;
    p->ready[(p->ready_first + p->ready_count++) % all] = pipe;
}

static void wake_first(Player *p, int32_t pipe) {
    int32_t all = p->kernel->pipe_count;
    p->ready_first = p->ready_first ? p->ready_first - 1 : all - 1;
    p->ready[p->ready_first] = pipe;
    p->ready_count++;
}

static void sleep_until(Player *p, int32_t pipe, double until) {
    double delay = until - p->now;
    p->pipes[pipe].alarm = until;
    push(p, p->now + (delay > 0.0 ? delay : 0.0), ALARM, pipe, until, 0);
}

/* ---- shared bandwidth --------------------------------------------------------------------- */

static void move_on(Player *p) {
    double elapsed = p->now - p->updated;
    if (elapsed > 0) {
        for (int32_t i = 0; i < p->flow_count; i++)
            p->flows[i].remaining -= p->flows[i].rate * elapsed;
        p->updated = p->now;
    }
}

/* All rates grow together until a flow reaches its ceiling or a resource is used up. */
static void share_out(Player *p) {
    const Claim *claims = p->kernel->claims;
    const double *bandwidth = p->kernel->bandwidths;
    double left[RESOURCES], level = 0.0;
    int32_t count = p->flow_count;
    memcpy(left, bandwidth, sizeof left);
    for (int32_t i = 0; i < count; i++) p->growing[i] = i;
    while (count) {
        double loads[RESOURCES] = {0.0}, step = INFINITY;
        int full[RESOURCES] = {0};
        for (int32_t i = 0; i < count; i++) {
            const Claim *claim = &claims[p->flows[p->growing[i]].claim];
            for (int r = 0; r < RESOURCES; r++) loads[r] += claim->loads[r];
            if (claim->ceiling < step) step = claim->ceiling;
        }
        step -= level;
        for (int r = 0; r < RESOURCES; r++)
            if (loads[r] > 0 && left[r] / loads[r] < step) step = left[r] / loads[r];
        if (step < 0.0) step = 0.0;
        level += step;
        for (int r = 0; r < RESOURCES; r++) {
            if (loads[r] > 0) {
                left[r] -= step * loads[r];
                full[r] = left[r] <= EPSILON * bandwidth[r];
            }
        }
        int32_t still = 0;
        for (int32_t i = 0; i < count; i++) {
            Flow *flow = &p->flows[p->growing[i]];
            const Claim *claim = &claims[flow->claim];
            flow->rate = level;
            int goes_on = claim->ceiling - level > EPSILON * claim->ceiling;
            for (int r = 0; r < RESOURCES; r++)
                if (full[r] && claim->loads[r] > 0) goes_on = 0;
            if (goes_on) p->growing[still++] = p->growing[i];
        }
        count = still;
    }
}

static void settle(Player *p) {
    if (!p->changed) return;
    p->changed = 0;
    p->version++;
    if (!p->flow_count) return;
    const Claim *claims = p->kernel->claims;
    double wanted[RESOURCES] = {0.0};
    for (int32_t i = 0; i < p->flow_count; i++) {
        const Claim *claim = &claims[p->flows[i].claim];
        p->flows[i].rate = claim->ceiling;
        for (int r = 0; r < RESOURCES; r++) wanted[r] += claim->most[r];
    }
    for (int r = 0; r < RESOURCES; r++) {
        if (wanted[r] > p->kernel->bandwidths[r]) {
            share_out(p);
            break;
        }
    }
    double delay = INFINITY;
    for (int32_t i = 0; i < p->flow_count; i++) {
        double lasts = p->flows[i].remaining / p->flows[i].rate;
        if (lasts < delay) delay = lasts;
    }
    push(p, p->now + (delay > 0.0 ? delay : 0.0), WAKE, -1, 0.0, p->version);
}

static void add_flow(Player *p, double bytes, int32_t claim, int32_t owner) {
    if (p->now > p->updated) move_on(p);
    p->flows[p->flow_count++] = (Flow){bytes, 0.0, claim, owner};
    p->changed = 1;
}

/* ---- flags -------------------------------------------------------------------------------- */

static double *flag_at(Flag *flag, int64_t place) {
    int64_t at = flag->first + place;
    return &flag->times[at >= flag->room ? at - flag->room : at];
}

static int set_flag(Flag *flag, double time) {
    if (flag->count == flag->room) {
        int64_t room = flag->room ? 2 * flag->room : 4;
        double *times = malloc((size_t)room * sizeof *times);
        if (!times) return 0;
        for (int64_t i = 0; i < flag->count; i++) times[i] = *flag_at(flag, i);
        free(flag->times);
        flag->times = times;
        flag->room = room;
        flag->first = 0;
    }
    int64_t place = flag->count++;
    if (flag->unordered) {
        while (place > 0 && *flag_at(flag, place - 1) > time) {
            *flag_at(flag, place) = *flag_at(flag, place - 1);
            place--;
        }
    }
    *flag_at(flag, place) = time;
    return 1;
}

static void go_on(Player *p, int32_t pipe) {
    p->pipes[pipe].lazy = 0;
    wake(p, pipe);
}

/* Take the flags of a step one after the other; 0 if one of them isn't set. */
static int take(Player *p, int32_t pipe, const Step *step) {
    PipeState *state = &p->pipes[pipe];
    while (state->waited < step->wait_count) {
        Flag *flag = &p->flags[p->kernel->waits[step->waits + state->waited]];
        if (!flag->count) {
            flag->waiter = pipe;
            if (flag->setter >= 0 && p->pipes[flag->setter].lazy) go_on(p, flag->setter);
            return 0;
        }
        double time = *flag_at(flag, 0);
        if (time > state->clock) {
            if (flag->unordered && time > p->now) {
                sleep_until(p, pipe, time);
                return 0;
            }
            state->clock = time;
        }
        flag->first = flag->first + 1 == flag->room ? 0 : flag->first + 1;
        flag->count--;
        flag->taken++;
        state->waited++;
    }
    state->waited = 0;
    return 1;
}

/* ---- the queue of MTE1 -------------------------------------------------------------------- */

static Left *left_at(IssueQueue *queue, int32_t place) {
    return &queue->ring[(queue->first + place) % queue->room];
}

static double begun(Player *p, const PipeState *state, const Step *step, double started) {
    IssueQueue *queue = &p->issue[state->group];
    if (!queue->room) return started;
    if (step->flags & IN_MTE1) {
        if (queue->count == queue->room) {
            queue->first = (queue->first + 1) % queue->room;
            queue->count--;
        }
        *left_at(queue, queue->count++) = (Left){started, 2 * step->parts};
    } else if (step->flags & UNIT_FLAG) {
        int32_t waiting = p->kernel->issue_entries;
        for (int32_t i = queue->count - 1; i >= 0; i--) {
            Left *left = left_at(queue, i);
            if (left->left <= started) {
                waiting -= left->entries;
                if (waiting <= 0) return left->left;
            }
        }
        if (queue->count && left_at(queue, 0)->left < started) return left_at(queue, 0)->left;
    }
    return started;
}

/* ---- steps -------------------------------------------------------------------------------- */

static void note(Player *p, int32_t pipe, int32_t step, double start, double end) {
    Result *result = p->result;
    result->entries[result->entry_count++] = (Entry){pipe, step, start, end};
}

static double cycles_of(const Player *p, const Step *step) {
    if (step->first_cycles == 0.0 || p->result->runs_of[step - p->kernel->steps])
        return step->cycles;
    return step->cycles + step->first_cycles;
}

/* Wait for flags, be busy, move bytes, set flags; 0 if that isn't done yet. */
static int work(Player *p, int32_t pipe, const Step *step) {
    PipeState *state = &p->pipes[pipe];
    double started;
    if (step->claim < 0) {
        if (step->wait_count && !take(p, pipe, step)) return 0;
        started = state->clock;
        state->clock += cycles_of(p, step);
    } else if (state->stage == MOVED) {
        state->stage = BEFORE;
        started = state->started;
    } else {
        if (state->stage == BEFORE) {
            if (step->wait_count && !take(p, pipe, step)) return 0;
            state->started = state->clock;
            state->clock += cycles_of(p, step);
            if (state->clock > p->now) {
                state->stage = BUSY_UNTIL;
                sleep_until(p, pipe, state->clock);
                return 0;
            }
        }
        state->stage = MOVING;
        add_flow(p, step->bytes, step->claim, pipe);
        return 0;
    }
    double end = state->clock;
    if (step->parts) {
        int64_t at = step - p->kernel->steps;
        double arrived = end + step->latency;
        p->result->runs_of[at]++;
        p->result->spent_on[at] += end - started;
        if (p->result->entry_room) note(p, pipe, (int32_t)at, started, end);
        started = begun(p, state, step, started);
        double busy = arrived - (started > state->arrived ? started : state->arrived);
        if (busy > 0.0) state->busy += busy;
        if (arrived > state->arrived) state->arrived = arrived;
        double *last = &p->result->ends[state->group];
        if (arrived > *last) *last = arrived;
    } else if (state->arrived > end) { /* what it moved before has ended when it is there */
        end = state->arrived;
    }
    for (int32_t i = 0; i < step->set_count; i++) {
        const Set *set = &p->kernel->sets[step->sets + i];
        Flag *flag = &p->flags[set->flag];
        if (!set_flag(flag, end + set->delay)) p->failed = NO_MEMORY;
        if (flag->waiter >= 0) {
            int32_t waiter = flag->waiter;
            flag->waiter = -1;
            wake(p, waiter);
        }
    }
    return 1;
}

/* Sleep if something happens before the pipe's own clock; else the common clock goes along. */
static int lets_catch_up(Player *p, int32_t pipe) {
    PipeState *state = &p->pipes[pipe];
    if (state->clock <= p->now) return 0;
    if (p->ready_count || (p->heap_count && state->clock > p->heap[0].time)) {
        sleep_until(p, pipe, state->clock);
        return 1;
    }
    if (!p->changed) p->now = state->clock;
    return 0;
}

/* Whether a pipe has set more in its loop than anybody needs for long. What it does there concerns
 * others by its flags alone, so that it makes no difference when it is played. */
static int is_far_ahead(const Player *p, const Step *body, const Step *end) {
    const Kernel *k = p->kernel;
    int far = 0;
    for (const Step *step = body; step < end; step++) {
        if (step->kind == MEET || step->claim >= 0) return 0;
        for (int32_t i = 0; i < step->wait_count; i++)
            if (p->flags[k->waits[step->waits + i]].unordered) return 0;
        for (int32_t i = 0; i < step->set_count; i++) {
            const Flag *flag = &p->flags[k->sets[step->sets + i].flag];
            if (flag->setter < 0) return 0;
            far |= flag->count >= MOST_AHEAD;
        }
    }
    return far;
}

/* Whether somebody waits for a flag of the pipe, which may lie behind the loop that it is in. */
static int is_waited_for(const Player *p, int32_t pipe) {
    const Kernel *k = p->kernel;
    int32_t cluster = k->cluster_of[pipe];
    for (int32_t f = k->first_flag[cluster]; f < k->first_flag[cluster + 1]; f++)
        if (p->flags[f].setter == pipe && p->flags[f].waiter >= 0) return 1;
    return 0;
}

/* An iteration has ended; 0 if the pipe is to let others catch up. */
static int turn(Player *p, int32_t pipe, const Step *step) {
    PipeState *state = &p->pipes[pipe];
    int64_t turns = ++state->runs[state->depth - 1].turns;
    if (turns < step->count) {
        state->place = step->target;
        if (p->played >= p->look_from) {
            Cluster *cluster = &p->clusters[state->cluster];
            if (cluster->leader < 0 || cluster->leader == pipe) cluster->turned = pipe;
        }
        if (p->played >= p->lazy_from && turns % (MOST_AHEAD / 4) == 0 &&
            is_far_ahead(p, p->kernel->steps + state->first_step + step->target, step) &&
            !is_waited_for(p, pipe)) {
            state->lazy = 1;
            return 0;
        }
        return step->count - turns < SHORTEST || !lets_catch_up(p, pipe);
    }
    state->place++;
    state->depth--;
    return 1;
}

static int meet(Player *p, int32_t pipe) {
    PipeState *state = &p->pipes[pipe];
    if (state->stage == MEETING) {
        double *last = &p->result->ends[state->group];
        state->stage = BEFORE;
        state->place++;
        if (state->clock > *last) *last = state->clock;
        return 1;
    }
    state->stage = MEETING;
    p->meeting[p->met++] = pipe;
    if (p->met == p->kernel->pipe_count) {
        double together = -INFINITY;
        for (int32_t i = 0; i < p->met; i++)
            if (p->pipes[i].clock > together) together = p->pipes[i].clock;
        together += p->kernel->sync_cycles;
        for (int32_t i = 0; i < p->met; i++) {
            p->pipes[p->meeting[i]].clock = together;
            sleep_until(p, p->meeting[i], together);
        }
        p->met = 0;
    }
    return 0;
}

/* Carry out steps until the pipe has to wait for something. */
static void run(Player *p, int32_t pipe) {
    PipeState *state = &p->pipes[pipe];
    const Step *steps = p->kernel->steps + state->first_step;
    const Result *result = p->result;
    while (!p->failed) {
        const Step *step = &steps[state->place];
        if (result->entry_room && result->entry_count == result->entry_room) {
            p->paused = 1;
            return;
        }
        p->played++;
        switch (step->kind) {
        case WORK:
            if (!work(p, pipe, step)) return;
            state->place++;
            break;
        case ENTER:
            if (state->depth == DEEPEST) {
                p->failed = TOO_DEEP;
                return;
            }
            state->runs[state->depth++] = (Run){state->place, 0, step->count};
            state->place++;
            break;
        case TURN:
            if (!turn(p, pipe, step)) return;
            break;
        case MEET:
            if (!meet(p, pipe)) return;
            break;
        default:
            state->stage = FINISHED;
            return;
        }
    }
}

/* Let everybody work who can, then share out the bandwidth. */
static void advance(Player *p) {
    int32_t all = p->kernel->pipe_count;
    while (p->ready_count && !p->failed) {
        int32_t pipe = p->ready[p->ready_first];
        p->ready_first = p->ready_first + 1 == all ? 0 : p->ready_first + 1;
        p->ready_count--;
        run(p, pipe);
        if (p->paused) { /* it goes on first */
            wake_first(p, pipe);
            return;
        }
    }
    settle(p);
}

static void flows_ended(Player *p) {
    move_on(p);
    double tick = nextafter(p->now, INFINITY) - p->now;
    double done = 2 * tick > DONE_CYCLES ? 2 * tick : DONE_CYCLES;
    int32_t ended = 0, going = 0;
    for (int32_t i = 0; i < p->flow_count; i++) {
        if (p->flows[i].remaining <= done * p->flows[i].rate)
            p->ended[ended++] = p->flows[i].owner;
        else
            p->flows[going++] = p->flows[i];
    }
    p->flow_count = going;
    p->changed = 1;
    for (int32_t i = 0; i < ended; i++) {
        p->pipes[p->ended[i]].clock = p->now;
        p->pipes[p->ended[i]].stage = MOVED;
        wake(p, p->ended[i]);
    }
    advance(p);
}

static void run_out(Player *p) {
    while (p->heap_count && !p->failed && !p->paused) {
        Event event = pop(p);
        p->now = event.time;
        if (event.kind == WAKE) {
            if (event.version == p->version) flows_ended(p);
        } else if (p->pipes[event.pipe].alarm == event.until) {
            p->pipes[event.pipe].alarm = NAN;
            wake_first(p, event.pipe);
            advance(p);
        }
        if (p->played >= p->look_from && !p->paused) steady_look(p);
    }
}

/* ---- the beginning and the end ------------------------------------------------------------ */

static void note_setter(Flag *flag, int32_t pipe) {
    if (flag->setter == NOBODY)
        flag->setter = pipe;
    else if (flag->setter != pipe)
        flag->setter = SEVERAL;
}

static int prepare(Player *p) {
    const Kernel *k = p->kernel;
    size_t pipes = (size_t)k->pipe_count, groups = (size_t)k->group_count;
    p->pipes = calloc(pipes, sizeof *p->pipes);
    p->flags = calloc((size_t)k->flag_count + 1, sizeof *p->flags);
    p->issue = calloc(groups, sizeof *p->issue);
    p->heap_room = 4 * k->pipe_count + 16;
    p->heap = malloc((size_t)p->heap_room * sizeof *p->heap);
    p->ready = malloc(pipes * sizeof *p->ready);
    p->meeting = malloc(pipes * sizeof *p->meeting);
    p->flows = malloc(pipes * sizeof *p->flows);
    p->growing = malloc(pipes * sizeof *p->growing);
    p->ended = malloc(pipes * sizeof *p->ended);
    if (!p->pipes || !p->flags || !p->issue || !p->heap || !p->ready || !p->meeting || !p->flows ||
        !p->growing || !p->ended)
        return 0;
    for (int32_t i = 0; i < k->flag_count; i++) {
        p->flags[i].waiter = -1;
        p->flags[i].unordered = k->unordered[i];
        p->flags[i].setter = k->unordered[i] ? SEVERAL : NOBODY;
        for (int32_t n = k->held_first[i]; n < k->held_first[i + 1]; n++)
            if (!set_flag(&p->flags[i], k->held[n])) return 0;
    }
    for (size_t i = 0; i < groups; i++) {
        if (k->issues[i] && k->issue_entries) {
            p->issue[i].room = 4 * k->issue_entries;
            p->issue[i].ring = malloc((size_t)p->issue[i].room * sizeof *p->issue[i].ring);
            if (!p->issue[i].ring) return 0;
        }
    }
    for (int32_t i = 0; i < k->pipe_count; i++) {
        PipeState *state = &p->pipes[i];
        state->group = k->group_of[i];
        state->cluster = k->cluster_of[i];
        state->first_step = k->first_step[i];
        state->alarm = NAN;
        wake(p, i);
        for (int32_t s = k->first_step[i]; s < k->first_step[i + 1]; s++)
            for (int32_t n = 0; n < k->steps[s].set_count; n++)
                note_setter(&p->flags[k->sets[k->steps[s].sets + n].flag], i);
    }
    p->lazy_from = k->look_after ? k->look_after / 2 : INT64_MAX;
    return steady_prepare(p);
}

Player *npusim_begin(const Kernel *kernel, Result *result) {
    Player *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    p->kernel = kernel;
    p->result = result;
    if (prepare(p)) return p;
    npusim_end(p);
    return NULL;
}

int npusim_go(Player *p) {
    Result *result = p->result;
    p->paused = 0;
    advance(p);
    run_out(p);
    p->lazy_from = INT64_MAX; /* nobody needs the others any more, but they end, too */
    for (int32_t i = 0; i < p->kernel->pipe_count && !p->failed && !p->paused; i++)
        if (p->pipes[i].lazy) go_on(p, i);
    advance(p);
    run_out(p);
    result->played = p->played;
    if (p->failed) return p->failed;
    if (p->paused) return PAUSED;
    int outcome = PLAYED;
    for (int32_t i = 0; i < p->kernel->pipe_count; i++) {
        result->busy[i] = p->pipes[i].busy;
        if (p->pipes[i].stage != FINISHED) outcome = DEADLOCK;
    }
    return outcome;
}

void npusim_end(Player *p) {
    steady_let_go(p);
    for (int32_t i = 0; p->flags && i < p->kernel->flag_count; i++) free(p->flags[i].times);
    for (int32_t i = 0; p->issue && i < p->kernel->group_count; i++) free(p->issue[i].ring);
    free(p->pipes);
    free(p->flags);
    free(p->issue);
    free(p->heap);
    free(p->ready);
    free(p->meeting);
    free(p->flows);
    free(p->growing);
    free(p->ended);
    free(p);
}

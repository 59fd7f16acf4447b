/* The jump over what repeats, for kernels so long that playing all of it would take seconds.
 *
 * A cluster of cores that works through a loop comes back to the same steps after every few
 * iterations. When each cluster that is under way has been found twice at one place, a window of
 * many iterations apart, all go on for as many of their own windows as take about the same time:
 * every iteration lasts as long as the mean of those that were played. What waits for something
 * else isn't moved, and no loop is left by a jump: how they end is played again.
 *
 * Nothing is jumped over before many steps are played, so that this is off by less than what one
 * iteration in some hundred differs from the mean.
 */
#include "state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LARGEST_WINDOW (INT64_C(1) << 24)
#define FEWEST_PERIODS 256 /* of every cluster: they end within half a period of each other */

static void begin_window(Player *p) {
    p->look_from = p->played;
    p->match_from = p->played + p->window;
    p->give_up_at = p->played + 3 * p->window;
    for (int32_t c = 0; c < p->kernel->cluster_count; c++) {
        Cluster *cluster = &p->clusters[c];
        cluster->leader = cluster->turned = -1;
        cluster->anchor.taken = cluster->match.taken = 0;
    }
}

static void widen(Player *p) {
    if (p->window < LARGEST_WINDOW) p->window *= 2;
    begin_window(p);
}

static int moment_prepare(Moment *moment, const Cluster *cluster) {
    size_t flags = (size_t)(cluster->last_flag - cluster->first_flag) + 1;
    size_t steps = (size_t)cluster->step_count + 1;
    moment->pipes = malloc(((size_t)cluster->pipe_count + 1) * sizeof *moment->pipes);
    moment->counts = malloc(flags * sizeof *moment->counts);
    moment->flags_taken = malloc(flags * sizeof *moment->flags_taken);
    moment->runs_of = malloc(steps * sizeof *moment->runs_of);
    moment->spent_on = malloc(steps * sizeof *moment->spent_on);
    return moment->pipes && moment->counts && moment->flags_taken && moment->runs_of &&
           moment->spent_on;
}

static void moment_let_go(Moment *moment) {
    free(moment->pipes);
    free(moment->counts);
    free(moment->flags_taken);
    free(moment->runs_of);
    free(moment->spent_on);
}

/* How many steps the pipe has. */
static int32_t length(const Player *p, int32_t pipe) {
    return p->kernel->first_step[pipe + 1] - p->kernel->first_step[pipe];
}

int steady_prepare(Player *p) {
    const Kernel *k = p->kernel;
    p->window = k->look_after;
    p->look_from = k->look_after ? k->look_after : INT64_MAX;
    if (!k->look_after) return 1;
    p->clusters = calloc((size_t)k->cluster_count, sizeof *p->clusters);
    if (!p->clusters) return 0;
    for (int32_t c = 0; c < k->cluster_count; c++) {
        Cluster *cluster = &p->clusters[c];
        cluster->leader = cluster->turned = -1;
        cluster->first_flag = k->first_flag[c];
        cluster->last_flag = k->first_flag[c + 1];
        cluster->pipes = malloc((size_t)k->pipe_count * sizeof *cluster->pipes);
        if (!cluster->pipes) return 0;
        for (int32_t i = 0; i < k->pipe_count; i++) {
            if (k->cluster_of[i] != c) continue;
            cluster->pipes[cluster->pipe_count++] = i;
            cluster->step_count += length(p, i);
        }
    }
    return 1;
}

void steady_let_go(Player *p) {
    for (int32_t c = 0; p->clusters && c < p->kernel->cluster_count; c++) {
        moment_let_go(&p->clusters[c].anchor);
        moment_let_go(&p->clusters[c].match);
        free(p->clusters[c].pipes);
    }
    free(p->clusters);
}

static int note(Player *p, Cluster *cluster, Moment *moment) {
    if (!moment->pipes && !moment_prepare(moment, cluster)) return 0;
    moment->now = p->now;
    moment->taken = 1;
    size_t at = 0;
    for (int32_t i = 0; i < cluster->pipe_count; i++) {
        int32_t pipe = cluster->pipes[i];
        size_t steps = (size_t)length(p, pipe), first = (size_t)p->kernel->first_step[pipe];
        moment->pipes[i] = p->pipes[pipe];
        memcpy(moment->runs_of + at, p->result->runs_of + first, steps * sizeof(int64_t));
        memcpy(moment->spent_on + at, p->result->spent_on + first, steps * sizeof(double));
        at += steps;
    }
    for (int32_t f = cluster->first_flag; f < cluster->last_flag; f++) {
        moment->counts[f - cluster->first_flag] = p->flags[f].count;
        moment->flags_taken[f - cluster->first_flag] = p->flags[f].taken;
    }
    return 1;
}

/* The outermost loop in which a pipe has gone on; -1: in none. */
static int32_t moved_in(const PipeState *before, const PipeState *now) {
    for (int32_t level = 0; level < now->depth; level++)
        if (before->runs[level].turns != now->runs[level].turns) return level;
    return -1;
}

/* Whether a pipe is at the step where it was, and not fewer iterations from the end of a loop. */
static int pipe_is_back(const PipeState *before, const PipeState *now) {
    if (before->place != now->place || before->stage != now->stage ||
        before->waited != now->waited || before->depth != now->depth || before->lazy != now->lazy ||
        isnan(before->alarm) != isnan(now->alarm))
        return 0;
    for (int32_t level = 0; level < now->depth; level++)
        if (before->runs[level].loop != now->runs[level].loop) return 0;
    int32_t moved = moved_in(before, now);
    if (moved < 0) return 1;
    for (int32_t level = moved + 1; level < now->depth; level++)
        if (before->runs[level].turns != now->runs[level].turns) return 0;
    return before->runs[moved].turns < now->runs[moved].turns;
}

static int is_back(const Player *p, const Cluster *cluster) {
    for (int32_t i = 0; i < cluster->pipe_count; i++)
        if (!pipe_is_back(&cluster->anchor.pipes[i], &p->pipes[cluster->pipes[i]])) return 0;
    for (int32_t f = cluster->first_flag; f < cluster->last_flag; f++)
        if (cluster->anchor.counts[f - cluster->first_flag] != p->flags[f].count) return 0;
    return 1;
}

static int64_t common(int64_t a, int64_t b) {
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Find what a cluster does again and again: as few iterations as all of its pipes can repeat, and
 * how often it can without leaving a loop. */
static void find_period(Player *p, Cluster *cluster) {
    cluster->parts = 0;
    cluster->room = 0;
    for (int32_t i = 0; i < cluster->pipe_count; i++) {
        const PipeState *then = &cluster->anchor.pipes[i], *later = &cluster->match.pipes[i];
        int32_t level = p->pipes[cluster->pipes[i]].moves_in = moved_in(then, later);
        if (level >= 0)
            cluster->parts = common(later->runs[level].turns - then->runs[level].turns, cluster->parts);
    }
    if (!cluster->parts) return;
    int64_t room = INT64_MAX;
    for (int32_t i = 0; i < cluster->pipe_count; i++) {
        const PipeState *then = &cluster->anchor.pipes[i], *later = &cluster->match.pipes[i];
        const PipeState *now = &p->pipes[cluster->pipes[i]];
        int32_t level = now->moves_in;
        if (level < 0) continue;
        if (now->depth <= level || now->runs[level].loop != later->runs[level].loop) return;
        for (int32_t outer = 0; outer < level; outer++)
            if (now->runs[outer].turns != later->runs[outer].turns) return;
        int64_t turns = (later->runs[level].turns - then->runs[level].turns) / cluster->parts;
        int64_t left = now->runs[level].count - SHORTEST - now->runs[level].turns;
        if (left / turns < room) room = left / turns;
    }
    cluster->room = room;
    cluster->period = (cluster->match.now - cluster->anchor.now) / (double)cluster->parts;
}

/* How many cycles everybody can go on; 0 if that isn't known. */
static double cycles_ahead(Player *p) {
    double cycles = INFINITY;
    for (int32_t i = 0; i < p->kernel->pipe_count; i++) p->pipes[i].moves_in = -1;
    for (int32_t c = 0; c < p->kernel->cluster_count; c++) {
        Cluster *cluster = &p->clusters[c];
        if (!cluster->anchor.taken) continue;
        find_period(p, cluster);
        if (!cluster->room) return 0.0;
        if ((double)cluster->room * cluster->period < cycles)
            cycles = (double)cluster->room * cluster->period;
    }
    for (int32_t i = 0; i < p->kernel->pipe_count; i++) {
        const PipeState *state = &p->pipes[i];
        if (state->moves_in < 0 && state->alarm - p->now < cycles) cycles = state->alarm - p->now;
    }
    for (int32_t i = 0; i < p->flow_count; i++)
        if (p->pipes[p->flows[i].owner].moves_in < 0) return 0.0;
    return cycles < INFINITY ? cycles : 0.0;
}

static void move_cluster(Player *p, Cluster *cluster, double cycles) {
    const Moment *before = &cluster->anchor, *match = &cluster->match;
    int64_t periods = cluster->periods;
    double windows = (double)periods / (double)cluster->parts;
    size_t at = 0;
    for (int32_t i = 0; i < cluster->pipe_count; i++) {
        int32_t pipe = cluster->pipes[i], steps = length(p, pipe);
        size_t first = (size_t)p->kernel->first_step[pipe];
        PipeState *state = &p->pipes[pipe];
        const PipeState *then = &before->pipes[i], *later = &match->pipes[i];
        int32_t level = state->moves_in;
        for (int32_t s = 0; s < steps; s++, at++) {
            p->result->runs_of[first + (size_t)s] +=
                periods * ((match->runs_of[at] - before->runs_of[at]) / cluster->parts);
            p->result->spent_on[first + (size_t)s] +=
                windows * (match->spent_on[at] - before->spent_on[at]);
        }
        state->busy += windows * (later->busy - then->busy);
        if (level < 0) continue;
        state->runs[level].turns +=
            periods * ((later->runs[level].turns - then->runs[level].turns) / cluster->parts);
        state->clock += cycles;
        state->started += cycles;
        state->arrived += cycles;
        state->alarm += cycles;
    }
    for (int32_t f = cluster->first_flag; f < cluster->last_flag; f++) {
        Flag *flag = &p->flags[f];
        if (flag->taken == before->flags_taken[f - cluster->first_flag]) continue;
        for (int64_t n = 0; n < flag->count; n++)
            flag->times[(flag->first + n) % flag->room] += cycles;
    }
}

static void jump(Player *p, double cycles) {
    for (int64_t e = 0; e < p->heap_count; e++) {
        Event *event = &p->heap[e];
        if (event->kind == WAKE || p->pipes[event->pipe].moves_in >= 0) {
            event->time += cycles;
            event->until += cycles;
        }
    }
    restore_heap(p);
    for (int32_t i = 0; i < p->kernel->pipe_count; i++) {
        IssueQueue *queue = &p->issue[p->pipes[i].group];
        if (p->pipes[i].moves_in < 0 || (i && p->pipes[i - 1].group == p->pipes[i].group)) continue;
        for (int32_t n = 0; n < queue->count; n++)
            queue->ring[(queue->first + n) % queue->room].left += cycles;
    }
    for (int32_t c = 0; c < p->kernel->cluster_count; c++)
        if (p->clusters[c].match.taken) move_cluster(p, &p->clusters[c], cycles);
    p->now += cycles;
    p->updated += cycles;
    p->result->jumped_cycles += cycles;
}

static void try_jump(Player *p) {
    double cycles = cycles_ahead(p);
    if (cycles <= 0.0) return;
    for (int32_t c = 0; c < p->kernel->cluster_count; c++) {
        Cluster *cluster = &p->clusters[c];
        if (!cluster->anchor.taken) continue;
        double periods = floor(cycles / cluster->period + 0.5);
        cluster->periods = periods < (double)cluster->room ? (int64_t)periods : cluster->room;
        if (cluster->periods < FEWEST_PERIODS) return;
    }
    jump(p, cycles);
}

void steady_look(Player *p) {
    int all = 1;
    if (p->give_up_at == 0 || p->played >= p->give_up_at) {
        if (p->give_up_at)
            widen(p);
        else
            begin_window(p);
    }
    for (int32_t c = 0; c < p->kernel->cluster_count; c++) {
        Cluster *cluster = &p->clusters[c];
        int32_t turned = cluster->turned;
        cluster->turned = -1;
        if (turned >= 0 && !cluster->anchor.taken) {
            cluster->leader = turned;
            if (!note(p, cluster, &cluster->anchor)) p->failed = NO_MEMORY;
        } else if (turned >= 0 && !cluster->match.taken && p->played >= p->match_from &&
                   is_back(p, cluster)) {
            if (!note(p, cluster, &cluster->match)) p->failed = NO_MEMORY;
        }
        if (cluster->anchor.taken && !cluster->match.taken) all = 0;
    }
    if (all && p->played >= p->match_from && !p->failed) {
        try_jump(p);
        widen(p);
    }
}

/* Where everybody is while a kernel is played. */
#ifndef NPUSIM_STATE_H
#define NPUSIM_STATE_H

#include "player.h"

#define RESOURCES 3
#define DEEPEST 24
#define MOST_AHEAD 1024 /* flags that nobody needs yet, where a kernel is long */
#define SHORTEST 4 /* loops with fewer iterations left aren't held up, nor jumped over */

enum { BEFORE, BUSY_UNTIL, MOVING, MOVED, MEETING, FINISHED }; /* PipeState.stage */
enum { ALARM, WAKE };                                          /* Event.kind */

typedef struct {
    double *times; /* ring */
    int64_t room, first, count;
    int64_t taken; /* so far */
    int32_t waiter, setter; /* pipes; below 0: none, or several */
    int32_t unordered, unused;
} Flag;

typedef struct {
    int32_t loop; /* the step that enters it */
    int64_t turns, count;
} Run;

typedef struct {
    int32_t group, cluster, first_step;
    int32_t place, stage, waited, depth;
    Run runs[DEEPEST]; /* the loops that it is in */
    double clock, started, arrived, busy, alarm;
    int32_t lazy;     /* it waits until somebody needs what it sets */
    int32_t moves_in; /* loop in which it jumps; -1: in none */
} PipeState;

typedef struct {
    double time, until;
    int64_t order; /* of an alarm; for WAKE the version of the shares */
    int64_t version;
    int32_t kind, pipe;
} Event;

typedef struct {
    double remaining, rate;
    int32_t claim, owner;
} Flow;

typedef struct {
    double left;
    int32_t entries;
} Left;

typedef struct {
    Left *ring;
    int32_t room, first, count;
} IssueQueue;

/* Where the pipes of a cluster were, for the jump. */
typedef struct {
    double now;
    int taken;
    PipeState *pipes;
    int64_t *counts, *flags_taken, *runs_of;
    double *spent_on;
} Moment;

typedef struct {
    int32_t *pipes;
    int32_t pipe_count, first_flag, last_flag, step_count;
    int32_t leader, turned; /* pipes; -1: none */
    Moment anchor, match;
    double period;           /* cycles */
    int64_t parts;           /* periods from the anchor to the match */
    int64_t room, periods;   /* that it can jump over, and does */
} Cluster;

struct Player {
    const Kernel *kernel;
    Result *result;
    PipeState *pipes;
    Flag *flags;
    IssueQueue *issue;
    Cluster *clusters;
    Event *heap;
    int64_t heap_room, heap_count, order;
    int32_t *ready; /* ring of as many as there are pipes */
    int32_t ready_first, ready_count;
    int32_t *meeting;
    int32_t met;
    Flow *flows;
    int32_t flow_count;
    int32_t *growing, *ended;
    double updated, now;
    int64_t version, played;
    int changed, paused, failed, begun;
    int64_t lazy_from, look_from, match_from, give_up_at, window; /* steps played */
};

/* steady.c */
int steady_prepare(Player *p);
void steady_look(Player *p);
void steady_let_go(Player *p);

/* player.c */
void restore_heap(Player *p);

#endif

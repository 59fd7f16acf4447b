/* What Python hands to the player and gets back; `layout.py` lays it out. */
#ifndef NPUSIM_PLAYER_H
#define NPUSIM_PLAYER_H

#include <stdint.h>

#if defined(_WIN32)
#define NPUSIM_PUBLIC __declspec(dllexport)
#else
#define NPUSIM_PUBLIC __attribute__((visibility("default")))
#endif

enum { WORK, ENTER, TURN, MEET, STOP };                     /* Step.kind */
enum { UNIT_FLAG = 1, IN_MTE1 = 2 };                        /* Step.flags */
enum { PLAYED, PAUSED, DEADLOCK, NO_MEMORY, TOO_DEEP };     /* what npusim_go returns */

typedef struct {
    double cycles, first_cycles; /* the first time takes so many more */
    double bytes, latency;
    int64_t count; /* iterations of its loop */
    int32_t kind, flags;
    int32_t claim; /* -1: it moves nothing through what cores share */
    int32_t parts; /* instructions in it, for the timeline; 0: it only sets flags */
    int32_t waits, wait_count, sets, set_count;
    int32_t target, unused;
} Step;

typedef struct {
    double delay;
    int32_t flag, unused;
} Set;

typedef struct {
    double ceiling, loads[3], most[3];
} Claim;

typedef struct {
    int32_t pipe, step;
    double start, end;
} Entry;

typedef struct {
    int32_t group_count, pipe_count, flag_count, cluster_count;
    int32_t issue_entries, unused;
    int64_t look_after; /* steps; 0: nothing is jumped over */
    double sync_cycles;
    double bandwidths[3];
    const int32_t *group_of, *cluster_of; /* of each pipe */
    const int32_t *first_step;            /* of each pipe, and behind the last */
    const int32_t *first_flag;            /* of each cluster, and behind the last */
    const Step *steps;
    const int32_t *waits;
    const Set *sets;
    const Claim *claims;
    const int32_t *unordered;  /* of each flag: it isn't set in the order in which it arrives */
    const int32_t *held_first; /* of each flag, and behind the last */
    const double *held;        /* when flags are set that the launch sets */
    const int32_t *issues;     /* of each group: some work waits inside its pipe */
} Kernel;

typedef struct {
    double *ends;     /* of each group */
    double *busy;     /* of each pipe */
    int64_t *runs_of; /* of each step */
    double *spent_on; /* of each step, cycles */
    Entry *entries;   /* of the timeline; the player pauses when they are full */
    int64_t entry_room, entry_count;
    double jumped_cycles;
    int64_t played; /* steps */
} Result;

typedef struct Player Player;

NPUSIM_PUBLIC Player *npusim_begin(const Kernel *kernel, Result *result); /* NULL: no memory */
NPUSIM_PUBLIC int npusim_go(Player *player);
NPUSIM_PUBLIC void npusim_end(Player *player);

#endif

/* What kernels and the simulator's runtime share: cores, instructions, and the launch of kernels. */
#ifndef NPUSIM_KERNEL_RUNTIME_H
#define NPUSIM_KERNEL_RUNTIME_H

#include <cstdint>
#include <cstring>
#include <tuple>
#include <typeinfo>

/* @npusim_job@ */

namespace npusim {

enum Memory : int32_t { UB, L1, L0A, L0B, L0C, BIAS, FIXBUF, MEMORIES, GM = MEMORIES };
enum Pipe : int32_t { S, V, M, MTE1, MTE2, MTE3, FIX, PIPES };
/* What an instruction is priced as, and what its numbers are. */
enum Kind : int32_t {
    VECTOR,      /* repeats, elements of a repeat, whether it reads the last result, conflict factor */
    GM_COPY,     /* path, buffer, bytes of a run, runs, bytes moved since (-1: never), 1 adds 2 bypasses L2 4 at once with another core, turning, grain */
    CHIP_COPY,   /* path, bytes */
    MMAD,        /* m, n, k */
    SCALAR,      /* loads, stores, operations, loads from global memory, turns of a loop, of those loads that miss the cache (before it is written down: where its tensor begins) */
    SET, WAIT,   /* setting pipe, waiting pipe, number, initial count */
    JOIN,        /* all pipes wait for each other */
    SYNC_ALL,
    CROSS_SET,   /* flag, pipe */
    CROSS_WAIT,  /* flag */
    UB_COPY      /* bursts, blocks, stride in blocks */
};
constexpr const char *MEMORY_WORDS[] = {"UB", "L1", "L0A", "L0B", "L0C", "BIAS_TABLE", "FIXPIPE_BUFFER", "GM"};
enum Path : int32_t { GM_TO_UB, UB_TO_GM, GM_TO_L1, L0C_TO_GM, L1_TO_L0A, L1_TO_L0B, L1_TO_BIAS, L0C_TO_L1, L1_TO_GM };

enum CopyWay : int64_t { ADDS = 1, BYPASSES_L2 = 2, AT_ONCE = 4 };

struct Ended {}; /* the runtime has refused an instruction: the kernel is left */

struct Site {
    const char *file;
    int32_t line;
};
/* Called and not copied into every kernel: it is compiled once, and the calls in a tenth of the time. */
#define NPUSIM_CALLED __attribute__((noinline))
#define NPUSIM_AT npusim::Site at = {__builtin_FILE(), __builtin_LINE()}

/* Bytes of a memory: `outer` times `inner` runs of `length`; those of a tensor end at `limit`. */
struct Span {
    int32_t memory;
    int32_t outer, inner;
    int64_t start, limit, length, outer_step, inner_step;
    bool anywhere; /* needn't start at a whole block */
    int8_t some;   /* what nobody wrote may be in it: 1 anywhere (masks, fractals), 2 in blocks that are begun */
};

struct Instruction {
    const char *name, *intrinsic;
    int32_t kind, pipe, dtype, reads, writes;
    int64_t number[8];
    Span read[4], write[2];
};

struct Runtime; /* of one core */

struct Core {
    uint8_t *memory[MEMORIES];
    int64_t size[MEMORIES];
    int32_t block, blocks, sub_block, sub_blocks; /* sub_blocks: vector cores of a group */
    bool cube, mix, counter_mode, masked;
    uint64_t mask[2];
    int32_t atomic, atomic_type; /* 0 none, 1 add, 2 max, 3 min */
    int32_t cursor; /* of matrix products, in the order of their making */
    Site acting, atomic_at;
    Runtime *runtime;
    uint64_t registers[16]; /* special ones: conversions, padding, comparison */
    void *pipe;
};

extern Core *current;
extern bool computes_products; /* else the cube's numbers are left out, and its time alone counts */

void issue(Instruction &instruction, Site at);
void set_flag(int setter, int waiter, int64_t number, Site at);
void wait_flag(int setter, int waiter, int64_t number, Site at);
void join(Site at);
void link_pipes(int first, int then, Site at); /* what the units do between themselves */
void leave_unit(int64_t start, int64_t end, Site at); /* bytes of L0C that a fixpipe with a unit flag has taken */
void enter_unit(int64_t start, int64_t end, Site at); /* and that a product with one fills next */
/* Flags of interfaces, beyond those of kernels: `initial` waits go on before the first set. */
void mark(int setter, int waiter, int64_t number, int initial, Site at);
void await(int setter, int waiter, int64_t number, int initial, Site at);
void sync_all(bool vectors_only, Site at);
void cross_set(int mode, int pipe, int flag, Site at);
void cross_wait(int mode, int flag, Site at);
void wait_until(bool (*ready)(void *), void *context, Site at); /* lets other cores go on */
void let_others_begin(Site at); /* cores begin at once: others come as far as this before it goes on, and know nothing by that */
/* The scalar unit's words in global memory, in its data cache or `through` it; a line that goes to memory and comes anew. */
void refresh_line(const void *place, bool all, Site at);
void write_word(const void *place, const void *first, bool through, Site at); /* of a tensor that begins at `first` */
void read_word(const void *place, const void *first, bool through, Site at);
void scalar(int loads, int stores, int operations, int global, int turns, Site at, int misses = 0);
[[noreturn]] void refuse(Site at, const char *remedy, const char *format, ...);
uint8_t *global(uint64_t address, int64_t bytes, const char *what, Site at);
void beyond_tensor(int64_t used, int64_t size, const char *unit, const char *what, Site at); /* as SetGlobalBuffer was told */

/* Queues and buffers of a pipe. */
int32_t new_queue(int memory, int producer, int consumer, int depth, int slots, int64_t bytes, Site at);
int64_t new_buffer(int memory, int64_t bytes, Site at);
void reset_pipe(Site at);
int64_t pipe_used(int memory);
void pipe_move(int memory, int64_t to);
struct Slot {
    int32_t queue, number;
    int64_t start, bytes;
};
Slot alloc_slot(int32_t queue, Site at);
void enque_slot(int32_t queue, int64_t start, Site at);
Slot deque_slot(int32_t queue, Site at);
void free_slot(int32_t queue, int64_t start, Site at);
bool queue_has(int32_t queue, bool waiting);
int32_t new_event(int setter, int waiter, Site at);
void give_event(int setter, int waiter, int32_t number);

/* A core that serves others until they have ended (matrix products of vector cores). */
void serve(Site at);
bool serves();
/* Runs `work` on the cube core of this vector core's block, and waits for it unless told not to. */
void ask_cube(void (*work)(void *), void *context, Site at);

inline bool is_cube() { return current->cube; }

/* Inside of it, instructions belong to the line that called the interface they are part of. */
struct Acting {
    Site before;
    explicit Acting(Site at) : before(current->acting) { if (!before.file) current->acting = at; }
    ~Acting() { current->acting = before; }
};

int play(npusim_job_t *job);
int launch_kernel(const char *name, int kind, uint32_t blocks, void *stream, void (*body)(void *), void (*drop)(void *), void *context);

/* What a launch runs, as compiled for cube cores: found by its type, which is the same on both sides. */
using Run = void (*)(void *);
bool hold_cube_side(const char *type, Run run);
Run cube_side(const char *type);

template <typename Kernel> void run_on_core(void *at)
{
    Kernel own(*static_cast<Kernel *>(at));
    own();
}
template <typename Kernel> struct Sides {
    Kernel kernel;
    Run on_cube;
    void operator()()
    {
        if (current->cube && on_cube) on_cube(&kernel);
        else kernel();
    }
};
template <typename Kernel> struct CubeSide {
    static const bool held;
};
template <typename Kernel> const bool CubeSide<Kernel>::held = hold_cube_side(typeid(Kernel).name(), &run_on_core<Kernel>);

/* name<<<blocks, l2ctrl, stream>>>(...): kind is 0 on vector cores, 1 on cube cores, 2 on both,
 * 3 on those that have work, of a source that is compiled for both. */
template <typename Kernel> int launch(const char *name, int kind, uint32_t blocks, void *stream, Kernel kernel)
{
#ifdef __DAV_CUBE__
    return CubeSide<Kernel>::held;
#else
#ifdef __DAV_VEC__
    using Held = Sides<Kernel>;
    auto *held = new Held{kernel, cube_side(typeid(Kernel).name())};
#else
    using Held = Kernel;
    auto *held = new Held(kernel);
#endif
    return launch_kernel(name, kind, blocks, stream, &run_on_core<Held>, [](void *at) { delete static_cast<Held *>(at); }, held);
#endif
}

} // namespace npusim

#endif

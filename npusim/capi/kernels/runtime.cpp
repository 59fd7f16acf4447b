/* Kernels on the host: cores as fibers, checks of every instruction, and what is written down of it.
 *
 * An instruction is a symbol: what it is priced by, and its line. A core's symbols are a list in which
 * what follows itself is a loop, found as it is written. Lists and bodies of loops are kept once. */
#include "division.h"
#include "flags.h"
#include "issue.h"
#include "meeting.h"
#include "queues.h"

#include <csetjmp>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

extern "C" int npusim_kernel_launch(const char *name, int kind, uint32_t blocks, uintptr_t stream,
                                    uintptr_t play, uintptr_t body, uintptr_t drop, uintptr_t context);

namespace npusim {
static void begin(unsigned high, unsigned low)
{
    auto *core = reinterpret_cast<Runtime *>(uintptr_t(high) << 32 | low);
    try {
        reinterpret_cast<void (*)(void *)>(shared->job->body)(reinterpret_cast<void *>(shared->job->context));
        check_stored();
        check_overwritten();
        if (!core->serving) {
            check_freed(*core);
            check_flags(*core);
            check_atomics(*core);
        }
    } catch (const Ended &) {
        shared->failed = true;
    } catch (...) {
        core->problem = std::current_exception();
        shared->failed = true;
    }
    core->ended = true;
    swapcontext(&core->context, &core->home);
}

static void prepare(Runtime &core, int block, bool cube, int sub_block)
{
    const npusim_job_t &job = *shared->job;
    core.core.runtime = &core;
    core.core.block = block, core.core.blocks = job.blocks, core.core.cube = cube, core.core.mix = job.kind > 1;
    core.core.sub_block = sub_block, core.core.sub_blocks = job.vectors;
    for (int memory = 0; memory < MEMORIES; memory++) {
        bool has = job.kind < 0 || (memory == UB) != cube;
        core.core.size[memory] = has ? job.memory[memory] : 0;
        core.core.memory[memory] = static_cast<uint8_t *>(std::calloc(1, size_t(core.core.size[memory]) + 64));
        core.filled[memory].resize(size_t(core.core.size[memory] / BLOCK + 1));
        core.tiles[memory].resize(size_t(core.core.size[memory] / BLOCK + 1));
    }
    core.core.mask[0] = core.core.mask[1] = ~0ull;
    core.stack.reset(new char[STACK]);
    getcontext(&core.context);
    core.context.uc_stack.ss_sp = core.stack.get();
    core.context.uc_stack.ss_size = STACK;
    core.context.uc_link = nullptr;
    uintptr_t word = reinterpret_cast<uintptr_t>(&core);
    makecontext(&core.context, reinterpret_cast<void (*)()>(begin), 2, unsigned(word >> 32), unsigned(word));
}

/* Device memory lies at its addresses while a kernel runs, and nowhere else. */
static std::map<uint64_t, uint64_t> mapped;

static bool map_memory(const npusim_job_t &job)
{
    std::map<uint64_t, uint64_t> wanted;
    for (int each = 0; each < job.buffers; each++) {
        if (job.addresses[each] == job.contents[each]) continue; /* a kernel's constants lie where its code is */
        uint64_t size = (job.sizes[each] + PAGE - 1) / PAGE * PAGE;
        wanted[job.addresses[each]] = size;
        void *place = reinterpret_cast<void *>(job.addresses[each]);
        if (mapped.count(job.addresses[each])) {
            if (mprotect(place, size, PROT_READ | PROT_WRITE)) return false;
        } else if (mremap(reinterpret_cast<void *>(job.contents[each]), 0, size, MREMAP_MAYMOVE | MREMAP_FIXED, place) == MAP_FAILED) {
            return false;
        }
    }
    for (auto [address, size] : mapped)
        if (!wanted.count(address)) munmap(reinterpret_cast<void *>(address), size);
    mapped = wanted;
    return true;
}

static void unmap_memory()
{
    for (auto [address, size] : mapped) mprotect(reinterpret_cast<void *>(address), size, PROT_NONE);
}

/* What ends a launch from the middle of a kernel's code, and the program goes on behind it. */
static sigjmp_buf escape;
static pthread_t runs_on;

[[noreturn]] static void leave(const char *message, const char *remedy)
{
    Runtime &core = here();
    if (!shared->failed) shared->message = message, shared->remedy = remedy, shared->site = core.last_at;
    shared->failed = true; /* what was told before is why */
    siglongjmp(escape, 1);
}

static bool is_in_kernel() { return current && shared && pthread_equal(runs_on, pthread_self()); }

/* A kernel's own pointers into global memory go past our checks; what lies nowhere ends the launch. */
static void on_signal(int signal, siginfo_t *told, void *context)
{
    if (!is_in_kernel()) {
        std::signal(signal, SIG_DFL);
        if (signal == SIGABRT) std::raise(signal);
        return;
    }
    char text[200];
    if (signal == SIGABRT) leave("the kernel's code calls abort, behind this line", "Device code can't end the program: return from the kernel.");
    if (signal == SIGFPE && shared->has_sides && pass_division(static_cast<ucontext_t *>(context))) return;
    if (signal == SIGFPE) leave("the kernel's code divides by zero, behind this line", "Look at the divisor before dividing.");
    if (signal == SIGILL) leave("the kernel's code runs into a place that it says isn't reached, behind this line", "Return a value on every way out of a function.");
    std::snprintf(text, sizeof text, "a pointer is used at %#llx, which lies in no block of device memory, behind this line", (unsigned long long)uintptr_t(told->si_addr));
    leave(text, "Copy as much as the block has: the workspace or the tiling data may be too small.");
}

/* A core that computes on and on without an instruction: each tick is a second of the processor. */
static uint64_t seen_progress;
static int64_t idle_seconds;

static void on_tick(int, siginfo_t *, void *)
{
    if (!is_in_kernel()) return;
    idle_seconds = shared->progress == seen_progress ? idle_seconds + 1 : 0;
    seen_progress = shared->progress;
    if (idle_seconds < shared->job->most_seconds) return;
    char text[200];
    std::snprintf(text, sizeof text, "a core computes for %lld s without an instruction: the kernel doesn't seem to end, behind this line", (long long)idle_seconds);
    leave(text, "End the loop there, or allow more seconds with NPUSIM_KERNEL_SECONDS.");
}

struct Watched {
    static constexpr int SIGNALS[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGVTALRM};
    struct sigaction before[6];
    timer_t timer = {};
    bool ticks = false;
    std::terminate_handler terminates = nullptr; /* which prints */
    std::vector<char> stack = std::vector<char>(1 << 16);
    Watched()
    {
        stack_t place = {};
        place.ss_sp = stack.data(), place.ss_size = stack.size();
        sigaltstack(&place, nullptr);
        for (int each = 0; each < 6; each++) {
            struct sigaction own = {};
            own.sa_sigaction = SIGNALS[each] == SIGVTALRM ? on_tick : on_signal, own.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
            sigaction(SIGNALS[each], &own, &before[each]);
        }
        terminates = std::set_terminate([] { std::abort(); });
        runs_on = pthread_self(), seen_progress = 0, idle_seconds = 0;
        struct sigevent told = {};
        told.sigev_notify = SIGEV_THREAD_ID, told.sigev_signo = SIGVTALRM;
        told._sigev_un._tid = int(syscall(SYS_gettid));
        struct itimerspec each_second = {{1, 0}, {1, 0}};
        ticks = !timer_create(CLOCK_THREAD_CPUTIME_ID, &told, &timer) && !timer_settime(timer, 0, &each_second, nullptr);
    }
    ~Watched()
    {
        if (ticks) timer_delete(timer);
        std::set_terminate(terminates);
        for (int each = 0; each < 6; each++) sigaction(SIGNALS[each], &before[each], nullptr);
        stack_t none = {};
        none.ss_flags = SS_DISABLE;
        sigaltstack(&none, nullptr);
    }
};

struct Told { /* what stays until the next launch: Python reads it */
    std::unique_ptr<Shared> shared;
    std::vector<npusim_entry_t> entries;
    std::vector<int64_t> starts;
    std::vector<uint32_t> roots;
};
static Told told;

static void run_cores()
{
    bool moves = true;
    while (moves && !shared->failed) {
        moves = false;
        for (auto &core : shared->cores) {
            if (core->ended || (core->ready && !core->ready(core->ready_context))) continue;
            moves = true;
            current = &core->core;
            swapcontext(&core->home, &core->context);
            if (shared->failed) break;
        }
    }
    if (!shared->failed)
        for (auto &core : shared->cores)
            if (!core->ended) {
                shared->failed = true;
                shared->message = std::string("block ") + std::to_string(core->core.block) + ": the " + (core->core.cube ? "cube" : "vector") + " core waits for other cores, which don't come";
                shared->remedy = "Every core has to come as often to SyncAll and to flags between cores.";
                shared->site = core->waits_at;
                break;
            }
    if (shared->failed) /* leave the others' functions, so that what they hold goes */
        for (auto &core : shared->cores)
            if (!core->ended && core->ready) {
                current = &core->core;
                swapcontext(&core->home, &core->context);
            }
    if (!shared->failed)
        try {
            check_crossed();
        } catch (const Ended &) {
        }
    current = nullptr;
}

static void hand_over(npusim_job_t &job)
{
    for (auto &core : shared->cores) told.roots.push_back(shared->keep(core->listing.list.data(), core->listing.list.data() + core->listing.list.size()));
    for (auto &body : shared->body) {
        told.starts.push_back(int64_t(told.entries.size()));
        for (const Entry &entry : body) told.entries.push_back({entry.symbol, entry.count});
    }
    told.starts.push_back(int64_t(told.entries.size()));
    job.symbols = shared->symbols.values.data(), job.symbol_count = int64_t(shared->symbols.values.size());
    job.entries = told.entries.data(), job.starts = told.starts.data(), job.bodies = int64_t(shared->body.size());
    job.roots = told.roots.data(), job.cores = int32_t(told.roots.size());
}

static void leave_cores()
{
    for (auto &core : shared->cores)
        for (uint8_t *memory : core->core.memory) std::free(memory);
    shared->cores.clear();
}

/* Whether a kernel does anything on a core of this kind: it is left at its first instruction. */
static bool acts(npusim_job_t &job, bool cube)
{
    bool acted = false;
    for (int block = 0; block < job.blocks && !acted; block++) {
        told = Told();
        told.shared.reset(new Shared);
        shared = told.shared.get();
        shared->job = &job, shared->has_sides = shared->looks = true;
        shared->sectors.resize(size_t(job.buffers));
        shared->cores.emplace_back(new Runtime);
        prepare(*shared->cores.back(), block, cube, 0);
        if (!sigsetjmp(escape, 1)) {
            current = &shared->cores[0]->core;
            swapcontext(&shared->cores[0]->home, &shared->cores[0]->context);
        }
        current = nullptr;
        acted = shared->acted; /* what is refused on this core isn't meant for it */
        leave_cores();
    }
    return acted;
}

/* The cores that a kernel compiled for both has work for. */
static void choose_cores(npusim_job_t &job)
{
    Watched watched;
    bool on_cubes = acts(job, true), on_vectors = acts(job, false);
    job.kind = on_cubes == on_vectors ? 2 : on_cubes ? 1 : 0;
    if (!job.kind) job.at_once *= job.vectors;
}

static std::map<std::string, Run> &cube_sides()
{
    static std::map<std::string, Run> held;
    return held;
}
bool hold_cube_side(const char *type, Run run) { return cube_sides().emplace(type + (*type == '*'), run).second; }
Run cube_side(const char *type)
{
    auto found = cube_sides().find(type + (*type == '*'));
    return found == cube_sides().end() ? nullptr : found->second;
}

int play(npusim_job_t *job)
{
    bool has_sides = job->kind > 2;
    if (has_sides && map_memory(*job)) choose_cores(*job);
    told = Told();
    told.shared.reset(new Shared);
    shared = told.shared.get();
    shared->job = job, shared->has_sides = has_sides;
    computes_products = job->products;
    shared->sectors.resize(size_t(job->buffers));
    if (!map_memory(*job)) {
        job->message = "this computer has no room for device memory where kernels look for it";
        job->remedy = "";
        return 1;
    }
    for (int block = 0; block < job->blocks; block++) {
        if (job->kind != 1)
            for (int sub = 0; sub < (job->kind > 1 ? job->vectors : 1); sub++) {
                shared->cores.emplace_back(new Runtime);
                prepare(*shared->cores.back(), block, false, sub);
            }
        if (job->kind > 0) {
            shared->cores.emplace_back(new Runtime);
            prepare(*shared->cores.back(), block, true, 0);
        }
    }
    for (size_t place = 0; place < shared->cores.size(); place++) shared->cores[place]->place = place;
    {
        Watched watched;
        if (!sigsetjmp(escape, 1)) run_cores();
        current = nullptr;
    }
    unmap_memory();
    std::exception_ptr problem;
    for (auto &core : shared->cores) {
        if (core->problem) problem = core->problem;
    }
    if (problem) {
        shared->message = "the kernel threw a C++ exception";
        shared->remedy = "Device code has no exceptions.";
    }
    if (!shared->failed) hand_over(*job);
    leave_cores();
    job->message = shared->message.c_str(), job->remedy = shared->remedy.c_str();
    job->file = shared->site.file, job->line = shared->site.line;
    return shared->failed;
}

int launch_kernel(const char *name, int kind, uint32_t blocks, void *stream, void (*body)(void *), void (*drop)(void *), void *context)
{
    return npusim_kernel_launch(name, kind, blocks, reinterpret_cast<uintptr_t>(stream), reinterpret_cast<uintptr_t>(&play),
                         reinterpret_cast<uintptr_t>(body), reinterpret_cast<uintptr_t>(drop), reinterpret_cast<uintptr_t>(context));
}

} // namespace npusim

/* A kernel that ends the program: on the device there is none. */
template <typename End> [[noreturn]] static void end_program(const char *name, int code)
{
    if (npusim::is_in_kernel()) npusim::leave("the kernel's code ends the program (exit), behind this line", "Device code can't end the program: return from the kernel.");
    reinterpret_cast<End>(dlsym(RTLD_NEXT, name))(code);
    __builtin_unreachable();
}
extern "C" {
void exit(int code) noexcept { end_program<void (*)(int)>("exit", code); }
void _exit(int code) { end_program<void (*)(int)>("_exit", code); }
void _Exit(int code) noexcept { end_program<void (*)(int)>("_Exit", code); }
void quick_exit(int code) noexcept { end_program<void (*)(int)>("quick_exit", code); }
}

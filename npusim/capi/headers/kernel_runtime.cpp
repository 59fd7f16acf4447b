/* Kernels on the host: cores as fibers, checks of every instruction, and what is written down of it.
 *
 * An instruction is a symbol: what it is priced by, and its line. A core's symbols are a list in which
 * what follows itself is a loop, found as it is written. Lists and bodies of loops are kept once. */
#include "npusim/kernel_runtime.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <ucontext.h>
#include <unordered_map>
#include <vector>

extern "C" int npusim_kernel_launch(const char *name, int kind, uint32_t blocks, uintptr_t stream,
                                    uintptr_t play, uintptr_t body, uintptr_t drop, uintptr_t context);

namespace npusim {

static const char *const MEMORY_NAMES[] = {"UB", "L1", "L0A", "L0B", "L0C", "BIAS_TABLE", "FIXPIPE_BUFFER", "GM"};
static const char *const PIPE_NAMES[] = {"SCALAR", "VECTOR", "CUBE", "MTE1", "MTE2", "MTE3", "FIXP"};
static const char *const EVENT_NAMES[] = {"S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX"};
static constexpr int64_t BLOCK = 32, STACK = 1 << 20, PAGE = 4096, LINES = 1 << 16;
static constexpr size_t LONGEST = 4096; /* symbols of a loop's body */

using Clock = uint64_t[PIPES];
struct Clocks {
    uint64_t of[PIPES] = {};
};

struct Entry {
    uint32_t symbol, count; /* count 0: an instruction, else a loop over the body `symbol` */
    bool operator==(const Entry &other) const { return symbol == other.symbol && count == other.count; }
};

/* Values that are kept once, by their bytes. */
template <typename T> class Kept {
public:
    std::vector<T> values;
    uint32_t number(const T &value)
    {
        uint64_t words[sizeof(T) / 8], hash = 0x9e3779b97f4a7c15ull;
        std::memcpy(words, &value, sizeof(T));
        for (uint64_t word : words) hash = (hash ^ word) * 0xff51afd7ed558ccdull, hash ^= hash >> 32;
        if (values.size() * 2 >= table_.size()) grow();
        size_t at = hash & (table_.size() - 1);
        for (; table_[at]; at = (at + 1) & (table_.size() - 1))
            if (hashes_[table_[at] - 1] == hash && !std::memcmp(&values[table_[at] - 1], &value, sizeof(T))) return table_[at] - 1;
        values.push_back(value);
        hashes_.push_back(hash);
        table_[at] = uint32_t(values.size());
        return table_[at] - 1;
    }

private:
    void grow()
    {
        table_.assign(table_.empty() ? 1024 : table_.size() * 2, 0);
        for (size_t each = 0; each < values.size(); each++) {
            size_t at = hashes_[each] & (table_.size() - 1);
            while (table_[at]) at = (at + 1) & (table_.size() - 1);
            table_[at] = uint32_t(each + 1);
        }
    }
    std::vector<uint64_t> hashes_;
    std::vector<uint32_t> table_;
};

/* What all cores of a launch have in common. */
struct Shared {
    npusim_job_t *job;
    Kept<npusim_symbol_t> symbols;
    std::map<std::vector<uint64_t>, uint32_t> bodies;
    std::vector<std::vector<Entry>> body;
    std::vector<std::unique_ptr<Runtime>> cores;
    std::string message, remedy;
    Site site = {};
    bool failed = false;

    uint32_t keep(const Entry *first, const Entry *last)
    {
        std::vector<uint64_t> key;
        for (const Entry *each = first; each != last; each++) key.push_back(uint64_t(each->symbol) << 32 | each->count);
        auto found = bodies.emplace(std::move(key), uint32_t(body.size()));
        if (found.second) body.emplace_back(first, last);
        return found.first->second;
    }
};
static Shared *shared;

/* The list of one core. */
class Listing {
public:
    std::vector<Entry> list;
    void push(uint32_t symbol)
    {
        size_t place = list.size();
        list.push_back({symbol, 0});
        if (symbol >= last_.size()) last_.resize(symbol * 2 + 64, -1);
        int64_t before = last_[symbol];
        last_[symbol] = int64_t(place);
        while (again() || (before >= 0 && fold(place - size_t(before)))) before = -1;
    }

private:
    bool same(size_t first, size_t second, size_t length) const
    {
        for (size_t each = length; each-- > 0;)
            if (!(list[first + each] == list[second + each])) return false;
        return true;
    }
    /* The end of the list is once more the body of a loop before it. */
    bool again()
    {
        for (size_t each = loops_.size(); each-- > 0 && each + 8 >= loops_.size();) {
            size_t place = loops_[each], length = list.size() - place - 1;
            const auto &body = shared->body[list[place].symbol];
            if (length != body.size()) continue;
            bool equal = true;
            for (size_t at = length; equal && at-- > 0;) equal = list[place + 1 + at] == body[at];
            if (!equal) continue;
            cut(place + 1);
            list[place].count++;
            for (size_t other = loops_.size() - 1; other-- > 0 && other + 8 >= loops_.size();)
                if (list[loops_[other]] == list[place] && fold(place - loops_[other])) return true;
            return true;
        }
        return false;
    }
    /* The last `length` entries are the ones before them. */
    bool fold(size_t length)
    {
        size_t size = list.size();
        if (!length || length > LONGEST || 2 * length > size || !same(size - 2 * length, size - length, length)) return false;
        uint32_t body = shared->keep(&list[size - length], &list[size - 1] + 1);
        cut(size - 2 * length);
        loops_.push_back(list.size());
        list.push_back({body, 2});
        return true;
    }
    void cut(size_t size)
    {
        list.resize(size);
        while (!loops_.empty() && loops_.back() >= size) loops_.pop_back();
        /* places in last_ that lie behind are found to differ when they are looked at */
    }
    std::vector<int64_t> last_;
    std::vector<size_t> loops_;
};

struct Queue {
    int memory, producer, consumer, depth, slots;
    int64_t start, bytes, number;
    std::vector<int> state; /* of each slot: 0 free, 1 allocated, 2 enqueued, 3 dequeued */
    std::vector<Site> site;
    std::deque<int> waiting;
    std::deque<Clocks> freed;
    std::deque<Clocks> filled;
    int next = 0;
    Site made;
};

struct Flag {
    std::deque<Clocks> set;
    std::deque<Site> sites;
    int64_t sets = 0, waits = 0;
    Site last = {};
};

struct Touched {
    std::vector<uint64_t> last[2][PIPES];
    uint64_t most[2][PIPES] = {};
};

struct Runtime {
    Core core = {};
    ucontext_t context = {}, home = {};
    std::unique_ptr<char[]> stack;
    bool ended = false, serving = false;
    bool (*ready)(void *) = nullptr;
    void *ready_context = nullptr;
    Site waits_at = {};
    std::exception_ptr problem;

    Listing listing;
    std::vector<uint32_t> filled[MEMORIES];
    Touched touched[MEMORIES];
    Clocks clocks[PIPES];
    uint64_t issued[PIPES] = {};
    std::vector<Site> sites[PIPES];
    std::map<int64_t, Flag> flags;
    std::deque<Queue> queues;
    int64_t used[MEMORIES] = {};
    uint32_t events[PIPES][PIPES] = {};
    int64_t last_result = -1, moved = 0;
    bool unread = false;
    std::unordered_map<uint64_t, int64_t> loaded;

    std::map<int, int64_t> crossed, taken; /* flags between cores: sets and waits */
    int64_t barriers = 0;
    struct Request {
        void (*work)(void *);
        void *context;
        int sub_block;
        Site at;
    };
    std::deque<Request> asked;
    int64_t served = 0, requests = 0;
};

Core *current = nullptr;

static Runtime &here() { return *current->runtime; }

static Site placed(Site at) { return current && current->acting.file ? current->acting : at; }

void refuse(Site at, const char *remedy, const char *format, ...)
{
    char text[1024];
    va_list words;
    va_start(words, format);
    std::vsnprintf(text, sizeof text, format, words);
    va_end(words);
    if (!shared->failed) {
        shared->failed = true;
        shared->message = text;
        shared->remedy = remedy;
        shared->site = placed(at);
    }
    throw Ended();
}

static std::string spelled(Site site)
{
    std::string file = site.file ? site.file : "?";
    size_t cut = file.rfind('/');
    if (cut != std::string::npos && cut) cut = file.rfind('/', cut - 1);
    return (cut == std::string::npos ? file : file.substr(cut + 1)) + ":" + std::to_string(site.line);
}

static void write_down(const char *intrinsic, const char *name, Site at, int kind, int pipe, int dtype, const int64_t *number)
{
    npusim_symbol_t symbol;
    std::memset(&symbol, 0, sizeof symbol);
    at = placed(at);
    symbol.intrinsic = intrinsic, symbol.name = name, symbol.file = at.file, symbol.line = at.line;
    symbol.kind = kind, symbol.pipe = pipe, symbol.dtype = dtype;
    if (number) std::memcpy(symbol.number, number, sizeof symbol.number);
    here().listing.push(shared->symbols.number(symbol));
}

/* The order of pipes: how many instructions of each have certainly ended. */
static void merge(Clocks &own, const Clocks &other)
{
    for (int pipe = 0; pipe < PIPES; pipe++)
        if (other.of[pipe] > own.of[pipe]) own.of[pipe] = other.of[pipe];
}

static Clocks now(int pipe)
{
    Clocks told = here().clocks[pipe];
    told.of[pipe] = here().issued[pipe];
    return told;
}

static void step(int pipe, Site at)
{
    Runtime &core = here();
    uint64_t number = ++core.issued[pipe];
    if (core.sites[pipe].empty()) core.sites[pipe].resize(LINES);
    core.sites[pipe][number % LINES] = placed(at);
    if (pipe != S) merge(core.clocks[pipe], now(S));
}

static int64_t end_of(const Span &span)
{
    return span.start + (span.outer - 1) * span.outer_step + (span.inner - 1) * span.inner_step + span.length;
}

static std::string named(const Span &span)
{
    for (const Queue &queue : here().queues)
        if (queue.memory == span.memory && span.start >= queue.start && span.start < queue.start + queue.slots * queue.bytes)
            return "a tile of the queue of " + spelled(queue.made);
    return std::string("the tensor at byte ") + std::to_string(span.start) + " of " + MEMORY_NAMES[span.memory];
}

template <typename Work> static void runs(const Span &span, Work work)
{
    if (span.outer <= 0 || span.inner <= 0 || span.length <= 0) return;
    bool inner = span.inner == 1 || span.inner_step == span.length;
    int64_t length = inner ? span.inner * span.length : span.length;
    if (inner && (span.outer == 1 || span.outer_step == length)) {
        work(span.start, length * span.outer);
        return;
    }
    for (int outer = 0; outer < span.outer; outer++)
        for (int each = 0; each < (inner ? 1 : span.inner); each++)
            work(span.start + outer * span.outer_step + each * span.inner_step, length);
}

static void check_place(const Instruction &told, const Span &span, Site at)
{
    if (span.memory < 0 || span.memory >= MEMORIES) refuse(at, "Give it memory first.", "%s: a tensor without memory", told.name);
    int64_t end = end_of(span), limit = span.limit < current->size[span.memory] ? span.limit : current->size[span.memory];
    if (!current->size[span.memory])
        refuse(at, "Use it on the cores that have it.", "%s: this core has no %s", told.name, MEMORY_NAMES[span.memory]);
    if (span.start < 0 || end > limit)
        refuse(at, "Use fewer elements or a larger tensor.", "%s: %s is used up to byte %lld of %s, but ends at byte %lld", told.name,
               named(span).c_str(), (long long)end, MEMORY_NAMES[span.memory], (long long)limit);
    if (!span.anywhere && span.start % BLOCK)
        refuse(at, "Start at a multiple of it.", "%s: the address of %s is %lld, no multiple of 32 bytes", told.name, named(span).c_str(), (long long)span.start);
}

static uint32_t bits(int64_t from, int64_t to) /* of a block, bytes from..to */
{
    return uint32_t((((uint64_t)1 << (to - from)) - 1) << from);
}

template <typename Word> static void words(int64_t start, int64_t length, Word word)
{
    int64_t end = start + length;
    for (int64_t block = start / BLOCK; block * BLOCK < end; block++) {
        int64_t from = start > block * BLOCK ? start - block * BLOCK : 0, to = end < (block + 1) * BLOCK ? end - block * BLOCK : BLOCK;
        word(block, from == 0 && to == BLOCK ? ~0u : bits(from, to));
    }
}

static void check_filled(const Instruction &told, const Span &span, Site at)
{
    auto &filled = here().filled[span.memory];
    int64_t missing = 0, all = 0;
    runs(span, [&](int64_t start, int64_t length) {
        if (start % BLOCK == 0 && length % BLOCK == 0) {
            uint32_t both = ~0u;
            const uint32_t *at_word = &filled[size_t(start / BLOCK)];
            for (int64_t each = 0; each < length / BLOCK; each++) both &= at_word[each];
            all += length;
            if (both == ~0u) return;
            all -= length;
        }
        words(start, length, [&](int64_t block, uint32_t wanted) {
            uint32_t has = filled[size_t(block)];
            missing += has && span.some == 2 ? 0 : __builtin_popcount(wanted & ~has);
            all += __builtin_popcount(wanted);
        });
    });
    if (missing && (span.some != 1 || missing == all))
        refuse(at, "Copy or compute all of it first, or work on fewer elements.", "%s: %s is read, but nothing has written %lld of its %lld bytes",
               told.name, named(span).c_str(), (long long)missing, (long long)all);
}

static void check_order(int pipe, const Span &span, bool writes, Site at)
{
    Runtime &core = here();
    Touched &touched = core.touched[span.memory];
    const Clocks &clock = core.clocks[pipe];
    for (int other = 1; other < PIPES; other++) /* what the scalar unit did is done when it issues */
        for (int wrote = writes ? 0 : 1; other != pipe && wrote < 2; wrote++) {
            uint64_t known = clock.of[other], found = 0;
            if (touched.most[wrote][other] <= known) continue;
            const auto &last = touched.last[wrote][other];
            runs(span, [&](int64_t start, int64_t length) {
                size_t end = size_t((start + length + BLOCK - 1) / BLOCK);
                for (size_t block = size_t(start / BLOCK); block < end; block++)
                    if (last[block] > found) found = last[block];
            });
            if (found <= known) continue;
            refuse(at, (std::string("Set a flag ") + EVENT_NAMES[other] + "_" + EVENT_NAMES[pipe] + " behind that line and wait for it here, or pass the tile through a queue.").c_str(),
                   "%s %s %s while %s may not have %s it yet (%s): nothing orders the two", PIPE_NAMES[pipe], writes ? "writes" : "reads", named(span).c_str(),
                   PIPE_NAMES[other], wrote ? "written" : "read", spelled(core.sites[other][found % LINES]).c_str());
        }
}

static void note(int pipe, const Span &span, bool writes)
{
    Runtime &core = here();
    Touched &touched = core.touched[span.memory];
    auto &last = touched.last[writes][pipe];
    if (last.empty()) last.resize(size_t(current->size[span.memory] / BLOCK + 1));
    uint64_t number = core.issued[pipe];
    touched.most[writes][pipe] = number;
    runs(span, [&](int64_t start, int64_t length) {
        size_t end = size_t((start + length + BLOCK - 1) / BLOCK);
        for (size_t block = size_t(start / BLOCK); block < end; block++) last[block] = number;
        if (writes)
            words(start, length, [&](int64_t block, uint32_t wanted) { core.filled[span.memory][size_t(block)] |= wanted; });
    });
}

static int64_t rounded(int64_t number) /* to two significant bits, so that alike turns of a loop are equal */
{
    int shift = 0;
    while ((number >> shift) > 7) shift++;
    return number >> shift << shift;
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
    if (end > int64_t(job.sizes[found]))
        refuse(at, "Copy fewer elements, or from an earlier place.", "%s: global memory %d is used up to byte %lld, but ends at byte %lld", what, found,
               (long long)end, (long long)job.sizes[found]);
    return reinterpret_cast<uint8_t *>(address);
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
    told.number[1] = buffer;
    told.number[4] = -1;
    told.number[5] = writes ? current->atomic : 0;
    if (!writes) {
        uint64_t key = address * 0x9e3779b97f4a7c15ull ^ uint64_t(payload);
        auto found = core.loaded.find(key);
        if (found != core.loaded.end()) told.number[4] = rounded(core.moved - found->second);
        core.loaded[key] = core.moved;
    }
    core.moved += payload;
    (void)at;
}

void issue(Instruction &told, Site at)
{
    Runtime &core = here();
    if (told.pipe != V && told.pipe != S && told.pipe != MTE2 && told.pipe != MTE3 && !current->cube)
        refuse(at, "Call it on the cube core.", "%s: a vector core has no %s pipe", told.name, PIPE_NAMES[told.pipe]);
    if (told.pipe == V && current->cube) refuse(at, "Call it on vector cores.", "%s: a cube core has no VECTOR pipe", told.name);
    for (int each = 0; each < told.reads; each++) check_place(told, told.read[each], at);
    for (int each = 0; each < told.writes; each++) check_place(told, told.write[each], at);
    step(told.pipe, at);
    if (told.pipe == S && core.unread) { /* it waits for vector results by itself */
        merge(core.clocks[S], now(V));
        core.unread = false;
        int64_t number[8] = {V, S, -1, 0};
        write_down("", "", at, SET, V, 0, number);
        write_down("", "", at, WAIT, S, 0, number);
    }
    for (int each = 0; each < told.reads; each++) {
        check_filled(told, told.read[each], at);
        check_order(told.pipe, told.read[each], false, at);
    }
    for (int each = 0; each < told.writes; each++) check_order(told.pipe, told.write[each], true, at);
    for (int each = 0; each < told.reads; each++) note(told.pipe, told.read[each], false);
    for (int each = 0; each < told.writes; each++) note(told.pipe, told.write[each], true);
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

void scalar(int loads, int stores, int operations, int global_loads, Site at)
{
    int64_t number[8] = {loads, stores, operations, global_loads};
    step(S, at);
    write_down("scalar", "scalar", at, SCALAR, S, 0, number);
}

static int64_t key_of(int setter, int waiter, int64_t number) { return (number * PIPES + setter) * PIPES + waiter; }

void set_flag(int setter, int waiter, int64_t id, Site at)
{
    if (id < 0 || id > 7) refuse(at, "A pair of pipes has events 0 to 7.", "event %lld doesn't exist", (long long)id);
    Flag &flag = here().flags[key_of(setter, waiter, id)];
    flag.set.push_back(now(setter));
    flag.sites.push_back(placed(at));
    if (flag.sites.size() > 64) flag.sites.pop_front();
    flag.sets++;
    int64_t number[8] = {setter, waiter, id, 0};
    write_down("", "SetFlag", at, SET, setter, 0, number);
}

void wait_flag(int setter, int waiter, int64_t id, Site at)
{
    if (id < 0 || id > 7) refuse(at, "A pair of pipes has events 0 to 7.", "event %lld doesn't exist", (long long)id);
    Flag &flag = here().flags[key_of(setter, waiter, id)];
    flag.waits++;
    flag.last = placed(at);
    if (flag.set.empty())
        refuse(at, "Every SetFlag needs one WaitFlag, and the other way round.", "event %lld from %s to %s is waited for, but nothing has set it: the core waits for ever", (long long)id,
               PIPE_NAMES[setter], PIPE_NAMES[waiter]);
    merge(here().clocks[waiter], flag.set.front());
    flag.set.pop_front();
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

/* Queues. */
int32_t new_queue(int memory, int producer, int consumer, int depth, int slots, int64_t bytes, Site at)
{
    Runtime &core = here();
    int64_t size = (bytes + BLOCK - 1) / BLOCK * BLOCK, end = core.used[memory] + size * slots;
    if (end > current->size[memory])
        refuse(at, "Use smaller tiles or fewer buffers.", "%s with a queue of %d x %lld bytes needs %lld bytes, the chip has %lld", MEMORY_NAMES[memory], slots,
               (long long)size, (long long)end, (long long)current->size[memory]);
    core.queues.push_back({});
    Queue &queue = core.queues.back();
    queue.memory = memory, queue.producer = producer, queue.consumer = consumer, queue.depth = depth, queue.slots = slots;
    queue.start = core.used[memory], queue.bytes = size, queue.number = 1000 + int64_t(core.queues.size()) * 2, queue.made = placed(at);
    queue.state.assign(size_t(slots), 0);
    queue.site.assign(size_t(slots), Site{});
    core.used[memory] = end;
    return int32_t(core.queues.size() - 1);
}

int64_t new_buffer(int memory, int64_t bytes, Site at)
{
    Runtime &core = here();
    int64_t start = core.used[memory], end = start + (bytes + BLOCK - 1) / BLOCK * BLOCK;
    if (end > current->size[memory])
        refuse(at, "Use a smaller one.", "%s with a buffer of %lld bytes needs %lld bytes, the chip has %lld", MEMORY_NAMES[memory], (long long)bytes, (long long)end,
               (long long)current->size[memory]);
    core.used[memory] = end;
    return start;
}

int64_t pipe_used(int memory) { return here().used[memory]; }
void pipe_move(int memory, int64_t to) { here().used[memory] = to; }

static Queue &queue_of(int32_t number, Site at)
{
    if (number < 0) refuse(at, "Call InitBuffer first.", "a queue is used before it has memory");
    return here().queues[size_t(number)];
}

static int slot_of(const Queue &queue, int64_t start) { return int((start - queue.start) / queue.bytes); }

static void tell_queue(const Queue &queue, int kind, bool filled, Site at)
{
    int64_t number[8] = {filled ? queue.producer : queue.consumer, filled ? queue.consumer : queue.producer, queue.number + (filled ? 0 : 1), filled ? 0 : queue.slots};
    if (number[0] == number[1]) return;
    write_down("", "", at, kind, int(kind == SET ? number[0] : number[1]), 0, number);
}

Slot alloc_slot(int32_t number, Site at)
{
    Queue &queue = queue_of(number, at);
    for (int turn = 0; turn < queue.slots; turn++) {
        int slot = (queue.next + turn) % queue.slots;
        if (queue.state[size_t(slot)]) continue;
        queue.next = slot + 1;
        queue.state[size_t(slot)] = 1;
        queue.site[size_t(slot)] = placed(at);
        if (!queue.freed.empty()) {
            merge(here().clocks[queue.producer], queue.freed.front());
            queue.freed.pop_front();
        }
        tell_queue(queue, WAIT, false, at);
        return {number, slot, queue.start + slot * queue.bytes, queue.bytes};
    }
    refuse(at, "Free a tile first, or give the queue more slots.", "all %d slots of the queue of %s are taken (the last at %s): AllocTensor waits for ever", queue.slots,
           spelled(queue.made).c_str(), spelled(queue.site[size_t((queue.next + queue.slots - 1) % queue.slots)]).c_str());
}

void enque_slot(int32_t number, int64_t start, Site at)
{
    Queue &queue = queue_of(number, at);
    int slot = slot_of(queue, start);
    if (slot < 0 || slot >= queue.slots || (queue.state[size_t(slot)] != 1 && queue.state[size_t(slot)] != 3))
        refuse(at, "Enqueue what AllocTensor of this queue gave, once.", "EnQue of a tensor that isn't an allocated tile of the queue of %s", spelled(queue.made).c_str());
    if (queue.depth > 0 && int(queue.waiting.size()) >= queue.depth + (queue.slots > queue.depth ? queue.slots - queue.depth : 0))
        refuse(at, "Dequeue one first.", "the queue of %s holds %d tiles already", spelled(queue.made).c_str(), int(queue.waiting.size()));
    queue.state[size_t(slot)] = 2;
    queue.waiting.push_back(slot);
    queue.filled.push_back(now(queue.producer));
    tell_queue(queue, SET, true, at);
}

Slot deque_slot(int32_t number, Site at)
{
    Queue &queue = queue_of(number, at);
    if (queue.waiting.empty()) refuse(at, "Enqueue a tile first.", "DeQue of the queue of %s, which is empty", spelled(queue.made).c_str());
    int slot = queue.waiting.front();
    queue.waiting.pop_front();
    queue.state[size_t(slot)] = 3;
    merge(here().clocks[queue.consumer], queue.filled.front());
    queue.filled.pop_front();
    tell_queue(queue, WAIT, true, at);
    return {number, slot, queue.start + slot * queue.bytes, queue.bytes};
}

void free_slot(int32_t number, int64_t start, Site at)
{
    Queue &queue = queue_of(number, at);
    int slot = slot_of(queue, start);
    if (slot < 0 || slot >= queue.slots || !queue.state[size_t(slot)])
        refuse(at, "Free each tile once, in the queue that gave it.", "FreeTensor of a tensor that the queue of %s hasn't given out", spelled(queue.made).c_str());
    if (queue.state[size_t(slot)] == 2) refuse(at, "Dequeue it first.", "FreeTensor of a tile that still waits in the queue of %s", spelled(queue.made).c_str());
    queue.state[size_t(slot)] = 0;
    Clocks told = now(queue.consumer);
    merge(told, now(queue.producer));
    queue.freed.push_back(told);
    tell_queue(queue, SET, false, at);
}

bool queue_has(int32_t number, bool waiting)
{
    if (number < 0) return false;
    Queue &queue = here().queues[size_t(number)];
    if (waiting) return !queue.waiting.empty();
    for (int state : queue.state)
        if (!state) return true;
    return false;
}

static void check_freed(Runtime &core)
{
    for (const Queue &queue : core.queues)
        for (size_t slot = 0; slot < queue.state.size(); slot++)
            if (queue.state[slot] == 1 || queue.state[slot] == 2 || queue.state[slot] == 3)
                refuse(queue.site[slot], "Every AllocTensor needs one FreeTensor.", "a tile of the queue of %s is still %s when the kernel ends", spelled(queue.made).c_str(),
                       queue.state[slot] == 1 ? "allocated" : queue.state[slot] == 2 ? "enqueued" : "in use");
}

void reset_pipe(Site at)
{
    join(at);
    check_freed(here());
    for (auto &queue : here().queues) queue.state.assign(queue.state.size(), 0), queue.bytes = queue.bytes ? queue.bytes : 32;
    std::memset(here().used, 0, sizeof here().used);
    for (int memory = 0; memory < MEMORIES; memory++) here().used[memory] = 0;
}

/* Cores and what they wait for from each other. */
void wait_until(bool (*ready)(void *), void *context, Site at)
{
    Runtime &core = here();
    if (ready(context)) return;
    core.ready = ready, core.ready_context = context, core.waits_at = placed(at);
    Site acting = current->acting;
    swapcontext(&core.context, &core.home);
    current = &core.core;
    current->acting = acting;
    core.ready = nullptr;
    if (shared->failed) throw Ended();
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
        int64_t reached = wait->mode < 0 ? other->barriers : other->crossed[wait->flag];
        if (counts && !other->serving && reached < wait->number) return false;
    }
    return true;
}

void sync_all(bool vectors_only, Site at)
{
    Runtime &core = here();
    all_meet(core);
    Awaited wait = {++core.barriers, vectors_only ? 0 : 1, -1, &core};
    write_down("", "SyncAll", at, SYNC_ALL, S, 0, nullptr);
    core.last_result = -1;
    wait_until(arrived, &wait, at);
}

static bool partners(void *context)
{
    auto *wait = static_cast<Awaited *>(context);
    int64_t &taken = wait->core->taken[wait->flag];
    for (auto &other : shared->cores)
        if (other->core.block == wait->core->core.block && other->core.cube != wait->core->core.cube && other->crossed[wait->flag] <= taken) return false;
    return true;
}

void cross_set(int mode, int pipe, int flag, Site at)
{
    if (flag < 0 || flag > 15) refuse(at, "Use 0 to 10; the others are the framework's.", "flag %d between cores doesn't exist", flag);
    here().crossed[flag]++;
    int64_t number[8] = {flag, pipe, mode};
    write_down("", "CrossCoreSetFlag", at, CROSS_SET, pipe, 0, number);
}

void cross_wait(int mode, int flag, Site at)
{
    Runtime &core = here();
    if (flag < 0 || flag > 15) refuse(at, "Use 0 to 10; the others are the framework's.", "flag %d between cores doesn't exist", flag);
    bool within = core.core.mix && mode == 2;
    Awaited wait = {core.taken[flag] + 1, flag, mode, &core};
    if (within) wait_until(partners, &wait, at);
    else wait_until(arrived, &wait, at);
    core.taken[flag]++;
    step(S, at);
    for (int pipe = 0; pipe < PIPES; pipe++) merge(core.clocks[pipe], now(S));
    int64_t number[8] = {flag, S, mode};
    write_down("", "CrossCoreWaitFlag", at, CROSS_WAIT, S, 0, number);
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
    Runtime &core = here();
    core.serving = true;
    while (true) {
        wait_until(asked, &core, at);
        if (core.asked.empty()) return;
        auto request = core.asked.front();
        core.asked.pop_front();
        int64_t asks[8] = {ASKS, S, 2, request.sub_block + 1}, answers[8] = {ANSWERS, FIX, 2, request.sub_block + 1};
        write_down("", "matrix product", request.at, CROSS_WAIT, S, 0, asks);
        {
            Acting acting(request.at);
            request.work(request.context);
        }
        write_down("", "matrix product", request.at, CROSS_SET, FIX, 0, answers);
        core.served++;
    }
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

static void begin(unsigned high, unsigned low)
{
    auto *core = reinterpret_cast<Runtime *>(uintptr_t(high) << 32 | low);
    try {
        reinterpret_cast<void (*)(void *)>(shared->job->body)(reinterpret_cast<void *>(shared->job->context));
        if (!core->serving) {
            check_freed(*core);
            check_flags(*core);
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

int play(npusim_job_t *job)
{
    told = Told();
    told.shared.reset(new Shared);
    shared = told.shared.get();
    shared->job = job;
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
        if (job->kind) {
            shared->cores.emplace_back(new Runtime);
            prepare(*shared->cores.back(), block, true, 0);
        }
    }
    run_cores();
    unmap_memory();
    std::exception_ptr problem;
    for (auto &core : shared->cores) {
        if (core->problem) problem = core->problem;
        for (uint8_t *memory : core->core.memory) std::free(memory);
    }
    if (problem) {
        shared->message = "the kernel threw a C++ exception";
        shared->remedy = "Device code has no exceptions.";
    }
    if (!shared->failed) hand_over(*job);
    shared->cores.clear();
    job->message = shared->message.c_str(), job->remedy = shared->remedy.c_str();
    job->file = shared->site.file, job->line = shared->site.line;
    return shared->failed;
}

void launch_kernel(const char *name, int kind, uint32_t blocks, void *stream, void (*body)(void *), void (*drop)(void *), void *context)
{
    npusim_kernel_launch(name, kind, blocks, reinterpret_cast<uintptr_t>(stream), reinterpret_cast<uintptr_t>(&play),
                         reinterpret_cast<uintptr_t>(body), reinterpret_cast<uintptr_t>(drop), reinterpret_cast<uintptr_t>(context));
}

} // namespace npusim

/* The state of a core, and how it refuses. */
#ifndef NPUSIM_KERNELS_CORE_H
#define NPUSIM_KERNELS_CORE_H

#include "listing.h"
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <ucontext.h>
#include <unordered_map>

namespace npusim {

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
    Site last_at = {};
    std::map<int64_t, Flag> flags;
    std::deque<Queue> queues;
    std::vector<uint32_t> tiles[MEMORIES]; /* of each block: the queue from 1 and the slot, 16 bits each */
    int64_t used[MEMORIES] = {};
    uint32_t events[PIPES][PIPES] = {};
    size_t past_l2 = 0; /* loads that bypassed L2 so far */
    int64_t last_result = -1, moved = 0;
    bool unread = false; /* the vector unit did or waited for something that the scalar unit hasn't waited for */
    std::unordered_map<uint64_t, int64_t> loaded;
    struct Stored { /* bytes that another core may store to, too: what was there before this core did */
        const uint8_t *place;
        std::string before;
        Access other;
        int64_t byte;
        Site at;
    };
    std::vector<Stored> stored;
    struct Overwritten { /* bytes of UB that another pipe may be at, and why that is wrong if they change */
        const uint8_t *place;
        std::string before, message, remedy;
        Site at;
    };
    std::vector<Overwritten> overwritten;

    struct Leaving { /* a part of L0C that a fixpipe with a unit flag empties, for the next product with one */
        int64_t start, end;
        Clocks known;
    };
    std::deque<Leaving> leaving;

    size_t place = 0;         /* among all cores */
    std::vector<Clocks> seen; /* what has ended on others, as far as this one knows */
    struct Crossing {
        int64_t sets = 0;
        int mode = 0;
        Site at = {};
        std::vector<Clocks> known;
    };
    std::map<int, Crossing> crossed; /* flags between cores: sets */
    std::map<int, int64_t> taken;    /* and waits */
    int64_t barriers = 0;
    uint64_t looked_at[64] = {}; /* lines that it has asked memory for since it last did anything else */
    Site turn_at = {}; /* the scalar unit's first access to a tensor since another pipe was given work */
    int64_t turn_start = -1;
    std::set<uint64_t> fetched_anew; /* lines that the data cache has let go of since they were read */
    uint64_t looked_moves = 0, fruitless = 0;
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
bool computes_products = true;

static Runtime &here() { return *current->runtime; }

static Site placed(Site at) { return current && current->acting.file ? current->acting : at; }

/* Ends a core where no exception can: destructors that wait for flags would throw another. */
[[noreturn]] static void leave_core()
{
    here().ended = true;
    setcontext(&here().home);
    std::abort();
}

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
    if (std::uncaught_exceptions() && !here().ended) leave_core();
    throw Ended();
}

/* Where it is only asked whether a core does anything, its first deed ends it. */
static void act()
{
    if (!shared->looks) return;
    shared->acted = true;
    leave_core();
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

} // namespace npusim

#endif

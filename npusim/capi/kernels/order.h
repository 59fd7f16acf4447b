/* The order of pipes, and what of a memory they have filled and touched. */
#ifndef NPUSIM_KERNELS_ORDER_H
#define NPUSIM_KERNELS_ORDER_H

#include "core.h"

#include <algorithm>

namespace npusim {

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
    shared->progress++;
    if (number > shared->job->most_instructions)
        refuse(at, "End the loop around this line.", "the %s pipe of a core is given more than %llu instructions: the kernel doesn't seem to end", PIPE_NAMES[pipe],
               (unsigned long long)shared->job->most_instructions);
    if (core.sites[pipe].empty()) core.sites[pipe].resize(LINES);
    core.sites[pipe][number % LINES] = core.last_at = placed(at);
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
    return std::string("the tensor at byte ") + std::to_string(span.start) + " of " + MEMORY_WORDS[span.memory];
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
        refuse(at, "Use it on the cores that have it.", "%s: this core has no %s", told.name, MEMORY_WORDS[span.memory]);
    if (span.start < 0 || end > limit)
        refuse(at, "Use fewer elements or a larger tensor.", "%s: %s is used up to byte %lld of %s, but ends at byte %lld", told.name,
               named(span).c_str(), (long long)end, MEMORY_WORDS[span.memory], (long long)limit);
    if (!span.anywhere && span.start % BLOCK)
        refuse(at, "Start at a multiple of it.", "%s: the address of %s is %lld, no multiple of 32 bytes", told.name, named(span).c_str(), (long long)span.start);
}

/* A tile of a queue is used between AllocTensor or DeQue and EnQue or FreeTensor; kernels of operators read some behind
 * that, and the order of pipes tells whether they may. */
static void check_tile(const Instruction &told, const Span &span, Site at)
{
    uint32_t tile = here().tiles[span.memory][size_t(span.start / BLOCK)];
    if (!tile) return;
    const Queue &queue = here().queues[(tile >> 16) - 1];
    int state = queue.state[tile & 0xffff];
    if (state == 0 && !shared->job->auto_sync) refuse(at, "Allocate a tile first; free it behind its last use.", "%s: %s is used, but it is freed", told.name, named(span).c_str());
    if (state == 2) refuse(at, "Take it with DeQue first: that waits for who fills it.", "%s: %s is used, but it is enqueued and not dequeued", told.name, named(span).c_str());
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

/* Kernels of libraries of templates and of operator projects, which rely on what the device does. */
static bool is_a_librarys() { return shared->has_sides || shared->job->auto_sync; }

/* False where nobody has written any of it, and it may be read all the same: what is made of it is nothing either. */
static bool check_filled(const Instruction &told, const Span &span, Site at)
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
    /* libraries compute on whole tiles, whose ends hold anything and go nowhere, and those of templates on nothing else */
    bool whole_tile = shared->has_sides && told.pipe == V, some = span.some == 1 || (is_a_librarys() && told.pipe == V);
    if (missing && (!some || (missing == all && !whole_tile)))
        refuse(at, "Copy or compute all of it first, or work on fewer elements.", "%s: %s is read, but nothing has written %lld of its %lld bytes",
               told.name, named(span).c_str(), (long long)missing, (long long)all);
    return !missing || missing < all;
}

/* Libraries fill a buffer with the same numbers again, and need no order for that. */
static void note_overwritten(const Span &span, const std::string &message, const std::string &remedy, Site at)
{
    const uint8_t *memory = current->memory[span.memory];
    runs(span, [&](int64_t start, int64_t length) {
        here().overwritten.push_back({memory + start, std::string(reinterpret_cast<const char *>(memory + start), size_t(length)), message, remedy, placed(at)});
    });
}

/* What was overwritten last holds what it held, or is refused. */
static void check_overwritten()
{
    if (here().overwritten.empty()) return;
    std::vector<Runtime::Overwritten> overwritten;
    overwritten.swap(here().overwritten);
    for (const auto &each : overwritten)
        if (std::memcmp(each.place, each.before.data(), each.before.size())) refuse(each.at, each.remedy.c_str(), "%s", each.message.c_str());
}

void link_pipes(int first, int then, Site at);

/* Whether the compiler orders two pipes by itself: it does in operator projects, the scalar unit behind others.
 * Source: public page of the BiSheng compiler on --cce-auto-sync, which such projects switch on. */
static bool is_ordered(int first, int then) { return shared->job->auto_sync && then == S && (first == V || first == MTE2 || first == MTE3); }

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
            if (is_ordered(other, pipe)) {
                link_pipes(other, pipe, at);
                continue;
            }
            std::string remedy = std::string("Set a flag ") + EVENT_NAMES[other] + "_" + EVENT_NAMES[pipe] + " behind that line and wait for it here, or pass the tile through a queue.";
            std::string message = std::string(PIPE_NAMES[pipe]) + (writes ? " writes " : " reads ") + named(span) + " while " + PIPE_NAMES[other] + " may not have " +
                                  (wrote ? "written" : "read") + " it yet (" + spelled(core.sites[other][found % LINES]) + "): nothing orders the two";
            if (!writes || !is_a_librarys() || span.memory != UB) refuse(at, remedy.c_str(), "%s", message.c_str());
            note_overwritten(span, message, remedy, at);
        }
}

/* Whether an instruction on whole rows writes behind what it reads: it goes from the first element to the last, and no
 * repeat of 256 bytes of the wider operand reaches the sources of later ones (public kernels widen at the upper end). */
static bool writes_behind(const Span &target, const Span &source)
{
    int64_t to = end_of(target) - target.start, from = end_of(source) - source.start, wide = to > from ? to : from;
    int64_t repeats = (wide + 255) / 256 - 1; /* before the last one */
    if (target.outer * target.inner != 1 || source.outer * source.inner != 1) return false;
    int64_t first = wide < 256 ? wide : 256;
    return target.start + to * first / wide <= source.start + from * first / wide && target.start + repeats * to * 256 / wide <= source.start + repeats * from * 256 / wide;
}

/* Operands of the vector unit lie at one place or apart: what overlaps in part may be read old or new. */
static void check_apart(const Instruction &told, const Span &target, const Span &source, Site at)
{
    if (source.memory != target.memory || source.start == target.start || end_of(source) <= target.start || end_of(target) <= source.start) return;
    if (is_a_librarys() && writes_behind(target, source)) return;
    std::vector<std::pair<int64_t, int64_t>> taken;
    runs(target, [&](int64_t start, int64_t length) { taken.emplace_back(start, start + length); });
    runs(source, [&](int64_t start, int64_t length) {
        for (auto [first, end] : taken)
            if (start < end && first < start + length)
                refuse(at, "Let operands lie at one place or apart: write to another tensor first.",
                       "%s: %s is written from byte %lld on and read from byte %lld on by one instruction: they overlap in part, and what is read may be old or new",
                       told.name, named(target).c_str(), (long long)target.start, (long long)source.start);
    });
}

static void note(int pipe, const Span &span, bool writes, bool fills = true)
{
    Runtime &core = here();
    Touched &touched = core.touched[span.memory];
    auto &last = touched.last[writes][pipe];
    if (last.empty()) last.resize(size_t(current->size[span.memory] / BLOCK + 1));
    uint64_t number = core.issued[pipe];
    touched.most[writes][pipe] = number;
    runs(span, [&](int64_t start, int64_t length) {
        size_t end = size_t((start + length + BLOCK - 1) / BLOCK);
        std::fill(last.begin() + start / BLOCK, last.begin() + int64_t(end), number);
        if (!fills) return;
        if (writes && start % BLOCK == 0 && length % BLOCK == 0)
            std::fill_n(core.filled[span.memory].begin() + start / BLOCK, length / BLOCK, ~0u);
        else if (writes)
            words(start, length, [&](int64_t block, uint32_t wanted) { core.filled[span.memory][size_t(block)] |= wanted; });
    });
}

} // namespace npusim

#endif

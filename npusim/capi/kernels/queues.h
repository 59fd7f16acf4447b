/* Queues and buffers of a pipe. */
#ifndef NPUSIM_KERNELS_QUEUES_H
#define NPUSIM_KERNELS_QUEUES_H

#include "flags.h"

namespace npusim {

/* Code for both kinds of cores may set up what only the others have memory for. */
static bool is_elsewhere(int memory)
{
    bool both = current->mix || current->cube || shared->has_sides;
    return both && !current->size[memory] && shared->job->memory[memory];
}

int32_t new_queue(int memory, int producer, int consumer, int depth, int slots, int64_t bytes, Site at)
{
    here().last_at = placed(at);
    Runtime &core = here();
    int64_t size = (bytes + BLOCK - 1) / BLOCK * BLOCK, end = core.used[memory] + size * slots;
    bool nowhere = is_elsewhere(memory);
    if (end > current->size[memory] && !nowhere)
        refuse(at, "Use smaller tiles or fewer buffers.", "%s with a queue of %d x %lld bytes needs %lld bytes, the chip has %lld", MEMORY_WORDS[memory], slots,
               (long long)size, (long long)end, (long long)current->size[memory]);
    core.queues.push_back({});
    Queue &queue = core.queues.back();
    queue.memory = memory, queue.producer = producer, queue.consumer = consumer, queue.depth = depth, queue.slots = slots;
    queue.start = core.used[memory], queue.bytes = size, queue.number = 1000 + int64_t(core.queues.size()) * 2, queue.made = placed(at);
    queue.state.assign(size_t(slots), 0);
    queue.site.assign(size_t(slots), Site{});
    if (nowhere) return int32_t(core.queues.size() - 1);
    core.used[memory] = end;
    for (int64_t block = queue.start / BLOCK; block < end / BLOCK; block++)
        core.tiles[memory][size_t(block)] = uint32_t(core.queues.size()) << 16 | uint32_t((block * BLOCK - queue.start) / size);
    return int32_t(core.queues.size() - 1);
}

int64_t new_buffer(int memory, int64_t bytes, Site at)
{
    here().last_at = placed(at);
    Runtime &core = here();
    if (is_elsewhere(memory)) return 0;
    int64_t start = core.used[memory], end = start + (bytes + BLOCK - 1) / BLOCK * BLOCK;
    if (end > current->size[memory])
        refuse(at, "Use a smaller one.", "%s with a buffer of %lld bytes needs %lld bytes, the chip has %lld", MEMORY_WORDS[memory], (long long)bytes, (long long)end,
               (long long)current->size[memory]);
    core.used[memory] = end;
    for (int64_t block = start / BLOCK; block < end / BLOCK; block++) core.tiles[memory][size_t(block)] = 0;
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
    write_down(shared->word(spelled(queue.made)), "", at, kind, int(kind == SET ? number[0] : number[1]), 0, number);
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
    if (queue.consumer == V) here().unread = true;
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

/* The device loses nothing by tiles that are still out when a kernel ends; kernels of operators leave some. */
static void check_freed(Runtime &core)
{
    if (shared->job->auto_sync) return;
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
    for (auto &tiles : here().tiles) tiles.assign(tiles.size(), 0);
    std::memset(here().used, 0, sizeof here().used);
    for (int memory = 0; memory < MEMORIES; memory++) here().used[memory] = 0;
}

} // namespace npusim

#endif

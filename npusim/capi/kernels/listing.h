/* What a core did, as a list of symbols in which what follows itself is a loop, found as it is written. */
#ifndef NPUSIM_KERNELS_LISTING_H
#define NPUSIM_KERNELS_LISTING_H

#include "npusim/kernel_runtime.h"
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace npusim {

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

/* The last instruction that took blocks of a sector of global memory; core counts from 1. */
struct Access {
    uint32_t number;
    uint16_t whole, part, core;
    uint8_t pipe, adds;
    uint16_t from, to; /* bytes of the sector, nothing where several runs took some */
};
struct Sector {
    Access written, read;
};
struct Freed {
    void operator()(void *place) const { std::free(place); }
};

/* What all cores of a launch have in common. */
struct Shared {
    npusim_job_t *job;
    Kept<npusim_symbol_t> symbols;
    std::map<std::vector<uint64_t>, uint32_t> bodies;
    std::vector<std::vector<Entry>> body;
    std::vector<std::unique_ptr<Runtime>> cores;
    std::vector<std::unique_ptr<Sector, Freed>> sectors; /* of each block of memory */
    std::map<int64_t, std::vector<Clocks>> meetings;     /* what those who came to SyncAll knew */
    std::map<uint64_t, std::vector<Clocks>> written_back; /* of lines of data caches: what those knew who wrote them back */
    std::set<std::string> words; /* that symbols point to */
    const char *word(const std::string &text) { return words.insert(text).first->c_str(); }
    std::vector<uint64_t> past_l2; /* addresses of the loads of one core that bypassed L2 */
    uint64_t progress = 0; /* instructions of all cores */
    uint64_t moves = 0; /* what cores did that others can see */
    std::string message, remedy;
    Site site = {};
    bool failed = false;
    bool has_sides = false; /* its code is compiled for both kinds of cores */
    bool looks = false, acted = false; /* only whether a core does anything is asked, and it does */

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

} // namespace npusim

#endif

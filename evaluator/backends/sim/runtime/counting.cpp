// Counts of what a profiler would count: sectors, lines and useful bytes of global and local memory, passes over the
// banks of shared memory, contention of atomics, and threads that had nothing to do. Only runs that ask for it come here.
#include "runtime.h"
#include <initializer_list>

bool COUNTING;

namespace {

enum Space : u32 { GLOBAL, SHARED, LOCAL, SPACES };
enum : u64 { SECTOR = 32, LINE = 128, MOST_RECORD_BYTES = 8 << 20, ADDRESSES = 1 << 16, LAUNCHES_WITH_REQUESTS = 32 };

// `numbers` of global and local memory: sectors, sectors that the bytes would fill side by side, lines, useful bytes;
// of shared memory: passes, least passes; of atomics: lanes, lanes at the busiest address.
struct Tally {
    u64 requests, numbers[4];
    u64 access, costliest; // sectors or passes of the most expensive request
};
Tally *TALLIES; // by site and space
// The addresses of that request: those of `mask`, relative to the first lane's.
struct Request {
    U64 relative;
    u64 first;
    u32 mask, bytes;
};
Request *REQUESTS; // by site and space
struct Marks {
    u64 *loads, *stores; // a bit for each sector
    u64 sectors;
};
Marks MARKS[SLOT_COUNT];
u64 IDLE_THREADS;
// How often atomics met each address of global memory; the busiest one is what a launch waits for.
struct Meeting {
    u64 address, times, block, blocks; // the last block that came there, and how many did in turns
};
Meeting *MEETINGS;
u64 MET;
u64 *RECORD;
u64 RECORDED, RECORD_ROOM, LAUNCHES;

// The addresses of one request relative to its first lane's, and what they cost: warps repeat themselves.
struct Pattern {
    U64 relative;
    u32 mask, phase, space, bytes;
    u64 numbers[4];
    u64 marked;         // the first lane's sector when these sectors were marked last
    i64 sectors[LANES]; // relative to the first lane's
};
enum { PATTERNS = 4 };
Pattern *MEMORY; // PATTERNS for each site

template <class T> T *zeroed(u64 count) {
    T *p = (T *)calloc(count ? count : 1, sizeof(T));
    if (!p) out_of_memory("the simulator's counters", count * sizeof(T));
    return p;
}

u64 *bits_of(Marks &marks, Access access) { return access == STORED ? marks.stores : marks.loads; }

void mark(Marks &marks, Access access, u64 sector) {
    if (sector < marks.sectors) bits_of(marks, access)[sector / 64] |= 1ull << (sector % 64);
}
// At most 64 of them.
void mark_run(Marks &marks, Access access, u64 sector, u64 count) {
    if (sector + count > marks.sectors) return;
    u64 *at = bits_of(marks, access) + sector / 64, ones = ~0ull >> (64 - count), shift = sector % 64;
    at[0] |= ones << shift;
    if (shift + count > 64) at[1] |= ones >> (64 - shift);
}

bool paired(u32 mask, const A64 &a, u32 first, u32 count, u32 partner) {
    for (u32 i = first; i < first + count; i++)
        if (mask >> i & 1 && mask >> (i ^ partner) & 1 && a.e[i] != a.e[i ^ partner]) return false;
    return true;
}

// Passes of one group of lanes: the most different words that one bank has to give.
u64 passes(u32 mask, const A64 &a, u32 first, u32 count, int bytes) {
    u64 words[LANES][LANES], most = 0;
    u32 found[LANES] = {};
    for (u32 i = first; i < first + count; i++) {
        if (!(mask >> i & 1)) continue;
        for (u64 word = a.e[i] / 4; word <= (a.e[i] + bytes - 1) / 4; word++) {
            u32 bank = word % LANES, n = 0;
            while (n < found[bank] && words[bank][n] != word) n++;
            if (n == found[bank] && n < LANES) words[bank][found[bank]++] = word;
            most = found[bank] > most ? found[bank] : most;
        }
    }
    return most;
}

// Accesses of 8 bytes go by half warps, of 16 by quarters; two neighbouring groups share a pass where every lane has
// the address of its neighbour, or of its neighbour but one.
void count_shared(u32 mask, const A64 &a, int bytes, u64 numbers[4]) {
    u32 group = bytes <= 4 ? 32 : bytes == 8 ? 16 : 8;
    for (u32 first = 0; first < LANES;) {
        u32 pair = 2 * group;
        bool merged = group < LANES && first % pair == 0 && (paired(mask, a, first, pair, 1) || paired(mask, a, first, pair, 2));
        u32 count = merged ? pair : group;
        u64 needed = passes(mask, a, first, count, bytes);
        numbers[0] += needed;
        numbers[1] += needed != 0;
        first += count;
    }
}

void count_global(u32 mask, const A64 &a, int bytes, u64 numbers[4], i64 *sectors, u64 origin) {
    u64 lines[LANES], starts[LANES];
    u32 sector_count = 0, line_count = 0, start_count = 0;
    for (u32 left = mask; left; left &= left - 1) {
        u64 address = a.e[__builtin_ctz(left)];
        i64 sector = (i64)(address / SECTOR) - (i64)(origin / SECTOR);
        u32 n = 0;
        while (n < start_count && starts[n] != address) n++;
        if (n < start_count) continue;
        starts[start_count++] = address;
        for (n = 0; n < sector_count && sectors[n] != sector; n++);
        if (n == sector_count) sectors[sector_count++] = sector;
        for (n = 0; n < line_count && lines[n] != address / LINE; n++);
        if (n == line_count) lines[line_count++] = address / LINE;
    }
    numbers[0] = sector_count;
    numbers[1] = ((u64)start_count * bytes + SECTOR - 1) / SECTOR;
    numbers[2] = line_count;
    numbers[3] = (u64)start_count * bytes;
}

// Local memory is interleaved: the same word of 32 threads is a line (CUDA C++ Programming Guide, section 8.3.2).
void count_local(const Warp &w, u32 mask, const A64 &a, int bytes, u64 numbers[4]) {
    u64 low = slot_address(LOCAL_SLOT) + (u64)w.index * LANES * LOCAL_STRIDE, lines[LANES];
    u32 line_count = 0;
    for (u32 first = 0; first < LANES; first += 8) {
        u64 words[8];
        u32 count = 0;
        for (u32 i = first; i < first + 8; i++) {
            if (!(mask >> i & 1)) continue;
            u64 word = (a.e[i] - low - i * LOCAL_STRIDE) / 4;
            u32 n = 0;
            while (n < count && words[n] != word) n++;
            if (n == count) words[count++] = word;
            for (n = 0; n < line_count && lines[n] != word; n++);
            if (n == line_count) lines[line_count++] = word;
        }
        numbers[0] += count;
    }
    u64 wide = bytes > 4 ? bytes / 4 : 1, useful = (u64)__builtin_popcount(mask) * bytes;
    numbers[0] *= wide;
    numbers[1] = (useful + SECTOR - 1) / SECTOR;
    numbers[2] = line_count * wide;
    numbers[3] = useful;
}

void meet(u64 address, u64 times, u64 block) {
    u64 at = (address * 0x9E3779B97F4A7C15ull) >> 48;
    for (u32 tries = 0; tries < 64; tries++, at = (at + 1) % ADDRESSES) {
        Meeting &m = MEETINGS[at];
        if (!m.address) m.address = address;
        if (m.address != address) continue;
        m.times += times;
        m.blocks += !m.blocks || m.block != block;
        m.block = block;
        return;
    }
}

void count_atomic(const Warp &w, u32 mask, const U64 &address, const A64 &a, Space space, u64 numbers[4]) {
    const u32 *id = w.block->id;
    u64 most = 0, block = id[0] + (u64)LAUNCH.grid[0] * (id[1] + (u64)LAUNCH.grid[1] * id[2]);
    for (u32 left = mask; left;) {
        u64 one = a.e[__builtin_ctz(left)];
        u32 same = eq_b64(address, all64(one)) & left;
        u64 times = __builtin_popcount(same);
        most = times > most ? times : most;
        if (space == GLOBAL) MET++, meet(one, times, block);
        left &= ~same;
    }
    numbers[0] = __builtin_popcount(mask);
    numbers[1] = most;
}

// The space of an address; SPACES for what is not counted: constants, parameters, nobody's memory.
Space space_of(u64 address) {
    u64 slot = (address - SLOT_BASE) >> SLOT_SHIFT;
    if (slot == SHARED_SLOT) return SHARED;
    if (slot == LOCAL_SLOT) return LOCAL;
    if (slot >= SLOT_COUNT || slot == PARAMETER_SLOT || SLOTS[slot].constant) return SPACES;
    return GLOBAL;
}

void add(Tally &tally, Access access, const u64 numbers[4]) {
    tally.access = access;
    tally.requests++;
    for (int i = 0; i < 4; i++) tally.numbers[i] += numbers[i];
}

void keep_costliest(u64 place, u64 cost, u32 mask, u64 first, const U64 &relative, int bytes) {
    if (cost <= TALLIES[place].costliest) return;
    TALLIES[place].costliest = cost;
    REQUESTS[place] = {relative, first, mask, (u32)bytes};
}

u64 words_for(u64 sectors) { return sectors / 64 + 2; } // and one to spare

Marks &marks_of(u64 address) {
    u64 number = (address - SLOT_BASE) >> SLOT_SHIFT;
    Marks &marks = MARKS[number];
    if (!marks.sectors && SLOTS[number].size) {
        marks.sectors = (SLOTS[number].size + SECTOR - 1) / SECTOR;
        marks.loads = zeroed<u64>(words_for(marks.sectors));
        marks.stores = zeroed<u64>(words_for(marks.sectors));
    }
    return marks;
}

u64 sector_in_slot(u64 address) { return (address - SLOTS[(address - SLOT_BASE) >> SLOT_SHIFT].low) / SECTOR; }

U64 steps_of(u64 bytes) {
    A64 r;
    for (int i = 0; i < LANES; i++) r.e[i] = i * bytes;
    return gather(r);
}
const U64 STEPS[6] = {steps_of(1), steps_of(2), steps_of(4), steps_of(8), steps_of(16), steps_of(32)};

// All lanes side by side, or all at one address: what most requests are. False for any other.
INLINE bool count_plain(u32 mask, const U64 &address, u64 site, int bytes, Access access, u32 &touched) {
    if (mask != ~0u || access == UPDATED) return false;
    u64 first, numbers[4];
    __builtin_memcpy(&first, &address, 8);
    U64 relative = sub_b64(address, all64(first));
    u64 whole = bytes;
    if (eq_b64(relative, STEPS[__builtin_ctz(bytes)]) == ~0u) whole *= LANES;
    else if (eq_b64(relative, all64(0)) != ~0u) return false;
    Space space = space_of(first);
    if (space == LOCAL || (space == SHARED && whole == (u64)bytes)) return false;
    if (space == SPACES) return true;
    touched = ~0u;
    if (space == SHARED) {
        numbers[0] = numbers[1] = bytes <= 4 ? 1 : bytes / 4;
        numbers[2] = numbers[3] = 0;
    } else {
        numbers[0] = (first % SECTOR + whole + SECTOR - 1) / SECTOR;
        numbers[1] = (whole + SECTOR - 1) / SECTOR;
        numbers[2] = (first % LINE + whole + LINE - 1) / LINE;
        numbers[3] = whole;
        mark_run(marks_of(first), access, sector_in_slot(first), numbers[0]);
    }
    keep_costliest(site * SPACES + space, numbers[0], mask, first, relative, bytes);
    add(TALLIES[site * SPACES + space], access, numbers);
    return true;
}

// Whatever the addresses of lanes of one space are.
void count_part(Warp &w, u32 mask, const U64 &address, const A64 &a, u64 site, int bytes, Access access, Space space) {
    Tally &tally = TALLIES[site * SPACES + space];
    u64 first = a.e[__builtin_ctz(mask)], numbers[4] = {};
    if (access == UPDATED) {
        count_atomic(w, mask, address, a, space, numbers);
        return add(tally, access, numbers);
    }
    if (space == LOCAL) {
        count_local(w, mask, a, bytes, numbers);
        return add(tally, access, numbers);
    }
    U64 relative = pick(mask, sub_b64(address, all64(first)), all64(0));
    // Conflicts stay what they are when all banks move on by one; and where lanes are whole lines or sectors apart, it
    // does not matter where in its own the first one is.
    u32 phase = first % LINE;
    if (space == SHARED) phase %= 4;
    else if (eq_b64(and_b64(relative, all64(LINE - 1)), all64(0)) == ~0u) phase = 0;
    else if (eq_b64(and_b64(relative, all64(SECTOR - 1)), all64(0)) == ~0u) phase &= ~(u32)(SECTOR - 1);
    Pattern &pattern = MEMORY[site * PATTERNS + ((phase / 32 ^ phase / 4 ^ mask ^ mask >> 16) & (PATTERNS - 1))];
    bool known = pattern.mask == mask && pattern.phase == phase && pattern.space == space && pattern.bytes == (u32)bytes &&
                 eq_b64(pattern.relative, relative) == ~0u;
    if (!known) {
        memset(pattern.numbers, 0, sizeof pattern.numbers);
        if (space == SHARED) count_shared(mask, a, bytes, pattern.numbers);
        else count_global(mask, a, bytes, pattern.numbers, pattern.sectors, first);
        pattern.relative = relative;
        pattern.mask = mask;
        pattern.phase = phase;
        pattern.space = space;
        pattern.bytes = bytes;
        pattern.marked = ~0ull;
        keep_costliest(site * SPACES + space, pattern.numbers[0], mask, first, relative, bytes);
    }
    add(tally, access, pattern.numbers);
    if (space == SHARED || pattern.marked == first / SECTOR) return;
    pattern.marked = first / SECTOR;
    Marks &marks = marks_of(first);
    u64 origin = sector_in_slot(first);
    for (u64 i = 0; i < pattern.numbers[0]; i++) mark(marks, access, origin + pattern.sectors[i]);
}

void note(u64 value) {
    if (RECORDED == RECORD_ROOM) {
        u64 room = RECORD_ROOM ? 2 * RECORD_ROOM : 4096;
        u64 *grown = (u64 *)realloc(RECORD, room * 8);
        if (!grown) out_of_memory("the simulator's counters", room * 8);
        RECORD = grown;
        RECORD_ROOM = room;
    }
    RECORD[RECORDED++] = value;
}

// Where the number of rows will stand that follow.
u64 open_rows() {
    note(0);
    return RECORDED - 1;
}

u64 bits_in(const u64 *bits, u64 sectors) {
    u64 found = 0;
    for (u64 i = 0; i < words_for(sectors); i++) found += __builtin_popcountll(bits[i]);
    return found;
}

} // namespace

void count_access(Warp &w, u32 mask, const U64 &address, const Site &site, int bytes, Access access) {
    u64 number = &site - PROGRAM->sites;
    u32 touched = 0;
    if (count_plain(mask, address, number, bytes, access, touched)) {
        w.touched |= touched;
        return;
    }
    A64 a = spread(address);
    for (u32 left = mask; left;) {
        u64 one = a.e[__builtin_ctz(left)];
        Space space = space_of(one);
        u32 same = in_slot(address, (one - SLOT_BASE) >> SLOT_SHIFT) & left;
        if (!same) same = left & -left;
        left &= ~same;
        if (space == SPACES) continue;
        w.touched |= same;
        count_part(w, same, address, a, number, bytes, access, space);
    }
}

void count_idle(const Warp &w, u32 started) { IDLE_THREADS += __builtin_popcount(started & ~w.touched); }

void begin_counting(bool wanted) {
    COUNTING = wanted;
    RECORDED = LAUNCHES = 0;
    if (!wanted) return;
    if (!TALLIES) {
        TALLIES = zeroed<Tally>((u64)PROGRAM->site_count * SPACES);
        MEMORY = (Pattern *)aligned_alloc(64, sizeof(Pattern) * ((u64)PROGRAM->site_count * PATTERNS + 1));
        REQUESTS = (Request *)aligned_alloc(64, sizeof(Request) * ((u64)PROGRAM->site_count * SPACES + 1));
        if (!MEMORY || !REQUESTS) out_of_memory("the simulator's counters", sizeof(Pattern) * PROGRAM->site_count);
        MEETINGS = zeroed<Meeting>(ADDRESSES);
    }
    for (Marks &marks : MARKS) { // buffers may have other sizes than in the run before
        free(marks.loads);
        free(marks.stores);
        marks = {};
    }
}

void begin_launch_counts() {
    for (u64 i = 0; i < (u64)PROGRAM->site_count * PATTERNS; i++) MEMORY[i].mask = 0; // marks begin anew
    memset(TALLIES, 0, sizeof(Tally) * PROGRAM->site_count * SPACES);
    memset(PROGRAM->blocks, 0, sizeof(BlockCount) * PROGRAM->block_count);
    memset(PROGRAM->guards, 0, sizeof(u64) * PROGRAM->guard_count);
    if (MET) memset(MEETINGS, 0, sizeof(Meeting) * ADDRESSES);
    MET = IDLE_THREADS = 0;
    for (Marks &marks : MARKS) {
        if (!marks.sectors) continue;
        memset(marks.loads, 0, words_for(marks.sectors) * 8);
        memset(marks.stores, 0, words_for(marks.sectors) * 8);
    }
}

void end_launch_counts(u64 kernel, u64 blocks, u64 counted_blocks) {
    if (RECORDED * 8 > MOST_RECORD_BYTES) return;
    LAUNCHES++;
    Meeting busiest = {};
    u64 addresses = 0;
    for (u64 i = 0; MET && i < ADDRESSES; i++) {
        if (MEETINGS[i].address) addresses++;
        if (MEETINGS[i].times > busiest.times) busiest = MEETINGS[i];
    }
    for (u64 value : {kernel, (u64)LAUNCH.shared_bytes, blocks, counted_blocks, IDLE_THREADS}) note(value);
    for (u64 value : {busiest.times, busiest.blocks, addresses}) note(value);
    u64 rows = open_rows();
    for (u64 i = 0; i < PROGRAM->block_count; i++) {
        const BlockCount &b = PROGRAM->blocks[i];
        if (!b.warps) continue;
        for (u64 value : {i, b.warps, b.lanes, b.diverged}) note(value);
        RECORD[rows]++;
    }
    rows = open_rows();
    for (u64 i = 0; i < PROGRAM->guard_count; i++) {
        if (!PROGRAM->guards[i]) continue;
        note(i);
        note(PROGRAM->guards[i]);
        RECORD[rows]++;
    }
    rows = open_rows();
    for (u64 i = 0; i < (u64)PROGRAM->site_count * SPACES; i++) {
        const Tally &t = TALLIES[i];
        if (!t.requests) continue;
        for (u64 value : {i / SPACES, i % SPACES, t.access, t.requests}) note(value);
        for (u64 value : t.numbers) note(value);
        RECORD[rows]++;
    }
    rows = open_rows();
    for (u64 i = 0; i < (u64)PROGRAM->site_count * SPACES && LAUNCHES <= LAUNCHES_WITH_REQUESTS; i++) {
        const Tally &t = TALLIES[i];
        if (!t.costliest) continue;
        const Request &r = REQUESTS[i];
        A64 relative = spread(r.relative);
        for (u64 value : {i / SPACES, i % SPACES, t.access, t.costliest, (u64)r.mask, (u64)r.bytes, r.first % LINE}) note(value);
        for (u64 offset : relative.e) note(offset);
        RECORD[rows]++;
    }
    rows = open_rows();
    for (const Marks &marks : MARKS) {
        if (!marks.sectors) continue;
        for (u64 value : {marks.sectors, bits_in(marks.loads, marks.sectors), bits_in(marks.stores, marks.sectors)}) note(value);
        RECORD[rows]++;
    }
}

u64 recorded_launches() { return LAUNCHES; }
const void *record_of_counts(u64 &bytes) {
    bytes = RECORDED * 8;
    return RECORD;
}

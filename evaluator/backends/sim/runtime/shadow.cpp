#include "marks.h"
#include "weak_memory.h"
#include <sys/mman.h>
#include <utility>

bool WATCHING;
u32 WATCHED_SHARE;
u64 WATCH_SEED, BLOCKS_WATCHED, BLOCKS_RUN;

namespace {

enum : u64 { MOST_SHADOW_BYTES = 2ull << 30 };

Shadow SHADOWS[SLOT_COUNT];
u64 SHADOW_BYTES;

u32 TICK = 1, LAUNCHED, KERNEL;
bool SAMPLED; // some blocks are not watched: what they did is not known

BlockWatch WATCH;

// What a block of this launch has released so far, by warp: with a fence, and without one.
struct Published {
    u32 id[3], everything, released[MOST_WARPS], unfenced[MOST_WARPS];
};
Published *PUBLISHED;
u32 PUBLISHED_COUNT, PUBLISHED_ROOM;

Hazard HAZARDS[MOST_HAZARDS];
bool IN_WARP[MOST_HAZARDS];
u32 HAZARD_COUNT;
u8 *GUARDED; // by place: reads that an atomic of the same warp on the same word follows
u32 GUARDED_ROOM;

INLINE u32 later(u32 a, u32 b) { return a > b ? a : b; }
void join(u32 *into, const u32 *from) {
    for (u32 i = 0; i < MOST_WARPS; i++) into[i] = later(into[i], from[i]);
}
INLINE Clock &clock_of(Warp &w) { return w.block->watch->clocks[w.index]; }

Cell *cell_at(u64 slot, u64 offset) {
    Shadow &s = SHADOWS[slot];
    u64 size = (SLOTS[slot].size + WORD - 1) & ~(u64)(WORD - 1);
    if (size > s.bytes) {
        u64 wanted = size / WORD * sizeof(Cell);
        if (s.cells) munmap(s.cells, s.bytes / WORD * sizeof(Cell)), SHADOW_BYTES -= s.bytes / WORD * sizeof(Cell);
        s.cells = nullptr;
        s.bytes = 0;
        if (SHADOW_BYTES + wanted > MOST_SHADOW_BYTES) return nullptr;
        void *at = mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at == MAP_FAILED) return nullptr;
        s.cells = (Cell *)at;
        s.bytes = size;
        SHADOW_BYTES += wanted;
    }
    Cell *cell = s.cells + offset / WORD;
    if (cell->born < s.born) {
        memset(cell, 0, sizeof *cell);
        cell->born = s.born;
        cell->defined = s.defined ? 15 : 0;
    }
    return cell;
}

// BY_CHANCE: an atomic stands between, but no fence before it. IN_STEP: a shuffle or a vote does.
enum Order { ORDERED, BY_CHANCE, IN_STEP, UNORDERED };
Order order(const Mark &m, Warp &w, u32 lane) {
    if (m.tick <= LAUNCHED) return ORDERED;
    BlockWatch &watch = *w.block->watch;
    Clock &c = watch.clocks[w.index];
    u32 warp = m.thread / LANES, its_lane = m.thread % LANES;
    if (m.block == watch.ordinal) {
        if (warp != w.index) return m.tick <= c.known[warp] ? ORDERED : UNORDERED;
        if (its_lane == lane || m.tick <= c.together || m.tick <= c.lanes[lane][its_lane]) return ORDERED;
        return m.tick <= c.met || m.tick <= c.groups[lane][its_lane] ? IN_STEP : UNORDERED;
    }
    if (m.tick > c.horizon) return UNORDERED;
    const Published &p = PUBLISHED[m.block];
    if (m.tick <= later(p.released[warp], p.everything)) return ORDERED;
    return m.tick <= p.unfenced[warp] ? BY_CHANCE : UNORDERED;
}

void acquire(const Mark &m, Warp &w, u32 lane, const Site &site, bool sampled) {
    BlockWatch &watch = *w.block->watch;
    if (m.block != watch.ordinal && (m.of_block || site.semantics & OF_BLOCK)) return;
    Clock &c = watch.clocks[w.index];
    if (sampled && !(site.semantics & OF_BLOCK)) c.horizon = TICK;
    if (m.tick <= LAUNCHED || m.act == READ) return;
    u32 warp = m.thread / LANES, its_lane = m.thread % LANES;
    if (m.block != watch.ordinal) {
        c.horizon = later(c.horizon, m.tick);
        // A plain write that somebody waits for with a strong read is meant to publish what came before it.
        if (m.act == WRITE) PUBLISHED[m.block].everything = later(PUBLISHED[m.block].everything, m.tick);
    } else if (warp != w.index) {
        const Clock &from = watch.clocks[warp];
        join(c.known, from.known);
        join(c.fenced, from.fenced);
        c.known[warp] = later(c.known[warp], m.tick);
        c.horizon = later(c.horizon, from.horizon);
        // What the other warp knew of this one, this lane knows of its neighbours from now on.
        for (u32 &known : c.lanes[lane]) known = later(known, from.known[w.index]);
    } else if (its_lane != lane) {
        for (u32 i = 0; i < LANES; i++) c.lanes[lane][i] = later(c.lanes[lane][i], c.lanes[its_lane][i]);
        c.lanes[lane][its_lane] = later(c.lanes[lane][its_lane], m.tick);
    }
}

void publish(Warp &w, const Site &site) {
    if (site.semantics & OF_BLOCK) return;
    Published &p = PUBLISHED[w.block->watch->ordinal];
    Clock &c = clock_of(w);
    join(p.released, c.fenced);
    join(p.unfenced, c.known);
    p.unfenced[w.index] = TICK;
}

void locate(u32 *thread, u32 linear) {
    thread[0] = linear % LAUNCH.block[0];
    thread[1] = linear / LAUNCH.block[0] % LAUNCH.block[1];
    thread[2] = linear / LAUNCH.block[0] / LAUNCH.block[1];
}

// One of each kind for each pair of lines. Between warps is worth more than within one: there a barrier must stand.
void note(HazardKind kind, Warp &w, u32 lane, const Site &site, Act act, const Mark *other, u64 address, int bytes, bool rewrites = false, u64 base = 0) {
    i32 other_place = other ? (i32)other->place : -1;
    bool in_warp = other && other->block == w.block->watch->ordinal && other->thread / LANES == w.index;
    u32 at = HAZARD_COUNT;
    for (u32 i = 0; i < HAZARD_COUNT; i++) {
        const Hazard &h = HAZARDS[i];
        bool same = same_line(h.here.place, site.place) && same_line(h.other.place, other_place);
        bool mirrored = other && same_line(h.here.place, other_place) && same_line(h.other.place, site.place);
        if (h.kind != kind || h.kernel != KERNEL || !(same || mirrored)) continue;
        if (in_warp || !IN_WARP[i]) return;
        at = i;
        rewrites &= h.rewrites != 0;
        break;
    }
    if (at == MOST_HAZARDS) return;
    if (at == HAZARD_COUNT) HAZARD_COUNT++;
    IN_WARP[at] = in_warp;
    Hazard &h = HAZARDS[at];
    memset(&h, 0, sizeof h);
    h.kind = kind;
    h.kernel = KERNEL;
    h.rewrites = rewrites;
    h.slot = (u32)((address - SLOT_BASE) >> SLOT_SHIFT);
    h.offset = address - SLOTS[h.slot].low;
    h.bytes = (u64)bytes;
    h.base = base;
    locate(h.here.thread, w.index * LANES + lane);
    memcpy(h.here.block, w.block->id, sizeof h.here.block);
    h.here.place = site.place;
    h.here.act = act;
    h.other.place = other_place;
    if (other) {
        locate(h.other.thread, other->thread);
        memcpy(h.other.block, PUBLISHED[other->block].id, sizeof h.other.block);
        h.other.act = other->act;
    }
}

// An access behind the end, or before the start, of every array that its address is made from.
INLINE void check_extents(Warp &w, u32 lane, const Site &site, Act act, u64 address, int bytes) {
    if (!site.extents || !is_slot(address, SHARED_SLOT)) return;
    const Extent *e = PROGRAM->extents + site.first_extent;
    u64 offset = address - SLOTS[SHARED_SLOT].low;
    for (u32 i = 0; i < site.extents; i++)
        if (offset >= e[i].low && offset + (u64)bytes <= e[i].high) return;
    note(OVERRUN, w, lane, site, act, nullptr, address, bytes, false, e->low);
}

// Compare an access with an earlier one of the same bytes. `harmless`: it leaves what is there, or found it so.
void meet(const Mark &m, u32 bits, bool harmless, Warp &w, u32 lane, const Site &site, Act act, u64 address, int bytes, bool shared, bool rewrites = false) {
    if (!(m.touched & bits)) return;
    // Two are morally strong only if the scope of each includes the other's thread (PTX ISA 9.0, section 8.7.1).
    bool apart = m.block != w.block->watch->ordinal;
    Act there = apart && m.of_block ? beyond_block(m.act) : m.act, here = apart && site.semantics & OF_BLOCK ? beyond_block(act) : act;
    bool reads = there == READ || here == READ, atomic = there >= ATOMIC || here >= ATOMIC;
    bool strong = there == STRONG || here == STRONG || (atomic && (there == FLAG || here == FLAG));
    if (strong || (there >= ATOMIC && here >= ATOMIC) || (reads && atomic && !shared)) return;
    Order found = order(m, w, lane);
    if (found == ORDERED || (harmless && found == IN_STEP)) return;
    if (harmless) {
        bool one_instruction = (i32)m.place == site.place && m.tick == TICK && m.thread / LANES == w.index;
        if (one_instruction && m.block == w.block->watch->ordinal) return;
    }
    HazardKind kind = harmless ? HARMLESS : found == BY_CHANCE ? UNFENCED : found == IN_STEP ? LOCKSTEP : reads && atomic ? WITH_ATOMIC : RACE;
    note(kind, w, lane, site, act, &m, address, bytes, rewrites);
}

Mark mark(Warp &w, u32 lane, const Site &site, Act act, u32 touched, u32 changed) {
    Mark m;
    m.tick = TICK;
    m.block = w.block->watch->ordinal;
    m.place = (u32)site.place;
    m.thread = (u16)(w.index * LANES + lane);
    m.of_block = (site.semantics & OF_BLOCK) != 0;
    m.touched = touched & 15;
    m.changed = changed & 15;
    m.act = act;
    return m;
}

void remember_read(Cell &cell, const Mark &m) {
    const Mark &last = cell.reads[0];
    bool same_warp = last.block == m.block && last.thread / LANES == m.thread / LANES;
    if (last.tick > LAUNCHED && !same_warp) cell.reads[1] = last;
    cell.reads[0] = m;
}

// Call `f(cell, bits, address, count)` for each word that `bytes` bytes at `address` touch; local memory has no races.
template <class F> INLINE void words(u64 address, int bytes, F f) {
    u64 slot = (address - SLOT_BASE) >> SLOT_SHIFT, offset = address - SLOTS[slot].low;
    for (int done = 0; done < bytes;) {
        u32 in_word = (u32)(offset + done) % WORD, count = WORD - in_word;
        if (count > (u32)(bytes - done)) count = (u32)(bytes - done);
        Cell *cell = cell_at(slot, offset + done);
        if (!cell) {
            WATCHING = false;
            return;
        }
        f(*cell, ((1u << count) - 1) << in_word, done, count);
        done += (int)count;
    }
}
bool defined_is_known(u64 address) {
    return !SAMPLED || is_slot(address, SHARED_SLOT) || is_slot(address, LOCAL_SLOT);
}

void set_defined(u64 address, u64 bytes, bool defined) {
    for (u64 done = 0; done < bytes && WATCHED_SHARE;) {
        int part = bytes - done > 4096 ? 4096 : (int)(bytes - done);
        bool before = WATCHING;
        words(address + done, part, [&](Cell &cell, u32 bits, int, u32) {
            cell.defined = defined ? cell.defined | bits : cell.defined & ~bits;
            if (!defined) cell.write.touched &= ~bits, cell.reads[0].touched &= ~bits, cell.reads[1].touched &= ~bits;
        });
        if (before && !WATCHING) return;
        done += (u64)part;
    }
}

u64 mixed(u64 x) { // SplitMix64
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

} // namespace

void watch_slot(u64 number, bool defined) {
    SHADOWS[number].born = ++TICK;
    SHADOWS[number].defined = defined;
}
void watch_undefined(u64 address, u64 bytes) { set_defined(address, bytes, false); }
void watch_defined(u64 address, u64 bytes) { set_defined(address, bytes, true); }

u64 first_unwritten(u64 slot) {
    if (SAMPLED || !WATCHED_SHARE) return ~0ull;
    u64 size = SLOTS[slot].size;
    for (u64 offset = 0; offset < size; offset += WORD) {
        const Cell *cell = cell_at(slot, offset);
        if (!cell) return ~0ull;
        u32 bits = size - offset < WORD ? (1u << (size - offset)) - 1 : 15;
        if (u32 lacking = bits & ~cell->defined) return offset + (u32)__builtin_ctz(lacking);
    }
    return size;
}

void watch_run() {
    BLOCKS_WATCHED = BLOCKS_RUN = HAZARD_COUNT = 0;
    WATCHING = false;
    SAMPLED = WATCHED_SHARE < ALL_WATCHED;
    watch_slot(HEAP_SLOT, true);
    if (TICK > 0xf0000000u) WATCHED_SHARE = 0; // the clock has no room for another run
    if (GUARDED) memset(GUARDED, 0, GUARDED_ROOM);
}

void watch_launch(u32 kernel) {
    KERNEL = kernel;
    LAUNCHED = TICK++;
    PUBLISHED_COUNT = 0;
}

void watch_block(Block &block, u64 number) {
    BLOCKS_RUN++;
    u64 pair = (number + (WATCH_SEED & 1)) / 2;
    u64 draw = mixed(WATCH_SEED ^ mixed(pair ^ LAUNCH.grid_id << 40)) & (ALL_WATCHED - 1);
    WATCHING = WATCHED_SHARE && (!pair || draw < WATCHED_SHARE); // of a loop over the grid the first have most to do
    if (!WATCHING) return;
    BLOCKS_WATCHED++;
    if (PUBLISHED_COUNT == PUBLISHED_ROOM) {
        u32 room = PUBLISHED_ROOM ? 2 * PUBLISHED_ROOM : 256;
        void *grown = realloc(PUBLISHED, room * sizeof(Published));
        if (!grown) {
            WATCHING = false;
            return;
        }
        PUBLISHED = (Published *)grown;
        PUBLISHED_ROOM = room;
    }
    Published &p = PUBLISHED[PUBLISHED_COUNT];
    memset(&p, 0, sizeof p);
    memcpy(p.id, block.id, sizeof p.id);
    block.watch = &WATCH;
    WATCH.ordinal = PUBLISHED_COUNT++;
    memset(WATCH.clocks, 0, block.warp_count * sizeof(Clock));
    memset(WATCH.gates, 0, sizeof WATCH.gates);
    watch_slot(SHARED_SLOT, false);
    // Watched accesses take the slow way, so the quick one need not ask.
    for (u32 i = 0; i < PROGRAM->site_count; i++) PROGRAM->sites[i].low = PROGRAM->sites[i].count = 0;
}

struct ParkedWatch { BlockWatch watch; Shadow shared; bool watching; };
ParkedWatch *park_watch(Block &block) {
    ParkedWatch *made = (ParkedWatch *)calloc(1, sizeof(ParkedWatch));
    if (!made) out_of_memory("the simulator's shadow memory", sizeof(ParkedWatch));
    if (WATCHING) made->watch = WATCH;
    return block.watch = &made->watch, made;
}
void exchange_watch(ParkedWatch *other) {
    std::swap(SHADOWS[SHARED_SLOT], other->shared);
    std::swap(WATCHING, other->watching);
}
void forget_watch(ParkedWatch *other) {
    u64 bytes = other->shared.bytes / WORD * sizeof(Cell);
    if (other->shared.cells) munmap(other->shared.cells, bytes), SHADOW_BYTES -= bytes;
    free(other);
}

void watch_load(Warp &w, u32 mask, const A64 &address, const Site &site, int bytes) {
    bool strong = site.strength != PLAIN, narrow = site.semantics & OF_BLOCK;
    for (u32 left = mask; left && WATCHING; left &= left - 1) {
        u32 lane = (u32)__builtin_ctz(left);
        u64 a = address.e[lane];
        bool shared = is_slot(a, SHARED_SLOT), local = is_slot(a, LOCAL_SLOT), known = defined_is_known(a);
        if (is_slot(a, PARAMETER_SLOT)) continue;
        check_extents(w, lane, site, READ, a, bytes);
        words(a, bytes, [&](Cell &cell, u32 bits, int, u32) {
            if (known && bits & ~cell.defined) note(UNDEFINED, w, lane, site, READ, nullptr, a, bytes);
            if (local) return;
            if (strong) {
                if (cell.write.touched & bits) acquire(cell.write, w, lane, site, SAMPLED && !shared);
                else if (SAMPLED && !shared && !narrow) clock_of(w).horizon = TICK;
                if (!narrow || shared || cell.write.block == w.block->watch->ordinal) return;
            }
            meet(cell.write, bits, !(cell.write.changed & bits), w, lane, site, READ, a, bytes, shared);
            remember_read(cell, mark(w, lane, site, READ, bits, 0));
        });
    }
}

void watch_store(Warp &w, u32 mask, const A64 &address, const Site &site, int bytes, const u8 (*fresh)[32]) {
    Clock &c = clock_of(w);
    if (site.semantics & RELEASES) watch_fence(w, site.semantics);
    Act act = site.strength != PLAIN ? STRONG : c.after_fence ? FLAG : WRITE;
    if (act != WRITE) publish(w, site);
    bool local_only = true, let_go = false;
    for (u32 left = mask; left; left &= left - 1) {
        u32 lane = (u32)__builtin_ctz(left);
        u64 a = address.e[lane];
        bool shared = is_slot(a, SHARED_SLOT), local = is_slot(a, LOCAL_SLOT);
        local_only &= local;
        check_extents(w, lane, site, act, a, bytes);
        if (WATCHING)
            words(a, bytes, [&](Cell &cell, u32 bits, int at, u32 count) {
                cell.defined |= bits;
                if (local) return;
                const u8 *old = (const u8 *)a + at, *now = fresh[lane] + at;
                u32 changed = 0;
                for (u32 i = 0; i < count; i++) changed |= (u32)(old[i] != now[i]) << i;
                changed <<= __builtin_ctz(bits);
                Act how = act;
                const Mark &last = cell.write;
                if (how == WRITE && last.act == EXCHANGE && last.tick > LAUNCHED && last.touched & bits &&
                    last.block == w.block->watch->ordinal && last.thread / LANES == w.index) {
                    how = FLAG; // it holds this lock, and lets go of it
                    let_go = true;
                    publish(w, site);
                }
                if (how != STRONG || site.semantics & OF_BLOCK) {
                    meet(cell.write, bits, !changed, w, lane, site, how, a, bytes, shared);
                    for (const Mark &read : cell.reads) {
                        bool rewrites = last.tick > LAUNCHED && last.touched & bits && last.tick <= read.tick && last.act != READ;
                        meet(read, bits, !changed, w, lane, site, how, a, bytes, shared, rewrites);
                    }
                }
                cell.write = mark(w, lane, site, how, bits, changed);
            });
        memcpy((void *)a, fresh[lane], (size_t)bytes);
    }
    if (!local_only) c.after_fence = false;
    if (act != WRITE || let_go) TICK++;
}

void watch_atomic(Warp &w, u32 lane, u64 address, const Site &site, int bytes, Atomic operation, bool changed) {
    bool shared = is_slot(address, SHARED_SLOT), known = defined_is_known(address);
    if (is_slot(address, LOCAL_SLOT)) return;
    check_extents(w, lane, site, ATOMIC, address, bytes);
    if (site.semantics & RELEASES) watch_fence(w, site.semantics);
    Clock &c = clock_of(w);
    Act act = operation == A_CAS || operation == A_EXCH ? EXCHANGE : ATOMIC;
    if (changed) publish(w, site);
    words(address, bytes, [&](Cell &cell, u32 bits, int, u32) {
        if (known && bits & ~cell.defined) note(UNDEFINED, w, lane, site, act, nullptr, address, bytes);
        cell.defined |= bits;
        for (const Mark &read : cell.reads)
            if (read.tick > c.barrier && read.tick > LAUNCHED && read.block == w.block->watch->ordinal &&
                read.thread / LANES == w.index && read.place < GUARDED_ROOM)
                GUARDED[read.place] = 1;
        if (cell.write.touched & bits && cell.write.act >= FLAG) acquire(cell.write, w, lane, site, SAMPLED && !shared);
        else if (SAMPLED && !shared && !(site.semantics & OF_BLOCK)) c.horizon = TICK;
        meet(cell.write, bits, false, w, lane, site, act, address, bytes, shared);
        if (!changed) return;
        meet(cell.reads[0], bits, false, w, lane, site, act, address, bytes, shared);
        meet(cell.reads[1], bits, false, w, lane, site, act, address, bytes, shared);
        cell.write = mark(w, lane, site, act, bits, bits);
    });
    if (changed) TICK++;
}

void watch_unawaited(Warp &w, u32 lane, const Site &site, u64 address, int bytes, bool writes, u32 copier, i32 place) {
    Mark m = mark(w, lane, site, WRITE, 15, 15);
    m.thread = (u16)copier;
    m.place = (u32)place;
    note(UNAWAITED, w, lane, site, writes ? WRITE : READ, &m, address, bytes);
}

void watch_fence(Warp &w, u32 semantics) {
    Clock &c = clock_of(w);
    if (semantics & RELEASES && !(semantics & OF_BLOCK)) {
        join(c.fenced, c.known);
        c.fenced[w.index] = TICK;
    }
    TICK++;
    c.after_fence = true;
}

// Who is named but not here may have met these lanes at another instruction, which is believed.
void watch_members(Warp &w, u32 mask, const U32 &members, bool orders) {
    Clock &c = clock_of(w);
    u32 now = TICK++, before[LANES][LANES];
    u32 &all = orders ? c.together : c.met, (&each)[LANES][LANES] = orders ? c.lanes : c.groups;
    U32 named = and_b32(members, all32(w.live));
    if (!(mask & ~eq_b32(named, all32(w.live)))) {
        all = now;
        return;
    }
    memcpy(before, each, sizeof before);
    each_group(mask, named, [&](u32 group, u32 lanes) {
        u32 row[LANES] = {};
        for (u32 left = group; left; left &= left - 1) join(row, before[__builtin_ctz(left)]), row[__builtin_ctz(left)] = now;
        for (u32 left = group & (lanes | ~mask); left; left &= left - 1) join(each[__builtin_ctz(left)], row);
    });
}

void watch_arrival(Warp &w, u32 number) {
    Gate &gate = w.block->watch->gates[number];
    const Clock &c = clock_of(w);
    join(gate.known, c.known);
    join(gate.fenced, c.fenced);
    gate.known[w.index] = TICK++;
    gate.horizon = later(gate.horizon, c.horizon);
}
void watch_departure(Warp &w, u32 number) {
    const Gate &gate = w.block->watch->gates[number];
    Clock &c = clock_of(w);
    join(c.known, gate.known);
    join(c.fenced, gate.fenced);
    c.horizon = later(c.horizon, gate.horizon);
    c.together = later(c.together, gate.known[w.index]);
    c.barrier = c.together;
}
void watch_completion(Block &block, u32 number) { memset(&block.watch->gates[number], 0, sizeof(Gate)); }

void watch_places(u64 count) {
    GUARDED = (u8 *)calloc(count + 1, 1);
    GUARDED_ROOM = GUARDED ? (u32)count : 0;
}

u32 hazards(const Hazard **found) {
    if (u32 count = weak_findings(found)) return count;
    static Hazard sorted[MOST_HAZARDS];
    u32 kept = 0;
    for (u32 turn = 0; turn < 2 * HAZARD_COUNT; turn++) { // those within a warp come last
        u32 i = turn % HAZARD_COUNT;
        Hazard &h = HAZARDS[i];
        if (IN_WARP[i] != (turn >= HAZARD_COUNT)) continue;
        if (h.kind == WITH_ATOMIC) {
            // A hint that an atomic then checks, as in the loops around a compare-and-swap, is no race that matters.
            i32 read = h.here.act == READ ? h.here.place : h.other.place;
            if (read >= 0 && (u32)read < GUARDED_ROOM && GUARDED[read]) continue;
            h.kind = RACE;
        }
        sorted[kept++] = h;
    }
    *found = sorted;
    return kept;
}

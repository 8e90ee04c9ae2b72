// Copies in the background, and barriers in shared memory.
//
// A copy reads its source at once and lands when its own thread waits for it, which is as late as the ISA allows: what
// a kernel reads before is what was there before. So a missing wait shows in the answer, and is named here.
#include "asynchronous.h"
#include "shadow.h"
#include "weak_memory.h"

u32 COPIES_UNDER_WAY;

namespace {

enum { MOST_ENTRIES = 4096, MOST_WARPS = 32, MOST_NAMED = 64 };

// What one instruction of one warp has under way: a copy, or (bytes 0) an arrival that follows the copies before it.
struct Entry {
    u32 mask;
    int bytes;
    Site *site;
    A64 to; // of an arrival: its barrier
    u32 group[LANES];
    alignas(16) u8 content[LANES][16];
};
struct Queue {
    Entry *entries;
    u32 count, capacity;
    u32 committed[LANES];
};
Queue QUEUES[MOST_WARPS];
u32 ARRIVALS;   // entries that are arrivals, of all warps
u16 *UNDER_WAY; // copies under way to each word of shared memory
u64 WORDS;
u32 NAMED;

u64 word_of(u64 address) { return (address - slot_address(SHARED_SLOT)) / 4; }

void mark(const Entry &e, u32 lanes, int change) {
    for (u32 left = lanes; left; left &= left - 1) {
        u64 first = word_of(e.to.e[__builtin_ctz(left)]);
        for (int i = 0; i < e.bytes / 4; i++)
            if (first + i < WORDS) UNDER_WAY[first + i] += change;
        COPIES_UNDER_WAY += change;
    }
}

// A barrier object: bit 63 the phase, then 21 bits each of bytes awaited (signed), arrivals pending and expected.
struct Barrier {
    u32 phase, pending, expected;
    i32 bytes;
};
Barrier unpacked(u64 x) { return {(u32)(x >> 63), (u32)(x >> 21) & 0x1fffff, (u32)x & 0x1fffff, (i32)((i64)(x << 1) >> 43)}; }
u64 packed(const Barrier &b) {
    return (u64)b.phase << 63 | ((u64)b.bytes & 0x1fffff) << 42 | (u64)(b.pending & 0x1fffff) << 21 | (b.expected & 0x1fffff);
}
u64 *barrier_at(u64 address) { return (u64 *)address; }
void complete(Barrier &b) {
    if (b.pending || b.bytes) return;
    b.phase ^= 1;
    b.pending = b.expected;
}
void count_off(u64 address, u32 arrivals) {
    Barrier b = unpacked(*barrier_at(address));
    b.pending = b.pending > arrivals ? b.pending - arrivals : 0;
    complete(b);
    *barrier_at(address) = packed(b);
}

// Who arrives releases what it did, and who passes acquires it.
void synchronise(Warp &w, u32 lane, u64 address, const Site &site, bool arrives = true) {
    if (WATCHING) watch_atomic(w, lane, address, site, 8, A_ADD, arrives);
    if (WEAK) weak_object(w, lane, address, arrives);
}

void land(Warp &w, Entry &e, u32 lanes) {
    lanes &= e.mask;
    if (!lanes) return;
    e.mask &= ~lanes;
    if (!e.bytes) {
        for (u32 left = lanes; left; left &= left - 1) {
            count_off(e.to.e[__builtin_ctz(left)], 1);
            synchronise(w, __builtin_ctz(left), e.to.e[__builtin_ctz(left)], *e.site);
        }
        if (!e.mask) ARRIVALS--;
        return;
    }
    mark(e, lanes, -1);
    U32 words[4];
    for (int i = 0; i < e.bytes / 4; i++) {
        A32 word;
        for (int lane = 0; lane < LANES; lane++) memcpy(&word.e[lane], e.content[lane] + 4 * i, 4);
        words[i] = gather(word);
    }
    U64 to = gather(e.to);
    if (e.bytes == 4) store<4, 1>(w, lanes, to, *e.site, words);
    else if (e.bytes == 8) store<4, 2>(w, lanes, to, *e.site, words);
    else store<4, 4>(w, lanes, to, *e.site, words);
}

void forget_landed(Queue &q) {
    u32 kept = 0;
    for (u32 i = 0; i < q.count; i++)
        if (q.entries[i].mask) {
            if (kept != i) q.entries[kept] = q.entries[i];
            kept++;
        }
    q.count = kept;
}

Entry &append(Warp &w, u32 mask) {
    Queue &q = QUEUES[w.index];
    UNSEEN++;
    if (q.count == MOST_ENTRIES) {
        // Nobody waited for thousands of copies: they may have landed long since.
        for (u32 i = 0; i < q.count / 2; i++) land(w, q.entries[i], ~0u);
        forget_landed(q);
    }
    if (q.count == q.capacity) {
        q.capacity = q.capacity ? 2 * q.capacity : 64;
        Entry *more = (Entry *)aligned_alloc(alignof(Entry), q.capacity * sizeof(Entry));
        if (!more) out_of_memory("the simulator's list of copies", q.capacity * sizeof(Entry));
        if (q.count) memcpy((void *)more, q.entries, q.count * sizeof(Entry));
        free(q.entries);
        q.entries = more;
    }
    Entry &e = q.entries[q.count++];
    e.mask = mask;
    memcpy(e.group, q.committed, sizeof e.group);
    return e;
}

// Let all land that a lane had under way before its arrival at this barrier, and count the arrivals.
void settle(u64 address) {
    if (!ARRIVALS) return;
    for (u32 index = 0; index < MOST_WARPS; index++) {
        Queue &q = QUEUES[index];
        bool any = false;
        for (u32 i = q.count; i-- > 0;) {
            Entry &e = q.entries[i];
            u32 lanes = 0;
            if (e.bytes) continue;
            for (u32 left = e.mask; left; left &= left - 1)
                if (e.to.e[__builtin_ctz(left)] == address) lanes |= left & -left;
            if (!lanes) continue;
            for (u32 j = 0; j <= i; j++) land(warp_of_block(index), q.entries[j], lanes);
            any = true;
        }
        if (any) forget_landed(q);
    }
}

} // namespace

void begin_copies(u64 shared_bytes) {
    u64 words = (shared_bytes + 3) / 4;
    if (words > WORDS) {
        free(UNDER_WAY);
        UNDER_WAY = (u16 *)calloc(words, sizeof(u16));
        if (!UNDER_WAY) out_of_memory("the simulator's map of copies", words * sizeof(u16));
        WORDS = words;
    } else if (COPIES_UNDER_WAY) {
        memset(UNDER_WAY, 0, WORDS * sizeof(u16));
    }
    COPIES_UNDER_WAY = ARRIVALS = 0;
    for (Queue &q : QUEUES) q.count = 0;
}

struct Background {
    Queue queues[MOST_WARPS];
    u32 arrivals, copies_under_way;
    u16 *under_way;
    u64 words;
};

Background *no_copies() {
    Background *made = (Background *)calloc(1, sizeof(Background));
    if (!made) out_of_memory("the simulator's lists of copies", sizeof(Background));
    return made;
}

void exchange_copies(Background *other) {
    Background ours = {{}, ARRIVALS, COPIES_UNDER_WAY, UNDER_WAY, WORDS};
    memcpy(ours.queues, QUEUES, sizeof QUEUES);
    ARRIVALS = other->arrivals;
    COPIES_UNDER_WAY = other->copies_under_way;
    UNDER_WAY = other->under_way;
    WORDS = other->words;
    memcpy(QUEUES, other->queues, sizeof QUEUES);
    *other = ours;
}

void forget_copies(Background *other) {
    for (Queue &q : other->queues) free(q.entries);
    free(other->under_way);
    free(other);
}

void meet_copies(Warp &w, u32 mask, const U64 &address, int bytes, const Site &site, bool writes) {
    A64 a = spread(address);
    for (u32 left = mask; left; left &= left - 1) {
        u32 lane = __builtin_ctz(left);
        u64 first = word_of(a.e[lane]), last = word_of(a.e[lane] + bytes - 1);
        for (u64 word = first; word <= last; word++) {
            if (word >= WORDS || !UNDER_WAY[word]) continue;
            if (NAMED >= MOST_NAMED && !WATCHING) return;
            NAMED++;
            for (u32 index = 0; index < MOST_WARPS; index++)
                for (u32 i = 0; i < QUEUES[index].count; i++) {
                    const Entry &e = QUEUES[index].entries[i];
                    for (u32 others = e.bytes ? e.mask : 0; others; others &= others - 1) {
                        u64 start = word_of(e.to.e[__builtin_ctz(others)]);
                        if (word - start >= (u64)e.bytes / 4) continue;
                        if (WATCHING) watch_unawaited(w, lane, site, a.e[lane], bytes, writes, index * LANES + __builtin_ctz(others), e.site->place);
                        char text[160];
                        format(text, "%s shared memory that a cp.async of line %d has not been waited for", writes ? "wrote" : "read",
                               line_of(e.site->place));
                        warn(NOTE, site.place, text);
                        return;
                    }
                }
            return;
        }
    }
}

void copy_later(Warp &w, u32 mask, int bytes, const U64 &to, const U64 &from, const U32 &taken, Site &target, Site &source) {
    check_write(w, mask, to, target, bytes);
    A32 sizes = spread(taken);
    u32 whole = 0, part = 0;
    for (u32 left = mask; left; left &= left - 1) {
        u32 lane = __builtin_ctz(left);
        if (sizes.e[lane] >= (u32)bytes) whole |= 1u << lane;
        else if (sizes.e[lane]) part |= 1u << lane;
    }
    U32 words[4] = {all32(0), all32(0), all32(0), all32(0)};
    if (whole) {
        if (bytes == 4) load<4, 1>(w, whole, from, source, words);
        else if (bytes == 8) load<4, 2>(w, whole, from, source, words);
        else load<4, 4>(w, whole, from, source, words);
    }
    Entry &e = append(w, mask);
    e.bytes = bytes;
    e.site = &target;
    e.to = spread(to);
    memset(e.content, 0, sizeof e.content);
    for (int i = 0; i < bytes / 4; i++) {
        A32 word = spread(words[i]);
        for (int lane = 0; lane < LANES; lane++)
            if (whole >> lane & 1) memcpy(e.content[lane] + 4 * i, &word.e[lane], 4);
    }
    for (int i = 0; part && i < bytes; i++) {
        u32 lanes = 0;
        for (u32 left = part; left; left &= left - 1)
            if (sizes.e[__builtin_ctz(left)] > (u32)i) lanes |= left & -left;
        if (!lanes) break;
        U32 byte;
        load<1, 1>(w, lanes, add_b64(from, all64(i)), source, &byte);
        A32 found = spread(byte);
        for (u32 left = lanes; left; left &= left - 1) e.content[__builtin_ctz(left)][i] = (u8)found.e[__builtin_ctz(left)];
    }
    mark(e, mask, 1);
}

void commit_copies(Warp &w, u32 mask) {
    Queue &q = QUEUES[w.index];
    UNSEEN++;
    for (u32 left = mask; left; left &= left - 1) q.committed[__builtin_ctz(left)]++;
}

void await_copies(Warp &w, u32 mask, int but) {
    Queue &q = QUEUES[w.index];
    for (u32 i = 0; i < q.count; i++) {
        Entry &e = q.entries[i];
        u32 lanes = 0;
        for (u32 left = e.mask & mask; left; left &= left - 1) {
            u32 lane = __builtin_ctz(left);
            if (but < 0 || (i32)(q.committed[lane] - e.group[lane]) > but) lanes |= 1u << lane;
        }
        land(w, e, lanes);
    }
    forget_landed(q);
}

// Barriers. A lane's arrival counts before the next lane's.

void begin_barrier(Warp &w, u32 mask, const U64 &address, Site &site, const U32 &count) {
    check_write(w, mask, address, site, 8);
    A64 a = spread(address);
    A32 counts = spread(count);
    for (u32 left = mask; left; left &= left - 1) {
        u32 lane = __builtin_ctz(left), n = counts.e[lane];
        if (!n || n >> 20) fault(w, 1u << lane, "bad_barrier", site.place, "made an mbarrier for no threads, or for more than 2^20 - 1");
        *barrier_at(a.e[lane]) = packed({0, n, n, 0});
        if (WATCHING) watch_defined(a.e[lane], 8);
        synchronise(w, lane, a.e[lane], site);
    }
}

void end_barrier(Warp &w, u32 mask, const U64 &address, Site &site) {
    check_write(w, mask, address, site, 8);
    A64 a = spread(address);
    for (u32 left = mask; left; left &= left - 1) {
        settle(a.e[__builtin_ctz(left)]);
        make_undefined(barrier_at(a.e[__builtin_ctz(left)]), 8);
    }
}

U64 arrive(Warp &w, u32 mask, const U64 &address, Site &site, const U32 &count, const U32 &bytes, bool leaves) {
    check_write(w, mask, address, site, 8);
    A64 a = spread(address), states = {};
    A32 counts = spread(count), awaited = spread(bytes);
    for (u32 left = mask; left; left &= left - 1) {
        u32 lane = __builtin_ctz(left), n = counts.e[lane];
        Barrier b = unpacked(states.e[lane] = *barrier_at(a.e[lane]));
        if (n > b.pending) {
            // Copies that arrive by themselves may have made room: hardware would have let them land by now.
            settle(a.e[lane]);
            b = unpacked(states.e[lane] = *barrier_at(a.e[lane]));
        }
        if (n > b.pending) fault(w, 1u << lane, "bad_barrier", site.place, "arrived at an mbarrier that waits for fewer threads");
        b.pending -= n;
        b.bytes += (i32)awaited.e[lane];
        if (leaves) b.expected -= n;
        complete(b);
        *barrier_at(a.e[lane]) = packed(b);
        synchronise(w, lane, a.e[lane], site);
    }
    return gather(states);
}

void expect_bytes(Warp &w, u32 mask, const U64 &address, Site &site, const U32 &bytes, int sign) {
    check_write(w, mask, address, site, 8);
    A64 a = spread(address);
    A32 counts = spread(bytes);
    for (u32 left = mask; left; left &= left - 1) {
        u32 lane = __builtin_ctz(left);
        Barrier b = unpacked(*barrier_at(a.e[lane]));
        b.bytes += sign * (i32)counts.e[lane];
        complete(b);
        *barrier_at(a.e[lane]) = packed(b);
    }
}

void arrive_after_copies(Warp &w, u32 mask, const U64 &address, Site &site, bool counted) {
    check_write(w, mask, address, site, 8);
    A64 a = spread(address);
    for (u32 left = counted ? mask : 0; left; left &= left - 1) {
        Barrier b = unpacked(*barrier_at(a.e[__builtin_ctz(left)]));
        b.pending++;
        *barrier_at(a.e[__builtin_ctz(left)]) = packed(b);
    }
    Entry &e = append(w, mask);
    e.bytes = 0;
    e.site = &site;
    e.to = a;
    ARRIVALS++;
}

// Whether the phase that a state (or a parity) names is over. A warp that has to wait lets others run.
u32 barrier_passed(Warp &w, u32 mask, const U64 &address, Site &site, const U64 &state, bool parity) {
    check_write(w, mask, address, site, 8);
    A64 a = spread(address), states = spread(state);
    u32 passed = 0;
    for (u32 left = mask; left; left &= left - 1) {
        u32 lane = __builtin_ctz(left);
        settle(a.e[lane]);
        u32 phase = parity ? (u32)states.e[lane] & 1 : unpacked(states.e[lane]).phase;
        if (unpacked(*barrier_at(a.e[lane])).phase == phase) continue;
        passed |= 1u << lane;
        synchronise(w, lane, a.e[lane], site, false);
    }
    if (passed != mask) give_way(w);
    return passed;
}

U32 pending_arrivals(const U64 &state) {
    A64 states = spread(state);
    A32 r;
    for (int lane = 0; lane < LANES; lane++) r.e[lane] = unpacked(states.e[lane]).pending;
    return gather(r);
}

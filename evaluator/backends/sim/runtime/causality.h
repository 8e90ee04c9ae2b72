// What each thread of a run in weak memory knows of each other one: causality order (PTX ISA 9.0, section 8.8), by
// vector clocks (Mattern, 1988; Flanagan and Freund, "FastTrack", PLDI 2009). A part of weak_memory.cpp.
//
// Time is one counter, NOW, that goes on at everything that releases. A thread knows of another one what that did up to
// some tick. Barriers, warp-wide operations and barrier objects bring clocks together; a strong write carries what its
// thread has released, a strong read finds it, and a fence behind that read (or the read's own acquire) makes it known.
// Where what orders is in doubt, it does: shuffles and votes count as barriers, what one thread has fenced or found it
// hands on through barriers, a plain write behind a fence releases for who polls it. So what is not ordered here may
// happen in either order.
#pragma once
#include "runtime.h"
#include <sys/mman.h>

namespace {

// Clocks never change, so that threads that know the same share one. Beyond so many bytes nothing is told any more.
enum : u64 { CLOCK_BYTES = 256ull << 20, MOST_OBJECTS = 47 };

// What is known of a block's threads: up to which tick, for each.
struct Known {
    u64 block;
    const u32 *ticks;
};
struct VectorClock { // null: nothing
    u32 count;
    Known blocks[1];
};

u8 *CLOCKS;
u64 CLOCKS_USED;
u32 NOW;
bool CAUSAL; // whether clocks are kept in this launch

u32 block_threads() { return LAUNCH.block[0] * LAUNCH.block[1] * LAUNCH.block[2]; }

void *clock_room(u64 bytes) {
    bytes = (bytes + 15) & ~15ull;
    if (CLOCKS_USED + bytes > CLOCK_BYTES) {
        CAUSAL = false;
        return nullptr;
    }
    void *at = CLOCKS + CLOCKS_USED;
    CLOCKS_USED += bytes;
    return at;
}
VectorClock *clock_of(u32 count) {
    VectorClock *made = (VectorClock *)clock_room(sizeof(VectorClock) + count * sizeof(Known));
    if (made) made->count = count;
    return made;
}

const u32 *ticks_of(const VectorClock *clock, u64 block) {
    u32 low = 0, high = clock ? clock->count : 0;
    while (low < high) {
        u32 middle = (low + high) / 2;
        if (clock->blocks[middle].block < block) low = middle + 1;
        else high = middle;
    }
    return clock && low < clock->count && clock->blocks[low].block == block ? clock->blocks[low].ticks : nullptr;
}

const u32 *joined_ticks(const u32 *a, const u32 *b) {
    if (a == b) return a;
    u32 count = block_threads(), above = 0, below = 0;
    for (u32 i = 0; i < count; i++) above |= a[i] > b[i], below |= a[i] < b[i];
    if (!below) return a;
    if (!above) return b;
    u32 *made = (u32 *)clock_room(count * sizeof(u32));
    for (u32 i = 0; made && i < count; i++) made[i] = a[i] > b[i] ? a[i] : b[i];
    return made ? made : a;
}

const VectorClock *joined(const VectorClock *a, const VectorClock *b) {
    if (a == b || !b) return a;
    if (!a) return b;
    VectorClock *made = clock_of(a->count + b->count);
    if (!made) return a;
    u32 i = 0, j = 0, count = 0;
    bool same_a = true, same_b = true;
    while (i < a->count || j < b->count) {
        Known &k = made->blocks[count++];
        bool from_a = i < a->count && (j == b->count || a->blocks[i].block <= b->blocks[j].block);
        bool from_b = j < b->count && (i == a->count || b->blocks[j].block <= a->blocks[i].block);
        k = from_a ? a->blocks[i] : b->blocks[j];
        if (from_a && from_b) k.ticks = joined_ticks(a->blocks[i].ticks, b->blocks[j].ticks);
        same_a &= from_a && k.ticks == a->blocks[i].ticks;
        same_b &= from_b && k.ticks == b->blocks[j].ticks;
        i += from_a;
        j += from_b;
    }
    made->count = count;
    if (same_a || same_b) CLOCKS_USED = (u64)((u8 *)made - CLOCKS); // joined ticks took no room then
    return same_a ? a : same_b ? b : made;
}

// A clock, and on top of it one thread up to a tick (0: none).
struct Release {
    const VectorClock *clock;
    u32 tick;
};

const VectorClock *with_tick(const VectorClock *clock, u64 block, u32 thread, u32 tick) {
    const u32 *known = ticks_of(clock, block);
    if (!tick || (known && known[thread] >= tick)) return clock;
    u32 count = block_threads();
    u32 *ticks = (u32 *)clock_room(count * sizeof(u32));
    VectorClock *one = ticks ? clock_of(1) : nullptr;
    if (!one) return clock;
    if (known) memcpy(ticks, known, count * sizeof(u32));
    else memset(ticks, 0, count * sizeof(u32));
    ticks[thread] = tick;
    one->blocks[0] = {block, ticks};
    return joined(clock, one);
}

// Parts of what a thread knows: it has; it had at its last fence, of either scope; at its last `fence.sc`; it has found,
// and not fenced yet; and what its next `fence.sc` has behind it, because somebody who had fenced read before it wrote.
enum Part { HAS, FENCED_BLOCK, FENCED_WIDE, SEQUENCED, FOUND_BLOCK, FOUND_WIDE, OWED, PARTS, TICKED = 3 };
struct ThreadClock {
    const VectorClock *part[PARTS];
    u32 own[TICKED]; // its own tick at those fences; of what it has, that is now
};

// What those know together who have come to a barrier.
struct Meeting {
    u64 address; // of a barrier object; 0: free
    u32 phase;
    const VectorClock *part[PARTS], *over[PARTS]; // of this phase; of those that are over
    u32 *ticks[TICKED]; // of the block's own threads
};

enum : u64 { GATES = 16, WARP_MEETING = GATES, OBJECTS = GATES + 1, MEETINGS = OBJECTS + MOST_OBJECTS };
// All of a block that lives.
struct Causality {
    ThreadClock *threads;
    u32 *ticks;  // of its meetings
    u32 dirty;   // warps that have stored, fenced or found something since their lanes last met
    Meeting meetings[MEETINGS]; // at its barriers, of lanes of a warp, at barrier objects
};

Meeting &meeting(Causality &c, u64 number) {
    Meeting &m = c.meetings[number];
    if (!m.ticks[0])
        for (u64 i = 0; i < TICKED; i++) m.ticks[i] = c.ticks + (number * TICKED + i) * block_threads();
    return m;
}
void come_to(Meeting &m, const ThreadClock &t, u32 thread) {
    for (u32 i = 0; i < PARTS; i++)
        if (m.part[i] != t.part[i]) m.part[i] = joined(m.part[i], t.part[i]);
    m.ticks[HAS][thread] = NOW;
    for (u32 i = FENCED_BLOCK; i < TICKED; i++)
        if (t.own[i] > m.ticks[i][thread]) m.ticks[i][thread] = t.own[i];
}
// The phase is over: what they knew is `over`, and nobody has come to the next.
void close_meeting(Meeting &m, u64 block, bool keeps) {
    u32 count = block_threads();
    for (u32 i = 0; i < PARTS; i++) {
        const VectorClock *all = m.part[i];
        bool any = false;
        for (u32 j = 0; i < TICKED && j < count && !any; j++) any = m.ticks[i][j];
        if (any) {
            u32 *ticks = (u32 *)clock_room(count * sizeof(u32));
            VectorClock *one = ticks ? clock_of(1) : nullptr;
            if (one) {
                memcpy(ticks, m.ticks[i], count * sizeof(u32));
                one->blocks[0] = {block, ticks};
                all = joined(one, all);
            }
            memset(m.ticks[i], 0, count * sizeof(u32));
        }
        m.over[i] = keeps ? joined(m.over[i], all) : all;
        m.part[i] = nullptr;
    }
    NOW++;
}
void leave(const Meeting &m, ThreadClock &t) {
    for (u32 i = 0; i < PARTS; i++)
        if (t.part[i] != m.over[i]) t.part[i] = joined(m.over[i], t.part[i]);
}

void fence_thread(ThreadClock &t, u64 block, u32 thread, u32 semantics) {
    bool wide = !(semantics & OF_BLOCK);
    if (semantics & ACQUIRES) {
        t.part[HAS] = joined(t.part[HAS], t.part[FOUND_BLOCK]);
        if (wide) t.part[HAS] = joined(t.part[HAS], t.part[FOUND_WIDE]);
    }
    if (semantics & SEQUENTIAL) {
        t.part[HAS] = joined(t.part[HAS], t.part[OWED]);
        t.part[SEQUENCED] = with_tick(t.part[HAS], block, thread, NOW);
    }
    if (!(semantics & RELEASES)) return;
    for (u32 i = FENCED_BLOCK; i <= (wide ? FENCED_WIDE : FENCED_BLOCK); i++) {
        t.part[i] = t.part[HAS];
        t.own[i] = NOW;
    }
}

// Whether a thread knows what another one did at a tick.
bool knows(const ThreadClock &t, u64 block, u32 thread, u32 tick) {
    const u32 *ticks = ticks_of(t.part[HAS], block);
    return ticks && ticks[thread] >= tick;
}

} // namespace

// Operations across the lanes of a warp (PTX ISA 9.0, section 9.7.9 and 9.7.13).
//
// Each lane goes by its own member mask: lanes that execute one instruction together may belong to different groups, as
// the tiles and partitions of cooperative groups do.
#include "shadow.h"
#if CHUNK == 64
#include <immintrin.h>
#endif

namespace {

// What PTX leaves undefined is taken as it comes, which a warning says once: lanes that a mask names but that are not
// here, or are here with another mask, and lanes whose own mask does not name them.
// Returns whether each mask names the whole warp.
bool check_members(Warp &w, u32 mask, const U32 &members, const char *operation, i32 place) {
    warp_sync(w, mask, members, false);
    bool whole = !(mask & ~eq_b32(members, all32(~0u)));
    u32 away = w.live & ~w.leaving & ~mask, absent = whole ? away : 0, others = 0, unnamed = 0, naming = ~0u;
    if (!whole)
        each_group(mask, members, [&](u32 named, u32 lanes) {
            if (named & away) naming = named;
            absent |= named & away;
            others |= named & mask & ~lanes;
            unnamed |= lanes & ~named;
        });
    if (absent) absent_members(place, operation, naming, absent & naming);
    if (unnamed) unnamed_members(place, operation, unnamed);
    else if (others) {
        char text[160];
        format(text, "%s names lanes that take part in it with another mask: undefined", operation);
        warn(MIXED, place, text);
    }
    return whole;
}

// A lane that is here, but that the reader's mask does not name, gives its value all the same, as on GPUs (measured):
// lanes that run together are shuffled together. Nothing makes them run together.
void check_sources(u32 reading, const A32 &from, const A32 &members, i32 place) {
    for (u32 left = reading; left; left &= left - 1) {
        u32 lane = (u32)__builtin_ctz(left), source = from.e[lane];
        if (source == lane || members.e[lane] >> source & 1) continue;
        warn(FOREIGN, place, "a shuffle reads from a lane that its mask does not name: undefined");
        return;
    }
}

const A32 NUMBERS = {{0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                      16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31}};

// In each lane the value of another one, whose number is below 32.
INLINE U32 taken_from(const U32 &value, const U32 &lane) {
#if CHUNK == 64
    U32 r;
    r.v0 = (c32)_mm512_permutex2var_epi32((__m512i)value.v0, (__m512i)lane.v0, (__m512i)value.v1);
    r.v1 = (c32)_mm512_permutex2var_epi32((__m512i)value.v0, (__m512i)lane.v1, (__m512i)value.v1);
    return r;
#else
    A32 a = spread(value);
    return map([&](u32 from) { return a.e[from]; }, lane);
#endif
}

template <class A> U32 match_any_of(u32 mask, const A &a, const A32 &members) {
    A32 r = {};
    for (int i = 0; i < LANES; i++)
        if (mask >> i & 1)
            for (int j = 0; j < LANES; j++)
                if ((mask & members.e[i]) >> j & 1 && a.e[i] == a.e[j]) r.e[i] |= 1u << j;
    return gather(r);
}

template <class A> U32 match_all_of(u32 mask, const A &a, const A32 &members, u32 *same) {
    A32 r = {};
    *same = 0;
    for (int i = 0; i < LANES; i++) {
        if (!(mask >> i & 1)) continue;
        bool equal = true;
        for (int j = 0; j < LANES; j++)
            if ((mask & members.e[i]) >> j & 1 && a.e[i] != a.e[j]) equal = false;
        if (equal) {
            r.e[i] = members.e[i] & mask;
            *same |= 1u << i;
        }
    }
    return gather(r);
}

} // namespace

U32 shuffle(Warp &w, u32 mask, Shuffle mode, const U32 &value, const U32 &b, const U32 &c, const U32 &members, u32 *valid, i32 place) {
    bool whole = check_members(w, mask, members, "a shuffle", place);
    SHUFFLES++;
    U32 lane = gather(NUMBERS), distance = and_b32(b, all32(31)), clamp = and_b32(c, all32(31)), from;
    U32 segment = and_b32(shr_u32(c, all32(8)), all32(31)), outside = not_b32(segment), min_lane = and_b32(lane, segment);
    U32 max_lane = or_b32(min_lane, and_b32(clamp, outside));
    switch (mode) {
    case UP_: from = sub_b32(lane, distance); break;
    case DOWN_: from = add_b32(lane, distance); break;
    case BFLY: from = xor_b32(lane, distance); break;
    case IDX: from = or_b32(min_lane, and_b32(distance, outside)); break;
    }
    u32 in = mode == UP_ ? le_s32(max_lane, from) : le_s32(from, max_lane);
    from = pick(in, from, lane);
    *valid = in;
    U32 r = taken_from(value, from);
    // PTX leaves undefined what comes from a lane that is not here. GPUs give 0 (measured), and well-known kernels
    // that read such lanes are right only because of it; a stale register would be a value that no GPU gives.
    u32 absent = mask == ~0u ? 0 : eq_b32(and_b32(shr_u32(all32(mask), from), all32(1)), all32(0));
    if (absent) r = pick(absent, all32(0), r);
    if (absent & mask) warn(INACTIVE, place, "a shuffle reads from a lane that does not take part in it: undefined, taken as 0");
    if (!whole) check_sources(mask & ~absent, spread(from), spread(members), place);
    return r;
}

u32 vote(Warp &w, u32 mask, Vote mode, u32 predicate, const U32 &members, i32 place) {
    bool whole = check_members(w, mask, members, "a vote", place);
    u32 r = 0;
    auto count = [&](u32 named, u32 lanes) {
        u32 taking = mask & named, yes = predicate & taking;
        bool found = mode == ALL ? yes == taking : mode == ANY ? yes != 0 : yes == taking || !yes;
        if (found) r |= lanes;
    };
    if (whole) count(~0u, mask);
    else each_group(mask, members, count);
    return r;
}

U32 ballot(Warp &w, u32 mask, u32 predicate, const U32 &members, i32 place) {
    check_members(w, mask, members, "a ballot", place);
    return and_b32(members, all32(mask & predicate));
}

U32 match_any(Warp &w, u32 mask, const U32 &value, const U32 &members, i32 place) {
    check_members(w, mask, members, "a match", place);
    return match_any_of(mask, spread(value), spread(members));
}
U32 match_any(Warp &w, u32 mask, const U64 &value, const U32 &members, i32 place) {
    check_members(w, mask, members, "a match", place);
    return match_any_of(mask, spread(value), spread(members));
}
U32 match_all(Warp &w, u32 mask, const U32 &value, const U32 &members, u32 *same, i32 place) {
    check_members(w, mask, members, "a match", place);
    return match_all_of(mask, spread(value), spread(members), same);
}
U32 match_all(Warp &w, u32 mask, const U64 &value, const U32 &members, u32 *same, i32 place) {
    check_members(w, mask, members, "a match", place);
    return match_all_of(mask, spread(value), spread(members), same);
}

U32 reduce(Warp &w, u32 mask, Atomic operation, const U32 &value, const U32 &members, i32 place) {
    check_members(w, mask, members, "a reduction", place);
    A32 a = spread(value);
    U32 all = all32(0);
    each_group(mask, members, [&](u32 named, u32 lanes) {
        bool started = false;
        u32 r = 0;
        for (u32 left = mask & named; left; left &= left - 1) {
            u32 x = a.e[__builtin_ctz(left)];
            if (!started) r = x;
            else
                switch (operation) {
                case A_ADD: r += x; break;
                case A_MIN: r = r < x ? r : x; break;
                case A_MAX: r = r > x ? r : x; break;
                case A_SMIN: r = (i32)r < (i32)x ? r : x; break;
                case A_SMAX: r = (i32)r > (i32)x ? r : x; break;
                case A_AND: r &= x; break;
                case A_OR: r |= x; break;
                default: r ^= x; break;
                }
            started = true;
        }
        all = pick(lanes, all32(r), all);
    });
    return all;
}

// The lowest lane of each group leads it, as on GPUs (measured); PTX leaves open which one.
U32 elect(Warp &w, u32 mask, const U32 &members, u32 *leads, i32 place) {
    check_members(w, mask, members, "an election", place);
    U32 r = all32(0);
    *leads = 0;
    each_group(mask, members, [&](u32 named, u32 lanes) {
        u32 taking = mask & named ? mask & named : lanes;
        r = pick(lanes, all32(__builtin_ctz(taking)), r);
        *leads |= lanes & taking & -taking;
    });
    return r;
}

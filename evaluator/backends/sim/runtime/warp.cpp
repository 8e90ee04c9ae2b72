// Operations across the lanes of a warp (PTX ISA 9.0, section 9.7.9 and 9.7.13).
//
// Each lane goes by its own member mask: lanes that execute one instruction together may belong to different groups, as
// the tiles and partitions of cooperative groups do.
#include "shadow.h"

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
    A32 a = spread(value), lanes = spread(b), clamp = spread(c), from, r;
    *valid = 0;
    u32 absent = 0;
    for (u32 lane = 0; lane < LANES; lane++) {
        u32 bval = lanes.e[lane] & 31, cval = clamp.e[lane] & 31, segment = clamp.e[lane] >> 8 & 31;
        u32 max_lane = (lane & segment) | (cval & ~segment), min_lane = lane & segment;
        int j = 0;
        bool in = false;
        switch (mode) {
        case UP_: j = (int)lane - (int)bval; in = j >= (int)max_lane; break;
        case DOWN_: j = (int)(lane + bval); in = j <= (int)max_lane; break;
        case BFLY: j = (int)(lane ^ bval); in = j <= (int)max_lane; break;
        case IDX: j = (int)(min_lane | (bval & ~segment)); in = j <= (int)max_lane; break;
        }
        if (!in) j = (int)lane;
        // PTX leaves undefined what comes from a lane that is not here. GPUs give 0 (measured), and well-known kernels
        // that read such lanes are right only because of it; a stale register would be a value that no GPU gives.
        bool here = mask >> j & 1;
        from.e[lane] = (u32)j;
        r.e[lane] = here ? a.e[j] : 0;
        absent |= (u32)!here << lane;
        *valid |= (u32)in << lane;
    }
    if (absent & mask) warn(INACTIVE, place, "a shuffle reads from a lane that does not take part in it: undefined, taken as 0");
    if (!whole) check_sources(mask & ~absent, from, spread(members), place);
    return gather(r);
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

// Operations across the lanes of a warp (PTX ISA 9.0, section 9.7.9 and 9.7.13).
#include "runtime.h"

namespace {

// Lanes that a member mask names but that have not come here: the result is undefined, which a note says once.
void check_members(Warp &w, u32 mask, const U32 &members, i32 place) {
    warp_sync(w, mask, members);
    u32 named = spread(members).e[__builtin_ctz(mask)];
    if (named & w.live & ~mask) warn(place, "a warp-wide operation names lanes that do not take part in it");
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
            r.e[i] = members.e[i];
            *same |= 1u << i;
        }
    }
    return gather(r);
}

} // namespace

U32 shuffle(Warp &w, u32 mask, Shuffle mode, const U32 &value, const U32 &b, const U32 &c, const U32 &members, u32 *valid, i32 place) {
    check_members(w, mask, members, place);
    SHUFFLES++;
    A32 a = spread(value), lanes = spread(b), clamp = spread(c), r;
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
        r.e[lane] = here ? a.e[j] : 0;
        absent |= (u32)!here << lane;
        *valid |= (u32)in << lane;
    }
    if (absent & mask) warn(place, "a shuffle reads from a lane that does not take part in it: undefined, taken as 0");
    return gather(r);
}

u32 vote(Warp &w, u32 mask, Vote mode, u32 predicate, const U32 &members, i32 place) {
    check_members(w, mask, members, place);
    u32 taking = mask & spread(members).e[__builtin_ctz(mask)];
    u32 yes = predicate & taking;
    switch (mode) {
    case ALL: return yes == taking ? ~0u : 0;
    case ANY: return yes ? ~0u : 0;
    case UNI: return yes == taking || !yes ? ~0u : 0;
    default: return yes;
    }
}

U32 match_any(Warp &w, u32 mask, const U32 &value, const U32 &members) {
    warp_sync(w, mask, members);
    return match_any_of(mask, spread(value), spread(members));
}
U32 match_any(Warp &w, u32 mask, const U64 &value, const U32 &members) {
    warp_sync(w, mask, members);
    return match_any_of(mask, spread(value), spread(members));
}
U32 match_all(Warp &w, u32 mask, const U32 &value, const U32 &members, u32 *same) {
    warp_sync(w, mask, members);
    return match_all_of(mask, spread(value), spread(members), same);
}
U32 match_all(Warp &w, u32 mask, const U64 &value, const U32 &members, u32 *same) {
    warp_sync(w, mask, members);
    return match_all_of(mask, spread(value), spread(members), same);
}

U32 reduce(Warp &w, u32 mask, Atomic operation, const U32 &value, const U32 &members, i32 place) {
    check_members(w, mask, members, place);
    A32 a = spread(value);
    u32 taking = mask & spread(members).e[__builtin_ctz(mask)];
    bool started = false;
    u32 r = 0;
    for (u32 left = taking; left; left &= left - 1) {
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
    return all32(r);
}

u32 first_lane(u32 mask) { return mask & -mask; }

// Lanes that have parted need not meet again until they must (CUDA C++ Programming Guide 13.0, independent thread
// scheduling). In a run whose schedule has them apart, which lanes of a warp go on is drawn at every jump, and
// instructions with a member mask wait for the lanes that it names (PTX ISA 9.0, sections 9.7.9 and 9.7.13.2).
#pragma once
#include "machine.h"

extern bool LANES_APART; // of this run; where lanes meet as soon as they can, this is false
u32 drawn_turn(u32 count); // below `count`

enum : u32 { ONE_IN = 4 }; // accesses at which lanes part, if they are not apart yet

template <int BLOCKS> struct Apart : Pending<BLOCKS> {
    u32 gathered[BLOCKS] = {}; // lanes that wait at the start of a block for others to come there
    bool all_came = false;     // who has not come by now does not come

    // Take the lanes of a drawn block, or in other runs of the lowest one.
    inline u32 take(int &block) {
        if (!LANES_APART) return Pending<BLOCKS>::take(block);
        u32 count = 0;
        for (u64 word : this->any) count += (u32)__builtin_popcountll(word);
        for (u32 left = count > 1 ? drawn_turn(count) : 0; left; left--) this->turn = following(this->turn);
        return this->take_turn(block);
    }
    inline int following(int block) {
        do block = block + 1 < BLOCKS ? block + 1 : 0;
        while (!(this->any[block / 64] >> (block % 64) & 1));
        return block;
    }
    // Of the lanes that come to this block now and then only some go on: the others find what these have done.
    inline u32 part(int block, u32 m) {
        if (drawn_turn(ONE_IN)) return m;
        u32 going = m & drawn_turn(~0u);
        if (!going || going == m) return m;
        this->add(block, m & ~going);
        return going;
    }
    // Of the lanes that have come to this block, `came` among them, those whose members all have: they go on.
    inline u32 meet(int block, u32 came, const U32 &members, u32 awaited) {
        if (all_came) {
            all_came = false;
            return came;
        }
        u32 here = gathered[block] | came, ready = here;
        A32 named = spread(members);
        for (bool fewer = true; fewer;) {
            fewer = false;
            for (u32 left = ready; left; left &= left - 1) {
                u32 lane = (u32)__builtin_ctz(left);
                if (!(named.e[lane] & awaited & ~ready)) continue;
                ready &= ~(1u << lane);
                fewer = true;
            }
        }
        gathered[block] = here & ~ready;
        return ready;
    }
    // Nobody else can go on: have the lanes of the first block where any wait do so without those that they wait for.
    inline u32 give_up(int &block) {
        for (block = 0; block < BLOCKS; block++)
            if (u32 lanes = gathered[block]) {
                gathered[block] = 0;
                all_came = true;
                return lanes;
            }
        return 0;
    }
};

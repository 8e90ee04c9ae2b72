// What shadow memory is made of: marks of accesses, words, and the clocks of warps. A part of shadow.cpp.
#pragma once
#include "shadow.h"

namespace {
enum : u32 { MOST_WARPS = 32, GATES = 16, MOST_HAZARDS = 16, WORD = 4, ALL_WATCHED = 1 << 16 };
inline bool is_slot(u64 address, u64 slot) { return (address - SLOT_BASE) >> SLOT_SHIFT == slot; }
// What an access is to other blocks, where its scope is its own.
inline Act beyond_block(Act act) { return act == READ ? READ : WRITE; }
struct Mark {
    u32 tick, block, place;
    u16 thread : 15, of_block : 1; // of_block: a strong access whose scope is the block
    u8 touched : 4, changed : 4; // bytes of the word
    Act act;
};
struct Cell {
    Mark write, reads[2]; // two reads of different warps
    u32 born;             // the tick from which on this content counts
    u32 defined;          // bytes
};
struct Shadow {
    Cell *cells;
    u64 bytes; // of the slot's memory that `cells` cover
    u32 born;
    bool defined;
};
// What one warp knows: of each warp of its block, of what was behind a fence, and of other blocks.
struct Clock {
    u32 known[MOST_WARPS], fenced[MOST_WARPS], horizon;
    u32 together; // lanes of the warp know each other's acts up to here
    u32 met;      // lanes of the warp have run together up to here, which orders nothing
    u32 barrier;  // when it last left one
    bool after_fence;
    u32 lanes[LANES][LANES]; // beyond that, up to where the first lane knows the second
    u32 groups[LANES][LANES]; // beyond `met`, up to where the two have run together
};
struct Gate {
    u32 known[MOST_WARPS], fenced[MOST_WARPS], horizon;
};
} // namespace

struct BlockWatch {
    u32 ordinal;
    Clock clocks[MOST_WARPS];
    Gate gates[GATES];
};

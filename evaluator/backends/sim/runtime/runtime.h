// What the parts of the runtime share with each other, but not with translated code.
#pragma once
#include "machine.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct SlotInfo {
    const char *name;
    u64 low, size, item;
    bool constant;
    u64 mapped; // bytes mapped at the slot's address
    bool repeats; // its pages are one piece again and again: no run but this one may have them
    bool shared; // with processes that are forked
};
extern SlotInfo SLOTS[SLOT_COUNT];
extern u64 LOCAL_STRIDE;
extern u8 OUTPUT_POISON; // the byte that outputs are made of
extern bool KEEPS;       // whether undefined memory holds what the run before, or the block before, left there
INLINE const SlotInfo *slot_of(u64 address) {
    u64 slot = (address - SLOT_BASE) >> SLOT_SHIFT;
    return slot < SLOT_COUNT ? &SLOTS[slot] : nullptr;
}

enum : u64 { WORKSPACE_BYTES = 256, MOST_REPETITIONS = 1 << 14 }; // a process has some 65 thousand mappings
void map_slot(u64 number, u64 size, const char *name, u64 item, bool constant, bool repeats = false);
struct Stretch {
    u64 first, pages; // of the piece
};
void map_repeated(u64 number, u64 size, const char *name, u64 item, u64 bytes, const Stretch *stretches, u64 count);
void look_at_clock(Warp &w, u32 lanes, i32 place); // ends the run where its time is up, or its instructions are
i32 line_of(i32 place);
extern u64 UNSEEN; // times that something was done of which no memory, register or stack tells: a clock, text, copies
u64 issued_so_far(const Warp &w); // instructions of all warps in this run; `w` is the one that runs
void draw_registers(u64 draw);    // for the run that begins
void give_way(Warp &w);         // let other warps of the block run
Warp &warp_of_block(u32 index); // of the block that runs
void check_write(Warp &w, u32 mask, const U64 &address, Site &site, int bytes); // bounds and alignment

// Copies that have not landed yet (asynchronous.cpp), in lanes of all warps of the block that runs.
extern u32 COPIES_UNDER_WAY;
void begin_copies(u64 shared_bytes);
struct Background; // the copies of a block that is not running now
Background *no_copies();
void exchange_copies(Background *other);
void forget_copies(Background *other);
void meet_copies(Warp &w, u32 mask, const U64 &address, int bytes, const Site &site, bool writes);

// The heap's block at or before an address.
struct HeapPlace {
    u64 low, size;
    bool freed;
};
HeapPlace heap_place(u64 address);
void begin_heap();

// One side of what takes two threads.
enum Act : u8 { READ, WRITE, FLAG, STRONG, ATOMIC, EXCHANGE, WAIT };
struct Party {
    u32 thread[3], block[3];
    i32 place;
    Act act;
};
Party party(const Warp &w, u32 lanes, i32 place, Act act); // the first of these lanes
bool same_line(i32 place, i32 other);

struct Fault {
    const char *kind;
    char message[400];
    const char *buffer;
    i64 element;
    u64 lane_address;
    u64 bytes; // of the access
    i64 base;  // in shared memory: where the array begins that the address was made from; -1 where unknown
    Party other; // whom it was with, where it took two
    bool has_other;
};
extern Fault FAULT;

#define format(out, ...) snprintf(out, sizeof out, __VA_ARGS__)

// Counts (counting.cpp): begun for a run and for each launch, kept in a record of u64.
void begin_counting(bool wanted);
void begin_launch_counts();
void end_launch_counts(u64 kernel, u64 blocks, u64 counted_blocks);
void count_idle(const Warp &w, u32 started); // threads of a finished warp that used no memory
u64 recorded_launches();
const void *record_of_counts(u64 &bytes);

// Text that kernels print, up to the limit.
enum { PRINT_LIMIT = 64 << 10 };
extern char PRINTED[PRINT_LIMIT];
extern u32 PRINTED_BYTES;
extern u64 SHUFFLES, LOST_PRINTS;
[[noreturn]] void out_of_memory(const char *what, u64 bytes);

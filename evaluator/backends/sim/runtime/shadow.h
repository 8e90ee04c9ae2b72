// Shadow memory: who touched each word last, and what was known to whom then. It finds races and undefined reads.
//
// Happens-before is approximated so that it errs on the side of silence (Flanagan and Freund, "FastTrack", PLDI 2009,
// and the PTX ISA 9.0, section 8, "Memory Consistency Model", for what synchronises):
// - Time is one counter, TICK, that goes on at everything that synchronises. A warp knows up to which tick it has seen
//   each other warp of its block, and for all other blocks one horizon: the latest release that it has acquired.
// - Barriers, warp-wide operations, atomics, volatile and other strong accesses synchronise; what one strong access
//   read of another is always believed. Strong accesses race with nobody, but for atomics with plain writes, and in
//   shared memory with plain reads.
// - Each word of four bytes remembers its last write and two reads, so a race can be missed, but not made up.
#pragma once
#include "runtime.h"

extern u32 WATCHED_SHARE;     // of 2^16 pairs of neighbouring blocks; 0 watches none
extern u64 WATCH_SEED;        // which ones, if not all
extern u64 BLOCKS_WATCHED, BLOCKS_RUN;

// A slot's memory becomes undefined, or defined throughout, from here on.
void watch_slot(u64 number, bool defined);
void watch_run();
void watch_launch(u32 kernel);
void watch_block(Block &block, u64 number); // sets WATCHING for the block that runs next

// Of the blocks of a cooperative launch, which run by turns, each has a watch and shared memory of its own.
struct ParkedWatch;
INLINE bool all_are_watched() { return WATCHED_SHARE == 1 << 16; }
ParkedWatch *park_watch(Block &block);
void exchange_watch(ParkedWatch *other);
void forget_watch(ParkedWatch *other);

void watch_load(Warp &w, u32 mask, const A64 &address, const Site &site, int bytes);
// Writes too, lane after lane, so that lanes of one instruction that disagree are seen.
void watch_store(Warp &w, u32 mask, const A64 &address, const Site &site, int bytes, const u8 (*fresh)[32]);
void watch_atomic(Warp &w, u32 lane, u64 address, const Site &site, int bytes, Atomic operation, bool changed);
// A copy in the background, of a thread of this block, has not been waited for.
void watch_unawaited(Warp &w, u32 lane, const Site &site, u64 address, int bytes, bool writes, u32 copier, i32 place);
u64 first_unwritten(u64 slot); // the first byte of a slot that holds no defined value; its size: none; ~0: not known
void watch_undefined(u64 address, u64 bytes); // these bytes hold no defined value any more
void watch_defined(u64 address, u64 bytes);

void watch_arrival(Warp &w, u32 number);
void watch_departure(Warp &w, u32 number);
void watch_completion(Block &block, u32 number);
void watch_places(u64 count); // how many places there are

// What was found: at most one for each pair of lines. evaluator/stages/verify/severity.py says what each means.
enum HazardKind : u32 {
    RACE, HARMLESS, UNFENCED, UNDEFINED, UNAWAITED, WITH_ATOMIC,
    LOCKSTEP, // in one warp, with only a shuffle or a vote in between
    OVERRUN,  // an address made from one shared array reaches another
    STALE,    // in weak memory: what another block wrote was not seen
    LOST,     // what another block wrote between a strong read and a strong write of one thread is overwritten
    // The rest needs no watching.
    ABSENT, UNNAMED, MIXED, INACTIVE, FOREIGN, PARTIAL_MATRIX, PARTIAL_BARRIER, SPLIT_BARRIER, ACTIVEMASK,
    NOTE // of no kind
};
struct Hazard {
    HazardKind kind;
    u32 kernel;
    Party here, other;
    u32 slot, rewrites; // whether what is written over had been written in order: a later round of a loop
    u64 offset, bytes, base; // base: where the array begins that the address was made from
};
u32 hazards(const Hazard **found); // without those that turned out to be none

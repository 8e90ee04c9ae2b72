// Copies from global to shared memory in the background, and barrier objects in shared memory (PTX ISA 9.0, sections
// 9.7.9.25 and 9.7.13.15).
#pragma once
#include "machine.h"

// `bytes` to each lane's `to`: the first `taken` from `from`, zeros behind.
void copy_later(Warp &w, u32 mask, int bytes, const U64 &to, const U64 &from, const U32 &taken, Site &target, Site &source);
void commit_copies(Warp &w, u32 mask);
void await_copies(Warp &w, u32 mask, int but); // all groups but the last `but`; -1 for those not committed as well

void begin_barrier(Warp &w, u32 mask, const U64 &address, Site &site, const U32 &count);
void end_barrier(Warp &w, u32 mask, const U64 &address, Site &site);
U64 arrive(Warp &w, u32 mask, const U64 &address, Site &site, const U32 &count, const U32 &bytes, bool leaves);
void arrive_after_copies(Warp &w, u32 mask, const U64 &address, Site &site, bool counted);
void expect_bytes(Warp &w, u32 mask, const U64 &address, Site &site, const U32 &bytes, int sign);
u32 barrier_passed(Warp &w, u32 mask, const U64 &address, Site &site, const U64 &state, bool parity);
U32 pending_arrivals(const U64 &state);

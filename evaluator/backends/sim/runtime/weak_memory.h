// Weak memory: what the PTX ISA (9.0, section 8) lets blocks see, beyond one memory in which everything happens at once.
//
// A run with a draw other than 0 gives each block a multiprocessor of its own:
// - Its stores may stay there until a fence that its threads execute covers them, whose scope is wider than the block,
//   or until the launch is over. Which ones stay is drawn. A fence covers what its own warp stored, and what threads
//   stored that may have synchronised with it. Behind `fence.acq_rel` they may stay until the block's next store or
//   update that others see; so even that allows a load to pass a store, and `fence.sc` does not.
// - What it has loaded may be read again as it was, sector by sector, until such a fence or an acquire. What a load
//   through the read-only cache finds (`ld.nc`) no fence orders.
// - A load, in shared memory too, may find what was there before the last store where causality order (causality.h)
//   does not have that store before it: it may have been performed earlier, or the store later.
// - Strong accesses and atomics go to the memory that all share, unless their scope is the block. Strong stores may
//   stay for a while too, but who polls finds them in the end.
// All that is drawn here is allowed: memory that all share is coherent, and whatever stays could be performed late. A
// store that is ordered before an access of another block has always been performed when that access is.
//
// What the scheduler needs to know: `weak_block` before a block runs (or waits to run, in turns), `weak_block_over`
// when all of it is done, `weak_launch_over` behind the last one; the running block is `w.block`, and what belongs to
// it travels in `Block::view`. Translated text calls `point` (machine.h) before what is strong; before some of the plain
// accesses to global memory this does: other warps and blocks may run now, where the scheduler lets them.
#pragma once
#include "runtime.h"

void weak_run(u64 draw); // 0: one memory for all; with the highest bit: one memory, but the same points
void weak_launch(u32 kernel);
void weak_block(Block &block, u64 number);
void weak_block_over(Block &block);
void weak_launch_over();
void weak_settle(); // perform everything that is pending

// `lanes` of 32 bytes each hold what is read, or stored. Addresses have been checked.
void weak_load(Warp &w, u32 mask, const A64 &address, const Site &site, int bytes, u8 (*seen)[32]);
void weak_store(Warp &w, u32 mask, const A64 &address, const Site &site, int bytes, const u8 (*fresh)[32]);
// An atomic: once for the instruction, then for each lane what it reads, and what it leaves.
void weak_atomics(Warp &w, const Site &site);
void weak_atomic_read(Warp &w, u32 lane, u64 address, const Site &site, int bytes, void *seen);
void weak_atomic_write(Warp &w, u32 lane, u64 address, const Site &site, int bytes, const void *now, bool changed);

// Barriers, and barrier objects (mbarrier), which bring together what threads know.
void weak_arrival(Warp &w, u32 number);
void weak_completion(Block &block, u32 number);
void weak_departure(Warp &w, u32 number);
void weak_object(Warp &w, u32 lane, u64 address, bool arrives);

struct Hazard;
u32 weak_findings(const Hazard **found); // where something was read that was not the latest

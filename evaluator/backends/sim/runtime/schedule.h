// A drawn schedule: in which order the warps of all blocks that live at once go on.
//
// Probabilistic concurrency testing (Burckhardt, Kothari, Musuvathi and Nagarakatte, "A Randomized Scheduler with
// Probabilistic Guarantees of Finding Bugs", ASPLOS 2010): each warp has a priority, and of those that can go on the
// highest does. It may lose it at a *point*: before a strong, volatile or atomic access and before a fence, since what
// lies between two of them only a race can tell apart, and watching finds races. It always loses it where it spins, so
// every warp comes to its turn. The draw chooses how often priorities change and to what, whether warps or whole blocks
// have them, and how many blocks live at once. All follows from the draw, so a run can be repeated.
//
// What else differs from schedule to schedule may draw here too: `schedule_number(use, of)` gives independent numbers,
// the same ones in each run of the same draw. Blocks of one multiprocessor (`w.block->multiprocessor`) are those that
// share a first-level cache. The state of a block that does not run is moved out (turns.h, `exchange`): who keeps more
// state by block can key it by `w.block->resident`, from `begin_resident` to `end_resident`.
#pragma once
#include "apart.h"
#include "runtime.h"

extern u64 SCHEDULE;                     // the draw; 0: blocks in their order, each to its end
extern u64 SCHEDULE_POINTS, SCHEDULE_TURNS; // points that warps came to, and turns that they took, in this run

enum class ScheduleUse : u64 { STRATEGY = 1, WINDOW, PLACEMENT, PRIORITY, CHANGE, LANES_APART, MEMORY };
u64 schedule_number(ScheduleUse use, u64 of);

void draw_schedule(u64 draw); // for the run that begins

// Priorities of warps, numbered `resident * 32 + index`.
void begin_priorities(u64 residents);
void give_priority(u32 unit);
u64 priority_of(u32 unit);
bool change_comes();          // at a point: whether this is where the warp's priority changes
void change_priority(u32 unit);
void lower_priority(u32 unit); // below all others
// In some schedules who has just taken a lock is held up, for so many turns of others: they meet it locked.
bool holds_up(u32 unit);
bool hold_up_ends(bool late, u32 &unit); // behind each turn; `late`: the others have had enough
u64 most_at_once(u64 blocks);  // how many blocks live at once at first
u32 drawn_multiprocessor(u64 block);

// The block that runs: its warps, its barriers and whose turn it is. Part of runtime.cpp, which knows time and answers.
#pragma once
#include "coroutines.h"
#include "schedule.h"
#include "shadow.h"
#include "weak_memory.h"
#include <sys/mman.h>

namespace {

enum { MAX_WARPS = 32, BARRIERS = 16 };
Warp WARPS[MAX_WARPS];
Block BLOCK;
u32 ARRIVED[BARRIERS]; // threads that only arrive (bar.arrive)
bool BY_TURNS;         // the blocks of this launch run by turns
u64 BARRIERS_PASSED;   // by blocks of this process, each one counted
bool GAVE_WAY;         // a warp of the block that runs waits for what others do

// `__syncthreads()` in both branches of a condition: one barrier to the hardware, and undefined in CUDA.
void check_places(u32 number) {
    const Warp *first = nullptr;
    for (u32 i = 0; i < BLOCK.warp_count; i++) {
        const Warp &w = WARPS[i];
        if (w.waits_at != (i32)number || !w.aligned || w.expects || !line_of(w.wait_place)) continue;
        if (!first) first = &w;
        if (same_line(first->wait_place, w.wait_place)) continue;
        char text[160];
        format(text, "some warps of a block waited here, and others at the barrier on line %d, in another branch", line_of(w.wait_place));
        warn(SPLIT_BARRIER, first->wait_place, text);
        return;
    }
}

// Release the warps of every barrier that is complete. Returns whether any was.
bool release() {
    bool any = false;
    for (int number = 0; number < BARRIERS; number++) {
        u32 waiting = 0, unfinished = 0, expects = 0;
        for (u32 i = 0; i < BLOCK.warp_count; i++) {
            const Warp &w = WARPS[i];
            if (w.waits_at != -2) unfinished++;
            if (w.waits_at == number) {
                waiting++;
                expects = w.expects > expects ? w.expects : expects;
            }
        }
        if (!waiting) continue;
        bool complete = expects ? waiting * LANES + ARRIVED[number] >= expects : waiting + ARRIVED[number] / LANES >= unfinished;
        if (!complete) continue;
        if (WATCHING && !expects)
            for (u32 i = 0; i < BLOCK.warp_count; i++)
                if (WARPS[i].waits_at == -2) watch_arrival(WARPS[i], (u32)number); // who has ended has arrived
        for (u32 i = 0; WEAK && !expects && i < BLOCK.warp_count; i++)
            if (WARPS[i].waits_at == -2) weak_arrival(WARPS[i], (u32)number);
        if (WEAK) weak_completion(BLOCK, (u32)number);
        check_places((u32)number);
        u32 count = 0, every = 1, some = 0;
        for (u32 i = 0; i < BLOCK.warp_count; i++) {
            if (WARPS[i].waits_at != number) continue;
            count += __builtin_popcount(WARPS[i].vote & WARPS[i].live);
            every &= (WARPS[i].vote & WARPS[i].live) == WARPS[i].live;
            some |= (WARPS[i].vote & WARPS[i].live) != 0;
        }
        for (u32 i = 0; i < BLOCK.warp_count; i++) {
            Warp &w = WARPS[i];
            if (w.waits_at != number) continue;
            w.reduced = w.reduced == POPC ? count : w.reduced == AND ? every : some;
            w.waits_at = -1;
            if (WATCHING) watch_departure(w, (u32)number);
            if (WEAK) weak_departure(w, (u32)number);
        }
        if (WATCHING) watch_completion(BLOCK, (u32)number);
        ARRIVED[number] = 0;
        BARRIERS_PASSED++;
        any = true;
    }
    return any;
}

[[noreturn]] void deadlock() {
    Warp *first = nullptr, *elsewhere = nullptr;
    u32 waiting = 0, unfinished = 0;
    for (u32 i = 0; i < BLOCK.warp_count; i++) {
        if (WARPS[i].waits_at == -2) continue;
        unfinished++;
        if (!first) first = &WARPS[i];
        if (WARPS[i].waits_at == first->waits_at) waiting++;
        else if (!elsewhere) elsewhere = &WARPS[i];
    }
    char others[80] = ", fewer threads than the barrier names";
    if (elsewhere) {
        FAULT.other = party(*elsewhere, elsewhere->live, elsewhere->wait_place, WAIT);
        FAULT.has_other = true;
        format(others, ", others wait at barrier %d on line %d", elsewhere->waits_at, line_of(elsewhere->wait_place));
    }
    format(FAULT.message, "waits without end at barrier %d: %u of the block's %u unfinished warps are there%s", first->waits_at,
           waiting, unfinished, others);
    fault(*first, first->live, "deadlock", first->wait_place, FAULT.message);
}

// Straight code looks at no clock, so what a warp executed is counted off here.
void watch(Warp &w) {
    UNWATCHED += w.executed;
    account(w);
    if (UNWATCHED < MOST_UNWATCHED) return;
    UNWATCHED = 0;
    look_at_clock(w, w.live ? w.live : 1, w.waits_at >= 0 ? w.wait_place : -1);
}

u32 ordered(u32 i) { return BACKWARDS ? BLOCK.warp_count - 1 - i : i; }

// A block by itself has all the time that it wants; of several that may wait for each other, each gets a short turn.
i64 turn_fuel() { return LIVING > 1 ? SHORT_TURN : FUEL; }

void begin_block(const Kernel &kernel) {
    begin_copies(LAUNCH.shared_bytes);
    if (kernel.shared_bytes + LAUNCH.dynamic_bytes && !KEEPS) make_undefined((void *)SLOTS[SHARED_SLOT].low, SLOTS[SHARED_SLOT].size);
    u32 threads = LAUNCH.block[0] * LAUNCH.block[1] * LAUNCH.block[2];
    for (u32 i = 0; i < BLOCK.warp_count; i++) {
        Warp &w = WARPS[i];
        u32 rest = threads - i * LANES;
        w.live = rest >= LANES ? ~0u : (1u << rest) - 1;
        w.touched = w.leaving = 0;
        w.waits_at = w.loops_at = -1;
        w.local_top = 0;
        w.fuel = turn_fuel();
        if (kernel.barriers || SCHEDULED) make_coroutine(w);
    }
    BODY = kernel.barriers || SCHEDULED ? kernel.run : nullptr;
    memset(ARRIVED, 0, sizeof ARRIVED);
}

// Run the block's warps by turns until all are done, or one waits for what other blocks do. Whether all are done.
bool advance_block() {
    GAVE_WAY = false;
    for (;;) {
        bool ran = false, unfinished = false;
        for (u32 i = 0; i < BLOCK.warp_count; i++) {
            Warp &w = WARPS[ordered(i)];
            if (w.waits_at == -1) {
                resume(w);
                watch(w);
                ran = true;
            }
            unfinished |= w.waits_at != -2;
        }
        if (!unfinished) return true;
        if (!release() && !ran) deadlock();
        if (BY_TURNS && GAVE_WAY) return false;
    }
}

void run_block(const Kernel &kernel) {
    begin_block(kernel);
    if (kernel.barriers) {
        advance_block();
        return;
    }
    for (u32 i = 0; i < BLOCK.warp_count; i++) {
        Warp &w = WARPS[ordered(i)];
        kernel.run(w);
        watch(w);
    }
}

void set_block(u64 number) {
    BLOCK.number = number;
    BLOCK.multiprocessor = drawn_multiprocessor(number);
    BLOCK.id[0] = (u32)(number % LAUNCH.grid[0]);
    BLOCK.id[1] = (u32)(number / LAUNCH.grid[0] % LAUNCH.grid[1]);
    BLOCK.id[2] = (u32)(number / LAUNCH.grid[0] / LAUNCH.grid[1]);
}

bool gives_stack(Warp &w, u64 bytes) {
    // A page that cannot be touched below the stack: running over it would be our fault, and must not be silent.
    u8 *at = (u8 *)mmap(nullptr, bytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return false;
    mprotect(at, 4096, PROT_NONE);
    w.stack = at + 4096;
    w.stack_bytes = bytes;
    return true;
}
void give_stack(Warp &w, u64 bytes) {
    if (!gives_stack(w, bytes)) out_of_memory("the simulator's stacks", bytes);
}

// One block at random out of each of `chosen` equal parts of the grid (splitmix64 by Vigna).
u64 drawn(u64 part, u64 chosen, u64 blocks) {
    u64 low = (u64)((unsigned __int128)part * blocks / chosen), high = (u64)((unsigned __int128)(part + 1) * blocks / chosen);
    u64 z = DICE += 0x9E3779B97F4A7C15ull;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ z >> 27) * 0x94D049BB133111EBull;
    return low + (z ^ z >> 31) % (high - low);
}

void count_idle_threads() {
    u32 threads = LAUNCH.block[0] * LAUNCH.block[1] * LAUNCH.block[2];
    for (u32 i = 0; i < BLOCK.warp_count; i++) {
        u32 rest = threads - i * LANES;
        count_idle(WARPS[i], rest >= LANES ? ~0u : (1u << rest) - 1);
    }
}

} // namespace

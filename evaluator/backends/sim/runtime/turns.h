// Blocks that live at once, and run by turns: those of a cooperative launch, those that wait for each other in an
// ordinary one, and all blocks of a run with a drawn schedule (schedule.h). Part of runtime.cpp.
//
// Without a drawn schedule blocks run in their order, each to its end, until one spins; then another begins, as on a GPU
// that has room for it, and when no more fit those that have begun go on in turn.
#pragma once
#include "blocks.h"

namespace {

// What an H100 or H200 holds (CUDA C++ Programming Guide 13.0, technical specifications by compute capability); how many
// registers a kernel takes is not known here.
enum : u64 { MULTIPROCESSORS = 132, WARPS_OF_ONE = 64, BLOCKS_OF_ONE = 32, SHARED_OF_ONE = 228 << 10, SHARED_OF_DRIVER = 1 << 10 };
// Addresses that local memory of all blocks together may take; a page counts only when it is touched.
enum : u64 { MOST_LOCAL_BYTES = 1ull << 30 };
enum : u64 { SPARE_BYTES = 64 << 20 }; // that the stacks of waiting blocks leave to all else
// Turns of each warp without one that comes to a barrier or its end, before more blocks begin than were drawn.
enum : u64 { TURNS_OF_EACH = 8 };
enum : u64 { NOBODY = ~0ull };
enum : u32 { LOOKS_APART = 7 }; // ends of turns between two looks at the clock, which the kernel of the system has

// A resident block, or room for one. Coroutines and pointers mean the one place where the running block's state lies,
// so that state moves out and in.
struct Resident {
    Block block;
    Warp *warps;
    u32 arrived[BARRIERS];
    u8 *shared;
    Background *background;
    ParkedWatch *watch; // of a watched block that was moved out
    bool taken;
    u32 ready; // warps that can go on
};
Resident *RESIDENTS;
u64 RESIDENT_COUNT, CURRENT = NOBODY; // rooms that are made; the one whose block is in its place
// In weak memory without a drawn schedule: the state of the numbers that say where blocks let others run, and for how
// many of eight they do.
u64 TURNS, LET_OTHERS;
Warp TEMPLATE[MAX_WARPS]; // warps as a launch begins them

u64 least(u64 a, u64 b) { return a < b ? a : b; }

// How many blocks a GPU holds at once.
u64 most_of_gpu() {
    u64 each = least(BLOCKS_OF_ONE, WARPS_OF_ONE / BLOCK.warp_count);
    each = least(each, SHARED_OF_ONE / (LAUNCH.shared_bytes + SHARED_OF_DRIVER));
    return MULTIPROCESSORS * (each ? each : 1);
}
// And the simulator too.
u64 most_resident(u64 blocks) {
    u64 most = most_of_gpu();
    if (LOCAL_STRIDE) most = least(most, MOST_LOCAL_BYTES / (BLOCK.warp_count * LANES * LOCAL_STRIDE));
    return least(blocks, most ? most : 1);
}

void exchange(Resident &s, bool in) {
    auto move = [in](void *here, void *there, u64 bytes) { in ? memcpy(here, there, bytes) : memcpy(there, here, bytes); };
    if (!in && s.taken && WATCHING && !s.watch) s.watch = park_watch(BLOCK);
    move(&BLOCK, &s.block, sizeof BLOCK);
    move(WARPS, s.warps, BLOCK.warp_count * sizeof(Warp));
    move(ARRIVED, s.arrived, sizeof ARRIVED);
    if (!s.taken) return;
    move((void *)SLOTS[SHARED_SLOT].low, s.shared, LAUNCH.shared_bytes);
    exchange_copies(s.background);
    if (s.watch) exchange_watch(s.watch);
}

// Have the state of this resident block in its place.
void switch_to(u64 number) {
    if (CURRENT == number) return;
    if (CURRENT != NOBODY) exchange(RESIDENTS[CURRENT], false);
    exchange(RESIDENTS[number], true);
    CURRENT = number;
}

// Stacks of earlier launches, whose pages are there already.
struct Stack {
    u8 *low;
    u64 bytes;
};
enum : u64 { MOST_STACKS = 1024 };
Stack STACKS[MOST_STACKS];
u64 STACK_COUNT;

bool takes_stack(Warp &w, u64 bytes) {
    if (!STACK_COUNT || STACKS[STACK_COUNT - 1].bytes < bytes) return gives_stack(w, bytes);
    w.stack = STACKS[--STACK_COUNT].low;
    w.stack_bytes = STACKS[STACK_COUNT].bytes;
    return true;
}
void leave_stack(const Warp &w) {
    if (STACK_COUNT < MOST_STACKS) STACKS[STACK_COUNT++] = {w.stack, w.stack_bytes};
    else munmap(w.stack - 4096, w.stack_bytes + 4096);
}

// Whether there are so many addresses left that one more resident block takes none that others need.
bool has_room() {
    void *at = mmap(nullptr, SPARE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at != MAP_FAILED && !munmap(at, SPARE_BYTES);
}

// Room for one more resident block. False where there is no memory for it.
bool make_resident(const Kernel &kernel) {
    if (RESIDENT_COUNT && !has_room()) return false;
    u64 count = BLOCK.warp_count, stack = least(kernel.stack_bytes, STACK_BYTES);
    Resident &s = RESIDENTS[RESIDENT_COUNT];
    s = {};
    s.block = BLOCK;
    s.warps = (Warp *)aligned_alloc(alignof(Warp), count * sizeof(Warp));
    s.shared = (u8 *)malloc(LAUNCH.shared_bytes + 1);
    if (!s.warps || !s.shared) return false;
    s.background = no_copies();
    memcpy((void *)s.warps, TEMPLATE, count * sizeof(Warp));
    for (u64 i = 0; i < count; i++) {
        s.warps[i].home = (u32)(RESIDENT_COUNT * count + i);
        s.warps[i].saved = nullptr;
        if (!takes_stack(s.warps[i], stack)) return false;
        s.warps[i].stack_limit = s.warps[i].stack + s.warps[i].stack_bytes / 4;
    }
    RESIDENT_COUNT++;
    return true;
}

u64 free_resident(const Kernel &kernel, u64 most) {
    for (u64 i = 0; LIVING < RESIDENT_COUNT && i < RESIDENT_COUNT; i++)
        if (!RESIDENTS[i].taken) return i;
    return RESIDENT_COUNT < most && make_resident(kernel) ? RESIDENT_COUNT - 1 : NOBODY;
}

u32 every_warp() { return BLOCK.warp_count == MAX_WARPS ? ~0u : (1u << BLOCK.warp_count) - 1; }

void begin_resident(const Kernel &kernel, u64 resident, u64 number, bool watched) {
    switch_to(resident);
    RESIDENTS[resident].taken = true;
    LIVING++;
    set_block(number);
    BLOCK.resident = (u32)resident;
    if (watched) watch_block(BLOCK, number);
    else WATCHING = false, BLOCKS_RUN++;
    weak_block(BLOCK, number);
    begin_block(kernel);
    RESIDENTS[resident].ready = every_warp();
}

// The block that is in has ended.
void end_resident() {
    Resident &s = RESIDENTS[CURRENT];
    weak_block_over(BLOCK);
    if (COUNTING) count_idle_threads();
    if (s.watch) {
        exchange_watch(s.watch);
        forget_watch(s.watch);
    }
    s.watch = nullptr;
    s.taken = false;
    WATCHING = false;
    LIVING--;
}

// A thread of another block that loops too, for what is said of this one.
void name_other_block() {
    for (u64 i = 0; BY_TURNS && !BLOCKS_BEHIND && i < RESIDENT_COUNT; i++) {
        if (i == CURRENT || !RESIDENTS[i].taken) continue;
        for (u32 j = 0; j < BLOCK.warp_count; j++) {
            const Warp &w = RESIDENTS[i].warps[j];
            if (w.waits_at != -1 || w.loops_at == -1) continue;
            FAULT.other = party(w, w.looping, w.loops_at, WAIT);
            memcpy(FAULT.other.block, RESIDENTS[i].block.id, sizeof FAULT.other.block);
            FAULT.has_other = true;
            return;
        }
    }
}

} // namespace

#include "standstill.h"

namespace {

// In their order, each until it ends or spins.
void run_in_order(const Kernel &kernel, u64 blocks, u64 most, bool cooperative) {
    bool watched = !cooperative || all_are_watched(), backwards = BACKWARDS && (cooperative || !kernel.polls);
    u64 begun = 0, ended = 0, until_look = 1, at = 0, turns = 0; // of these blocks, since one began or ended
    Standstill standstill;
    while (ended < blocks) {
        u64 resident = begun < blocks ? free_resident(kernel, most) : NOBODY;
        if (resident != NOBODY) {
            begin_resident(kernel, resident, backwards ? blocks - 1 - begun : begun, watched);
            begun++;
            standstill = {}, turns = 0;
        } else {
            do at = at + 1 < RESIDENT_COUNT ? at + 1 : 0;
            while (!RESIDENTS[at].taken);
            switch_to(at);
        }
        BLOCKS_BEHIND = blocks - begun;
        if (advance_block()) {
            end_resident();
            ended++;
            standstill = {}, turns = 0;
        } else if (++turns > LIVING) {
            turns = 1;
            standstill.look();
        }
        if (--until_look == 0) {
            until_look = 64;
            look_at_clock(WARPS[0], 1, -1);
        }
    }
}

// What there is in memory, and how many times warps came to a barrier or their end. Where it stays the same for ten
// times as long as a right program takes, whoever waits does so in vain: each warp has had its turn many times.
u64 COMINGS, HALF_WAY; // `HALF_WAY`: the state when half of the instructions were executed
u64 state_of_memory() {
    u64 bytes = 0;
    return hashed_memory(COMINGS, bytes) | 1;
}
bool executed_part(u64 part) { return MOST_EXECUTED && (EXECUTED > MOST_EXECUTED / part || ISSUED > MOST_EXECUTED / (part * LEAST_LANES)); }
bool nothing_changed() { return BY_TURNS && HALF_WAY && state_of_memory() == HALF_WAY; }

// A tournament of the resident blocks: each node holds the highest priority of those below it whose warps can go on, 0
// for none.
u64 *TOURNAMENT, LEAVES;
void begin_tournament(u64 residents) {
    for (LEAVES = 1; LEAVES < residents;) LEAVES *= 2;
    TOURNAMENT = (u64 *)calloc(2 * LEAVES, sizeof *TOURNAMENT);
    if (!TOURNAMENT) out_of_memory("the simulator's waiting blocks", 2 * LEAVES * sizeof *TOURNAMENT);
}
// What a resident block's warps can do has changed.
void enter_again(u64 resident) {
    u64 highest = 0, node = LEAVES + resident;
    for (u32 left = RESIDENTS[resident].taken ? RESIDENTS[resident].ready : 0; left; left &= left - 1) {
        u64 priority = priority_of((u32)(resident * LANES + (u32)__builtin_ctz(left)));
        if (priority > highest) highest = priority;
    }
    TOURNAMENT[node] = highest;
    while (node /= 2) TOURNAMENT[node] = TOURNAMENT[2 * node] > TOURNAMENT[2 * node + 1] ? TOURNAMENT[2 * node] : TOURNAMENT[2 * node + 1];
}
// The warp of the highest priority among those that can go on, as `resident * 32 + index`.
u64 next_unit() {
    u64 node = 1;
    while (node < LEAVES) node = 2 * node + (TOURNAMENT[2 * node] < TOURNAMENT[node]);
    u64 resident = node - LEAVES;
    for (u32 left = RESIDENTS[resident].ready; left; left &= left - 1) {
        u64 unit = resident * LANES + (u32)__builtin_ctz(left);
        if (priority_of((u32)unit) == TOURNAMENT[1]) return unit;
    }
    return NOBODY;
}

// Which warps of the block that is in can go on.
u32 ready_warps(bool &unfinished) {
    u32 ready = 0;
    unfinished = false;
    for (u32 i = 0; i < BLOCK.warp_count; i++) {
        ready |= (u32)(WARPS[i].waits_at == -1) << i;
        unfinished |= WARPS[i].waits_at != -2;
    }
    return ready;
}

void run_scheduled(const Kernel &kernel, u64 blocks, u64 most, bool cooperative) {
    bool watched = !cooperative || all_are_watched();
    u64 begun = 0, ended = 0, at_once = cooperative ? blocks : least(most, most_at_once(blocks));
    u64 in_vain = 0;
    HALF_WAY = COMINGS = 0;
    begin_priorities(most);
    begin_tournament(most);
    while (ended < blocks) {
        while (begun < blocks && LIVING < at_once) {
            u64 resident = free_resident(kernel, most);
            if (resident == NOBODY) break;
            begin_resident(kernel, resident, begun++, watched);
            for (u32 i = 0; i < BLOCK.warp_count; i++) give_priority((u32)resident * LANES + i);
            enter_again(resident);
        }
        BLOCKS_BEHIND = blocks - begun;
        u64 unit = next_unit();
        switch_to(unit / LANES);
        Warp &w = WARPS[unit % LANES];
        SCHEDULE_TURNS++;
        resume(w);
        watch(w);
        if (!HALF_WAY && executed_part(2)) HALF_WAY = state_of_memory();
        bool came = w.waits_at != -1, unfinished = true;
        // Who only arrives at a barrier may have completed it, and goes on.
        if (came || RESIDENTS[CURRENT].ready != every_warp()) {
            release();
            RESIDENTS[CURRENT].ready = ready_warps(unfinished);
        }
        if (came) {
            in_vain = 0;
            COMINGS++;
            if (!unfinished) {
                end_resident();
                ended++;
            } else if (!RESIDENTS[CURRENT].ready) {
                deadlock();
            }
        } else if (++in_vain > TURNS_OF_EACH * LIVING * BLOCK.warp_count) {
            in_vain = 0; // all may wait for a block that has not begun
            at_once = least(most, 2 * at_once);
        }
        u32 held;
        if (hold_up_ends(executed_part(8), held) && held / LANES != CURRENT) enter_again(held / LANES);
        enter_again(CURRENT);
    }
    free(TOURNAMENT);
}

// All blocks of a launch.
void run_by_turns(const Kernel &kernel, u64 blocks, u64 most, bool cooperative) {
    BY_TURNS = true;
    memcpy((void *)TEMPLATE, WARPS, sizeof TEMPLATE);
    RESIDENTS = (Resident *)calloc(most, sizeof(Resident));
    if (!RESIDENTS) out_of_memory("the simulator's waiting blocks", most * sizeof(Resident));
    RESIDENT_COUNT = LIVING = 0;
    STANDS_STILL = false;
    CURRENT = NOBODY;
    // Each of a few blocks that all wait for each other goes on in one turn of eight, so that any of them may be the next,
    // however far ahead; of many every second one. Elsewhere they do so now and then: a turn takes time.
    LET_OTHERS = !cooperative ? 1 : blocks <= 8 ? 7 : 4;
    u64 first = free_resident(kernel, most);
    if (first == NOBODY) out_of_memory("the simulator's waiting blocks", BLOCK.warp_count * sizeof(Warp) + LAUNCH.shared_bytes);
    if (SCHEDULED) run_scheduled(kernel, blocks, most, cooperative);
    else run_in_order(kernel, blocks, most, cooperative);
    for (u64 i = 0; i < RESIDENT_COUNT; i++) {
        Resident &s = RESIDENTS[i];
        for (u64 j = 0; j < BLOCK.warp_count; j++) leave_stack(s.warps[j]);
        forget_copies(s.background);
        free(s.warps);
        free(s.shared);
    }
    free(RESIDENTS);
    RESIDENTS = nullptr;
    memcpy((void *)WARPS, TEMPLATE, sizeof TEMPLATE);
    BY_TURNS = false;
    BLOCKS_BEHIND = LIVING = 0;
}

} // namespace

// A long loop may wait for what another warp of the block has yet to write, so that one gets its turn.
void watchdog(Warp &w, u32 lanes, i32 place) {
    static u32 until_look;
    w.fuel = turn_fuel();
    account(w);
    if (STANDS_STILL) stands_still(w, lanes, place);
    if (until_look-- == 0 || over_budget()) {
        until_look = LOOKS_APART;
        look_at_clock(w, lanes, place);
    }
    GAVE_WAY = true;
    w.loops_at = place;
    w.looping = lanes;
    give_way(w);
    w.loops_at = -1;
}

void give_way(Warp &w) {
    if (!BODY || (!BY_TURNS && BLOCK.warp_count == 1)) return;
    if (SCHEDULED) lower_priority(w.block->resident * LANES + w.index);
    suspend(w);
}

void interleave(Warp &w) {
    if (SCHEDULED) {
        bool took = w.took;
        w.took = false;
        if (took && holds_up(w.block->resident * LANES + w.index)) return suspend(w);
        if (!change_comes()) return;
        change_priority(w.block->resident * LANES + w.index);
        suspend(w);
        return;
    }
    while (BY_TURNS && (TURNS = TURNS * 6364136223846793005ull + 1442695040888963407ull) >> 61 < LET_OTHERS) {
        GAVE_WAY = true;
        give_way(w);
    }
}

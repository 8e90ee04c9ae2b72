#include "schedule.h"

bool SCHEDULED, LANES_APART;
u64 SCHEDULE, SCHEDULE_POINTS, SCHEDULE_TURNS;

namespace {

enum : u64 { LOWEST = 1ull << 40 }; // what warps lose their priority to counts down from here; drawn ones lie above
u64 *PRIORITIES;
u64 ROOM, NEXT_LOWEST, DRAWN, UNTIL_CHANGE;
u64 MEAN_GAP;      // points between two changes
bool LOWERS;       // changes put a warp behind all others, else somewhere
bool BLOCKWISE;    // the warps of a block have one priority, but for the last bits
u64 MULTIPROCESSORS; // that blocks are spread over

bool HOLDS_UP;   // those who have taken a lock
u64 HELD_TURNS;  // left
u32 HELD;        // who

u64 mixed(u64 x) { // SplitMix64 (Vigna)
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

u64 strategy(u64 of) { return schedule_number(ScheduleUse::STRATEGY, of); }

void draw_gap() { UNTIL_CHANGE = 1 + schedule_number(ScheduleUse::CHANGE, ++DRAWN) % (2 * MEAN_GAP); }

u64 above_lowest(u64 drawn) { return LOWEST + (drawn >> 2); }

} // namespace

u64 schedule_number(ScheduleUse use, u64 of) { return mixed(mixed(SCHEDULE ^ (u64)use << 56) ^ of); }

void draw_schedule(u64 draw) {
    SCHEDULE = draw;
    SCHEDULED = draw != 0;
    SCHEDULE_POINTS = SCHEDULE_TURNS = DRAWN = 0;
    NEXT_LOWEST = LOWEST;
    // From a change at every point, which is a random walk, to hardly any, which leaves whole orders of warps or blocks.
    static const u64 GAPS[] = {1, 1, 2, 4, 8, 16, 64, 256};
    MEAN_GAP = GAPS[strategy(0) % 8];
    LOWERS = strategy(1) & 1;
    BLOCKWISE = strategy(2) % 4 == 0;
    static const u64 SPREADS[] = {1, 2, 3, 132};
    MULTIPROCESSORS = SPREADS[strategy(3) % 4];
    LANES_APART = SCHEDULED && strategy(4) % 4;
    HOLDS_UP = strategy(5) % 4 == 0;
    HELD_TURNS = 0;
    if (SCHEDULED) draw_gap();
}

u32 drawn_turn(u32 count) { return (u32)(schedule_number(ScheduleUse::LANES_APART, ++DRAWN) % count); }

void begin_priorities(u64 residents) {
    if (residents * LANES <= ROOM) return;
    free(PRIORITIES);
    ROOM = residents * LANES;
    PRIORITIES = (u64 *)calloc(ROOM, sizeof *PRIORITIES);
    if (!PRIORITIES) out_of_memory("the simulator's priorities", ROOM * sizeof *PRIORITIES);
}

void give_priority(u32 unit) {
    u64 drawn = above_lowest(schedule_number(ScheduleUse::PRIORITY, ++DRAWN));
    if (BLOCKWISE && unit % LANES) drawn = (PRIORITIES[unit / LANES * LANES] & ~63ull) | (drawn & 63);
    PRIORITIES[unit] = drawn;
}

u64 priority_of(u32 unit) { return PRIORITIES[unit]; }

bool change_comes() {
    SCHEDULE_POINTS++;
    if (--UNTIL_CHANGE) return false;
    draw_gap();
    return true;
}

void lower_priority(u32 unit) { PRIORITIES[unit] = --NEXT_LOWEST; }

void change_priority(u32 unit) {
    u32 first = BLOCKWISE ? unit / LANES * LANES : unit, last = BLOCKWISE ? first + LANES : unit + 1;
    if (!LOWERS) {
        for (u32 i = first; i < last; i++) give_priority(i);
        return;
    }
    // The warp itself behind the others of its block, which stay in their order: so each of them comes to its turn.
    lower_priority(unit);
    bool lowered[LANES] = {};
    for (u32 i = first; i < last; i++) {
        u32 highest = first;
        while (lowered[highest - first]) highest++;
        for (u32 j = highest + 1; j < last; j++)
            if (!lowered[j - first] && PRIORITIES[j] > PRIORITIES[highest]) highest = j;
        lowered[highest - first] = true;
        lower_priority(highest);
    }
}

bool holds_up(u32 unit) {
    static const u64 TURNS[] = {16, 64, 256, 4096};
    if (!HOLDS_UP || HELD_TURNS || drawn_turn(2)) return false;
    HELD_TURNS = TURNS[drawn_turn(4)];
    HELD = unit;
    PRIORITIES[unit] = 1;
    return true;
}

bool hold_up_ends(bool late, u32 &unit) {
    if (!HELD_TURNS || (--HELD_TURNS && !late)) return false;
    HELD_TURNS = 0;
    unit = HELD;
    give_priority(unit);
    return true;
}

u64 most_at_once(u64 blocks) {
    static const u64 WINDOWS[] = {2, 3, 4, 6, 8, 16};
    u64 window = WINDOWS[schedule_number(ScheduleUse::WINDOW, 0) % 6];
    return window < blocks ? window : blocks;
}

u32 drawn_multiprocessor(u64 block) {
    return SCHEDULED ? (u32)(schedule_number(ScheduleUse::PLACEMENT, block) % MULTIPROCESSORS) : 0;
}

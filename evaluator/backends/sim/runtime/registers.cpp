// Special registers that the PTX ISA (9.0, section 10) leaves to the machine: on which multiprocessor a block runs, in
// which slot a warp sits, what clocks show, how launches are numbered. Each run has a machine of its own, drawn by
// REGISTERS: a GPU that exists, blocks placed in one of the ways in which GPUs place them, clocks that go on unevenly.
// All follows from the draw and from what was executed, so a run can be repeated. A draw of 0 is the plainest machine.
#include "runtime.h"

u64 REGISTERS;

namespace {

u64 TICKS, READS, ISSUED_BEFORE, LAUNCHED_BEFORE;

struct Model {
    u32 multiprocessors, warps; // of a multiprocessor
};
// A100, H100 PCIe, H100 and H200, RTX 4090, L40S, A10, A30, RTX 3090 (CUDA C++ Programming Guide, 16.2; GPU datasheets).
const Model MODELS[] = {{108, 64}, {114, 64}, {132, 64}, {128, 48}, {142, 48}, {72, 48}, {56, 64}, {82, 48}};
enum : u64 { MODEL_COUNT = sizeof MODELS / sizeof *MODELS };

u64 mixed(u64 x) { // SplitMix64
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}
// Independent numbers of one draw, for different purposes.
enum Purpose : u64 { PLACES = 1, SLOTS_OF_WARPS, TIME, GRIDS, OFFSETS, STEPS };
u64 number(Purpose purpose, u64 of = 0) { return mixed(mixed(REGISTERS ^ purpose << 56) ^ of); }

// The lowest bits of a draw count up from run to run (verification.py), so that every model has its turn.
const Model &model() { return MODELS[REGISTERS % MODEL_COUNT]; }

u64 number_of_block(const Warp &w) {
    const u32 *id = w.block->id;
    return id[0] + (u64)LAUNCH.grid[0] * (id[1] + (u64)LAUNCH.grid[1] * id[2]);
}

u32 multiprocessor(const Warp &w) {
    if (!REGISTERS) return 0;
    u64 block = number_of_block(w), count = model().multiprocessors, half = (count + 1) / 2, first = number(PLACES);
    switch (REGISTERS / MODEL_COUNT % 3) {
    case 0: { // several on one, those of even number first
        u64 at = block / (1 + first % 4) % count;
        return (u32)(at < half ? 2 * at : 2 * (at - half) + 1);
    }
    case 1: return (u32)((block + count - 1 - first % 3) % count); // in turn, where a launch before ended
    default: return (u32)(number(PLACES, block + 1) % count); // wherever one became free
    }
}

// Warps of a block sit side by side, wherever there is room, and not always in their order.
u32 slot_of_warp(const Warp &w) {
    u32 count = w.block->warp_count, index = w.index;
    if (!REGISTERS) return index;
    u64 drawn = number(SLOTS_OF_WARPS, number_of_block(w));
    u32 room = model().warps / count;
    if (drawn & 1) index = count - 1 - index;
    if (drawn & 2) index = (index + (u32)(drawn >> 8 & 0xff)) % count;
    return index + (u32)(drawn >> 16 & 0xffff) % (room ? room : 1) * count;
}

// Time goes on with what is executed, and at each look by as much as reading a clock takes on a GPU, unevenly.
u64 ticks(Warp &w) {
    u64 issued = issued_so_far(w), pace = 1 + (REGISTERS ? number(STEPS) % 4 : 0);
    TICKS += (issued - ISSUED_BEFORE) * pace + 4 + number(TIME, ++READS) % 61;
    ISSUED_BEFORE = issued;
    UNSEEN++;
    return TICKS;
}

} // namespace

void draw_registers(u64 draw) {
    REGISTERS = draw;
    READS = ISSUED_BEFORE = 0;
    LAUNCHED_BEFORE = LAUNCH.grid_id;
    TICKS = 1 + (draw ? number(TIME) >> 20 : 0);
}

U32 free_register(Warp &w, FreeRegister which) {
    switch (which) {
    case WARPID: return all32(slot_of_warp(w));
    case NWARPID: return all32(REGISTERS ? model().warps : w.block->warp_count);
    case SMID: return all32(multiprocessor(w));
    default: return all32(REGISTERS ? model().multiprocessors : 1);
    }
}

// Multiprocessors count clocks from starts of their own.
U64 clock_register(Warp &w) { return all64(ticks(w) + (REGISTERS ? number(OFFSETS, multiprocessor(w)) >> 36 : 0)); }

// Nanoseconds since 1970, in steps of 32 as an H200 shows them, or of 1,024 as older GPUs do.
U64 timer_register(Warp &w) {
    u64 began = 1700000000000000000ull + (REGISTERS ? number(GRIDS) >> 9 : 0), step = REGISTERS & 1 ? 1024 : 32;
    return all64((began + ticks(w)) / step * step);
}

// Launches of a context are numbered, the driver's own included.
U64 grid_register() {
    u64 drawn = number(GRIDS);
    return all64(REGISTERS ? 2 + (drawn & 0xfffff) + LAUNCH.grid_id * (1 + (drawn >> 32) % 3) : LAUNCH.grid_id - LAUNCHED_BEFORE);
}

// The machine that a translated kernel runs on: warps, address space, checked memory, barriers, faults.
//
// Address space: every buffer, module variable and special region has a slot of 16 GiB to itself and lies in the
// middle of it, so a wrong index lands in nobody's memory and the nearest buffer is found by a shift. Device addresses
// are host addresses: the slots are mapped at a fixed place.
#pragma once
#include "floats.h"

enum : u64 { SLOT_BASE = 1ull << 44, SLOT_SHIFT = 34, SLOT_COUNT = 4096 };
enum : u64 { SHARED_SLOT = 0, LOCAL_SLOT = 1, PARAMETER_SLOT = 2, HEAP_SLOT = 3, MODULE_SLOT = 4, WORKSPACE_SLOT = 2047, BUFFER_SLOT = 2048 };
constexpr u64 slot_address(u64 slot) { return SLOT_BASE + (slot << SLOT_SHIFT) + (1ull << (SLOT_SHIFT - 1)); }

// Accesses are plain, strong (volatile, relaxed), or strong with a fence (acquire, release).
enum Strength : u32 { PLAIN, RELAXED, FENCED };
// What else a strong access or a fence says (PTX ISA 9.0, section 8.4 and 8.5).
enum Semantics : u32 {
    ACQUIRES = 1,
    RELEASES = 2,
    OF_BLOCK = 4,   // its scope is the block
    SEQUENTIAL = 8, // fence.sc
    READ_ONLY = 16, // ld.nc
};

// One memory instruction: where it stands, and the last allocation that it found ([low, low + count) are valid starts).
struct Site {
    u64 low, count;
    i32 place;
    Strength strength;
    u16 first_extent, extents; // of the program's: the shared arrays that its address is made from; 0 where unknown
    u32 semantics;
};
// Bytes of shared memory, from where it begins, that one array takes.
struct Extent {
    u32 low, high;
};

struct Block;
struct Warp {
    u32 live;  // lanes that have not exited
    u32 leaving; // those of them that have nothing left to do but exit
    u32 index; // in its block
    u32 home;  // among all warps that live now: whose local memory this is
    U32 tid[3];
    Block *block;
    u64 executed, issued; // thread-instructions and the warp's own, since they went to the run's account
    i64 fuel;     // backward branches and calls, weighed by length, until the next look at the clock
    u32 local_top;
    const u8 *parameters;
    // Coroutine.
    u8 *stack, *stack_limit;
    u64 stack_bytes;
    void *saved;
    i32 waits_at; // barrier number, -1 when runnable, -2 when done
    u32 expects;  // threads that the barrier waits for, 0 for all
    bool aligned; // whether all threads of the block must wait at one place
    i32 wait_place;
    i32 loops_at; // of one that gave way in a loop, or a call, and has not gone on: where, -1 where it did not
    u32 looping;  // and which lanes
    u32 vote, reduced; // for bar.red
    u32 touched;       // lanes that used memory, while counting
    bool took;         // it has just got what others may wait for: a lock, by an exchange
};

// Names and source lines are not in the translated text: a place is an index into the lines that the runtime is told.
struct Kernel {
    void (*run)(Warp &);
    u32 parameter_bytes, shared_bytes, local_bytes, stack_bytes;
    bool barriers, polls; // whether it reads in a loop what another block may write
    bool spreads;         // whether blocks may run in any order and at once
    bool meets;           // whether a block may wait for what another one has yet to do
};
struct ModuleVariable {
    u64 size, item;
    const u8 *content;
    bool constant;
};
// How often warps ran a block of the flow graph, with how many lanes, and left it in different directions.
struct BlockCount {
    u64 warps, lanes, diverged;
};
INLINE void enter(Warp &w, BlockCount &count, u32 m, u32 instructions) {
    u64 lanes = (u64)__builtin_popcount(m);
    w.executed += lanes * instructions;
    w.issued += instructions;
    count.warps++;
    count.lanes += lanes;
}
struct Program {
    const Kernel *kernels;
    u32 kernel_count;
    const ModuleVariable *variables;
    u32 variable_count;
    Site *sites;
    u32 site_count;
    BlockCount *blocks;
    u32 block_count;
    u64 *guards; // lanes that executed each guarded arithmetic instruction
    u32 guard_count;
    const Extent *extents;
};
extern const Program *PROGRAM;
extern "C" const Program assay_program; // what PROGRAM leads to
extern bool COUNTING; // whether this run counts
#define COUNT(...) do { if (__builtin_expect(COUNTING, 0)) { __VA_ARGS__; } } while (0)

// Special registers that are the same for a whole launch or block.
struct Launch {
    u32 grid[3], block[3], shared_bytes, dynamic_bytes;
    u64 grid_id, workspace; // where the blocks of a cooperative launch meet
};
extern Launch LAUNCH;
extern u8 POISON;  // the byte that undefined memory and registers are made of, but for outputs
// Not this byte again and again, but bytes that differ from place to place: what equal ones tell of the simulator.
enum : u8 { SCRAMBLED = 0xA5 };
INLINE u64 undefined_word() { return POISON == SCRAMBLED ? 0x6d3b94f2c8517ea9ull : (u64)POISON * 0x0101010101010101ull; }
void make_undefined(void *at, u64 bytes, u8 pattern = POISON);
struct BlockWatch;
struct BlockView;
struct Block {
    u32 id[3];
    u32 warp_count;
    u64 number;         // in its grid
    u32 resident;       // among the blocks that live at once: until it ends, no other one's
    u32 multiprocessor; // where it runs to its end, as the schedule drew it; 0 where none was drawn
    BlockWatch *watch;  // while it is watched
    BlockView *view;    // of global memory, while memory is weak
};
extern bool WATCHING; // whether the block that runs is watched for races and undefined reads (shadow.h)
extern bool WEAK;     // whether blocks of this run have views of their own of global memory (weak_memory.h)
extern bool SCHEDULED; // whether this run has a drawn schedule (schedule.h)
void interleave(Warp &w); // other warps may go on here, of this block and of others
INLINE void point(Warp &w) {
    if (__builtin_expect(SCHEDULED | WEAK, 0)) interleave(w);
}
void watch_fence(Warp &w, u32 semantics);
void weak_fence(Warp &w, u32 mask, u32 semantics);
void weak_meeting(Warp &w);
void weak_members(Warp &w, u32 mask, const U32 &members);
// A warp-wide operation of the lanes `mask` brings each of them together with those that its own mask names. `orders`:
// what they did in memory before is known to all of them then, as behind `__syncwarp`, but not behind a shuffle.
void watch_members(Warp &w, u32 mask, const U32 &members, bool orders);
INLINE void fence(Warp &w, u32 mask, u32 semantics) {
    if (__builtin_expect(WATCHING, 0)) watch_fence(w, semantics);
    if (__builtin_expect(WEAK, 0)) weak_fence(w, mask, semantics);
}

// Of the lanes that loaded just now, those that do so once more behind later accesses (codegen/late_loads.py).
u32 weak_late(u32 lanes);
INLINE u32 late_lanes(u32 lanes) { return __builtin_expect(WEAK, 0) ? weak_late(lanes) : 0; }
// Lanes whose two addresses are too far from each other for accesses of up to 32 bytes to meet.
INLINE u32 apart(const U64 &a, const U64 &b) { return ~lt_u64(add_b64(sub_b64(a, b), all64(32)), all64(64)); }

// Call `f(named, lanes)` for each mask that executing lanes hold, with those that hold it: once, where all hold one.
template <class F> INLINE void each_group(u32 mask, const U32 &members, F f) {
    A32 masks = spread(members);
    for (u32 left = mask; left;) {
        u32 named = masks.e[__builtin_ctz(left)], lanes = left & eq_b32(members, all32(named));
        f(named, lanes);
        left &= ~lanes;
    }
}

INLINE void warp_sync(Warp &w, u32 mask, const U32 &members, bool orders) {
    if (__builtin_expect(WATCHING, 0) && mask) watch_members(w, mask, members, orders);
    if (__builtin_expect(WEAK, 0) && mask) weak_members(w, mask, members);
    if (__builtin_expect(WEAK, 0) && orders) weak_meeting(w);
}

// Faults end the session. `lanes` tells which thread to name (the first).
[[noreturn]] void fault(Warp &w, u32 lanes, const char *kind, i32 place, const char *message);
// What PTX leaves undefined, or what no kernel may rely on, and what then happens all the same: said once for each
// line. The kinds stand in shadow.h.
enum HazardKind : u32;
void warn(HazardKind kind, i32 place, const char *message);
void absent_members(i32 place, const char *operation, u32 named, u32 absent);
void unnamed_members(i32 place, const char *operation, u32 lanes);
void partial_barrier(u32 missing, i32 place);
u32 active_lanes(Warp &w, u32 lanes, bool asked, i32 place); // `asked`: by the submission itself, not by a header of CUDA
void watchdog(Warp &w, u32 lanes, i32 place); // returns while there is time left

// Calls through registers: the lanes among `left` that hold the same address as the first of them, and that address.
INLINE u32 same_target(u32 left, const U64 &f, u64 &target) {
    target = spread(f).e[__builtin_ctz(left)];
    return left & eq_b64(f, all64(target));
}
// For an address that is no function's, or one's that takes other parameters.
[[noreturn]] void bad_call(Warp &w, u32 lanes, u64 target, bool function, i32 place);

// Memory. T is U32 for elements up to 4 bytes, else U64; out and in have PARTS packs.
template <int BYTES> struct Element {
    typedef U32 T;
};
template <> struct Element<8> {
    typedef U64 T;
};
// Stop where one of these addresses is no multiple of `bytes`.
void check_alignment(Warp &w, u32 mask, const U64 &address, int bytes, const Site &site, bool writes);
// `used`: the lanes that go on to use what they load.
template <int BYTES, int PARTS>
void load(Warp &w, u32 mask, const U64 &address, Site &site, typename Element<BYTES>::T *out, u32 used = ~0u);
template <int BYTES, int PARTS>
void store(Warp &w, u32 mask, const U64 &address, Site &site, const typename Element<BYTES>::T *in);

enum Access { LOADED, STORED, UPDATED };
void count_access(Warp &w, u32 mask, const U64 &address, const Site &site, int bytes, Access access);
enum Atomic { A_ADD, A_MIN, A_MAX, A_INC, A_DEC, A_AND, A_OR, A_XOR, A_EXCH, A_CAS, A_FADD, A_SMIN, A_SMAX, A_HADD, A_H2ADD, A_BADD, A_B2ADD };
U32 atomic32(Warp &w, u32 mask, const U64 &address, Site &site, Atomic operation, const U32 &b, const U32 &c);
U64 atomic64(Warp &w, u32 mask, const U64 &address, Site &site, Atomic operation, const U64 &b, const U64 &c);
U32 atomic16(Warp &w, u32 mask, const U64 &address, Site &site, Atomic operation, const U32 &b, const U32 &c);
u32 in_slot(const U64 &address, u64 slot);
// The local window of each lane starts at base + lane * stride; `frame` bytes are taken from it.
U64 local_frame(Warp &w, u32 mask, u32 bytes, i32 place);
// Of lanes that want different sizes each gets the largest: all lanes of a warp have one height.
U64 take_local(Warp &w, u32 mask, const U64 &bytes, u32 align, i32 place);
void give_local(Warp &w, u32 mask, const U64 &top);

// Kernel parameters are the same for all lanes.
template <int BYTES> INLINE u64 parameter(Warp &w, u32 offset) {
    u64 r = 0;
    __builtin_memcpy(&r, w.parameters + offset, BYTES);
    return r;
}

// Parameters and results of a device function: bytes for each lane.
template <int SIZE> struct Slot {
    alignas(16) u8 bytes[LANES][(SIZE + 15) / 16 * 16];
};
INLINE void slot_store(u8 *slot, u32 stride, u32 offset, u32 size, u32 mask, U32 x) {
    A32 a = spread(x);
    for (int i = 0; i < LANES; i++)
        if (mask >> i & 1) __builtin_memcpy(slot + i * stride + offset, &a.e[i], size);
}
INLINE void slot_store(u8 *slot, u32 stride, u32 offset, u32 size, u32 mask, U64 x) {
    A64 a = spread(x);
    for (int i = 0; i < LANES; i++)
        if (mask >> i & 1) __builtin_memcpy(slot + i * stride + offset, &a.e[i], size);
}
INLINE U32 slot_load32(const u8 *slot, u32 stride, u32 offset, u32 size) {
    A32 a = {};
    for (int i = 0; i < LANES; i++) __builtin_memcpy(&a.e[i], slot + i * stride + offset, size);
    return gather(a);
}
INLINE U64 slot_load64(const u8 *slot, u32 stride, u32 offset, u32 size) {
    A64 a = {};
    for (int i = 0; i < LANES; i++) __builtin_memcpy(&a.e[i], slot + i * stride + offset, size);
    return gather(a);
}

// Warp-wide operations (warp.cpp). `mask` are the lanes that execute, `members` each lane's own member mask.
enum Shuffle { IDX, UP_, DOWN_, BFLY };
U32 shuffle(Warp &w, u32 mask, Shuffle mode, const U32 &value, const U32 &b, const U32 &c, const U32 &members, u32 *valid, i32 place);
enum Vote { ALL, ANY, UNI };
u32 vote(Warp &w, u32 mask, Vote mode, u32 predicate, const U32 &members, i32 place);
U32 ballot(Warp &w, u32 mask, u32 predicate, const U32 &members, i32 place);
U32 match_any(Warp &w, u32 mask, const U32 &value, const U32 &members, i32 place);
U32 match_any(Warp &w, u32 mask, const U64 &value, const U32 &members, i32 place);
U32 match_all(Warp &w, u32 mask, const U32 &value, const U32 &members, u32 *same, i32 place);
U32 match_all(Warp &w, u32 mask, const U64 &value, const U32 &members, u32 *same, i32 place);
U32 reduce(Warp &w, u32 mask, Atomic operation, const U32 &value, const U32 &members, i32 place);
U32 elect(Warp &w, u32 mask, const U32 &members, u32 *leads, i32 place);

// Barriers: called with every live lane of the warp arrived. Returns the reduction of the votes for bar.red.
enum Reduction { NO_REDUCTION, POPC, AND, OR };
// Faults where lanes of one warp wait at barriers of different lines.
void diverged(Warp &w, u32 lanes, u32 others, i32 place, i32 other_place);
u32 barrier(Warp &w, u32 number, u32 threads, Reduction reduction, u32 predicate, bool wait, i32 place, bool aligned = false);

void device_printf(Warp &w, u32 mask, const U64 &format, const U64 &arguments, U32 *count, i32 place);
[[noreturn]] void device_assert(Warp &w, u32 mask, const u8 *slots[], const u32 strides[], i32 place);
U64 device_malloc(Warp &w, u32 mask, const U64 &size);
void device_free(Warp &w, u32 mask, const U64 &address, i32 place);
void discard(Warp &w, u32 mask, const U64 &address, Site &site); // 128 bytes become undefined
// Special registers that the ISA leaves to the machine (registers.cpp).
enum FreeRegister { WARPID, NWARPID, SMID, NSMID };
U32 free_register(Warp &w, FreeRegister which);
U64 clock_register(Warp &w);
U64 timer_register(Warp &w);
U64 grid_register();

// Lanes that wait to run, by block of the flow graph; the lowest block runs first. `parked` lanes wait at a barrier
// for the rest of their warp, and go on at the block behind it.
template <int BLOCKS> struct Pending {
    enum { WORDS = (BLOCKS + 63) / 64 };
    u64 any[WORDS] = {};
    u32 lanes[BLOCKS] = {};
    u32 behind[BLOCKS] = {};
    u32 parked = 0;
    int next = BLOCKS; // lowest pending block, BLOCKS for none
    int turn = 0;

    inline __attribute__((always_inline)) void add(int block, u32 mask) {
        any[block / 64] |= 1ull << (block % 64);
        lanes[block] |= mask;
        if (block < next) next = block;
    }
    // Take the lanes of the lowest pending block, which is stored in `block`.
    inline u32 take(int &block) {
        block = next;
        u32 mask = lanes[block];
        lanes[block] = 0;
        any[block / 64] &= ~(1ull << (block % 64));
        find();
        return mask;
    }
    // Take the next in turn instead: for lanes that spin on what diverged lanes of their own warp must do.
    inline u32 take_turn(int &block) {
        do turn = turn + 1 < BLOCKS ? turn + 1 : 0;
        while (!(any[turn / 64] >> (turn % 64) & 1));
        block = turn;
        u32 mask = lanes[block];
        lanes[block] = 0;
        any[block / 64] &= ~(1ull << (block % 64));
        find();
        return mask;
    }
    inline void find() {
        next = BLOCKS;
        for (int word = 0; word < WORDS; word++)
            if (any[word]) {
                next = word * 64 + __builtin_ctzll(any[word]);
                break;
            }
    }
    inline void park(int block, u32 mask) {
        behind[block] |= mask;
        parked |= mask;
    }
    inline void unpark() {
        for (int block = 0; block < BLOCKS; block++)
            if (behind[block]) {
                add(block, behind[block]);
                behind[block] = 0;
            }
        parked = 0;
    }
};

// Whether the blocks that live at once wait for ever: all that they are is as it was some rounds ago. Part of turns.h.
//
// Without a drawn schedule and in one memory a round, in which each of them has its turn, follows from what there is in
// memory, in registers and on stacks. Where all that comes back, and nothing else was done that this does not show, so
// does what followed, again and again. A loop that counts, or looks at a clock, is told from that.
#pragma once

namespace {

u64 hashed(u64 sum, const void *from, u64 bytes) {
    const u8 *at = (const u8 *)from;
    for (u64 word; bytes >= 8; at += 8, bytes -= 8) {
        memcpy(&word, at, 8);
        sum = (sum ^ word) * 0x9e3779b97f4a7c15ull;
        sum ^= sum >> 29;
    }
    for (; bytes; at++, bytes--) sum = (sum ^ *at) * 0x100000001b3ull;
    return sum;
}
u64 hashed_memory(u64 sum, u64 &bytes) {
    auto add = [&](const void *from, u64 many) { sum = hashed(sum, from, many), bytes += many; };
    for (u64 number = HEAP_SLOT; number < SLOT_COUNT; number++)
        if (SLOTS[number].size && !SLOTS[number].constant) add((const void *)SLOTS[number].low, least(SLOTS[number].size, SLOTS[number].mapped));
    for (u64 i = 0; i < RESIDENT_COUNT; i++)
        if (RESIDENTS[i].taken) add(i == CURRENT ? (const u8 *)SLOTS[SHARED_SLOT].low : RESIDENTS[i].shared, LAUNCH.shared_bytes);
    return sum;
}

#if defined(__x86_64__)
// Of all that blocks are while no other one begins and none ends. Who waits at a barrier is as it was.
u64 state_of_all(u64 &bytes) {
    u64 sum = hashed_memory(BARRIERS_PASSED ^ UNSEEN << 20, bytes);
    if (LOCAL_STRIDE) {
        u64 local = RESIDENT_COUNT * BLOCK.warp_count * LANES * LOCAL_STRIDE;
        sum = hashed(sum, (const void *)SLOTS[LOCAL_SLOT].low, local);
        bytes += local;
    }
    for (u64 i = 0; i < RESIDENT_COUNT; i++) {
        if (!RESIDENTS[i].taken) continue;
        const Warp *warps = i == CURRENT ? WARPS : RESIDENTS[i].warps;
        sum = hashed(sum, i == CURRENT ? ARRIVED : RESIDENTS[i].arrived, sizeof ARRIVED);
        bytes += sizeof ARRIVED;
        for (u32 j = 0; j < BLOCK.warp_count; j++) {
            const Warp &w = warps[j];
            u64 said[] = {(u64)(i64)w.waits_at, w.live, w.leaving, w.local_top, (u64)w.fuel, (u64)w.saved};
            sum = hashed(sum, said, sizeof said);
            if (w.waits_at != -1) continue;
            u64 stack = (u64)(w.stack + w.stack_bytes - (u8 *)w.saved);
            sum = hashed(sum, w.saved, stack);
            bytes += stack;
        }
    }
    return sum;
}
enum : bool { STATE_IS_KNOWN = true };
#else
u64 state_of_all(u64 &) { return 0; }
enum : bool { STATE_IS_KNOWN = false };
#endif

// To look costs as much as so many bytes are gone through, of which each turn in vain pays for some: then it never
// takes longer than the waiting.
enum : u64 { BYTES_OF_A_TURN = 4096, ROUNDS_LOOKED_AT = 32 };
bool STANDS_STILL; // the next one that spins says so

struct Standstill {
    u64 passed = 0, paid = 0, cost = 0;
    u64 first = 0, looks = 0; // the state at the first look, and how many are left that are compared with it

    // A round is over in which no block began or ended.
    void look() {
        if (BARRIERS_PASSED != passed) *this = {BARRIERS_PASSED};
        paid += LIVING * BYTES_OF_A_TURN;
        if (!STATE_IS_KNOWN || WEAK || STANDS_STILL) return;
        u64 bytes = 0;
        if (looks) {
            STANDS_STILL = state_of_all(bytes) == first;
            looks--;
        } else if (paid >= cost * (1 + ROUNDS_LOOKED_AT)) {
            first = state_of_all(bytes);
            cost = bytes;
            looks = ROUNDS_LOOKED_AT;
            paid = paid > cost * (1 + ROUNDS_LOOKED_AT) ? paid - cost * (1 + ROUNDS_LOOKED_AT) : 0;
        }
    }
};

// What waits like that does so on every GPU, unless that has room for the blocks that are to come: so many are more than
// the largest has multiprocessors for.
[[noreturn]] void stands_still(Warp &w, u32 lanes, i32 place) {
    name_other_block();
    if (!BLOCKS_BEHIND) fault(w, lanes, "endless_wait", place, "runs without end: all that still run do the same again and again, and no thread writes anything new");
    u64 most = most_of_gpu(), all = LIVING + BLOCKS_BEHIND;
    bool held = RESIDENT_COUNT >= most, nowhere = held && all > most + most / 2;
    format(FAULT.message, "waits without end: all of the %llu blocks that had begun and not ended do, while %llu had not begun%s",
           (unsigned long long)LIVING, (unsigned long long)BLOCKS_BEHIND,
           nowhere ? ", which a GPU has no room for before one of them ends" : held ? "" : ", for which the simulator has no memory");
    fault(w, lanes, nowhere ? "endless_wait" : held ? "no_room" : "not_held", place, FAULT.message);
}

} // namespace

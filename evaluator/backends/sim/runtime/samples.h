// Buffers that are too large to travel: what is to be known of all of their elements, and some elements by themselves.
// A part of runtime.cpp.
#pragma once
#include "pipe.h"
#include <sys/mman.h>

namespace {

enum : u64 { ELEMENTS = ~0ull }; // in the place of a run's number of buffers: asks for elements of the last run
enum : u64 { HUGE_BYTES = 4 << 20 }; // from here on pages of 2 MiB are worth asking for: a tenth of the time for a fault

struct Sample {
    u64 slot;
    u8 *piece; // what an input's repeated piece held; null for an output
    u64 bytes;
};
Sample SAMPLES[SLOT_COUNT];
u64 SAMPLE_COUNT;

void forget_samples() {
    for (u64 i = 0; i < SAMPLE_COUNT; i++) free(SAMPLES[i].piece);
    SAMPLE_COUNT = 0;
}

// Look at this slot when the run is over. `bytes`: of the piece that an input repeats; 0 for an output.
void sample_slot(u64 slot, u64 bytes) {
    Sample &s = SAMPLES[SAMPLE_COUNT++] = {slot, nullptr, bytes};
    if (!bytes) {
        if (SLOTS[slot].mapped >= HUGE_BYTES) madvise((void *)slot_address(slot), SLOTS[slot].mapped, MADV_HUGEPAGE);
        return;
    }
    s.piece = (u8 *)malloc(bytes);
    if (!s.piece) out_of_memory("a copy of an input's piece", bytes);
    memcpy(s.piece, (void *)SLOTS[slot].low, bytes);
}

// The first byte of an input's piece that changed, or -1.
u64 changed_byte(const Sample &s) {
    const u8 *now = (const u8 *)SLOTS[s.slot].low;
    if (!memcmp(now, s.piece, s.bytes)) return ~0ull;
    u64 i = 0;
    while (now[i] == s.piece[i]) i++;
    return i;
}

template <class T> u64 count_poison(const SlotInfo &slot, u8 *bits) {
    const T *p = (const T *)slot.low;
    T poison;
    memset(&poison, OUTPUT_POISON, sizeof poison);
    u64 items = slot.size / sizeof(T), found = 0;
    if (!bits) {
        for (u64 i = 0; i < items; i++) found += p[i] == poison;
        return found;
    }
    for (u64 i = 0; i < items; i++)
        if (p[i] == poison) bits[i / 8] |= 1 << i % 8;
    return 0;
}

// How many elements hold nothing but poison; with `bits`, which ones instead.
u64 poisoned(const SlotInfo &slot, u8 *bits) {
    switch (slot.item) {
    case 1: return count_poison<u8>(slot, bits);
    case 2: return count_poison<u16>(slot, bits);
    case 4: return count_poison<u32>(slot, bits);
    case 8: return count_poison<u64>(slot, bits);
    }
    _exit(4);
}

void put_samples() {
    for (u64 i = 0; i < SAMPLE_COUNT; i++) {
        const Sample &s = SAMPLES[i];
        if (s.piece) {
            put(changed_byte(s));
            continue;
        }
        const SlotInfo &slot = SLOTS[s.slot];
        u64 found = poisoned(slot, nullptr);
        put(found);
        if (!found) continue;
        u64 bytes = (slot.size / slot.item + 7) / 8;
        u8 *bits = (u8 *)calloc(bytes, 1);
        if (!bits) _exit(4);
        poisoned(slot, bits);
        write_all(bits, bytes);
        free(bits);
    }
}

// Of one buffer of the last run, in the order in which they are asked for.
void give_elements() {
    u64 slot = BUFFER_SLOT + get(), count = get();
    if (slot >= SLOT_COUNT || count > 1ull << 32) _exit(4);
    u64 item = SLOTS[slot].item, items = item ? SLOTS[slot].size / item : 0;
    u64 *wanted = (u64 *)malloc(count * 8 + 8);
    u8 *found = (u8 *)malloc(count * item + 8);
    if (!wanted || !found) _exit(4);
    read_all(wanted, count * 8);
    for (u64 i = 0; i < count; i++) {
        if (wanted[i] >= items) _exit(4);
        memcpy(found + i * item, (u8 *)SLOTS[slot].low + wanted[i] * item, item);
    }
    write_all(found, count * item);
    free(wanted);
    free(found);
}

} // namespace

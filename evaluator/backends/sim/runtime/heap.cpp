// The device heap: malloc and free of kernels (CUDA C++ Programming Guide, section 10.34). Blocks lie one behind the
// other, and freed ones are handed out again only when there is no room behind them, so a use after free is found.
#include "shadow.h"

namespace {

// A GPU's default heap has 8 MiB. The gap between two blocks is nobody's, so an overrun does not fall into a neighbour.
enum : u64 { GRAIN = 16, GAP = 64, MOST_BYTES = 8 << 20, ROOM = MOST_BYTES / GRAIN * (GRAIN + GAP), HEAP_BYTES = 2 * ROOM };
struct HeapBlock {
    u32 grain; // where it begins, in units of GRAIN
    u32 size : 31, freed : 1;
};
HeapBlock BLOCKS[HEAP_BYTES / (GRAIN + GAP)];
u32 COUNT;
u64 TOP, LIVE_BYTES; // where the next block begins, from the heap's start; bytes of blocks that were not freed

u64 start_of(const HeapBlock &block) { return slot_address(HEAP_SLOT) + block.grain * GRAIN; }

u64 taken_by(u64 size) { return size ? (size + GRAIN - 1) & ~(GRAIN - 1) : GRAIN; }

// Take back the room behind the last block in use.
void reclaim() {
    while (COUNT && BLOCKS[COUNT - 1].freed) COUNT--;
    TOP = COUNT ? BLOCKS[COUNT - 1].grain * GRAIN + taken_by(BLOCKS[COUNT - 1].size) + GAP : 0;
}

// The block that begins last at or before `address`; null where there is none.
HeapBlock *block_before(u64 address) {
    u32 low = 0, high = COUNT;
    while (low < high) {
        u32 middle = (low + high) / 2;
        if (start_of(BLOCKS[middle]) <= address) low = middle + 1;
        else high = middle;
    }
    return low ? &BLOCKS[low - 1] : nullptr;
}

} // namespace

// Module variables live from run to run, so what they point to does too; only a heap full of leaks starts anew.
void begin_heap() {
    if (HEAP_BYTES - TOP < ROOM) reclaim();
    if (LIVE_BYTES > MOST_BYTES / 2 || HEAP_BYTES - TOP < ROOM) COUNT = 0, TOP = LIVE_BYTES = 0;
}

HeapPlace heap_place(u64 address) {
    const HeapBlock *block = block_before(address);
    if (!block) return {slot_address(HEAP_SLOT), 0, false};
    return {start_of(*block), block->size, (bool)block->freed};
}

U64 device_malloc(Warp &w, u32 mask, const U64 &size) {
    map_slot(HEAP_SLOT, HEAP_BYTES, "the device heap", 1, false);
    A64 bytes = spread(size), r = {};
    UNSEEN++;
    for (u32 lane = 0; lane < LANES; lane++) {
        if (!(mask >> lane & 1) || bytes.e[lane] > MOST_BYTES) continue; // null, as on a GPU
        u64 taken = taken_by(bytes.e[lane]);
        if (TOP + taken + GAP > HEAP_BYTES) reclaim();
        if (LIVE_BYTES + taken > MOST_BYTES || TOP + taken + GAP > HEAP_BYTES) continue;
        r.e[lane] = slot_address(HEAP_SLOT) + TOP;
        make_undefined((void *)r.e[lane], taken);
        if (WATCHING) watch_undefined(r.e[lane], taken);
        BLOCKS[COUNT++] = {(u32)(TOP / GRAIN), (u32)bytes.e[lane], 0};
        LIVE_BYTES += taken;
        TOP += taken + GAP;
    }
    return gather(r);
}

void device_free(Warp &w, u32 mask, const U64 &address, i32 place) {
    A64 a = spread(address);
    UNSEEN++;
    for (u32 lane = 0; lane < LANES; lane++) {
        if (!(mask >> lane & 1) || !a.e[lane]) continue; // free(nullptr) does nothing
        const SlotInfo *slot = slot_of(a.e[lane]);
        HeapBlock *block = slot == &SLOTS[HEAP_SLOT] ? block_before(a.e[lane]) : nullptr;
        if (block && start_of(*block) == a.e[lane] && !block->freed) {
            block->freed = 1;
            LIVE_BYTES -= taken_by(block->size);
            continue;
        }
        u64 offset = block ? a.e[lane] - start_of(*block) : 0;
        if (block && !offset) format(FAULT.message, "freed a block of %u bytes twice", block->size);
        else if (block && offset < block->size)
            format(FAULT.message, "freed byte %llu of a block of %u bytes: only its start can be freed",
                   (unsigned long long)offset, block->size);
        else if (slot && slot->size && slot != &SLOTS[HEAP_SLOT]) format(FAULT.message, "freed a pointer into %.100s, which malloc did not return", slot->name);
        else format(FAULT.message, "freed address 0x%llx, which malloc did not return", (unsigned long long)a.e[lane]);
        fault(w, 1u << lane, "bad_free", place, FAULT.message);
    }
}

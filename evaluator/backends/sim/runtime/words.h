// Words of memory that somebody has stored to, who did, and what is kept of them by block. A part of weak_memory.cpp.
#pragma once
#include "causality.h"
#include "shadow.h"
#include "weak_memory.h"

namespace {

// A multiprocessor's first cache fetches sectors of 32 bytes (CUDA C++ Best Practices Guide, 10.2.1). It has thousands;
// so few make some go again, as other blocks on the same multiprocessor would.
enum : u64 { WORD = 4, SECTOR_BYTES = 32, SECTORS = 64 };
// More words than these are not followed: then everything is performed at once, which is allowed too.
enum : u64 { MOST_WORDS = 1 << 18, BUCKETS = 1 << 16, MOST_FINDINGS = 16, LAST_READS = 1 << 12 };
// Up to how many words plain reads are followed too, of what nobody has stored to yet.
enum : u64 { READ_WORDS = 1 << 12 };
// How often who polls finds what is pending elsewhere, and a sector that is read again has gone: once in so many.
enum : u64 { FOUND_IN = 4, GONE_IN = 32 };

struct Author {
    BlockView *view;
    u32 thread; // linear, in its block
    i32 place;
    Act act;
    bool strong, of_block; // of_block: its scope is the block, so it is announced to no other
    bool synchronises, acquires;
    u32 tick;
    Release narrow, wide; // what its thread has released to its own block, and to all
    const VectorClock *sequenced; // its last `fence.sc`
};
// Who has read the latest of a word by a strong access.
struct Reader {
    const BlockView *view;
    u32 thread, tick;
};
enum : u32 { MOST_READERS = 3, TOO_MANY = ~0u };
struct StoreEntry;
// A word of global memory that somebody has stored to in this launch.
struct Word {
    u64 address;
    Word *next;       // of its bucket
    StoreEntry *pending; // of all blocks
    Author last, prior; // whose store was performed last, and whose before that
    u32 version;      // stores performed
    u8 before[WORD];  // what it was before the last of them
    Reader readers[MOST_READERS];
    u32 reader_count; // of the latest
    const VectorClock *sequenced, *owed; // `fence.sc` that stand before reads of the latest, and of what was before
};
// What one block has stored there and others do not see yet.
struct StoreEntry {
    Word *word;
    StoreEntry *next;            // of the word, or free
    StoreEntry *before, *behind; // of the block
    Author author;
    u32 epoch, warps; // the first store's epoch, and who has stored
    u8 mask, bytes[WORD];
    bool due;        // before the next store of the block that others see
    bool read_first; // by the same thread, when the word had `version`
    u32 version;
    u64 access; // which store of a thread; its words are performed as one (PTX ISA 9.0, section 8.2.1)
};
struct Sector {
    u64 address; // 0: nothing
    u8 bytes[SECTOR_BYTES];
};

} // namespace

struct BlockView {
    u64 number;
    u32 id[3];
    u32 epoch; // goes on with everything by which threads of the block may synchronise
    StoreEntry *first;
    u64 due;
    Sector *sectors; // nullptr when the block is over
    Word *shared;    // of its shared memory
    Causality causality;
    BlockView *next; // of the launch
};

namespace {

u64 SEED, DRAWS, POINT_DRAWS, STYLE, KERNEL_NUMBER, ACCESSES; // stores that stayed
bool CACHES, EARLY, AT_ONCE; // AT_ONCE: all is performed at once, in the order that the draw has without that
Word *WORDS, *TABLE[BUCKETS];
StoreEntry *ENTRIES, *FREE_ENTRIES;
u64 WORD_COUNT, ENTRY_COUNT;
BlockView *VIEWS;

// The last strong reads: where a store of the same thread to the same word finds its own, it knows what came between.
struct StrongRead {
    u64 address;
    const BlockView *view;
    u32 thread, version;
};
StrongRead READS[LAST_READS];

Hazard FINDINGS[MOST_FINDINGS];
u32 FINDING_COUNT;
bool POLLED[MOST_FINDINGS]; // by a strong read: who polls looks again, so a plain one says more

u64 mixed(u64 x) { // SplitMix64
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}
u64 drawn(u64 below) { return mixed(DRAWS++) % below; }

bool is_slot(u64 address, u64 slot) { return (address - SLOT_BASE) >> SLOT_SHIFT == slot; }
bool is_global(u64 address) {
    u64 slot = (address - SLOT_BASE) >> SLOT_SHIFT;
    return slot >= MODULE_SLOT && slot < SLOT_COUNT && !SLOTS[slot].constant;
}
bool is_wide(const Site &site) { return site.strength != PLAIN && !(site.semantics & OF_BLOCK); }

Word *word_at(u64 address, bool make) {
    Word *&bucket = TABLE[mixed(address) % BUCKETS];
    for (Word *word = bucket; word; word = word->next)
        if (word->address == address) return word;
    if (!make || WORD_COUNT == MOST_WORDS) return nullptr;
    Word *word = &WORDS[WORD_COUNT++];
    memset((void *)word, 0, sizeof *word);
    word->address = address;
    word->next = bucket;
    return bucket = word;
}
StoreEntry *entry_of(const Word *word, const BlockView *view) {
    StoreEntry *p = word ? word->pending : nullptr;
    while (p && p->author.view != view) p = p->next;
    return p;
}

Author author(const Warp &w, u32 lane, const Site &site, Act act) {
    BlockView *view = w.block->view;
    Author by = {view, w.index * LANES + lane, site.place, act, is_wide(site), (site.semantics & OF_BLOCK) != 0};
    by.synchronises = site.strength != PLAIN || act == ATOMIC;
    by.acquires = site.semantics & ACQUIRES;
    by.tick = NOW;
    if (act == READ) return by;
    const ThreadClock &t = view->causality.threads[by.thread];
    Release now = {t.part[HAS], NOW};
    bool releases = site.semantics & RELEASES;
    by.narrow = releases ? now : Release{t.part[FENCED_BLOCK], t.own[FENCED_BLOCK]};
    by.wide = releases && !by.of_block ? now : Release{t.part[FENCED_WIDE], t.own[FENCED_WIDE]};
    by.sequenced = t.part[SEQUENCED];
    view->causality.dirty |= 1u << w.index;
    return by;
}
ThreadClock &clock_of(const Author &by) { return by.view->causality.threads[by.thread]; }
Party side(const Author &a) {
    Party p = {};
    if (!a.view) return p;
    const u32 *extent = LAUNCH.block;
    p.thread[0] = a.thread % extent[0];
    p.thread[1] = a.thread / extent[0] % extent[1];
    p.thread[2] = a.thread / extent[0] / extent[1];
    memcpy(p.block, a.view->id, sizeof p.block);
    p.place = a.place;
    p.act = a.act;
    return p;
}

// One of each kind for each pair of lines.
void note(HazardKind kind, const Author &here, const Author &other, u64 address, int bytes) {
    if (!other.view) return;
    for (u32 i = 0; i < FINDING_COUNT; i++) {
        const Hazard &h = FINDINGS[i];
        if (h.kind == kind && h.kernel == KERNEL_NUMBER && same_line(h.here.place, here.place) && same_line(h.other.place, other.place)) return;
    }
    if (FINDING_COUNT == MOST_FINDINGS) return;
    bool polls = here.synchronises && kind == STALE;
    u32 at = FINDING_COUNT++;
    for (; at && !polls && POLLED[at - 1]; at--) FINDINGS[at] = FINDINGS[at - 1], POLLED[at] = true;
    POLLED[at] = polls;
    Hazard &h = FINDINGS[at];
    memset(&h, 0, sizeof h);
    h.kind = kind;
    h.kernel = (u32)KERNEL_NUMBER;
    h.here = side(here);
    h.other = side(other);
    h.slot = (u32)((address - SLOT_BASE) >> SLOT_SHIFT);
    h.offset = address - SLOTS[h.slot].low;
    h.bytes = (u64)bytes;
}

// Call `f(address of the word, bits of it, offset, count)` for each word that `bytes` bytes at `address` touch.
template <class F> void each_word(u64 address, int bytes, F f) {
    for (int done = 0; done < bytes;) {
        u64 at = address + (u64)done, in_word = at % WORD, count = WORD - in_word;
        if (count > (u64)(bytes - done)) count = (u64)(bytes - done);
        f(at - in_word, ((1u << count) - 1) << in_word, done, (int)count);
        done += (int)count;
    }
}

Word *shared_word(BlockView *view, u64 address) {
    u64 number = (address - SLOTS[SHARED_SLOT].low) / WORD;
    if (!view->shared || number > LAUNCH.shared_bytes / WORD) return nullptr;
    view->shared[number].address = address;
    return &view->shared[number];
}

Sector *sector_of(BlockView *view, u64 address) {
    if (!view->sectors) return nullptr;
    u64 number = address / SECTOR_BYTES;
    return &view->sectors[mixed(number) % SECTORS];
}
// What the block keeps of these bytes shall be as they are now.
void refresh(BlockView *view, u64 address, u32 mask, const u8 *bytes) {
    Sector *sector = sector_of(view, address);
    if (!sector || sector->address != address / SECTOR_BYTES * SECTOR_BYTES) return;
    for (u32 i = 0; i < WORD; i++)
        if (mask >> i & 1) sector->bytes[address % SECTOR_BYTES + i] = bytes[i];
}
void drop_sector(BlockView *view, u64 address) {
    Sector *sector = sector_of(view, address);
    if (sector && sector->address == address / SECTOR_BYTES * SECTOR_BYTES) sector->address = 0;
}

} // namespace

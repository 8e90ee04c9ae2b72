// What blocks have stored and others do not see yet, and the sectors that they keep. A part of weak_memory.cpp.
#pragma once
#include "shadow.h"
#include "weak_memory.h"

namespace {

// A multiprocessor's first cache fetches sectors of 32 bytes (CUDA C++ Best Practices Guide, 10.2.1). It has thousands;
// so few make some go again, as other blocks on the same multiprocessor would.
enum : u64 { WORD = 4, SECTOR_BYTES = 32, SECTORS = 64 };
// More words than these are not followed: then everything is performed at once, which is allowed too.
enum : u64 { MOST_WORDS = 1 << 18, BUCKETS = 1 << 16, MOST_FINDINGS = 16, LAST_READS = 1 << 12 };
// How often who polls finds what is pending elsewhere, and a sector that is read again has gone: once in so many.
enum : u64 { FOUND_IN = 4, GONE_IN = 32 };

struct Author {
    BlockView *view;
    u32 thread; // linear, in its block
    i32 place;
    Act act;
    bool strong, of_block; // of_block: its scope is the block, so it is announced to no other
};
struct StoreEntry;
// A word of global memory that somebody has stored to in this launch.
struct Word {
    u64 address;
    Word *next;       // of its bucket
    StoreEntry *pending; // of all blocks
    Author last;      // whose store was performed last
    u32 version;      // stores performed
    u8 before[WORD];  // what it was before the last of them
    u64 performed;    // when that was
    u64 known;        // blocks that know the latest, a bit for each number modulo 64
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
    u64 acquired; // when its threads executed the last acquire or fence that others' stores are ordered by
    Sector *sectors; // nullptr when the block is over
    BlockView *next; // of the launch
};

namespace {

u64 SEED, DRAWS, STYLE, KERNEL_NUMBER, ACCESSES, PERFORMED; // stores that stayed; stores that were performed, by which time is measured
bool CACHES, EARLY;
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

u64 mixed(u64 x) { // SplitMix64
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}
u64 drawn(u64 below) { return mixed(DRAWS++) % below; }

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
    *word = {address, bucket, nullptr, {}, 0, {}, 0, 0};
    return bucket = word;
}
StoreEntry *entry_of(const Word *word, const BlockView *view) {
    StoreEntry *p = word ? word->pending : nullptr;
    while (p && p->author.view != view) p = p->next;
    return p;
}

Author author(const Warp &w, u32 lane, const Site &site, Act act) {
    return {w.block->view, w.index * LANES + lane, site.place, act, is_wide(site), (site.semantics & OF_BLOCK) != 0};
}
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
    Hazard &h = FINDINGS[FINDING_COUNT++];
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

void forget(StoreEntry *p) {
    StoreEntry **link = &p->word->pending;
    while (*link != p) link = &(*link)->next;
    *link = p->next;
    BlockView *view = p->author.view;
    (p->before ? p->before->behind : view->first) = p->behind;
    if (p->behind) p->behind->before = p->before;
    view->due -= p->due;
    p->next = FREE_ENTRIES;
    FREE_ENTRIES = p;
}

u64 bit_of(const BlockView *view) { return 1ull << view->number % 64; }
// Whether a load of the block may have been performed before the word was stored to: nothing that it has acquired since
// is behind that store, and it has neither stored there nor seen what was.
bool may_be_earlier(const Word *word, const BlockView *view) {
    return word && word->performed > view->acquired && !(word->known & bit_of(view));
}
void acquire(BlockView *view) {
    for (u64 i = 0; view->sectors && i < SECTORS; i++) view->sectors[i].address = 0;
    view->acquired = PERFORMED;
}

// A store of these bytes of a word becomes what all see.
void perform(Word *word, const Author &by, u32 mask, const u8 *bytes, bool read_first, u32 version) {
    u8 *memory = (u8 *)word->address;
    bool differs = false;
    for (u32 i = 0; i < WORD; i++) differs |= (mask >> i & 1) && memory[i] != bytes[i];
    if (read_first && version != word->version && word->last.view != by.view && differs)
        note(LOST, by, word->last, word->address, WORD);
    memcpy(word->before, memory, WORD);
    for (u32 i = 0; i < WORD; i++)
        if (mask >> i & 1) memory[i] = bytes[i];
    word->performed = ++PERFORMED;
    word->known = bit_of(by.view);
    word->version++;
    word->last = by;
    refresh(by.view, word->address, mask, bytes);
}
// The other half of what one store of eight bytes left.
StoreEntry *other_half(const StoreEntry *p) {
    StoreEntry *other = entry_of(word_at(p->word->address ^ WORD, false), p->author.view);
    return other && other->access == p->access ? other : nullptr;
}
void land(StoreEntry *p) {
    for (StoreEntry *other = other_half(p); p; p = other, other = nullptr) {
        perform(p->word, p->author, p->mask, p->bytes, p->read_first, p->version);
        forget(p);
    }
}
void land_due(BlockView *view) {
    for (StoreEntry *p = view->first; p && view->due;) {
        StoreEntry *behind = p->behind;
        if (behind && behind->access == p->access) behind = behind->behind;
        if (p->due) land(p);
        p = behind;
    }
}
void land_all(BlockView *view) {
    land_due(view);
    while (view->first) land(view->first);
}
// One that is pending, behind what must come before it.
void land_in_order(StoreEntry *p) {
    bool due = p->due;
    // A strong one that a later fence has made due may come behind others that were due before it.
    if (!p->author.of_block && (!due || p->author.strong)) {
        land_due(p->author.view);
        if (due) return;
    }
    land(p);
}
void land_own(BlockView *view, u64 address, int bytes) {
    each_word(address, bytes, [&](u64 at, u32, int, int) {
        if (StoreEntry *p = entry_of(word_at(at, false), view)) land(p);
    });
}
// Who looks again and again at what others see finds what is pending elsewhere, sooner or later.
void find_others(BlockView *view, u64 address, int bytes) {
    each_word(address, bytes, [&](u64 at, u32, int, int) {
        Word *word = word_at(at, false);
        for (StoreEntry *p = word ? word->pending : nullptr; p;) {
            bool other = p->author.view != view;
            if (!other || drawn(FOUND_IN)) {
                p = p->next;
                continue;
            }
            land_in_order(p);
            p = word->pending; // its neighbours may have gone too
        }
    });
}

// A fence of this warp covers what its lanes have stored, and whatever threads of its block have that may know of it.
void cover(Warp &w) {
    BlockView *view = w.block->view;
    for (StoreEntry *p = view->first; p; p = p->behind) {
        if (p->due || (!(p->warps >> w.index & 1) && p->epoch == view->epoch)) continue;
        p->due = true;
        view->due++;
    }
}

} // namespace

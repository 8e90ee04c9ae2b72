// What blocks have stored and others do not see yet, and the sectors that they keep. A part of weak_memory.cpp.
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

u64 SEED, DRAWS, STYLE, KERNEL_NUMBER, ACCESSES; // stores that stayed
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

void drop_sectors(BlockView *view) {
    for (u64 i = 0; view->sectors && i < SECTORS; i++) view->sectors[i].address = 0;
}

// Whether a load may find what was there before the last store: nothing orders that store before it, and nobody whom it
// knows of has read it.
bool may_be_earlier(const Word *word, const Author &by) {
    const Author &last = word->last;
    if (!CAUSAL || !last.view || (last.view == by.view && last.thread == by.thread) || word->reader_count == TOO_MANY) return false;
    const ThreadClock &t = clock_of(by);
    if (knows(t, last.view->number, last.thread, last.tick)) return false;
    for (u32 i = 0; i < word->reader_count; i++) {
        const Reader &r = word->readers[i];
        if ((r.view == by.view && r.thread == by.thread) || knows(t, r.view->number, r.thread, r.tick)) return false;
    }
    return true;
}

const VectorClock *released(Release &r, const Author &of) {
    if (r.tick) r = {with_tick(r.clock, of.view->number, of.thread, r.tick), 0};
    return r.clock;
}
// A strong read has found what `of` wrote, and with it what that thread had released.
void find(const Author &by, Author &of) {
    if (!of.view || !CAUSAL) return; // its own too: an update hands on what it has found
    bool same = of.view == by.view;
    if (!same && (of.of_block || by.of_block)) return;
    const VectorClock *found = released(same ? of.narrow : of.wide, of);
    if (!found) return;
    ThreadClock &t = clock_of(by);
    const VectorClock *&part = t.part[same ? FOUND_BLOCK : FOUND_WIDE];
    part = joined(found, part);
    if (by.acquires) t.part[HAS] = joined(found, t.part[HAS]);
    by.view->causality.dirty |= 1u << by.thread / LANES;
}
// An update belongs to the release that it finds, and one that leaves what was there releases all the same.
void continue_release(Author &by, Word *word, bool changed) {
    StoreEntry *own = word ? entry_of(word, by.view) : nullptr;
    Author *found = own ? &own->author : word ? &word->last : nullptr;
    if (!found || !CAUSAL) return;
    if (!found->view) {
        if (!changed) *found = by;
        return;
    }
    const VectorClock *narrow = joined(released(found->narrow, *found), released(by.narrow, by));
    const VectorClock *wide = joined(released(found->wide, *found), released(by.wide, by));
    Author &into = changed ? by : *found;
    into.narrow = {narrow, 0};
    into.wide = {wide, 0};
}
// A strong read has found the latest.
void remember(Word *word, const Author &by) {
    if (word->reader_count == TOO_MANY || (word->last.view == by.view && word->last.thread == by.thread)) return;
    for (u32 i = 0; i < word->reader_count; i++)
        if (word->readers[i].view == by.view && word->readers[i].thread == by.thread) return;
    if (word->reader_count == MOST_READERS) word->reader_count = TOO_MANY;
    else word->readers[word->reader_count++] = {by.view, by.thread, NOW};
}

// `fence.sc` of two threads come one after the other. Who fences and then reads before another one writes came first, and
// so did who fences and then writes what another one reads or writes over: the other's next fence has it behind it.
void owe(const Author &by, const VectorClock *fenced) {
    if (fenced) clock_of(by).part[OWED] = joined(fenced, clock_of(by).part[OWED]);
}
void read_latest(Word *word, const Author &by) {
    const VectorClock *fenced = clock_of(by).part[SEQUENCED];
    if (fenced) word->sequenced = joined(fenced, word->sequenced);
    owe(by, word->owed);
    owe(by, word->last.sequenced);
}
bool behind_latest(const Word *word, const BlockView *view, u32 thread) {
    const ThreadClock &t = view->causality.threads[thread];
    const Author &last = word->last;
    bool is = (view == last.view && thread == last.thread) || knows(t, last.view->number, last.thread, last.tick);
    for (u32 i = 0; i < word->reader_count && !is; i++) {
        const Reader &r = word->readers[i];
        is = (view == r.view && thread == r.thread) || knows(t, r.view->number, r.thread, r.tick);
    }
    return is;
}
void read_before(Word *word, const Author &by) {
    owe(by, word->prior.sequenced);
    const VectorClock *fenced = clock_of(by).part[SEQUENCED];
    if (!fenced) return;
    word->owed = joined(fenced, word->owed);
    u32 count = block_threads();
    for (BlockView *view = VIEWS; view; view = view->next) {
        bool behind = false;
        for (u32 i = 0; view->sectors && view != by.view && i < count && !behind; i++) behind = behind_latest(word, view, i);
        for (u32 i = 0; behind && i < count; i++) {
            ThreadClock &t = view->causality.threads[i];
            t.part[HAS] = joined(fenced, t.part[HAS]);
            t.part[OWED] = joined(fenced, t.part[OWED]);
        }
    }
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
    word->version++;
    word->prior = word->last;
    word->last = by;
    word->reader_count = 0;
    word->owed = word->sequenced;
    if (by.view->causality.threads) owe(by, word->owed), owe(by, word->prior.sequenced);
    word->sequenced = nullptr;
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

// What blocks have stored and others do not see yet, and what threads may find of it. A part of weak_memory.cpp.
#pragma once
#include "words.h"

namespace {

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
// Who stores to a part of a word leaves what others have released with other parts.
void keep_releases(Author &latest, Author &earlier) {
    if (!earlier.view || !CAUSAL) return;
    const VectorClock *narrow = joined(released(earlier.narrow, earlier), released(latest.narrow, latest));
    latest.narrow = {narrow, 0};
    const VectorClock *wide = joined(released(earlier.wide, earlier), released(latest.wide, latest));
    latest.wide = {wide, 0};
    latest.sequenced = joined(earlier.sequenced, latest.sequenced);
    latest.of_block &= earlier.of_block;
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
    if (mask != 15) keep_releases(word->last, word->prior);
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

#include "store_buffers.h"
#include <sys/mman.h>

bool WEAK;

namespace {

// Whether a store stays: by its instruction, by that and the block, or by chance.
bool stays(const BlockView *view, const Site &site) {
    if (AT_ONCE) return false;
    bool strong = is_wide(site);
    u64 line = mixed(SEED) ^ (u64)line_of(site.place);
    switch (STYLE) {
    case 0: return !strong;
    case 1: return true;
    case 2: return mixed(line) & 1;
    case 3: return mixed(line ^ view->number << 32) & 1;
    default: return drawn(2);
    }
}

// Whether this thread has read the word with a strong access, and at which version; asked once.
bool was_read(const Author &by, u64 address, u32 &version) {
    StrongRead &read = READS[mixed(address ^ by.view->number << 20 ^ by.thread) % LAST_READS];
    if (read.address != address || read.view != by.view || read.thread != by.thread) return false;
    version = read.version;
    read.address = 0;
    return true;
}

StoreEntry *new_entry() {
    if (StoreEntry *p = FREE_ENTRIES) {
        FREE_ENTRIES = p->next;
        return p;
    }
    return ENTRY_COUNT == MOST_WORDS ? nullptr : &ENTRIES[ENTRY_COUNT++];
}

// The store stays. False where there is no room.
bool keep(const Author &by, u64 access, u64 address, u32 bits, const u8 *bytes) {
    Word *word = word_at(address, true);
    StoreEntry *p = entry_of(word, by.view);
    if (!word) return false;
    if (p && p->due) { // what comes behind a fence does not become part of what stands before it
        land_due(by.view);
        p = nullptr;
    }
    if (!p) {
        if (!(p = new_entry())) return false;
        BlockView *view = by.view;
        *p = {word, word->pending, nullptr, view->first, by, view->epoch, 0, 0, {}, false, false, 0, 0};
        word->pending = p;
        if (view->first) view->first->before = p;
        view->first = p;
    }
    Author before = p->author;
    p->author = by;
    if (p->mask && p->mask != bits) keep_releases(p->author, before);
    p->access = access;
    p->warps |= 1u << by.thread / LANES;
    p->mask |= (u8)bits;
    for (u32 i = 0; i < WORD; i++)
        if (bits >> i & 1) p->bytes[i] = bytes[i];
    p->read_first = by.strong && by.act != ATOMIC && was_read(by, address, p->version);
    refresh(by.view, address, bits, bytes);
    return true;
}

// Too much to be followed: from here on there is one memory for all.
void give_up() {
    weak_settle();
    WEAK = false;
}

void store_now(const Author &by, u64 address, int count, const u8 *fresh) {
    if (!by.of_block) land_due(by.view);
    land_own(by.view, address, count);
    bool followed = true;
    each_word(address, count, [&](u64 at, u32 bits, int from, int some) {
        u8 placed[WORD] = {};
        memcpy(placed + __builtin_ctz(bits), fresh + from, (size_t)some);
        Word *word = word_at(at, true);
        u32 version = 0;
        bool read_first = word && by.strong && by.act != ATOMIC && was_read(by, at, version);
        if (word) perform(word, by, bits, placed, read_first, version);
        else followed = false, memcpy((void *)(address + (u64)from), fresh + from, (size_t)some);
    });
    if (!followed) give_up();
}

void store_view(const Author &by, const Site &site, u64 address, int count, const u8 *fresh) {
    if (!WEAK || !stays(by.view, site)) return store_now(by, address, count, fresh);
    bool kept = true;
    ACCESSES++;
    each_word(address, count, [&](u64 at, u32 bits, int from, int some) {
        u8 placed[WORD] = {};
        memcpy(placed + __builtin_ctz(bits), fresh + from, (size_t)some);
        kept = kept && keep(by, ACCESSES, at, bits, placed);
    });
    if (!kept) {
        give_up();
        store_now(by, address, count, fresh);
    }
}

// Whether a load finds what was there before the last store, where that may be; eight bytes that one store wrote all
// together.
bool was_earlier(const Word *word, const Author &by, u64 draws, u64 at) {
    return word && !(draws >> at / (2 * WORD) % 64 & 1) && may_be_earlier(word, by);
}

// What a load finds in a word that others have stored to; `seen`: what it holds, or what it is made to.
void read_word(Word *word, const Author &by, u32 bits, int some, bool early, bool read_only, u64 draws, u8 *seen) {
    u64 at = word->address;
    const u8 *before = word->before + __builtin_ctz(bits);
    bool always = read_only && !AT_ONCE && word->version && !(draws >> at / (2 * WORD) % 64 & 1);
    bool old = always || (early && was_earlier(word, by, draws, at));
    if (old && !memcmp(seen, (u8 *)at + __builtin_ctz(bits), (size_t)some)) memcpy(seen, before, (size_t)some);
    if (old && !always) read_before(word, by);
    else read_latest(word, by);
    if (!by.synchronises) return;
    find(by, old ? word->prior : word->last);
    if (!old) remember(word, by);
}

// What the block sees of global memory; `wide`: of that which all share, but for what it has stored itself. `early`: the
// load may be performed before others that stand before it. Whether that is what it was.
bool read_view(const Author &by, u64 address, int count, bool wide, bool early, bool read_only, u8 *seen) {
    BlockView *view = by.view;
    bool was_old = false;
    Sector *sector = wide || read_only || !CACHES ? nullptr : sector_of(view, address);
    u64 first = address / SECTOR_BYTES * SECTOR_BYTES; // accesses are aligned, so none reaches beyond its sector
    if (sector && (sector->address != first || !drawn(GONE_IN))) {
        sector->address = first;
        memcpy(sector->bytes, (void *)first, SECTOR_BYTES); // buffers are mapped in whole pages
        each_word(first, SECTOR_BYTES, [&](u64 at, u32, int, int) {
            if (StoreEntry *own = entry_of(word_at(at, false), view)) refresh(view, at, own->mask, own->bytes);
        });
    }
    memcpy(seen, sector ? sector->bytes + address % SECTOR_BYTES : (u8 *)address, (size_t)count);
    u64 draws = early || read_only ? mixed(DRAWS++) : 0;
    bool fenced = clock_of(by).part[SEQUENCED];
    each_word(address, count, [&](u64 at, u32 bits, int from, int some) {
        Word *word = word_at(at, fenced && (by.strong || WORD_COUNT < READ_WORDS));
        if (!word) return;
        StoreEntry *own = entry_of(word, view);
        int in_word = __builtin_ctz(bits);
        bool mine = own && own->author.thread == by.thread;
        read_word(word, by, bits, some, early && !mine, read_only && !own, draws, seen + from);
        for (int i = 0; own && i < some; i++)
            if (own->mask >> (in_word + i) & 1) seen[from + i] = own->bytes[in_word + i];
        if (own && by.synchronises) find(by, own->author);
        bool older = !own && memcmp(seen + from, (u8 *)at + in_word, (size_t)some);
        if (older) note(STALE, by, word->last, address, count);
        was_old |= older;
        for (StoreEntry *p = word->pending; p; p = p->next)
            if (p != own && p->mask & bits && memcmp(seen + from, p->bytes + in_word, (size_t)some)) note(STALE, by, p->author, address, count);
    });
    return was_old;
}

void each_lane(u32 mask, const A64 &address, u32 &global) {
    global = 0;
    for (u32 left = mask; left; left &= left - 1) {
        u32 lane = (u32)__builtin_ctz(left);
        global |= (u32)is_global(address.e[lane]) << lane;
    }
}

// Threads of other blocks, and other warps, may come in between: before plain accesses now and then.
void let_others(Warp &w, const Site &site) {
    if (site.strength == PLAIN && mixed(POINT_DRAWS++) % 4 == 0) point(w);
}

// In shared memory there is one view; but what nothing orders may happen in either order there too.
void load_shared(const Author &by, u64 address, int count, bool early, u8 *seen) {
    u64 draws = mixed(DRAWS++);
    memcpy(seen, (void *)address, (size_t)count);
    each_word(address, count, [&](u64 at, u32 bits, int from, int some) {
        Word *word = shared_word(by.view, at);
        if (!word) return;
        read_word(word, by, bits, some, early, false, draws, seen + from);
        if (memcmp(seen + from, (u8 *)at + __builtin_ctz(bits), (size_t)some)) note(STALE, by, word->last, address, count);
    });
}
void store_shared(const Author &by, u64 address, int count, const u8 *fresh) {
    each_word(address, count, [&](u64 at, u32 bits, int from, int some) {
        u8 placed[WORD] = {};
        memcpy(placed + __builtin_ctz(bits), fresh + from, (size_t)some);
        if (Word *word = shared_word(by.view, at)) perform(word, by, bits, placed, false, 0);
        else memcpy((void *)(address + (u64)from), fresh + from, (size_t)some);
    });
}
// Memory that is not followed has no part in synchronising: then nobody knows what is ordered.
void unfollowed(u64 address, const Site &site, bool atomic) {
    if (is_slot(address, HEAP_SLOT) && (atomic || site.strength != PLAIN)) CAUSAL = false;
}

} // namespace

void weak_load(Warp &w, u32 mask, const A64 &address, const Site &site, int bytes, u8 (*seen)[32]) {
    u32 global;
    each_lane(mask, address, global);
    bool wide = is_wide(site);
    if (global) let_others(w, site);
    BlockView *view = w.block->view;
    if (site.strength != PLAIN) view->epoch++;
    bool acquires = wide && site.semantics & ACQUIRES, early = EARLY && !acquires;
    if (global && acquires) drop_sectors(view);
    for (u32 left = mask; left; left &= left - 1) {
        u32 lane = (u32)__builtin_ctz(left);
        u64 a = address.e[lane];
        Author by = author(w, lane, site, READ);
        if (!(global >> lane & 1)) {
            unfollowed(a, site, false);
            if (is_slot(a, SHARED_SLOT)) load_shared(by, a, bytes, early, seen[lane]);
            else memcpy(seen[lane], (void *)a, (size_t)bytes);
            continue;
        }
        // Who polls with too narrow a scope does not wait without end either: multiprocessors forget what they keep.
        if (site.strength != PLAIN && (wide || !drawn(FOUND_IN))) {
            find_others(view, a, bytes);
            drop_sector(view, a);
        }
        bool old = read_view(by, a, bytes, wide, early, site.semantics & READ_ONLY, seen[lane]);
        if (wide)
            each_word(a, bytes, [&](u64 at, u32, int, int) {
                const Word *word = word_at(at, false);
                READS[mixed(at ^ view->number << 20 ^ by.thread) % LAST_READS] = {at, view, by.thread, word ? word->version - old : 0};
            });
    }
    if (global && acquires) drop_sectors(view); // what was performed for it is ordered before what follows
}

void weak_store(Warp &w, u32 mask, const A64 &address, const Site &site, int bytes, const u8 (*fresh)[32]) {
    u32 global;
    each_lane(mask, address, global);
    bool wide = is_wide(site);
    if (global) let_others(w, site);
    if (wide && site.semantics & RELEASES) cover(w);
    if (site.strength != PLAIN) w.block->view->epoch++;
    for (u32 left = mask; left; left &= left - 1) {
        u32 lane = (u32)__builtin_ctz(left);
        u64 a = address.e[lane];
        unfollowed(a, site, false);
        if (global >> lane & 1) store_view(author(w, lane, site, WRITE), site, a, bytes, fresh[lane]);
        else if (is_slot(a, SHARED_SLOT)) store_shared(author(w, lane, site, WRITE), a, bytes, fresh[lane]);
        else memcpy((void *)a, fresh[lane], (size_t)bytes);
    }
    if (site.semantics & RELEASES) NOW++;
}

void weak_atomics(Warp &w, const Site &site) {
    bool wide = !(site.semantics & OF_BLOCK);
    BlockView *view = w.block->view;
    if (wide && site.semantics & RELEASES) cover(w);
    view->epoch++;
    if (wide) land_due(view);
    if (wide && site.semantics & ACQUIRES) drop_sectors(view);
}

void weak_atomic_read(Warp &w, u32 lane, u64 address, const Site &site, int bytes, void *seen) {
    BlockView *view = w.block->view;
    bool wide = !(site.semantics & OF_BLOCK);
    Author by = author(w, lane, site, ATOMIC);
    if (!is_global(address)) {
        unfollowed(address, site, true);
        if (is_slot(address, SHARED_SLOT)) load_shared(by, address, bytes, false, (u8 *)seen);
        else memcpy(seen, (void *)address, (size_t)bytes);
        return;
    }
    if (wide || !drawn(FOUND_IN)) {
        find_others(view, address, bytes);
        if (wide) land_own(view, address, bytes);
        drop_sector(view, address);
    }
    read_view(by, address, bytes, wide, false, false, (u8 *)seen);
    if (wide && site.semantics & ACQUIRES) drop_sectors(view);
}

void weak_atomic_write(Warp &w, u32 lane, u64 address, const Site &site, int bytes, const void *now, bool changed) {
    bool shared = is_slot(address, SHARED_SLOT), global = is_global(address);
    Author by = author(w, lane, site, ATOMIC);
    if (shared || global)
        each_word(address, bytes, [&](u64 at, u32, int, int) { continue_release(by, shared ? shared_word(by.view, at) : word_at(at, true), changed); });
    if (site.semantics & RELEASES) NOW++;
    if (!changed) return;
    if (shared) store_shared(by, address, bytes, (const u8 *)now);
    else if (!global) memcpy((void *)address, now, (size_t)bytes);
    else if (site.semantics & OF_BLOCK) store_view(by, site, address, bytes, (const u8 *)now);
    else store_now(by, address, bytes, (const u8 *)now);
}

u32 weak_late(u32 lanes) { return !AT_ONCE && drawn(2) ? lanes : 0; }

void weak_meeting(Warp &w) { w.block->view->epoch++; }

void weak_settle() {
    for (BlockView *view = VIEWS; view; view = view->next) {
        land_all(view);
        drop_sectors(view);
    }
}

void weak_run(u64 draw) {
    WEAK = draw != 0;
    AT_ONCE = draw >> 63;
    draw = draw << 1 >> 1;
    SEED = draw;
    DRAWS = mixed(draw);
    POINT_DRAWS = mixed(~draw);
    STYLE = draw % 5;
    CACHES = draw / 5 % 3 != 0 && !AT_ONCE;
    EARLY = draw / 5 % 3 != 1 && !AT_ONCE;
    FINDING_COUNT = 0;
    if (!WEAK || WORDS) return;
    WORDS = (Word *)mmap(nullptr, MOST_WORDS * sizeof(Word), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ENTRIES = (StoreEntry *)mmap(nullptr, MOST_WORDS * sizeof(StoreEntry), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CLOCKS = (u8 *)mmap(nullptr, CLOCK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (WORDS == MAP_FAILED || ENTRIES == MAP_FAILED || CLOCKS == MAP_FAILED) out_of_memory("the simulator's views of memory", MOST_WORDS * (sizeof(Word) + sizeof(StoreEntry)));
}

void weak_launch(u32 kernel) {
    if (!WEAK) return;
    KERNEL_NUMBER = kernel;
    memset(TABLE, 0, sizeof TABLE);
    memset(READS, 0, sizeof READS);
    WORD_COUNT = ENTRY_COUNT = CLOCKS_USED = 0;
    NOW = 1;
    CAUSAL = true;
    FREE_ENTRIES = nullptr;
}

void weak_block(Block &block, u64 number) {
    block.view = nullptr;
    if (!WEAK) return;
    BlockView *view = (BlockView *)calloc(1, sizeof(BlockView));
    Sector *sectors = (Sector *)calloc(SECTORS, sizeof(Sector));
    Word *shared = (Word *)calloc(LAUNCH.shared_bytes / WORD + 1, sizeof(Word));
    ThreadClock *threads = (ThreadClock *)calloc(block_threads() + LANES, sizeof(ThreadClock));
    u32 *ticks = (u32 *)calloc(MEETINGS * TICKED * block_threads(), sizeof(u32));
    if (!view || !sectors || !shared || !threads || !ticks) out_of_memory("the simulator's views of memory", sizeof(BlockView) + SECTORS * sizeof(Sector));
    view->shared = shared;
    view->causality.threads = threads;
    view->causality.ticks = ticks;
    view->number = number;
    memcpy(view->id, block.id, sizeof view->id);
    view->sectors = sectors;
    view->next = VIEWS;
    block.view = VIEWS = view;
}

void weak_block_over(Block &block) {
    BlockView *view = block.view;
    if (!view) return;
    free(view->sectors);
    free(view->shared);
    free(view->causality.threads);
    free(view->causality.ticks);
    view->sectors = nullptr;
    view->shared = nullptr;
    view->causality.threads = nullptr;
}

// All is performed now, the last blocks' stores first or last.
void weak_launch_over() {
    if (drawn(2)) {
        BlockView *turned = nullptr;
        while (VIEWS) {
            BlockView *view = VIEWS;
            VIEWS = view->next;
            view->next = turned;
            turned = view;
        }
        VIEWS = turned;
    }
    weak_settle();
    while (VIEWS) {
        BlockView *view = VIEWS;
        VIEWS = view->next;
        free(view->sectors);
        free(view);
    }
}

u32 weak_findings(const Hazard **found) {
    *found = FINDINGS;
    return FINDING_COUNT;
}

#include "meetings.h"

#include "store_buffers.h"
#include <sys/mman.h>

bool WEAK;

namespace {

// Whether a store stays: by its instruction, by that and the block, or by chance.
bool stays(const BlockView *view, const Site &site) {
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
    p->author = by;
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

// Now and then as it was before its last store, where the load may have been performed before that; eight bytes that
// one store wrote all together.
void earlier(const BlockView *view, u64 address, int count, bool always, u8 *seen) {
    u64 draws = mixed(DRAWS++);
    each_word(address, count, [&](u64 at, u32 bits, int from, int some) {
        const Word *word = word_at(at, false);
        bool stays_latest = draws >> at / (2 * WORD) % 64 & 1;
        if (!word || !word->performed || !(always || may_be_earlier(word, view)) || stays_latest) return;
        memcpy(seen + from, word->before + __builtin_ctz(bits), (size_t)some);
    });
}

// What the block sees of memory; `wide`: of that which all share, but for what it has stored itself. `early`: the load
// may be performed before others that stand before it. Whether that is what it was.
bool read_view(const Author &by, u64 address, int count, bool wide, bool early, bool read_only, u8 *seen) {
    BlockView *view = by.view;
    bool was_earlier = false;
    Sector *sector = wide || read_only || !CACHES ? nullptr : sector_of(view, address);
    u64 first = address / SECTOR_BYTES * SECTOR_BYTES; // accesses are aligned, so none reaches beyond its sector
    if (sector && (sector->address != first || !drawn(GONE_IN))) {
        sector->address = first;
        memcpy(sector->bytes, (void *)first, SECTOR_BYTES); // buffers are mapped in whole pages
        if (early) earlier(view, first, SECTOR_BYTES, false, sector->bytes);
        each_word(first, SECTOR_BYTES, [&](u64 at, u32, int, int) {
            if (StoreEntry *own = entry_of(word_at(at, false), view)) refresh(view, at, own->mask, own->bytes);
        });
    }
    memcpy(seen, sector ? sector->bytes + address % SECTOR_BYTES : (u8 *)address, (size_t)count);
    if (!sector && (early || read_only)) earlier(view, address, count, read_only, seen);
    each_word(address, count, [&](u64 at, u32 bits, int from, int some) {
        Word *word = word_at(at, false);
        if (!word) return;
        StoreEntry *own = entry_of(word, view);
        int in_word = __builtin_ctz(bits);
        for (int i = 0; own && i < some; i++)
            if (own->mask >> (in_word + i) & 1) seen[from + i] = own->bytes[in_word + i];
        bool older = !own && memcmp(seen + from, (u8 *)at + in_word, (size_t)some);
        if (older) note(STALE, by, word->last, address, count);
        else word->known |= bit_of(view);
        was_earlier |= older;
        for (StoreEntry *p = word->pending; p; p = p->next)
            if (p != own && p->mask & bits && memcmp(seen + from, p->bytes + in_word, (size_t)some)) note(STALE, by, p->author, address, count);
    });
    return was_earlier;
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
    if (site.strength == PLAIN && !drawn(4)) point(w);
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
    if (global && acquires) acquire(view);
    for (u32 left = mask; left; left &= left - 1) {
        u32 lane = (u32)__builtin_ctz(left);
        u64 a = address.e[lane];
        if (!(global >> lane & 1)) {
            memcpy(seen[lane], (void *)a, (size_t)bytes);
            continue;
        }
        Author by = author(w, lane, site, READ);
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
    if (global && acquires) acquire(view); // what was performed for it is ordered before what follows
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
        if (global >> lane & 1) store_view(author(w, lane, site, WRITE), site, a, bytes, fresh[lane]);
        else memcpy((void *)a, fresh[lane], (size_t)bytes);
    }
}

void weak_atomics(Warp &w, const Site &site) {
    bool wide = !(site.semantics & OF_BLOCK);
    BlockView *view = w.block->view;
    if (wide && site.semantics & RELEASES) cover(w);
    view->epoch++;
    if (wide) land_due(view);
    if (wide && site.semantics & ACQUIRES) acquire(view);
}

void weak_atomic_read(Warp &w, u32 lane, u64 address, const Site &site, int bytes, void *seen) {
    BlockView *view = w.block->view;
    bool wide = !(site.semantics & OF_BLOCK);
    if (!is_global(address)) {
        memcpy(seen, (void *)address, (size_t)bytes);
        return;
    }
    if (wide || !drawn(FOUND_IN)) {
        find_others(view, address, bytes);
        if (wide) land_own(view, address, bytes);
        drop_sector(view, address);
    }
    read_view(author(w, lane, site, ATOMIC), address, bytes, wide, false, false, (u8 *)seen);
    if (wide && site.semantics & ACQUIRES) acquire(view);
}

void weak_atomic_write(Warp &w, u32 lane, u64 address, const Site &site, int bytes, const void *now, bool changed) {
    if (!is_global(address)) {
        memcpy((void *)address, now, (size_t)bytes);
        return;
    }
    if (!changed) return;
    Author by = author(w, lane, site, ATOMIC);
    if (site.semantics & OF_BLOCK) store_view(by, site, address, bytes, (const u8 *)now);
    else store_now(by, address, bytes, (const u8 *)now);
}

void weak_fence(Warp &w, u32 semantics) {
    bool wide = !(semantics & OF_BLOCK);
    BlockView *view = w.block->view;
    if (wide && semantics & RELEASES) cover(w);
    if (wide && semantics & SEQUENTIAL) land_due(view);
    if (wide && semantics & ACQUIRES) acquire(view);
    view->epoch++;
}

u32 weak_late(u32 lanes) { return drawn(2) ? lanes : 0; }

void weak_meeting(Warp &w) { w.block->view->epoch++; }

void weak_settle() {
    for (BlockView *view = VIEWS; view; view = view->next) {
        land_all(view);
        acquire(view);
    }
}

void weak_run(u64 draw) {
    WEAK = draw != 0;
    SEED = draw;
    DRAWS = mixed(draw);
    STYLE = draw % 5;
    CACHES = draw / 5 % 3 != 0;
    EARLY = draw / 5 % 3 != 1;
    FINDING_COUNT = 0;
    if (!WEAK || WORDS) return;
    WORDS = (Word *)mmap(nullptr, MOST_WORDS * sizeof(Word), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ENTRIES = (StoreEntry *)mmap(nullptr, MOST_WORDS * sizeof(StoreEntry), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (WORDS == MAP_FAILED || ENTRIES == MAP_FAILED) out_of_memory("the simulator's views of memory", MOST_WORDS * (sizeof(Word) + sizeof(StoreEntry)));
}

void weak_launch(u32 kernel) {
    if (!WEAK) return;
    KERNEL_NUMBER = kernel;
    memset(TABLE, 0, sizeof TABLE);
    memset(READS, 0, sizeof READS);
    WORD_COUNT = ENTRY_COUNT = PERFORMED = 0;
    FREE_ENTRIES = nullptr;
}

void weak_block(Block &block, u64 number) {
    block.view = nullptr;
    if (!WEAK) return;
    BlockView *view = (BlockView *)calloc(1, sizeof(BlockView));
    Sector *sectors = (Sector *)calloc(SECTORS, sizeof(Sector));
    if (!view || !sectors) out_of_memory("the simulator's views of memory", sizeof(BlockView) + SECTORS * sizeof(Sector));
    view->number = number;
    memcpy(view->id, block.id, sizeof view->id);
    view->sectors = sectors;
    view->next = VIEWS;
    block.view = VIEWS = view;
}

void weak_block_over(Block &block) {
    if (!block.view) return;
    free(block.view->sectors);
    block.view->sectors = nullptr;
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

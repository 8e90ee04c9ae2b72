// Checked memory: loads, stores and atomics of 32 lanes. The fast paths are a full warp on consecutive or equal
// addresses inside the allocation that the instruction used last.
#include "shadow.h"
#include "weak_memory.h"
#include <sys/mman.h>
#include <unistd.h>

namespace {

u32 misaligned(u32 mask, const U64 &address, u64 bytes) {
    return ne_b64(and_b64(address, all64(bytes - 1)), all64(0)) & mask;
}

// Name what is nearest to a bad address, and stop.
[[noreturn]] void bad_address(Warp &w, u32 lane, u64 address, int bytes, const Site &site, bool writes, const char *why) {
    Fault &f = FAULT;
    const char *verb = writes ? "wrote" : "read";
    f.lane_address = address;
    f.bytes = (u64)bytes;
    f.base = site.extents == 1 ? (i64)PROGRAM->extents[site.first_extent].low : -1;
    if (address < 1 << 16) {
        f.kind = "null";
        format(f.message, "%s address 0x%llx, a null pointer", verb, (unsigned long long)address);
    } else {
        const SlotInfo *slot = slot_of(address);
        f.kind = why;
        if (slot == &SLOTS[HEAP_SLOT] && slot->size) {
            HeapPlace place = heap_place(address);
            u64 offset = address - place.low;
            const char *what = offset >= place.size   ? "behind the end of"
                               : place.freed          ? "of freed memory, in"
                               : f.kind[0] == 'm'     ? "(misaligned) of"
                                                      : "at the end of";
            if (offset < place.size && place.freed) f.kind = "use_after_free";
            f.buffer = slot->name;
            f.element = (i64)(address - slot->low);
            format(f.message, "%s byte %llu %s a block of %llu bytes from malloc", verb, (unsigned long long)offset, what,
                   (unsigned long long)place.size);
        } else if (!slot || !slot->size) {
            format(f.message, "%s address 0x%llx, which belongs to no buffer", verb, (unsigned long long)address);
        } else {
            i64 offset = (i64)(address - slot->low);
            i64 item = slot->item ? (i64)slot->item : 1;
            f.buffer = slot->name;
            f.element = offset >= 0 ? offset / item : -((-offset + item - 1) / item);
            i64 count = (i64)slot->size / item;
            const char *where = "";
            char past[64] = "";
            if (f.kind[0] == 'm') {
                format(past, ", %lld bytes behind a multiple of %d", (long long)(address % bytes), bytes);
            } else if (f.element < 0) {
                where = ", before its start";
            } else if (f.element == count) {
                where = ", one past the end";
            } else if (f.element > count) {
                format(past, ", %lld past the end", (long long)(f.element - count + 1));
            } else if (offset + bytes > (i64)slot->size) {
                where = ", which reaches past the end";
            }
            format(f.message, "%s %s[%lld]%s%s", verb, slot->name, (long long)f.element, where, past);
        }
    }
    fault(w, 1u << lane, f.kind, site.place, f.message);
}

const char STACK_OVERFLOW[] = "used more local memory than a thread has: recursion too deep, or arrays too large";

u64 local_low(Warp &w, u32 lane) { return slot_address(LOCAL_SLOT) + (u64)(w.home * LANES + lane) * LOCAL_STRIDE; }

// Check lane by lane; remember the allocation when all lanes share it.
NOINLINE void resolve(Warp &w, u32 mask, const U64 &address, Site &site, int bytes, bool writes) {
    A64 a = spread(address);
    const SlotInfo *common = nullptr;
    bool same = true;
    for (u32 lane = 0; lane < LANES; lane++) {
        if (!(mask >> lane & 1)) continue;
        const SlotInfo *slot = slot_of(a.e[lane]);
        u64 low = 0, size = 0;
        if (slot == &SLOTS[LOCAL_SLOT]) {
            low = local_low(w, lane);
            size = w.local_top;
            same = false;
        } else if (slot == &SLOTS[HEAP_SLOT]) {
            HeapPlace place = heap_place(a.e[lane]);
            low = place.low;
            size = place.freed ? 0 : place.size;
            same = false;
        } else if (slot) {
            low = slot->low;
            size = slot->size;
        }
        u64 offset = a.e[lane] - low;
        if (!slot || offset >= size || size - offset < (u64)bytes) bad_address(w, lane, a.e[lane], bytes, site, writes, "out_of_bounds");
        if (writes && slot->constant) bad_address(w, lane, a.e[lane], bytes, site, writes, "write_to_constant");
        if (common && common != slot) same = false;
        common = slot;
    }
    if (same && common && common->size >= (u64)bytes && !(writes && common->constant) && !WATCHING && !WEAK) {
        site.low = common->low;
        site.count = common->size - bytes + 1;
    }
}

INLINE void check(Warp &w, u32 mask, const U64 &address, Site &site, int bytes, bool writes) {
    u32 good = lt_u64(sub_b64(address, all64(site.low)), all64(site.count));
    if (__builtin_expect(~good & mask, 0)) resolve(w, mask, address, site, bytes, writes);
    u32 odd = bytes > 1 ? misaligned(mask, address, bytes) : 0;
    if (__builtin_expect(odd, 0)) {
        u32 lane = __builtin_ctz(odd);
        bad_address(w, lane, spread(address).e[lane], bytes, site, writes, "misaligned");
    }
}

} // namespace

void check_alignment(Warp &w, u32 mask, const U64 &address, int bytes, const Site &site, bool writes) {
    u32 odd = misaligned(mask, address, bytes);
    if (!odd) return;
    u32 lane = __builtin_ctz(odd);
    bad_address(w, lane, spread(address).e[lane], bytes, site, writes, "misaligned");
}

namespace {

U64 lane_offsets(u64 bytes) {
    A64 r;
    for (int i = 0; i < LANES; i++) r.e[i] = i * bytes;
    return gather(r);
}
const U64 IOTA[33] = {lane_offsets(0), lane_offsets(1), lane_offsets(2), {}, lane_offsets(4), {}, {}, {}, lane_offsets(8),
                      {}, {}, {}, {}, {}, {}, {}, lane_offsets(16), {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, lane_offsets(32)};

INLINE void meet(Warp &w, u32 mask, const U64 &address, int bytes, const Site &site, bool writes) {
    if (__builtin_expect(COPIES_UNDER_WAY, 0)) meet_copies(w, mask, address, bytes, site, writes);
}

template <int BYTES> struct Item;
template <> struct Item<1> { typedef u8 T; };
template <> struct Item<2> { typedef u16 T; };
template <> struct Item<4> { typedef u32 T; };
template <> struct Item<8> { typedef u64 T; };

} // namespace

// Whether `count` bytes from `first` lie in the allocation that the instruction used last, and are aligned.
INLINE bool covered(const Site &site, u64 first, u64 last, u64 align) {
    return first - site.low < site.count && last - site.low < site.count && !(first & (align - 1));
}

template <int BYTES, int PARTS>
NOINLINE void load(Warp &w, u32 mask, const U64 &address, Site &site, typename Element<BYTES>::T *out, u32 used) {
    typedef typename Item<BYTES>::T item;
    typedef typename Element<BYTES>::T pack;
    constexpr int SIZE = BYTES * PARTS, WIDTH = BYTES == 8 ? 8 : 4;
    alignas(64) typename Item<WIDTH>::T r[PARTS][LANES];
    meet(w, mask, address, SIZE, site, false);
    COUNT(count_access(w, mask, address, site, SIZE, LOADED));
    if (mask == ~0u) {
        u64 first;
        __builtin_memcpy(&first, &address, 8);
        U64 relative = sub_b64(address, all64(first));
        if (eq_b64(relative, IOTA[SIZE]) == ~0u && covered(site, first, first + (LANES - 1) * SIZE, SIZE)) {
            const item *p = (const item *)first;
            if (PARTS == 1 && BYTES == WIDTH) {
                __builtin_memcpy(out, p, sizeof(pack));
                return;
            }
            for (int i = 0; i < LANES; i++)
                for (int j = 0; j < PARTS; j++) r[j][i] = p[i * PARTS + j];
            __builtin_memcpy(out, r, sizeof r);
            return;
        }
        if (eq_b64(relative, all64(0)) == ~0u && covered(site, first, first, SIZE)) {
            for (int j = 0; j < PARTS; j++) {
                typename Item<WIDTH>::T value = ((const item *)first)[j];
                for (int i = 0; i < LANES; i++) r[j][i] = value;
            }
            __builtin_memcpy(out, r, sizeof r);
            return;
        }
    }
    check(w, mask, address, site, SIZE, false);
    A64 a = spread(address);
    if (__builtin_expect(WATCHING, 0)) watch_load(w, mask & used, a, site, SIZE);
    if (__builtin_expect(WEAK, 0)) {
        alignas(32) u8 seen[LANES][32] = {};
        weak_load(w, mask, a, site, SIZE, seen);
        for (int i = 0; i < LANES; i++)
            for (int j = 0; j < PARTS; j++) r[j][i] = ((const item *)seen[i])[j];
        __builtin_memcpy(out, r, sizeof r);
        return;
    }
    if (mask == ~0u) {
        for (int i = 0; i < LANES; i++)
            for (int j = 0; j < PARTS; j++) r[j][i] = ((const item *)a.e[i])[j];
    } else {
        for (int i = 0; i < LANES; i++)
            for (int j = 0; j < PARTS; j++) r[j][i] = mask >> i & 1 ? ((const item *)a.e[i])[j] : 0;
    }
    __builtin_memcpy(out, r, sizeof r);
}

template <int BYTES, int PARTS>
NOINLINE void store(Warp &w, u32 mask, const U64 &address, Site &site, const typename Element<BYTES>::T *in) {
    typedef typename Item<BYTES>::T item;
    constexpr int SIZE = BYTES * PARTS, WIDTH = BYTES == 8 ? 8 : 4;
    alignas(64) typename Item<WIDTH>::T r[PARTS][LANES];
    meet(w, mask, address, SIZE, site, true);
    COUNT(count_access(w, mask, address, site, SIZE, STORED));
    if (mask == ~0u) {
        u64 first;
        __builtin_memcpy(&first, &address, 8);
        U64 relative = sub_b64(address, all64(first));
        if (eq_b64(relative, IOTA[SIZE]) == ~0u && covered(site, first, first + (LANES - 1) * SIZE, SIZE)) {
            item *p = (item *)first;
            if (PARTS == 1 && BYTES == WIDTH) {
                __builtin_memcpy(p, in, LANES * BYTES);
                return;
            }
            __builtin_memcpy(r, in, sizeof r);
            for (int i = 0; i < LANES; i++)
                for (int j = 0; j < PARTS; j++) p[i * PARTS + j] = (item)r[j][i];
            return;
        }
    }
    check(w, mask, address, site, SIZE, true);
    __builtin_memcpy(r, in, sizeof r);
    A64 a = spread(address);
    if (__builtin_expect(WATCHING | WEAK, 0)) {
        alignas(32) u8 fresh[LANES][32];
        for (int i = 0; i < LANES; i++)
            for (int j = 0; j < PARTS; j++) ((item *)fresh[i])[j] = (item)r[j][i];
        if (WATCHING) watch_store(w, mask, a, site, SIZE, fresh);
        else weak_store(w, mask, a, site, SIZE, fresh);
        return;
    }
    for (u32 left = mask; left; left &= left - 1) {
        int i = __builtin_ctz(left);
        for (int j = 0; j < PARTS; j++) ((item *)a.e[i])[j] = (item)r[j][i];
    }
}

#define INSTANCES(BYTES, PARTS)                                                                                        \
    template void load<BYTES, PARTS>(Warp &, u32, const U64 &, Site &, typename Element<BYTES>::T *, u32);                \
    template void store<BYTES, PARTS>(Warp &, u32, const U64 &, Site &, const typename Element<BYTES>::T *);
INSTANCES(1, 1) INSTANCES(1, 2) INSTANCES(1, 4) INSTANCES(2, 1) INSTANCES(2, 2) INSTANCES(2, 4)
INSTANCES(4, 1) INSTANCES(4, 2) INSTANCES(4, 4) INSTANCES(4, 8) INSTANCES(8, 1) INSTANCES(8, 2) INSTANCES(8, 4)

namespace {

template <class T, class S> T combine(Atomic operation, T old, T b, T c) {
    switch (operation) {
    case A_ADD: return old + b;
    case A_MIN: return old < b ? old : b;
    case A_MAX: return old > b ? old : b;
    case A_SMIN: return (S)old < (S)b ? old : b;
    case A_SMAX: return (S)old > (S)b ? old : b;
    case A_INC: return old >= b ? 0 : old + 1;
    case A_DEC: return old == 0 || old > b ? b : old - 1;
    case A_AND: return old & b;
    case A_OR: return old | b;
    case A_XOR: return old ^ b;
    case A_EXCH: return b;
    case A_CAS: return old == b ? c : old;
    default: return old;
    }
}
u32 half_sum(Narrow kind, u32 a, u32 b) {
    A32 r = spread(half_operation(kind, H_ADD, all32(a & 0xffff), all32(b & 0xffff), all32(0)));
    return r.e[0];
}
// Sums of float32 in global memory have no subnormals, unlike those in shared memory (PTX ISA 9.0, atom and red).
u32 without_subnormals(u32 x) { return x & 0x7f800000 ? x : x & 0x80000000; }
u32 combine_float(Atomic operation, u32 old, u32 b, bool shared) {
    switch (operation) {
    case A_FADD:
        if (shared) return bits(f32_of(old) + f32_of(b));
        return without_subnormals(bits(f32_of(without_subnormals(old)) + f32_of(without_subnormals(b))));
    case A_HADD: return half_sum(F16, old, b);
    case A_BADD: return half_sum(BF16, old, b);
    case A_H2ADD: return half_sum(F16, old, b) | half_sum(F16, old >> 16, b >> 16) << 16;
    default: return half_sum(BF16, old, b) | half_sum(BF16, old >> 16, b >> 16) << 16;
    }
}
bool is_shared(u64 address) { return (address - SLOT_BASE) >> SLOT_SHIFT == SHARED_SLOT; }
bool is_float(Atomic operation) { return operation == A_FADD || operation >= A_HADD; }

} // namespace

namespace {

// Whether an exchange got what was free.
template <class T> INLINE bool takes(Atomic operation, T old, T b) { return operation == A_CAS ? old == b : operation == A_EXCH && !old && b; }

// Lane after lane; with watching in a loop of its own, so that the plain one stays tight.
template <class T, class A, class F> INLINE A update(Warp &w, u32 mask, const A64 &a, const Site &site, Atomic operation, F after) {
    A old = {};
    if (__builtin_expect(WATCHING, 0)) {
        for (u32 left = mask; left; left &= left - 1) {
            int i = __builtin_ctz(left);
            T *p = (T *)a.e[i];
            old.e[i] = *p;
            *p = after(i, *p);
            watch_atomic(w, (u32)i, a.e[i], site, sizeof(T), operation, *p != old.e[i]);
        }
        return old;
    }
    if (__builtin_expect(WEAK, 0)) {
        weak_atomics(w, site);
        for (u32 left = mask; left; left &= left - 1) {
            int i = __builtin_ctz(left);
            T seen;
            weak_atomic_read(w, (u32)i, a.e[i], site, sizeof(T), &seen);
            old.e[i] = seen;
            T now = after(i, seen);
            weak_atomic_write(w, (u32)i, a.e[i], site, sizeof(T), &now, now != seen);
        }
        return old;
    }
    for (u32 left = mask; left; left &= left - 1) {
        int i = __builtin_ctz(left);
        T *p = (T *)a.e[i];
        old.e[i] = *p;
        *p = after(i, *p);
    }
    return old;
}

} // namespace

U32 atomic32(Warp &w, u32 mask, const U64 &address, Site &site, Atomic operation, const U32 &b, const U32 &c) {
    COUNT(count_access(w, mask, address, site, 4, UPDATED));
    check(w, mask, address, site, 4, true);
    A32 x = spread(b), y = spread(c);
    A64 places = spread(address);
    return gather(update<u32, A32>(w, mask, places, site, operation, [&](int i, u32 old) {
        if (__builtin_expect(SCHEDULED, 0)) w.took |= takes(operation, old, x.e[i]);
        return is_float(operation) ? combine_float(operation, old, x.e[i], is_shared(places.e[i])) : combine<u32, i32>(operation, old, x.e[i], y.e[i]);
    }));
}

U64 atomic64(Warp &w, u32 mask, const U64 &address, Site &site, Atomic operation, const U64 &b, const U64 &c) {
    COUNT(count_access(w, mask, address, site, 8, UPDATED));
    check(w, mask, address, site, 8, true);
    A64 x = spread(b), y = spread(c);
    return gather(update<u64, A64>(w, mask, spread(address), site, operation, [&](int i, u64 old) {
        return operation == A_FADD ? bits(f64_of(old) + f64_of(x.e[i])) : combine<u64, i64>(operation, old, x.e[i], y.e[i]);
    }));
}

U32 atomic16(Warp &w, u32 mask, const U64 &address, Site &site, Atomic operation, const U32 &b, const U32 &c) {
    COUNT(count_access(w, mask, address, site, 2, UPDATED));
    check(w, mask, address, site, 2, true);
    A32 x = spread(b), y = spread(c);
    return gather(update<u16, A32>(w, mask, spread(address), site, operation, [&](int i, u16 old) {
        return (u16)(is_float(operation) ? combine_float(operation, old, x.e[i], true)
                                         : combine<u32, i32>(operation, old, x.e[i] & 0xffff, y.e[i] & 0xffff));
    }));
}

void check_write(Warp &w, u32 mask, const U64 &address, Site &site, int bytes) { check(w, mask, address, site, bytes, true); }

void make_undefined(void *at, u64 bytes, u8 pattern) {
    if (pattern != SCRAMBLED) {
        __builtin_memset(at, pattern, bytes);
        return;
    }
    u8 *to = (u8 *)at;
    for (u64 done = 0; done < bytes; done += 8) {
        u64 word = ((u64)to + done) * 0x9e3779b97f4a7c15ull;
        word = (word ^ word >> 29) * 0xbf58476d1ce4e5b9ull;
        word ^= word >> 32;
        __builtin_memcpy(to + done, &word, bytes - done < 8 ? bytes - done : 8);
    }
}

// PTX ISA, `discard`: a weak write of an unstable, indeterminate value to 128 bytes.
void discard(Warp &w, u32 mask, const U64 &address, Site &site) {
    check(w, mask, address, site, 128, true);
    A64 a = spread(address);
    if (WEAK) weak_settle();
    for (u32 left = mask; left; left &= left - 1) {
        make_undefined((void *)a.e[__builtin_ctz(left)], 128);
        if (WATCHING) watch_undefined(a.e[__builtin_ctz(left)], 128);
    }
}

u32 in_slot(const U64 &address, u64 slot) {
    U64 low = all64(SLOT_BASE + (slot << SLOT_SHIFT));
    return lt_u64(sub_b64(address, low), all64(1ull << SLOT_SHIFT));
}

U64 local_frame(Warp &w, u32 mask, u32 bytes, i32 place) {
    if (w.local_top + bytes > LOCAL_STRIDE) fault(w, mask, "stack_overflow", place, STACK_OVERFLOW);
    A64 r;
    for (u32 i = 0; i < LANES; i++) {
        r.e[i] = local_low(w, i) + w.local_top;
        if (!KEEPS) make_undefined((void *)r.e[i], bytes);
        if (WATCHING) watch_undefined(r.e[i], bytes);
    }
    w.local_top += bytes;
    return gather(r);
}

U64 take_local(Warp &w, u32 mask, const U64 &bytes, u32 align, i32 place) {
    A64 sizes = spread(bytes), r = {};
    u64 most = 0;
    for (u32 left = mask; left; left &= left - 1) {
        u64 size = sizes.e[__builtin_ctz(left)];
        most = size > most ? size : most;
    }
    // Rounded up so that the next frame begins aligned, wherever this lane's memory does.
    u64 room = most > LOCAL_STRIDE ? most : (most + align + 15) & ~15ull;
    if (room > LOCAL_STRIDE - w.local_top) fault(w, mask, "stack_overflow", place, STACK_OVERFLOW);
    for (u32 left = mask; left; left &= left - 1) {
        u32 i = (u32)__builtin_ctz(left);
        r.e[i] = (local_low(w, i) + w.local_top + align - 1) & ~(u64)(align - 1);
        make_undefined((void *)r.e[i], most);
        if (WATCHING) watch_undefined(r.e[i], (u32)most);
    }
    w.local_top += (u32)room;
    return gather(r);
}

void give_local(Warp &w, u32 mask, const U64 &top) {
    u64 highest = 0;
    for (u32 left = mask; left; left &= left - 1) {
        u64 each = spread(top).e[__builtin_ctz(left)];
        highest = each > highest ? each : highest;
    }
    if (mask && highest < w.local_top) w.local_top = (u32)highest;
}

// A tensor begins at a multiple of 256 bytes, as cudaMalloc promises, and of no more: at one of eight such places of a
// page, so that who takes more for granted meets all of them. One that repeats begins with its page.
u64 begins_at(u64 number) { return number < BUFFER_SLOT ? 0 : 256 + 512 * (number * 3 % 8); }

void map_slot(u64 number, u64 size, const char *name, u64 item, bool constant, bool repeats) {
    SlotInfo &slot = SLOTS[number];
    u64 low = slot_address(number), begins = repeats ? 0 : begins_at(number), bytes = (begins + size + 4095) & ~4095ull;
    if (bytes > slot.mapped || slot.repeats) {
        if (slot.mapped) munmap((void *)low, slot.mapped);
        slot.mapped = 0;
        slot.repeats = slot.shared = false;
        void *at = mmap((void *)low, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        if (at == MAP_FAILED) out_of_memory(name, size);
        slot.mapped = bytes;
    }
    slot.name = name;
    slot.low = low + begins;
    slot.size = size;
    slot.item = item;
    slot.constant = constant;
}

// All of a buffer made of one piece, its first `bytes` (0: zeros), without a copy for each repetition: they are the same
// pages; and of what stays zero there are only the pages that somebody touches. Behind the piece come `count` stretches
// of it, to the end; or, with none, the piece again and again.
void map_repeated(u64 number, u64 size, const char *name, u64 item, u64 bytes, const Stretch *stretches, u64 count) {
    SLOTS[number].repeats = true; // whatever is mapped there, nothing of it stays
    map_slot(number, size, name, item, false, true);
    SLOTS[number].repeats = true;
    if (!bytes) return;
    u64 low = slot_address(number), end = low + SLOTS[number].mapped;
    if (bytes % 4096 || bytes > size || size / bytes > MOST_REPETITIONS) _exit(4);
    void *piece = mmap((void *)low, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (piece == MAP_FAILED) out_of_memory(name, size);
    SLOTS[number].shared = true;
    u64 at = low + bytes;
    for (u64 i = 0; at < end; i++) {
        Stretch whole = {0, bytes / 4096}, next = i < count ? stretches[i] : whole;
        if (!next.pages || next.pages > whole.pages || next.first > whole.pages - next.pages) _exit(4);
        u64 some = end - at < next.pages * 4096 ? end - at : next.pages * 4096;
        // With an old size of 0 shared pages get one more place (mremap(2)).
        void *from = (void *)((u64)piece + next.first * 4096);
        if (mremap(from, 0, some, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)at) == MAP_FAILED) out_of_memory(name, size);
        at += some;
    }
}

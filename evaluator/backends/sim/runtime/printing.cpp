// Device printf and assert (CUDA C++ Programming Guide, sections 10.32 and 10.33).
#include "runtime.h"

namespace {

void append(const char *text, u64 bytes) {
    if (PRINTED_BYTES + bytes > PRINT_LIMIT) {
        LOST_PRINTS++;
        return;
    }
    memcpy(PRINTED + PRINTED_BYTES, text, bytes);
    PRINTED_BYTES += bytes;
}

// A device string, checked. Returns whether it can be read up to its end, or up to what fits.
bool copy_string(char *out, u64 capacity, u64 address) {
    const SlotInfo *slot = slot_of(address);
    u64 low = slot ? slot->low : 0, size = slot ? slot->size : 0;
    if (slot == &SLOTS[HEAP_SLOT]) {
        HeapPlace place = heap_place(address);
        low = place.low;
        size = place.freed ? 0 : place.size;
    }
    u64 offset = address - low, n = 0;
    out[0] = 0;
    if (offset >= size) return false;
    const char *from = (const char *)address;
    while (n + 1 < capacity && offset + n < size && from[n]) {
        out[n] = from[n];
        n++;
    }
    out[n] = 0;
    return n + 1 >= capacity || offset + n < size;
}

struct Caller {
    Warp &w;
    u32 lane;
    i32 place;
};

[[noreturn]] void bad_string(const Caller &caller, const char *what, u64 address) {
    const SlotInfo *slot = slot_of(address);
    char where[160];
    if (address < 1 << 16) format(where, "a null pointer");
    else if (!slot || !slot->size) format(where, "which belongs to no buffer");
    else if (address - slot->low >= slot->size) format(where, "outside %.100s", slot->name);
    else format(where, "a text in %.100s without an end, or in freed memory", slot->name);
    format(FAULT.message, "called printf with %s at 0x%llx, %s", what, (unsigned long long)address, where);
    fault(caller.w, 1u << caller.lane, "bad_string", caller.place, FAULT.message);
}

bool readable(u64 address, u64 bytes) {
    const SlotInfo *slot = slot_of(address);
    return slot && address - slot->low < slot->size && slot->size - (address - slot->low) >= bytes;
}

// Reads a format once: gives how many arguments it takes and, where the text is `kept`, formats and keeps it.
// What has no room any more, or no readable argument, is counted all the same.
u32 print_text(const Caller &caller, const char *text, u64 arguments, bool kept) {
    char out[2048], piece[1100];
    u64 used = 0, written = 0;
    u32 count = 0;
    for (const char *p = text; *p;) {
        kept = kept && written + 1100 < sizeof out;
        if (*p != '%' || p[1] == '%') {
            if (kept) out[written++] = *p;
            p += *p == '%' ? 2 : 1;
            continue;
        }
        char spec[48];
        u64 n = 0;
        spec[n++] = *p++;
        // Widths and precisions of more than three digits are cut: the host would fill gigabytes with blanks.
        for (int digits = 0; *p && strchr("-+ #0123456789.*", *p); p++) {
            if (*p == '*') { // the next argument is the width
                i32 width = 0;
                count++;
                used = (used + 3) & ~3ull;
                if (kept && readable(arguments + used, 4)) memcpy(&width, (const void *)(arguments + used), 4);
                used += 4;
                if (n < 20 && width > -1000 && width < 1000) n += snprintf(spec + n, 6, "%d", width);
                continue;
            }
            digits = *p >= '0' && *p <= '9' ? digits + 1 : 0;
            if (digits <= 3 && n < 20) spec[n++] = *p;
        }
        int longs = 0, halves = 0;
        while (*p == 'l' || *p == 'h' || *p == 'z' || *p == 'j' || *p == 't') {
            longs += *p == 'l' || *p == 'z' || *p == 'j' || *p == 't';
            halves += *p == 'h';
            p++;
        }
        char kind = *p;
        if (!kind) break;
        p++;
        count++;
        bool wide = longs || strchr("fFeEgGaAsp", kind);
        used = wide ? (used + 7) & ~7ull : (used + 3) & ~3ull;
        u64 value = 0;
        kept = kept && readable(arguments + used, wide ? 8 : 4);
        if (!kept) continue;
        memcpy(&value, (const void *)(arguments + used), wide ? 8 : 4);
        used += wide ? 8 : 4;
        int length = 0;
        if (strchr("fFeEgGaA", kind)) {
            spec[n++] = kind;
            spec[n] = 0;
            length = snprintf(piece, 1000, spec, f64_of(value));
        } else if (kind == 's') {
            spec[n++] = 's';
            spec[n] = 0;
            char string[512];
            if (!copy_string(string, sizeof string, value)) bad_string(caller, "a string for %s", value);
            length = snprintf(piece, 1000, spec, string);
        } else if (kind == 'c') {
            spec[n++] = 'c';
            spec[n] = 0;
            length = snprintf(piece, 1000, spec, (int)(char)value);
        } else if (kind == 'p') {
            spec[n++] = 'p';
            spec[n] = 0;
            length = snprintf(piece, 1000, spec, (void *)value);
        } else if (strchr("diouxX", kind)) {
            bool is_signed = kind == 'd' || kind == 'i';
            if (halves == 1) value = is_signed ? (u64)(i64)(i16)value : (u16)value;
            else if (halves > 1) value = is_signed ? (u64)(i64)(i8)value : (u8)value;
            else if (!wide && is_signed) value = (u64)(i64)(i32)value;
            spec[n++] = 'l';
            spec[n++] = 'l';
            spec[n++] = kind;
            spec[n] = 0;
            length = snprintf(piece, 1000, spec, (long long)value);
        }
        if (length > 999) length = 999;
        if (length > 0) {
            memcpy(out + written, piece, length);
            written += length;
        }
    }
    append(out, written);
    return count;
}

} // namespace

void device_printf(Warp &w, u32 mask, const U64 &format, const U64 &arguments, U32 *count, i32 place) {
    A64 f = spread(format), a = spread(arguments);
    A32 counts{};
    look_at_clock(w, mask, place);
    UNSEEN++;
    for (u32 left = mask; left; left &= left - 1) {
        u32 lane = __builtin_ctz(left);
        char text[1024];
        if (!copy_string(text, sizeof text, f.e[lane])) bad_string({w, lane, place}, "a format", f.e[lane]);
        // What does not fit is not formatted either: the first text that is lost ends the keeping.
        bool kept = !LOST_PRINTS;
        LOST_PRINTS += !kept;
        counts.e[lane] = print_text({w, lane, place}, text, a.e[lane], kept);
    }
    *count = gather(counts); // of arguments, unlike C's, which counts characters (section 10.32)
}

// __assertfail(message, file, place, function, character size): addresses of strings in `slots`.
void device_assert(Warp &w, u32 mask, const u8 *slots[], const u32 strides[], i32 place) {
    u32 lane = __builtin_ctz(mask);
    u64 address = 0;
    u32 at = 0;
    memcpy(&address, slots[0] + lane * strides[0], 8);
    memcpy(&at, slots[2] + lane * strides[2], 4);
    char text[200];
    if (!copy_string(text, sizeof text, address)) format(text, "(unreadable)");
    format(FAULT.message, "failed the assertion `%s`", text);
    fault(w, mask, "assert", at ? -(i32)at : place, FAULT.message);
}

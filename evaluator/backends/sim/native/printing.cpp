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

// A device string, checked; what is not readable prints as (null).
void copy_string(char *out, u64 capacity, u64 address) {
    const SlotInfo *slot = slot_of(address);
    u64 offset = slot ? address - slot->low : 0;
    if (!slot || offset >= slot->size) {
        snprintf(out, capacity, "(null)");
        return;
    }
    u64 n = 0;
    const char *from = (const char *)address;
    while (n + 1 < capacity && offset + n < slot->size && from[n]) {
        out[n] = from[n];
        n++;
    }
    out[n] = 0;
}

bool readable(u64 address, u64 bytes) {
    const SlotInfo *slot = slot_of(address);
    return slot && address - slot->low < slot->size && slot->size - (address - slot->low) >= bytes;
}

void print_lane(u64 format_address, u64 arguments) {
    char text[1024], out[2048], piece[1100];
    copy_string(text, sizeof text, format_address);
    u64 used = 0, written = 0;
    for (const char *p = text; *p && written + 1100 < sizeof out;) {
        if (*p != '%') {
            out[written++] = *p++;
            continue;
        }
        if (p[1] == '%') {
            out[written++] = '%';
            p += 2;
            continue;
        }
        char spec[48];
        u64 n = 0;
        spec[n++] = *p++;
        // Widths and precisions of more than three digits are cut: the host would fill gigabytes with blanks.
        for (int digits = 0; *p && strchr("-+ #0123456789.*", *p); p++) {
            if (*p == '*') { // the next argument is the width
                i32 width = 0;
                used = (used + 3) & ~3ull;
                if (readable(arguments + used, 4)) memcpy(&width, (const void *)(arguments + used), 4);
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
        bool wide = longs || strchr("fFeEgGaAsp", kind);
        used = wide ? (used + 7) & ~7ull : (used + 3) & ~3ull;
        u64 value = 0;
        if (!readable(arguments + used, wide ? 8 : 4)) break;
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
            copy_string(string, sizeof string, value);
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
}

} // namespace

void device_printf(Warp &, u32 mask, const U64 &format, const U64 &arguments, U32 *count) {
    A64 f = spread(format), a = spread(arguments);
    for (u32 lane = 0; lane < LANES; lane++)
        if (mask >> lane & 1) print_lane(f.e[lane], a.e[lane]);
    *count = all32(0);
}

// __assertfail(message, file, place, function, character size): addresses of strings in `slots`.
void device_assert(Warp &w, u32 mask, const u8 *slots[], const u32 strides[], i32 place) {
    u32 lane = __builtin_ctz(mask);
    u64 address = 0;
    u32 at = 0;
    memcpy(&address, slots[0] + lane * strides[0], 8);
    memcpy(&at, slots[2] + lane * strides[2], 4);
    char text[200];
    copy_string(text, sizeof text, address);
    format(FAULT.message, "failed the assertion `%s`", text);
    fault(w, mask, "assert", at ? -(i32)at : place, FAULT.message);
}

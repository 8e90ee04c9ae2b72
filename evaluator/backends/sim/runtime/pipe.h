// What the process reads from the referee and writes to it: numbers, texts, and what the shadow memory found.
#pragma once
#include "shadow.h"
#include <errno.h>
#include <string.h>
#include <unistd.h>

namespace {

// A run is some hundred numbers, and a call of the kernel for each would take longer than a small run itself.
enum : u64 { TOGETHER_BYTES = 1 << 16 };
u8 AHEAD[TOGETHER_BYTES], ANSWER[TOGETHER_BYTES]; // what was read and nobody has asked for, and what is still to be sent
u64 AHEAD_FIRST, AHEAD_END, ANSWER_BYTES;

void write_now(const void *from, u64 bytes) {
    const u8 *p = (const u8 *)from;
    while (bytes) {
        ssize_t n = write(1, p, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) _exit(3);
        p += n;
        bytes -= n;
    }
}
// Before the process ends or waits for the referee.
void send_answer() {
    u64 bytes = ANSWER_BYTES;
    ANSWER_BYTES = 0;
    write_now(ANSWER, bytes);
}
void write_all(const void *from, u64 bytes) {
    if (bytes > TOGETHER_BYTES - ANSWER_BYTES) send_answer();
    if (bytes > TOGETHER_BYTES) return write_now(from, bytes);
    memcpy(ANSWER + ANSWER_BYTES, from, bytes);
    ANSWER_BYTES += bytes;
}
void read_all(void *to, u64 bytes) {
    u8 *p = (u8 *)to;
    while (bytes) {
        u64 there = AHEAD_END - AHEAD_FIRST, some = there < bytes ? there : bytes;
        memcpy(p, AHEAD + AHEAD_FIRST, some);
        AHEAD_FIRST += some;
        p += some;
        bytes -= some;
        if (!bytes) return;
        bool direct = bytes >= TOGETHER_BYTES;
        send_answer();
        ssize_t n = direct ? read(0, p, bytes) : read(0, AHEAD, TOGETHER_BYTES);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) _exit(n == 0 && p == to ? 0 : 3);
        if (direct) {
            p += n;
            bytes -= n;
        } else {
            AHEAD_FIRST = 0;
            AHEAD_END = n;
        }
    }
}
u64 get() {
    u64 x;
    read_all(&x, 8);
    return x;
}
void put(u64 x) { write_all(&x, 8); }
void put_text(const char *text, u64 bytes) {
    put(bytes);
    write_all(text, bytes);
}
void put_text(const char *text) { put_text(text, strlen(text)); }

void put_party(const Party &p) {
    put(p.act);
    put((u64)(i64)line_of(p.place));
    for (u32 i : p.thread) put(i);
    for (u32 i : p.block) put(i);
}

void put_hazards(char **kernel_names) {
    const Hazard *found;
    u32 count = hazards(&found);
    put(count);
    for (u32 i = 0; i < count; i++) {
        const Hazard &h = found[i];
        put(h.kind);
        put_text(kernel_names[h.kernel]);
        put_party(h.here);
        put_party(h.other);
        put(h.slot);
        put(h.rewrites);
        put_text(SLOTS[h.slot].name ? SLOTS[h.slot].name : "");
        put(SLOTS[h.slot].item);
        put(h.offset);
        put(h.bytes);
        put(h.base);
    }
}

} // namespace

// Fills and copies between launches, of stretches of buffers and of variables of the program. Part of runtime.cpp.

constexpr u64 TO_THE_END = ~0ull, VARIABLES = 1ull << 32;

// Where a fill or a copy goes: a buffer by its number, or a variable of the program by its own from VARIABLES on.
u64 stretched_slot(u64 number) {
    if (number >= VARIABLES + PROGRAM->variable_count) _exit(4);
    return number >= VARIABLES ? MODULE_SLOT + (number - VARIABLES) : BUFFER_SLOT + number;
}

// The bytes of a stretch of a slot; TO_THE_END is all behind `offset`.
u64 stretch(u64 slot, u64 offset, u64 bytes) {
    if (slot >= SLOT_COUNT || offset > SLOTS[slot].size) _exit(4);
    u64 room = SLOTS[slot].size - offset;
    if (bytes == TO_THE_END) return room;
    if (bytes > room) _exit(4);
    return bytes;
}

// Slot, offset, bytes, and a pattern with its size before it.
void fill_stretch() {
    u64 slot = stretched_slot(get()), offset = get(), bytes = get(), size = get();
    static u8 pattern[1 << 16];
    if (size == 0 || size > sizeof pattern) _exit(4);
    read_all(pattern, size);
    bytes = stretch(slot, offset, bytes);
    u8 *p = (u8 *)SLOTS[slot].low + offset;
    bool whole = bytes == SLOTS[slot].size;
    if (slot >= BUFFER_SLOT) whole ? watch_slot(slot, true) : watch_defined((u64)p, bytes);
    for (u64 i = 0, next = 0; i + size <= bytes; i += size) {
        memcpy(p + i, pattern, size);
        if (i >= next) check_time(), next += 1 << 24;
    }
}

// Slots, offsets, and bytes.
void copy_stretch() {
    u64 from = BUFFER_SLOT + get(), to = stretched_slot(get()), from_offset = get(), to_offset = get(), bytes = get();
    if (bytes == TO_THE_END) bytes = SLOTS[from].size < SLOTS[to].size ? SLOTS[from].size : SLOTS[to].size;
    if (stretch(from, from_offset, bytes) != bytes || stretch(to, to_offset, bytes) != bytes) _exit(4);
    u64 target = SLOTS[to].low + to_offset;
    if (to >= BUFFER_SLOT) bytes == SLOTS[to].size ? watch_slot(to, true) : watch_defined(target, bytes);
    memmove((void *)target, (void *)(SLOTS[from].low + from_offset), bytes);
}

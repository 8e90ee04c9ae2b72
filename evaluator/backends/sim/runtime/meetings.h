// Where threads come to know what others know: fences, barriers, lanes of a warp, barrier objects. A part of weak_memory.cpp.
#pragma once
#include "store_buffers.h"

void weak_fence(Warp &w, u32 mask, u32 semantics) {
    bool wide = !(semantics & OF_BLOCK);
    BlockView *view = w.block->view;
    if (wide && semantics & RELEASES) cover(w);
    if (wide && semantics & SEQUENTIAL) land_due(view);
    if (wide && semantics & ACQUIRES) drop_sectors(view);
    view->epoch++;
    for (u32 left = CAUSAL ? mask : 0; left; left &= left - 1) {
        u32 thread = w.index * LANES + (u32)__builtin_ctz(left);
        fence_thread(view->causality.threads[thread], view->number, thread, semantics);
    }
    view->causality.dirty |= 1u << w.index;
    NOW++;
}

void weak_arrival(Warp &w, u32 number) {
    Causality &c = w.block->view->causality;
    u32 count = block_threads();
    for (u32 i = w.index * LANES; CAUSAL && i < (w.index + 1) * LANES && i < count; i++) come_to(meeting(c, number), c.threads[i], i);
}
void weak_completion(Block &block, u32 number) {
    if (CAUSAL) close_meeting(meeting(block.view->causality, number), block.view->number, false);
}
void weak_departure(Warp &w, u32 number) {
    Causality &c = w.block->view->causality;
    u32 count = block_threads();
    for (u32 i = w.index * LANES; CAUSAL && i < (w.index + 1) * LANES && i < count; i++) leave(meeting(c, number), c.threads[i]);
}

void weak_members(Warp &w, u32 mask, const U32 &members) {
    BlockView *view = w.block->view;
    Causality &c = view->causality;
    if (!CAUSAL || !(c.dirty >> w.index & 1)) return;
    each_group(mask, members, [&](u32 named, u32 lanes) {
        Meeting &m = meeting(c, WARP_MEETING);
        u32 group = (named | lanes) & w.live;
        for (u32 left = group; left; left &= left - 1) {
            u32 thread = w.index * LANES + (u32)__builtin_ctz(left);
            come_to(m, c.threads[thread], thread);
        }
        close_meeting(m, view->number, false);
        for (u32 left = lanes; left; left &= left - 1) leave(m, c.threads[w.index * LANES + (u32)__builtin_ctz(left)]);
        if (lanes == w.live && group == w.live) c.dirty &= ~(1u << w.index);
    });
}

void weak_object(Warp &w, u32 lane, u64 address, bool arrives) {
    BlockView *view = w.block->view;
    Causality &c = view->causality;
    u32 thread = w.index * LANES + lane;
    view->epoch++;
    if (!CAUSAL) return;
    u64 number = OBJECTS;
    while (number < MEETINGS && c.meetings[number].address && c.meetings[number].address != address) number++;
    if (number == MEETINGS || !is_slot(address, SHARED_SLOT)) {
        CAUSAL = false;
        return;
    }
    Meeting &m = meeting(c, number);
    m.address = address;
    if (arrives) come_to(m, c.threads[thread], thread), NOW++;
    u32 phase = (u32)(*(u64 *)address >> 63);
    if (phase != m.phase) close_meeting(m, view->number, true);
    m.phase = phase;
    if (!arrives) leave(m, c.threads[thread]);
    c.dirty |= 1u << w.index;
}

#include "operations.h"
static Site S[] = {{0, 0, 5, PLAIN, 0, 0}};
static BlockCount N[8];
static u64 G[1];
static const Extent E[] = {{}};
static void k0(Warp &w) {
u32 r0;
u32 r1;
U32 r2;
U32 r3;
U32 r4;
U64 r5;
Pending<7> pending; u32 m = w.live, cc = 0, returned = 0; int at = 0; u32 turns = 0;
u32 bar_number = 0, bar_threads = 0, missing = 0; i32 bar_line = 0;
goto B0;
dispatch:
if (pending.next == 7) {
if (pending.parked & w.live) {
if (missing & ~pending.parked) partial_barrier(missing & ~pending.parked, bar_line);
missing = 0;
barrier(w, bar_number, bar_threads, NO_REDUCTION, 0, true, bar_line);
pending.unpark(); goto dispatch; }
return; }
m = pending.take(at);
resume:
m &= w.live; if (!m) goto dispatch;
switch (at) { case 1: goto B1; case 3: goto B3; case 4: goto B4; case 6: goto B6; default: __builtin_unreachable(); }
B0: {
enter(w, N[0], m, 3);
{
r5 = all64(parameter<8>(w, 0));
}
{
r2 = pick(m, all32((u32)parameter<4>(w, 8)), r2);
}
r3 = pick(m, all32(0u), r3);
if (__builtin_expect(pending.next > 1, 1)) goto B1;
pending.add(1, m); goto dispatch;
}
B1: {
enter(w, N[1], m, 3);
r4 = and_b32(r2, all32(1u));
{ u32 t = ne_b32(r4, all32(0u)), u = ~(ne_b32(r4, all32(0u)));
r1 = t;
}
u32 taken = m & r1;
u32 waiting = taken; if (waiting != m) {
if (waiting) { N[1].diverged++; pending.add(3, waiting); m &= ~waiting; }
goto B2;
}
if (__builtin_expect(pending.next > 3, 1)) goto B3;
pending.add(3, m); goto dispatch;
}
B2: {
enter(w, N[2], m, 1);
r3 = pick(m, add_b32(r3, r2), r3);
if (__builtin_expect(pending.next > 3, 1)) goto B3;
pending.add(3, m); goto dispatch;
}
B3: {
enter(w, N[3], m, 3);
r2 = pick(m, sub_b32(r2, all32(1u)), r2);
{ u32 t = lt_s32(all32(0u), r2), u = ~(lt_s32(all32(0u), r2));
r0 = pick(m, t, r0);
}
u32 taken = m & r0;
u32 looping = taken; if (looping) {
if (looping != m) { N[3].diverged++;
pending.add(4, (m & ~looping)); m = looping; }
if (__builtin_expect((w.fuel -= 1) < 0, 0)) watchdog(w, m, 2);
goto B1;
}
if (__builtin_expect(pending.next > 4, 1)) goto B4;
pending.add(4, m); goto dispatch;
}
B4: {
enter(w, N[4], m, 1);
{ u32 g = m & r0; if (g) {
fault(w, g, "trap", 3, "executed a trap");
} }
goto B5;
}
B5: {
enter(w, N[5], m, 1);
if (m == w.live && pending.next == 7) {
barrier(w, of_warp(w, m, all32(0u), 4), 0, NO_REDUCTION, 0, true, 4, true);
} else {
static const int later[] = {6};
for (int at : later) missing |= pending.lanes[at] & ~w.leaving;
if (pending.parked & w.live) diverged(w, m, pending.parked & w.live, 4, bar_line);
bar_number = of_warp(w, m, all32(0u), 4); bar_threads = 0; bar_line = 4;
pending.park(6, m); goto dispatch; }
if (__builtin_expect(pending.next > 6, 1)) goto B6;
pending.add(6, m); goto dispatch;
}
B6: {
enter(w, N[6], m, 2);
{
U32 t[1] = {r3};
store<4, 1>(w, m, r5, S[0], t);
}
w.live &= ~m;
goto dispatch;
}
}
static const u8 v0[] = {1, 0, 0, 0, 2, 0, 0, 0};
static const ModuleVariable V[] = {{8, 1, v0, false}};
static const Kernel K[] = {{k0, 12, 4, 0, 266240, true, false, true, false}};
const Program assay_program = {K, 1, V, 1, S, 1, N, 7, G, 0, E};

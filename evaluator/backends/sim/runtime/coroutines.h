// Coroutines: each warp of a block with barriers has a stack of its own.
#pragma once
#include "shadow.h"
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace {

enum : u64 { STACK_BYTES = 4 << 20 }; // of which a warp touches what it needs: registers of 32 lanes, all of them kept where a program is compiled quickly

#if defined(__x86_64__)
// Switch stacks, keeping what the System V ABI says a call keeps.
asm(R"(
.text
.globl assay_switch
.type assay_switch,@function
assay_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size assay_switch,.-assay_switch
)");
extern "C" void assay_switch(void **save, void *to);
void *SCHEDULER;
Warp *STARTING;
void (*BODY)(Warp &);

void coroutine_main() {
    Warp &w = *STARTING;
    BODY(w);
    w.waits_at = -2;
    assay_switch(&w.saved, SCHEDULER);
    __builtin_trap();
}
void make_coroutine(Warp &w) {
    u64 *top = (u64 *)(w.stack + w.stack_bytes);
    *--top = 0;
    *--top = (u64)&coroutine_main;
    for (int i = 0; i < 6; i++) *--top = 0;
    w.saved = top;
}
void resume(Warp &w) {
    STARTING = &w;
    assay_switch(&SCHEDULER, w.saved);
}
void suspend(Warp &w) { assay_switch(&w.saved, SCHEDULER); }
#else
ucontext_t SCHEDULER;
Warp *STARTING;
void (*BODY)(Warp &);
void coroutine_main() {
    Warp &w = *STARTING;
    BODY(w);
    w.waits_at = -2;
    swapcontext((ucontext_t *)w.saved, &SCHEDULER);
}
void make_coroutine(Warp &w) {
    ucontext_t *c = (ucontext_t *)(w.saved ? w.saved : calloc(1, sizeof(ucontext_t)));
    getcontext(c);
    c->uc_stack.ss_sp = w.stack;
    c->uc_stack.ss_size = w.stack_bytes;
    c->uc_link = nullptr;
    makecontext(c, coroutine_main, 0);
    w.saved = c;
}
void resume(Warp &w) {
    STARTING = &w;
    swapcontext(&SCHEDULER, (ucontext_t *)w.saved);
}
void suspend(Warp &w) { swapcontext((ucontext_t *)w.saved, &SCHEDULER); }
#endif

} // namespace

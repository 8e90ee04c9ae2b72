// Blocks over cores: a launch with much left to do is finished by processes forked for it, which share the memory that
// blocks may share. They take blocks in rising order, so the lowest block that faults is the one that would have
// faulted first on one core. What depends on an order (atomics, printing, the heap, waiting) stays on one core.
// A part of runtime.cpp.
#pragma once
#include "blocks.h"
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

enum : u64 { MOST_CORES = 16, SERIAL_NS = 4000000, WORTH_NS = 8000000 };
enum : u64 { BLOCKS_BETWEEN_LOOKS = 16 }; // at most: to look at the clock is a call of the kernel, and blocks may be short

struct Verdict {
    bool faulted;
    u64 block; // its number in the grid
    const char *kind;
    i32 place;
    bool has_thread;
    u32 thread[3], id[3];
    Fault fault;
    char message[400];
};
struct Worker {
    u64 executed, issued, shuffles, spent_ns;
    u32 warnings_bytes;
    char warnings[4096];
    Verdict verdict;
};
struct Pool {
    u64 next, limit; // the next block to take, and the lowest that faulted
    Worker workers[MOST_CORES];
};
Pool *POOL;
Worker *SELF; // in a forked process
u64 CURRENT_BLOCK;

bool in_worker() { return SELF != nullptr; }

// Make what a slot holds visible to the processes forked from now on. False where there is no room.
bool share(SlotInfo &slot) {
    if (slot.shared || !slot.mapped || slot.constant) return true;
    if (slot.repeats) return false; // zeros, of which a copy would be all of them
    void *at = mmap(nullptr, slot.mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return false;
    void *there = (void *)(slot.low & ~4095ull);
    memcpy(at, there, slot.mapped);
    if (mremap(at, slot.mapped, slot.mapped, MREMAP_MAYMOVE | MREMAP_FIXED, there) == MAP_FAILED) {
        munmap(at, slot.mapped);
        return false;
    }
    return slot.shared = true;
}

// What spreading costs before it gains: a copy of what is not shared yet, and each process's way to its pages.
u64 price_ns() {
    u64 ns = WORTH_NS;
    for (u64 number = MODULE_SLOT; number < SLOT_COUNT; number++) {
        const SlotInfo &slot = SLOTS[number];
        if (slot.size && !slot.constant) ns += slot.mapped / 2 + (slot.shared ? 0 : slot.mapped);
    }
    return ns;
}

bool share_all() {
    for (u64 number = MODULE_SLOT; number < SLOT_COUNT; number++)
        if (SLOTS[number].size && !share(SLOTS[number])) return false;
    if (!POOL) {
        void *at = mmap(nullptr, sizeof(Pool), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED) return false;
        POOL = (Pool *)at;
    }
    return true;
}

bool take_block(u64 &block, u64 blocks) {
    block = CURRENT_BLOCK = __atomic_fetch_add(&POOL->next, 1, __ATOMIC_RELAXED);
    return block < blocks && block < __atomic_load_n(&POOL->limit, __ATOMIC_RELAXED);
}

// A fault of a forked process, for the one that answers.
[[noreturn]] void leave_fault(const char *kind, const char *message, i32 place, const u32 thread[3], const u32 id[3]) {
    Verdict &v = SELF->verdict;
    SELF->spent_ns = now_ns();
    v.block = CURRENT_BLOCK;
    v.kind = kind; // texts lie where they lie in the process that this one was forked from
    v.place = place;
    v.has_thread = thread != nullptr;
    for (int i = 0; i < 3; i++) v.thread[i] = thread ? thread[i] : 0, v.id[i] = id ? id[i] : 0;
    v.fault = FAULT;
    format(v.message, "%s", message);
    v.faulted = true;
    u64 limit = __atomic_load_n(&POOL->limit, __ATOMIC_RELAXED);
    while (CURRENT_BLOCK < limit && !__atomic_compare_exchange_n(&POOL->limit, &limit, CURRENT_BLOCK, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
    _exit(0);
}

// Of a launch on one core, of which `ran` blocks took so long: a quarter of those that seem to be left until SERIAL_NS.
u64 blocks_until_look(u64 ran, u64 spent_ns) {
    u64 quarter = spent_ns < SERIAL_NS ? ran * (SERIAL_NS - spent_ns) / (4 * spent_ns + 1) : 0;
    return quarter < BLOCKS_BETWEEN_LOOKS ? quarter : BLOCKS_BETWEEN_LOOKS;
}

// Whether all came back; else this process ends in the way of the one that did not.
void wait_for(const pid_t *children, u64 count) {
    for (u64 i = 0; i < count; i++) {
        int status = 0;
        while (waitpid(children[i], &status, 0) < 0 && errno == EINTR) {}
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
        for (u64 j = i + 1; j < count; j++) kill(children[j], SIGKILL);
        if (WIFSIGNALED(status)) {
            signal(WTERMSIG(status), SIG_DFL);
            raise(WTERMSIG(status));
        }
        _exit(5);
    }
}

// Those of another process, whose first ones are this one's.
void merge_warnings(const char *lines, u32 bytes) {
    for (u32 at = 0; at < bytes;) {
        const char *end = (const char *)memchr(lines + at, '\n', bytes - at);
        u32 size = end ? (u32)(end - lines) + 1 - at : bytes - at;
        keep_warning(lines + at, size);
        at += size;
    }
}

[[noreturn]] void work(const Kernel &kernel, Worker &worker, u64 blocks, u64 left_ns) {
    SELF = &worker;
    DEADLINE_NS = left_ns; // a process of its own has a clock of its own
    u64 executed = EXECUTED, issued = ISSUED; // before: what is spread may not take up more than is left
    SHUFFLES = 0;
    u32 until_look = BLOCKS_BETWEEN_LOOKS;
    for (u64 block; take_block(block, blocks);) {
        set_block(block);
        run_block(kernel);
        account(WARPS[0]);
        if (over_budget() || --until_look == 0) {
            until_look = BLOCKS_BETWEEN_LOOKS;
            look_at_clock(WARPS[0], 1, -1);
        }
    }
    worker.executed = EXECUTED - executed;
    worker.issued = ISSUED - issued;
    worker.shuffles = SHUFFLES;
    worker.spent_ns = now_ns();
    worker.warnings_bytes = WARNINGS_BYTES;
    memcpy(worker.warnings, WARNINGS, WARNINGS_BYTES);
    _exit(0);
}

// Finish a launch from block `first` on with a process for each core. False where none could be made.
bool finish_spread(const Kernel &kernel, u64 first, u64 blocks) {
    if (!share_all()) return false;
    memset(POOL, 0, sizeof *POOL);
    POOL->next = first;
    POOL->limit = blocks;
    pid_t children[MOST_CORES];
    u64 count = 0, now = now_ns(), left_ns = DEADLINE_NS > now ? DEADLINE_NS - now : 0, spent_ns = 0;
    while (count < CORES) {
        pid_t child = fork();
        if (child == 0) work(kernel, POOL->workers[count], blocks, left_ns);
        if (child < 0) break;
        children[count++] = child;
    }
    if (!count) return false;
    SPREAD_LAUNCHES++;
    wait_for(children, count);
    const Verdict *lowest = nullptr;
    for (u64 i = 0; i < count; i++) {
        const Worker &worker = POOL->workers[i];
        spent_ns = worker.spent_ns > spent_ns ? worker.spent_ns : spent_ns;
        if (worker.verdict.faulted && (!lowest || worker.verdict.block < lowest->block)) lowest = &worker.verdict;
    }
    DEADLINE_NS -= spent_ns < DEADLINE_NS ? spent_ns : DEADLINE_NS; // this one's clock stood still
    BEGAN_NS -= spent_ns;
    if (lowest) {
        FAULT = lowest->fault;
        bool named = lowest->has_thread;
        answer_fault(lowest->kind, lowest->message, lowest->place, named ? lowest->thread : nullptr, named ? lowest->id : nullptr);
    }
    for (u64 i = 0; i < count; i++) {
        const Worker &worker = POOL->workers[i];
        EXECUTED += worker.executed;
        ISSUED += worker.issued;
        SHUFFLES += worker.shuffles;
        merge_warnings(worker.warnings, worker.warnings_bytes);
    }
    return true;
}

} // namespace

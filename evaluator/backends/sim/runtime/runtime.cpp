// The simulator's process: reads runs from the referee on stdin, executes them block by block, answers on stdout.
//
// It decides nothing: it hands back memory and facts. Numbers are little-endian u64; texts and contents follow their
// length. One process serves all runs of one evaluation, so module variables keep their state from run to run.
#include "coroutines.h"
#include "loading.h"
#include "pipe.h"
#include "schedule.h"
#include "weak_memory.h"
#include <errno.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

SlotInfo SLOTS[SLOT_COUNT];
u64 LOCAL_STRIDE;
u8 POISON, OUTPUT_POISON;
bool KEEPS;
Fault FAULT;
Launch LAUNCH;
char PRINTED[PRINT_LIMIT];
u32 PRINTED_BYTES;
u64 SHUFFLES, LOST_PRINTS, UNSEEN;

namespace {

char WARNINGS[4096];
u32 WARNINGS_BYTES;
bool BACKWARDS; // blocks and warps run last first
u64 SAMPLE_BLOCKS, DICE; // most blocks of a launch that run, 0 for all; state of the numbers that choose them
u64 BEGAN_NS, DEADLINE_NS, UNWATCHED;
u64 EXECUTED, ISSUED, MOST_EXECUTED; // instructions of threads and of warps in this run, and how many it may execute
u64 CORES = 1, SPREAD_LAUNCHES; // how many cores a launch may use; launches of this run that used several
const char *CURRENT_KERNEL = "";
u64 LIVING, BLOCKS_BEHIND; // of a launch whose blocks run by turns: those that have begun and not ended, and those to come
const char *const TIME_IS_UP = "was still running when its time was up";
char NAMES[1 << 16]; // buffer names of the current run
Stretch STRETCHES[MOST_REPETITIONS]; // of the piece that an input repeats
enum : i64 { FUEL = 4096, SHORT_TURN = 256 };
enum : u64 { MOST_UNWATCHED = 1 << 18 };
// A warp's instruction counts for eight lanes at least: it takes as long whether one of them runs or all.
enum : u64 { LEAST_LANES = 8 };

u64 now_ns() { // of this program alone: a machine that is busy with others takes nothing from a run's time
    timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (u64)t.tv_sec * 1000000000ull + t.tv_nsec;
}

} // namespace

namespace {

void account(Warp &w) {
    EXECUTED += w.executed;
    ISSUED += w.issued;
    w.executed = w.issued = 0;
}
// Whether the run has executed more than it may: the same on every machine, which time is not.
bool over_budget() { return MOST_EXECUTED && (EXECUTED > MOST_EXECUTED || ISSUED > MOST_EXECUTED / LEAST_LANES); }
const char *over_budget_said() {
    bool of_threads = EXECUTED > MOST_EXECUTED;
    char digits[24], said[40];
    u32 count = (u32)format(digits, "%llu", (unsigned long long)(of_threads ? MOST_EXECUTED : MOST_EXECUTED / LEAST_LANES)), at = 0;
    for (u32 i = 0; i < count; i++) {
        if (i && (count - i) % 3 == 0) said[at++] = ',';
        said[at++] = digits[i];
    }
    const char *whose = of_threads ? "" : " of warps with few lanes (each counts for 8 of threads)";
    format(FAULT.message, "was running when the launch had executed more than %.*s instructions%s", (int)at, said, whose);
    return FAULT.message;
}

// In a run with a drawn schedule (turns.h): whether for half of its instructions no warp came further. In weak memory a
// store may still be to come.
bool nothing_changed();
void name_other_block();
const char *const WAITS_WITHOUT_END = "waits without end: all that still run read again and again what no thread writes any more";

// Of processes that a launch is spread over (spreading.h).
bool in_worker();
[[noreturn]] void leave_fault(const char *kind, const char *message, i32 place, const u32 thread[3], const u32 id[3]);

// Answers.

enum : u64 { OK = 0, FAULTED = 1 };
i32 *LINES; // source line of each place
u64 PLACES;
char **KERNEL_NAMES, **VARIABLE_NAMES;

} // namespace

// A negative place is a line already, negated; -1 is unknown.
i32 line_of(i32 place) { return place < -1 ? -place : place >= 0 && (u64)place < PLACES ? LINES[place] : 0; }

namespace {

void put_facts() {
    put(EXECUTED);
    put(ISSUED);
    put(SHUFFLES);
    put(LOST_PRINTS);
    put(SPREAD_LAUNCHES);
    put(SCHEDULE_POINTS);
    put(SCHEDULE_TURNS);
    put(now_ns() - BEGAN_NS);
    put_text(PRINTED, PRINTED_BYTES);
    put_text(WARNINGS, WARNINGS_BYTES);
    put(BLOCKS_WATCHED);
    put(BLOCKS_RUN);
    put_hazards(KERNEL_NAMES);
}

[[noreturn]] void answer_fault(const char *kind, const char *message, i32 place, const u32 thread[3], const u32 block[3]) {
    if (in_worker()) leave_fault(kind, message, place, thread, block);
    put(FAULTED);
    put_facts();
    put_text(kind);
    put_text(message);
    put_text(CURRENT_KERNEL);
    put((u64)(i64)line_of(place));
    put(thread != nullptr);
    for (int i = 0; i < 3; i++) put(thread ? thread[i] : 0);
    for (int i = 0; i < 3; i++) put(block ? block[i] : 0);
    put_text(FAULT.buffer ? FAULT.buffer : "");
    put((u64)FAULT.element);
    put(FAULT.bytes);
    put((u64)FAULT.base);
    put(FAULT.has_other);
    put_party(FAULT.other);
    send_answer();
    _exit(0);
}

// One line of text, `kind line message`, unless there is one of its kind and line. A message may differ from block to
// block, in the lanes that it names.
void keep_warning(const char *text, u32 bytes) {
    const char *message = text;
    for (int spaces = 0; message < text + bytes && (spaces += *message == ' ') < 2;) message++;
    u64 key = (u64)(message - text) + 1;
    for (u32 at = 0; at < WARNINGS_BYTES;) {
        if (WARNINGS_BYTES - at >= key && !memcmp(WARNINGS + at, text, key)) return;
        const char *end = (const char *)memchr(WARNINGS + at, '\n', WARNINGS_BYTES - at);
        at = end ? (u32)(end - WARNINGS) + 1 : WARNINGS_BYTES;
    }
    if (WARNINGS_BYTES + bytes > sizeof WARNINGS) return;
    memcpy(WARNINGS + WARNINGS_BYTES, text, bytes);
    WARNINGS_BYTES += bytes;
}
} // namespace

void warn(HazardKind kind, i32 place, const char *message) {
    char text[320];
    int n = format(text, "%u %d %s\n", (u32)kind, line_of(place), message);
    if (n > 0 && n < (int)sizeof text) keep_warning(text, (u32)n);
}

namespace {
// `lane 3`, `lanes 16 to 31`, `lanes 1, 3 and others`.
struct LaneWords {
    char text[48];
    explicit LaneWords(u32 lanes) {
        u32 first = (u32)__builtin_ctz(lanes), last = 31 - (u32)__builtin_clz(lanes), rest = lanes & (lanes - 1);
        if (first == last) format(text, "lane %u", first);
        else if ((lanes >> first) + 1 == (last == 31 && !first ? 0 : 1u << (last - first + 1))) format(text, "lanes %u to %u", first, last);
        else format(text, "lanes %u, %u%s", first, (u32)__builtin_ctz(rest), rest & (rest - 1) ? " and others" : "");
    }
};
} // namespace

void absent_members(i32 place, const char *operation, u32 named, u32 absent) {
    char text[240];
    format(text, "%s names lanes that do not take part in it: its mask is 0x%x, and %s did not come, being in another branch",
           operation, named, LaneWords(absent).text);
    warn(ABSENT, place, text);
}
void unnamed_members(i32 place, const char *operation, u32 lanes) {
    char text[200];
    format(text, "%s is executed by lanes that its mask does not name, such as %s: undefined", operation, LaneWords(lanes).text);
    warn(UNNAMED, place, text);
}
void partial_barrier(u32 missing, i32 place) {
    char text[200];
    format(text, "a barrier was reached by part of a warp: %s went past it", LaneWords(missing).text);
    warn(PARTIAL_BARRIER, place, text);
}
u32 active_lanes(Warp &w, u32 lanes, bool asked, i32 place) {
    if (asked && lanes != (w.live & ~w.leaving))
        warn(ACTIVEMASK, place, "`__activemask()` was taken in a branch: it says which lanes run just then, and lanes of one branch need not run together");
    return lanes;
}

void out_of_memory(const char *what, u64 bytes) {
    char text[200];
    format(text, "%.100s of %llu bytes does not fit in the memory limit", what, (unsigned long long)bytes);
    answer_fault("out_of_memory", text, -1, nullptr, nullptr);
}

void fault(Warp &w, u32 lanes, const char *kind, i32 place, const char *message) {
    u32 lane = lanes ? __builtin_ctz(lanes) : 0, thread[3];
    for (int i = 0; i < 3; i++) thread[i] = spread(w.tid[i]).e[lane];
    account(w);
    answer_fault(kind, message, place, thread, w.block->id);
}

void bad_call(Warp &w, u32 lanes, u64 target, bool function, i32 place) {
    if (!target) fault(w, lanes, "null", place, "called a null function pointer");
    if (function) fault(w, lanes, "bad_call", place, "called a function through a pointer of another type");
    format(FAULT.message, "called address 0x%llx, where no function is", (unsigned long long)target);
    fault(w, lanes, "bad_call", place, FAULT.message);
}

bool same_line(i32 place, i32 other) { return line_of(place) == line_of(other); }

Party party(const Warp &w, u32 lanes, i32 place, Act act) {
    Party p;
    for (int i = 0; i < 3; i++) p.thread[i] = spread(w.tid[i]).e[lanes ? __builtin_ctz(lanes) : 0];
    memcpy(p.block, w.block->id, sizeof p.block);
    p.place = place;
    p.act = act;
    return p;
}

namespace {

// What has run too long may do so because it waits for a block that begins only after it.
const char *and_blocks_behind(const char *said) {
    static char text[sizeof FAULT.message];
    if (!BLOCKS_BEHIND) return said;
    format(text, "%s, while %llu blocks had begun and not ended, and %llu had not begun", said, (unsigned long long)LIVING,
           (unsigned long long)BLOCKS_BEHIND);
    return text;
}

} // namespace

void look_at_clock(Warp &w, u32 lanes, i32 place) {
    account(w);
    bool late = now_ns() >= DEADLINE_NS;
    if (late || over_budget()) name_other_block();
    if (over_budget()) {
        if (SCHEDULED && !WEAK && nothing_changed()) fault(w, lanes, "endless_wait", place, WAITS_WITHOUT_END);
        fault(w, lanes, "instruction_limit", place, and_blocks_behind(over_budget_said()));
    }
    if (late) fault(w, lanes, "watchdog", place, and_blocks_behind(TIME_IS_UP));
}

#include "samples.h"
#include "spreading.h"
#include "turns.h"

namespace {

void run_launch(const Kernel &kernel, const u8 *parameters, bool cooperative) {
    CURRENT_KERNEL = KERNEL_NAMES[&kernel - PROGRAM->kernels];
    for (u32 i = 0; i < PROGRAM->site_count; i++) PROGRAM->sites[i].low = PROGRAM->sites[i].count = 0;
    u32 threads = LAUNCH.block[0] * LAUNCH.block[1] * LAUNCH.block[2];
    BLOCK.warp_count = (threads + LANES - 1) / LANES;
    LAUNCH.shared_bytes = kernel.shared_bytes + LAUNCH.dynamic_bytes;
    LAUNCH.grid_id++;
    watch_launch((u32)(&kernel - PROGRAM->kernels));
    weak_launch((u32)(&kernel - PROGRAM->kernels));
    map_slot(SHARED_SLOT, LAUNCH.shared_bytes, "shared memory", 1, false);
    u64 stride = kernel.local_bytes;
    LOCAL_STRIDE = stride;
    u64 blocks = (u64)LAUNCH.grid[0] * LAUNCH.grid[1] * LAUNCH.grid[2];
    bool together = cooperative && kernel.barriers;
    u64 chosen = SAMPLE_BLOCKS && SAMPLE_BLOCKS < blocks && !together ? SAMPLE_BLOCKS : blocks;
    bool by_turns = together || SCHEDULED || (kernel.meets && blocks > 1 && chosen == blocks);
    u64 at_once = together ? blocks : by_turns ? most_resident(blocks) : 1;
    map_slot(LOCAL_SLOT, at_once * BLOCK.warp_count * LANES * stride, "local memory", 1, false);
    LAUNCH.workspace = 0;
    if (cooperative) {
        map_slot(WORKSPACE_SLOT, WORKSPACE_BYTES, "the cooperative launch's workspace", 4, false);
        LAUNCH.workspace = SLOTS[WORKSPACE_SLOT].low;
        memset((void *)LAUNCH.workspace, 0, WORKSPACE_BYTES);
        watch_slot(WORKSPACE_SLOT, true);
    }
    map_slot(PARAMETER_SLOT, kernel.parameter_bytes, "parameters", 1, true);
    if (kernel.parameter_bytes) memcpy((void *)SLOTS[PARAMETER_SLOT].low, parameters, kernel.parameter_bytes);
    for (u32 i = 0; i < BLOCK.warp_count; i++) {
        Warp &w = WARPS[i];
        w.index = w.home = i;
        w.block = &BLOCK;
        w.executed = w.issued = 0;
        w.parameters = parameters;
        A32 t[3];
        for (u32 lane = 0; lane < LANES; lane++) {
            u32 linear = i * LANES + lane;
            t[0].e[lane] = linear % LAUNCH.block[0];
            t[1].e[lane] = linear / LAUNCH.block[0] % LAUNCH.block[1];
            t[2].e[lane] = linear / LAUNCH.block[0] / LAUNCH.block[1];
        }
        for (int d = 0; d < 3; d++) w.tid[d] = gather(t[d]);
        if (!w.stack) give_stack(w, STACK_BYTES);
        w.stack_limit = kernel.barriers ? w.stack + (256 << 10) : (u8 *)__builtin_frame_address(0) - (5 << 20);
    }
    u32 until_look = 1;
    if (COUNTING) begin_launch_counts();
    if (by_turns) run_by_turns(kernel, blocks, at_once, together);
    bool spreads = CORES > 1 && kernel.spreads && !kernel.polls && !cooperative && !BACKWARDS && !COUNTING && !WATCHED_SHARE && !WEAK && chosen == blocks;
    u64 began_ns = now_ns(), next_look = 0;
    for (u64 i = 0; i < (by_turns ? 0 : chosen); i++) {
        u64 number = chosen < blocks ? drawn(i, chosen, blocks) : BACKWARDS && !kernel.polls ? blocks - 1 - i : i;
        set_block(number);
        watch_block(BLOCK, number);
        weak_block(BLOCK, number);
        run_block(kernel);
        weak_block_over(BLOCK);
        if (spreads && i >= next_look) {
            u64 spent_ns = now_ns() - began_ns;
            next_look = i + 1 + blocks_until_look(i + 1, spent_ns);
            if (spent_ns >= SERIAL_NS) {
                spreads = false;
                if (spent_ns / (i + 1) * (blocks - i - 1) / CORES * (CORES - 1) >= price_ns() && finish_spread(kernel, i + 1, blocks)) break;
            }
        }
        if (COUNTING) count_idle_threads();
        if (--until_look == 0) {
            until_look = 64;
            look_at_clock(WARPS[0], 1, -1);
        }
    }
    weak_launch_over();
    if (COUNTING) end_launch_counts(&kernel - PROGRAM->kernels, blocks, chosen);
    for (u32 i = 0; i < BLOCK.warp_count; i++) account(WARPS[i]);
}

} // namespace

Warp &warp_of_block(u32 index) { return WARPS[index]; }

u32 barrier(Warp &w, u32 number, u32 threads, Reduction reduction, u32 predicate, bool wait, i32 place, bool aligned) {
    if (number >= BARRIERS) fault(w, w.live, "bad_barrier", place, "named a barrier above 15");
    if (threads % LANES) fault(w, w.live, "bad_barrier", place, "gave a barrier a thread count that is not a multiple of 32");
    if (WEAK) weak_meeting(w), weak_arrival(w, number);
    if (!wait) {
        if (WATCHING) watch_arrival(w, number);
        ARRIVED[number] += LANES;
        return 0;
    }
    if (WATCHING) watch_arrival(w, number);
    w.waits_at = (i32)number;
    w.expects = threads;
    w.wait_place = place;
    w.aligned = aligned;
    w.vote = predicate;
    w.reduced = (u32)reduction;
    suspend(w);
    return w.reduced;
}

// Lanes of one warp wait at two barriers; the hardware takes each for the other, or waits without end.
void diverged(Warp &w, u32 lanes, u32 others, i32 place, i32 other_place) {
    if (same_line(place, other_place)) return;
    FAULT.other = party(w, others, other_place, WAIT);
    FAULT.has_other = true;
    format(FAULT.message, "waits at a barrier while other threads of its warp wait at the one on line %d", line_of(other_place));
    fault(w, lanes, "divergent_barrier", place, FAULT.message);
}

u64 issued_so_far(const Warp &w) { return ISSUED + w.issued; }

namespace {

// Between launches, where no thread can be named.
void check_time() {
    if (over_budget()) answer_fault("instruction_limit", over_budget_said(), -1, nullptr, nullptr);
    if (now_ns() >= DEADLINE_NS) answer_fault("watchdog", TIME_IS_UP, -1, nullptr, nullptr);
}

#include "stretches.h"

void run_plan(u64 count) {
    u64 names = 0, returned[SLOT_COUNT - BUFFER_SLOT], returning = 0;
    forget_samples();
    u64 undefined = get();
    OUTPUT_POISON = (u8)undefined;
    POISON = (u8)(undefined >> 8);
    KEEPS = undefined >> 16 & 1;
    BACKWARDS = get() != 0;
    DEADLINE_NS = (BEGAN_NS = now_ns()) + get();
    begin_counting(get() != 0);
    SAMPLE_BLOCKS = get();
    DICE = get();
    WATCHED_SHARE = (u32)get();
    WATCH_SEED = get();
    JITTER = get();
    MOST_EXECUTED = get();
    draw_registers(get());
    draw_schedule(get());
    if (SAMPLE_BLOCKS) draw_schedule(0); // blocks by themselves have nobody to meet
    u64 weak_draw = get();
    EXECUTED = ISSUED = SHUFFLES = LOST_PRINTS = SPREAD_LAUNCHES = 0;
    begin_heap();
    watch_run();
    weak_run(WATCHED_SHARE ? 0 : weak_draw), TURNS = weak_draw << 1 >> 1; // the shadow memory watches one memory
    PRINTED_BYTES = WARNINGS_BYTES = 0;
    if (count > SLOT_COUNT - BUFFER_SLOT) _exit(4);
    for (u64 slot = BUFFER_SLOT; slot < SLOT_COUNT; slot++) SLOTS[slot].size = 0;
    for (u64 i = 0; i < count; i++) {
        u64 size = get(), item = get(), flags = get(), length = get();
        if (names + length + 1 > sizeof NAMES) _exit(4);
        char *name = NAMES + names;
        read_all(name, length);
        name[length] = 0;
        names += length + 1;
        if (flags & 4) {
            u64 bytes = get(), stretches = get();
            if (stretches > MOST_REPETITIONS) _exit(4);
            read_all(STRETCHES, stretches * sizeof *STRETCHES);
            map_repeated(BUFFER_SLOT + i, size, name, item, bytes, STRETCHES, stretches);
            read_all((void *)SLOTS[BUFFER_SLOT + i].low, bytes);
            if (flags & 8) sample_slot(BUFFER_SLOT + i, bytes);
            continue;
        }
        map_slot(BUFFER_SLOT + i, size, name, item, false);
        if (flags & 8) sample_slot(BUFFER_SLOT + i, 0);
        watch_slot(BUFFER_SLOT + i, flags & 1);
        if (flags & 1) read_all((void *)SLOTS[BUFFER_SLOT + i].low, size);
        else if (!KEEPS) make_undefined((void *)SLOTS[BUFFER_SLOT + i].low, size, flags & (2 | 8) ? OUTPUT_POISON : POISON);
        if (flags & 2) returned[returning++] = BUFFER_SLOT + i;
    }
    for (u64 steps = get(); steps; steps--) {
        u64 kind = get();
        if (kind == 0) {
            u64 index = get();
            if (index >= PROGRAM->kernel_count) _exit(4);
            for (int d = 0; d < 3; d++) LAUNCH.grid[d] = (u32)get();
            for (int d = 0; d < 3; d++) LAUNCH.block[d] = (u32)get();
            LAUNCH.dynamic_bytes = (u32)get();
            bool cooperative = get() != 0;
            static u8 parameters[1 << 16];
            memset(parameters, 0, sizeof parameters);
            for (u64 arguments = get(); arguments; arguments--) {
                u64 is_address = get(), offset = get(), size = is_address ? 8 : get();
                if (offset > sizeof parameters || size > sizeof parameters - offset) _exit(4);
                if (is_address) {
                    u64 slot = BUFFER_SLOT + get(), value = SLOTS[slot].low + get();
                    memcpy(parameters + offset, &value, size);
                } else {
                    read_all(parameters + offset, size);
                }
            }
            run_launch(PROGRAM->kernels[index], parameters, cooperative);
        } else if (kind == 1) {
            fill_stretch();
        } else {
            copy_stretch();
        }
        check_time();
    }
    put(OK);
    put_facts();
    u64 record_bytes;
    const void *record = record_of_counts(record_bytes);
    put(recorded_launches());
    put_text((const char *)record, record_bytes);
    for (u64 i = 0; i < returning; i++) put(first_unwritten(returned[i]));
    for (u64 i = 0; i < returning; i++) write_all((void *)SLOTS[returned[i]].low, SLOTS[returned[i]].size);
    put_samples();
}

char **read_names(u64 expected) {
    u64 count = get();
    if (count != expected) _exit(4);
    char **names = (char **)calloc(count + 1, sizeof(char *));
    for (u64 i = 0; i < count; i++) {
        u64 length = get();
        names[i] = (char *)calloc(length + 1, 1);
        read_all(names[i], length);
    }
    return names;
}

} // namespace

int main(int count, char **arguments) {
    CORES = count > 1 ? strtoull(arguments[1], nullptr, 10) : 1;
    if (CORES > MOST_CORES) CORES = MOST_CORES;
    if (!find_program(count > 2 ? arguments[2] : nullptr)) return 5;
    PLACES = get();
    watch_places(PLACES);
    LINES = (i32 *)calloc(PLACES + 1, sizeof(i32));
    read_all(LINES, PLACES * sizeof(i32));
    KERNEL_NAMES = read_names(PROGRAM->kernel_count);
    VARIABLE_NAMES = read_names(PROGRAM->variable_count);
    for (u32 i = 0; i < PROGRAM->variable_count; i++) {
        const ModuleVariable &v = PROGRAM->variables[i];
        map_slot(MODULE_SLOT + i, v.size, VARIABLE_NAMES[i], v.item, v.constant);
        watch_slot(MODULE_SLOT + i, true);
        if (v.content) memcpy((void *)slot_address(MODULE_SLOT + i), v.content, v.size);
    }
    for (;;) {
        u64 count = get();
        if (count == ELEMENTS) give_elements();
        else run_plan(count);
        send_answer();
    }
}

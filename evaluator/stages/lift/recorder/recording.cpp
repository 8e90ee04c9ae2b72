// The recording itself, and `main`: reads what the entry function is to be called with, calls it, writes what it did.

#include "recorder.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

Recorder &recorder() {
    static Recorder *the = new Recorder; // never destroyed: initialisers and other threads may use it at any time
    return *the;
}

static void write_file(const std::string &name, const std::string &text) {
    int file = open(name.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    for (size_t at = 0; file >= 0 && at < text.size();) {
        ssize_t many = write(file, text.data() + at, text.size() - at);
        if (many <= 0) break;
        at += (size_t)many;
    }
    if (file >= 0) close(file);
}

std::string assay::quoted(const std::string &text) {
    std::string made = "\"";
    for (char c : text) {
        char escaped[8];
        if ((unsigned char)c > '~') c = '?';
        if (c == '"' || c == '\\' || (unsigned char)c < ' ') {
            snprintf(escaped, sizeof escaped, "\\u%04x", (unsigned char)c);
            made += escaped;
        } else {
            made += c;
        }
    }
    return made + "\"";
}

namespace {

void finish() {
    Recorder &r = recorder();
    std::string made = "{\"buffers\": [";
    for (size_t i = 0; i < r.buffers.size(); i++) {
        const Buffer &b = r.buffers[i];
        made += (i ? ", " : "") + std::string("{\"base\": ") + std::to_string(b.base) + ", \"bytes\": " + std::to_string(b.bytes);
        if (!b.variable.empty()) made += ", \"variable\": " + assay::quoted(b.variable);
        made += "}";
    }
    made += "], \"steps\": [";
    for (size_t i = 0; i < r.steps.size(); i++) made += (i ? ",\n" : "\n") + r.steps[i];
    made += "], \"streams\": " + std::to_string(r.stream_count) + ", \"non_blocking\": [";
    for (size_t i = 0; i < r.non_blocking.size(); i++) made += (i ? ", " : "") + std::to_string(r.non_blocking[i]);
    made += "], \"calls\": [";
    for (size_t i = 0; i < r.calls.size(); i++) {
        const Call &call = r.calls[i];
        made += (i ? ", " : "") + std::string("{\"first_step\": ") + std::to_string(call.first_step) + ", \"returned\": [";
        for (size_t k = 0; k < call.returned.size(); k++) made += (k ? ", " : "") + call.returned[k];
        made += "]}";
    }
    made += "]}\n";
    write_file(r.output, made);
    _exit(0);
}

unsigned long long draw() {
    unsigned long long &x = recorder().seed;
    x += 0x9e3779b97f4a7c15ull;
    unsigned long long z = x;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

void on_fault(int number, siginfo_t *info, void *) {
    if (is_made_up(info->si_addr)) refuse("host_access");
    if (is_given(info->si_addr)) refuse("pinned_access");
    signal(number, SIG_DFL);
    raise(number);
}

void read_program(Words &in) {
    Recorder &r = recorder();
    TargetDevice &d = r.device;
    d.name = in.next();
    for (int *one : {&d.major, &d.minor, &d.multiprocessors, &d.max_warps, &d.max_blocks}) *one = (int)in.number();
    for (long long *one : {&d.shared_bytes, &d.shared_per_block_bytes, &d.reserved_bytes, &d.shared_unit_bytes, &d.memory_bytes, &d.l2_bytes})
        *one = in.number();
    for (int *one : {&d.registers, &d.registers_per_block, &d.clock_khz, &d.memory_clock_khz, &d.bus_bits}) *one = (int)in.number();
    for (long long count = in.number(); count > 0; count--) {
        Kernel k;
        k.symbol = in.next();
        for (int *one : {&k.registers, &k.shared_bytes, &k.max_threads, &k.local_bytes, &k.constant_bytes}) *one = (int)in.number();
        k.parameters.resize((size_t)in.number() & 4095);
        for (int &bytes : k.parameters) bytes = (int)in.number();
        k.blocks_by_warps.resize(32);
        for (int &blocks : k.blocks_by_warps) blocks = (int)in.number();
        k.dynamic_bytes = k.shared_bytes < (48 << 10) ? (48 << 10) - k.shared_bytes : 0;
        k.known = true;
        r.kernels[k.symbol] = k;
    }
    in.skip_line();
}

void read_run(Words &in, int number) {
    Recorder &r = recorder();
    for (int i = 0; i < number; i++) in.skip_line();
    r.seed = r.first_seed = in.large();
    for (long long count = in.number(); count > 0; count--) new_buffer(in.large());
    assay::read_call(in);
}

void describe() {
    write_file("parameters.json", assay::description());
    _exit(0);
}

} // namespace

void refuse(const char *why, const std::string &name, long long number, const std::string &text) {
    write_file(recorder().output, std::string("{\"refusal\": {\"why\": ") + assay::quoted(why) + ", \"name\": " + assay::quoted(name) +
                                      ", \"number\": " + std::to_string(number) +
                                      ", \"call\": " + std::to_string(recorder().calls.size()) + ", \"text\": " + assay::quoted(text.substr(0, 400)) + "}}\n");
    _exit(0);
}

bool is_made_up(const void *address) {
    unsigned long long word = (unsigned long long)address;
    return word >= FIRST_ADDRESS && word < LAST_ADDRESS;
}

void begin_call() {
    Recorder &r = recorder();
    std::lock_guard<std::recursive_mutex> guard(r.lock);
    r.calls.push_back(Call{r.steps.size(), r.buffers.size(), {}});
    r.uploaded_bytes = r.held_bytes = r.step_count = r.order_count = 0;
    r.asked.clear();
}

size_t new_buffer(unsigned long long bytes, const std::string &variable) {
    Recorder &r = recorder();
    size_t before = r.calls.empty() ? 0 : r.calls.back().first_buffer;
    if (r.buffers.size() - before >= MAX_BUFFERS_OF_CALL || r.buffers.size() >= MAX_BUFFERS) refuse("too_many_buffers", "", (long long)MAX_BUFFERS_OF_CALL);
    if (bytes > SLOT_BYTES / 2) refuse("too_large_buffer", "", (long long)(bytes >> 20));
    // Each begins somewhere in a stretch of its own, so that no two of them are as far apart in another run, and in
    // that half of the stretch where it does not begin in the other recording, whose seed has every bit another.
    size_t number = r.buffers.size();
    unsigned long long half = r.first_seed >> number % SEED_BITS & 1;
    unsigned long long base = FIRST_ADDRESS + number * SLOT_BYTES + (2 + half) * (SLOT_BYTES / 8) + (draw() % (SLOT_BYTES / 8) & ~255ull);
    r.buffers.push_back(Buffer{base, bytes, variable, false});
    return r.buffers.size() - 1;
}

size_t new_buffer_at(unsigned long long base, unsigned long long bytes) {
    size_t number = new_buffer(bytes);
    recorder().buffers[number].base = base;
    return number;
}

static void add(const std::string &step, size_t count, size_t most, const char *otherwise) {
    Recorder &r = recorder();
    if (r.process && getpid() != r.process) _exit(0); // a child's copy of the recording is nobody's
    if (count >= most) refuse(otherwise, "", (long long)most);
    r.steps.push_back(step);
}

size_t new_pool_buffer(unsigned long long bytes, int stream) {
    Recorder &r = recorder();
    size_t number = new_buffer(bytes);
    r.buffers[number].pooled = true;
    // There are few buffers, so that this counts as no step.
    add("{\"allocate\": " + std::to_string(number) + ", \"stream\": " + std::to_string(stream) + "}", 0, 1, "");
    return number;
}

void free_buffer(size_t number, int stream) {
    recorder().buffers[number].freed = true;
    add_step("{\"free\": " + std::to_string(number) + (stream < 0 ? "" : ", \"stream\": " + std::to_string(stream)) + "}");
}

const Buffer &buffer_at(const void *address, unsigned long long bytes, const char *call) {
    unsigned long long word = (unsigned long long)address, number = (word - FIRST_ADDRESS) / SLOT_BYTES;
    if (!is_made_up(address) || number >= recorder().buffers.size()) refuse("no_buffer", call);
    const Buffer &found = recorder().buffers[number];
    if (found.freed) refuse("freed", call, (long long)number);
    if (word < found.base || word - found.base > found.bytes || bytes > found.bytes - (word - found.base))
        refuse("out_of_bounds", call, (long long)number);
    return found;
}

void add_step(const std::string &step) {
    Recorder &r = recorder();
    std::lock_guard<std::recursive_mutex> guard(r.lock);
    add(step, r.step_count, MAX_STEPS, "too_many_steps");
    r.step_count++;
}

void add_order(const char *order, int stream, int event) {
    Recorder &r = recorder();
    std::lock_guard<std::recursive_mutex> guard(r.lock);
    std::string made = "{\"order\": \"" + std::string(order) + "\", \"stream\": " + std::to_string(stream) +
                       ", \"event\": " + std::to_string(event) + "}";
    // Said twice it means no more: host code that waits after each call, or asks again and again, says little.
    if (r.step_count + r.order_count > 0 && r.steps.back() == made) return;
    add(made, r.order_count, MAX_ORDERS, "too_many_orders");
    r.order_count++;
}

std::string in_hex(const void *data, size_t bytes) {
    static const char digits[] = "0123456789abcdef";
    std::string made;
    made.reserve(2 * bytes);
    for (size_t i = 0; i < bytes; i++) {
        unsigned char byte = ((const unsigned char *)data)[i];
        made += digits[byte >> 4];
        made += digits[byte & 15];
    }
    return made;
}

namespace {

// Before the initialisers of the submission, which may allocate, copy and launch: all of that counts.
__attribute__((constructor(101))) void begin(int count, char **arguments, char **) {
    Recorder &r = recorder();
    r.process = (int)getpid();
    if (count < 2) {
        if (assay::described_without_initialisers) describe();
        return;
    }
    r.output = std::string("recording.") + arguments[1];

    // On a stack of its own: what reads a made-up address may have used up the other.
    static char stack[1 << 16];
    stack_t other = {};
    other.ss_sp = stack;
    other.ss_size = sizeof stack;
    sigaltstack(&other, nullptr);
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &action, nullptr);
    sigaction(SIGBUS, &action, nullptr);

    Words in = {fopen("request", "r"), {}};
    read_program(in);
    read_run(in, atoi(arguments[1]));
    if (in.file) fclose(in.file);
}

} // namespace

int main() {
    Recorder &r = recorder();
    if (r.output.empty()) describe();
    assay::call();
    std::lock_guard<std::recursive_mutex> guard(r.lock);
    if (getpid() != r.process) _exit(0);
    finish();
}

// What a submission's host code meets in place of the CUDA runtime: nothing is launched, everything is written down.
//
// This runs in one process with code that nobody trusts. What it writes is a proposal of a launch plan and no evidence:
// whoever reads it checks it as any plan that somebody sends. So nothing here defends itself against the host code; it
// only says in plain terms what honest host code does wrong.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cuda_runtime_api.h>
#include <map>
#include <mutex>
#include <string>
#include <vector>

// Addresses that are made up: no memory is mapped there, so reading them on the host is a fault that can be named.
constexpr unsigned long long FIRST_ADDRESS = 1ull << 44, SLOT_BYTES = 1ull << 35, MAX_BUFFERS = 2048;
constexpr unsigned long long LAST_ADDRESS = FIRST_ADDRESS + SLOT_BYTES * MAX_BUFFERS;
constexpr int SEED_BITS = 63;
// Of one call, of which a process makes several, and of what initialisers do before the first.
constexpr size_t MAX_STEPS = 4096, MAX_ORDERS = 4 * MAX_STEPS, MAX_UPLOAD_BYTES = 1 << 16, MAX_BUFFERS_OF_CALL = 508;

struct Buffer {
    unsigned long long base, bytes;
    std::string variable; // of the program, where it is one
    bool freed;
    bool pooled = false; // taken from a pool, in the order of a stream
    std::string known = ""; // its bytes, where the caller put them there before the call: they follow from sizes alone
    bool brought = false;   // whether the steps of the call put those bytes there
};

struct Kernel {
    std::string symbol;
    int registers, shared_bytes, max_threads, local_bytes, constant_bytes;
    std::vector<int> parameters;        // bytes of each
    std::vector<int> blocks_by_warps;   // that a multiprocessor holds of 1 to 32 warps, by registers alone
    int dynamic_bytes = 0;              // of shared memory, that may stand beside the static: what cudaFuncSetAttribute has allowed
    bool known = false;
};

struct TargetDevice {
    std::string name;
    int major, minor, multiprocessors, max_warps, max_blocks;
    long long shared_bytes, shared_per_block_bytes, reserved_bytes, shared_unit_bytes, memory_bytes, l2_bytes;
    int registers, registers_per_block, clock_khz, memory_clock_khz, bus_bits;
};

struct Call {
    size_t first_step, first_buffer;
    std::vector<std::string> returned; // tensors that the host code gave back, as JSON
};

struct Recorder {
    std::recursive_mutex lock;
    TargetDevice device;
    std::vector<Buffer> buffers;
    std::vector<std::string> steps; // as JSON
    std::map<std::string, Kernel> kernels;
    std::map<const void *, std::string> functions; // by the address of the host's stub
    std::map<const void *, std::pair<std::string, size_t>> variables;
    std::map<const void *, size_t> variable_buffers;
    std::map<cudaStream_t, int> streams; // those that are not destroyed
    std::map<cudaEvent_t, int> events;
    int stream_count = 1, event_count = 0; // that there ever were
    std::vector<int> non_blocking;         // streams that the default stream does not wait for, nor they for it
    size_t step_count = 0, order_count = 0; // of the call under way
    std::map<std::pair<char, int>, size_t> asked; // how many steps there were when a stream (s) or an event (e) was asked about
    size_t uploaded_bytes = 0, held_bytes = 0;
    unsigned long long seed = 1, first_seed = 1; // as it is after what was drawn, and as it was given
    std::string output;
    int process = 0;
    std::vector<Call> calls; // those that were begun
    cudaStream_t current_stream = nullptr; // PyTorch's, which its own fills and copies go to
    unsigned long long handles = 0;
    unsigned long long host_tensors = 0, host_tensors_end = 0; // where the memory of PyTorch's tensors on the host is
    cudaError_t error = cudaSuccess; // of the last launch that a GPU would not have made
};

Recorder &recorder();

// Ends the process with a word from a closed list on why nothing comes of it.
[[noreturn]] void refuse(const char *why, const std::string &name = "", long long number = 0, const std::string &text = "");

// What follows belongs to the next call; what one call may take is free again.
void begin_call();
size_t new_buffer(unsigned long long bytes, const std::string &variable = "");
// What holds these bytes when the call begins.
size_t new_known_buffer(const std::string &bytes);
// Lets the call begin with a step that puts such bytes where an argument of a kernel points.
void give_known(const void *argument, size_t bytes);
// For memory that has an address of its own, and its end.
size_t new_buffer_at(unsigned long long base, unsigned long long bytes);
// Memory of a pool, taken in the order of a stream, which is noted; and the end of a buffer, on a stream or at once.
size_t new_pool_buffer(unsigned long long bytes, int stream);
void free_buffer(size_t number, int stream = -1);
bool is_made_up(const void *address);
// The buffer that the address lies in or ends at; refuses one that belongs to none, or is freed.
const Buffer &buffer_at(const void *address, unsigned long long bytes, const char *call);
void add_step(const std::string &step);
// What orders steps of several streams, or lets the host wait: `number` is of a stream or an event.
void add_order(const char *order, int stream = 0, int event = 0);
void host_waits_for(cudaStream_t stream);
void record_fill(void *target, const std::string &hex, size_t bytes, cudaStream_t stream, const char *call);
// Of what the host holds in pinned memory, where it may be undefined.
void record_upload(void *target, const void *data, size_t bytes, cudaStream_t stream);
std::string in_hex(const void *data, size_t bytes);
Kernel &kernel_of(const void *function);
int number_of(cudaStream_t stream, const char *call);

// Pinned memory: what it holds where nobody has written, whether an address lies in it, whether a kernel was given it;
// and to give it to a kernel, wherever an argument points into some.
int undefined_byte();
bool is_pinned(const void *address);
bool is_given(const void *address);
void give_pinned(const void *argument, size_t bytes, cudaStream_t stream);

// A file of words, read without streams: at this time those of the standard library need not be ready.
struct Words {
    FILE *file;
    char word[4096];

    const char *next() {
        word[0] = 0;
        if (!file || fscanf(file, "%4095s", word) != 1) word[0] = 0;
        return word;
    }
    long long number() { return strtoll(next(), nullptr, 10); }
    unsigned long long large() { return strtoull(next(), nullptr, 10); }
    void skip_line() {
        for (int c = 0; file && c != '\n' && c != EOF;) c = fgetc(file);
    }
};

namespace assay {

std::string quoted(const std::string &text);

// What is called, and how: entry.cpp calls one function, extension.cpp what a module of Python's has.
extern const bool described_without_initialisers;
std::string description();
void read_call(Words &in);
void call();

} // namespace assay

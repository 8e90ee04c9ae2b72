// Pinned memory of the host: real memory, which a kernel may use as well.
//
// What the host code has not written there is undefined. So that it can be told, it holds a byte that is another one in
// the other recording. Once a kernel was given such memory, what it holds is for the device to say: the host's next
// access ends the recording.

#include "recorder.h"

#include <cstring>
#include <sys/mman.h>

namespace {

constexpr unsigned long long FIRST_PINNED = 7ull << 44, PINNED_SLOT = 1ull << 32, MAX_PINNED = 512, PAGE = 4096;
// Of an allocation: as much as may be brought to the device many times over. All of a large one would take real memory.
constexpr size_t MARKED_BYTES = 4 << 20;

struct Pinned {
    unsigned long long base, bytes;
    size_t buffer; // that it is in the recording, once a kernel was given it
    bool given, freed;
};

std::vector<Pinned> &all() {
    static auto *made = new std::vector<Pinned>;
    return *made;
}

Pinned *pinned_at(unsigned long long word) {
    if (word < FIRST_PINNED) return nullptr;
    unsigned long long number = (word - FIRST_PINNED) / PINNED_SLOT;
    if (number >= all().size()) return nullptr;
    Pinned &one = all()[number];
    return !one.freed && word >= one.base && word - one.base < one.bytes ? &one : nullptr;
}

void bring(Pinned &one, cudaStream_t stream) {
    Recorder &r = recorder();
    const char *held = (const char *)one.base;
    size_t bytes = (size_t)one.bytes, written = 0;
    while (written < bytes && held[written] == (char)undefined_byte()) written++;
    if (r.uploaded_bytes + bytes <= MAX_UPLOAD_BYTES) {
        r.uploaded_bytes += bytes;
        record_upload((void *)one.base, held, bytes, stream);
    } else if (written < bytes && written < MARKED_BYTES) {
        refuse("upload", "cudaLaunchKernel", (long long)bytes);
    }
}

} // namespace

int undefined_byte() { return (int)(recorder().first_seed & 255); }

bool is_pinned(const void *address) { return pinned_at((unsigned long long)address) != nullptr; }

bool is_given(const void *address) {
    Pinned *found = pinned_at((unsigned long long)address);
    return found && found->given;
}

void give_pinned(const void *argument, size_t bytes, cudaStream_t stream) {
    Recorder &r = recorder();
    for (size_t at = 0; at + 8 <= bytes; at += 8) {
        unsigned long long word;
        memcpy(&word, (const char *)argument + at, sizeof word);
        Pinned *found = pinned_at(word);
        if (!found || found->given) continue;
        found->buffer = new_buffer_at(found->base, found->bytes);
        found->given = true;
        bring(*found, stream);
        mprotect((void *)found->base, (found->bytes + PAGE - 1) / PAGE * PAGE, PROT_NONE);
    }
}

extern "C" {

cudaError_t cudaMallocHost(void **pointer, size_t bytes) {
    Recorder &r = recorder();
    std::lock_guard<std::recursive_mutex> guard(r.lock);
    if (!pointer) return cudaErrorInvalidValue;
    *pointer = nullptr;
    if (!bytes) return cudaSuccess;
    unsigned long long number = all().size();
    if (bytes > PINNED_SLOT / 4 || number >= MAX_PINNED) return cudaErrorMemoryAllocation;
    // As with the device's memory: in one half of a stretch in one recording, in the other in the other.
    unsigned long long half = r.first_seed >> number % SEED_BITS & 1, place = (r.first_seed ^ number) * 0x9e3779b97f4a7c15ull >> 20;
    unsigned long long base = FIRST_PINNED + number * PINNED_SLOT + (2 + half) * (PINNED_SLOT / 8) + (place % (PINNED_SLOT / 8) & ~(PAGE - 1));
    size_t whole = (bytes + PAGE - 1) / PAGE * PAGE;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
    if (mmap((void *)base, whole, PROT_READ | PROT_WRITE, flags, -1, 0) != (void *)base) return cudaErrorMemoryAllocation;
    memset((void *)base, undefined_byte(), bytes < MARKED_BYTES ? bytes : MARKED_BYTES);
    all().push_back(Pinned{base, bytes, 0, false, false});
    *pointer = (void *)base;
    return cudaSuccess;
}
cudaError_t cudaHostAlloc(void **pointer, size_t bytes, unsigned) { return cudaMallocHost(pointer, bytes); }
// It waits for all that the device does.
cudaError_t cudaFreeHost(void *pointer) {
    Recorder &r = recorder();
    std::lock_guard<std::recursive_mutex> guard(r.lock);
    if (!pointer) return cudaSuccess;
    Pinned *found = pinned_at((unsigned long long)pointer);
    if (!found || found->base != (unsigned long long)pointer) return cudaErrorInvalidValue;
    add_order("device");
    if (found->given) free_buffer(found->buffer);
    found->freed = true;
    munmap(pointer, (found->bytes + PAGE - 1) / PAGE * PAGE);
    return cudaSuccess;
}
cudaError_t cudaHostGetDevicePointer(void **pointer, void *host, unsigned) {
    if (!is_pinned(host)) return cudaErrorInvalidValue;
    *pointer = host;
    return cudaSuccess;
}

} // extern "C"

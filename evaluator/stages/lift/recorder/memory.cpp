// Device memory that is only made up: allocations become temporaries, sets and copies become steps.

#include "recorder.h"

#include <cstdlib>
#include <cstring>

namespace {

std::string number(unsigned long long x) { return std::to_string(x); }

// `stream`: in whose order memory of a pool is taken; none for other memory.
cudaError_t allocate(void **pointer, size_t bytes, int stream = -1) {
    Recorder &r = recorder();
    std::lock_guard<std::recursive_mutex> guard(r.lock);
    if (!pointer) return cudaErrorInvalidValue;
    *pointer = nullptr;
    if (!bytes) return cudaSuccess;
    if (bytes > (size_t)r.device.memory_bytes || r.held_bytes + bytes > (size_t)r.device.memory_bytes) return cudaErrorMemoryAllocation;
    r.held_bytes += bytes;
    *pointer = (void *)r.buffers[stream < 0 ? new_buffer(bytes) : new_pool_buffer(bytes, stream)].base;
    return cudaSuccess;
}

cudaError_t release(void *pointer, const char *call, int stream = -1) {
    Recorder &r = recorder();
    std::lock_guard<std::recursive_mutex> guard(r.lock);
    if (!pointer) return cudaSuccess;
    const Buffer &found = buffer_at(pointer, 0, call);
    if (found.base != (unsigned long long)pointer || !found.variable.empty()) refuse("no_buffer", call);
    // cudaFree waits for all that the device does, as many programs rely on; but not where the memory is of a pool.
    if (stream < 0 && !found.pooled) add_order("device");
    free_buffer((size_t)(&found - r.buffers.data()), stream);
    r.held_bytes -= found.bytes < r.held_bytes ? (size_t)found.bytes : r.held_bytes; // one of an earlier call counts no more
    return cudaSuccess;
}

void add_fill(void *target, const std::string &data, size_t bytes, cudaStream_t stream, const char *call, bool pinned) {
    add_step("{\"fill\": " + number((unsigned long long)target) + ", \"data\": \"" + data + "\", \"bytes\": " + number(bytes) +
             ", \"stream\": " + number((unsigned long long)number_of(stream, call)) +
             (pinned ? ", \"undefined\": " + number((unsigned long long)undefined_byte()) : "") + "}");
}

// The device's next step uses this address. Before all others of the call, so that no stream has to wait for it.
void bring_known(const void *address) {
    Recorder &r = recorder();
    size_t number = (size_t)(((unsigned long long)address - FIRST_ADDRESS) / SLOT_BYTES);
    if (!is_made_up(address) || number >= r.buffers.size()) return;
    Buffer &found = r.buffers[number];
    if (found.known.empty() || found.brought || (unsigned long long)address - found.base > found.bytes) return;
    found.brought = true;
    std::string base = std::to_string(found.base), size = std::to_string(found.known.size());
    std::string data = in_hex(found.known.data(), found.known.size());
    auto first = r.steps.begin() + (long)r.calls.back().first_step;
    first = r.steps.insert(first, "{\"fill\": " + base + ", \"data\": \"" + data + "\", \"bytes\": " + size + ", \"stream\": 0}");
    r.steps.insert(first + 1, "{\"order\": \"device\", \"stream\": 0, \"event\": 0}");
}

// The host code has the device write there, so that what it holds is no longer known.
void forget_known(const void *address, size_t bytes, const char *call) {
    bring_known(address);
    const_cast<Buffer &>(buffer_at(address, bytes, call)).known.clear();
}

void fill(void *target, const std::string &data, size_t bytes, cudaStream_t stream, const char *call, bool pinned = false) {
    if (!bytes) return;
    std::lock_guard<std::recursive_mutex> guard(recorder().lock);
    if (!is_made_up(target)) refuse("host_address", call);
    forget_known(target, bytes, call);
    add_fill(target, data, bytes, stream, call, pinned);
}

// `kind` is not asked: it must fit the addresses, which say by themselves where they are.
cudaError_t copy(void *target, const void *source, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream, const char *call) {
    Recorder &r = recorder();
    std::lock_guard<std::recursive_mutex> guard(r.lock);
    if (!bytes) return cudaSuccess;
    bool to = is_made_up(target), from = is_made_up(source);
    bool says_to = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    bool says_from = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if (kind != cudaMemcpyDefault && (says_to != to || says_from != from)) refuse("wrong_direction", call, (long long)kind);
    if (!to && from) {
        const Buffer &found = buffer_at(source, bytes, call);
        if (found.known.empty()) refuse("host_reads", call);
        memcpy(target, found.known.data() + ((unsigned long long)source - found.base), bytes);
        return cudaSuccess;
    }
    if (!to) {
        memmove(target, source, bytes);
        return cudaSuccess;
    }
    if (!from && !is_given(source)) {
        r.uploaded_bytes += bytes;
        if (r.uploaded_bytes > MAX_UPLOAD_BYTES) refuse("upload", call, (long long)r.uploaded_bytes);
        fill(target, in_hex(source, bytes), bytes, stream, call, is_pinned(source));
        return cudaSuccess;
    }
    forget_known(target, bytes, call);
    if (from) buffer_at(source, bytes, call), bring_known(source);
    add_step("{\"to\": " + number((unsigned long long)target) + ", \"source\": " + number((unsigned long long)source) + ", \"bytes\": " +
             number(bytes) + ", \"stream\": " + number((unsigned long long)number_of(stream, call)) + "}");
    return cudaSuccess;
}

// Each row is a step of its own.
void count_rows(size_t height, const char *call) {
    if (height + recorder().step_count > MAX_STEPS) refuse("too_many_rows", call, (long long)height);
}

cudaError_t copy_rows(void *target, size_t target_pitch, const void *source, size_t source_pitch, size_t width, size_t height,
                      cudaMemcpyKind kind, cudaStream_t stream, const char *call) {
    if (target_pitch == width && source_pitch == width) return copy(target, source, width * height, kind, stream, call);
    count_rows(height, call);
    for (size_t row = 0; row < height; row++)
        copy((char *)target + row * target_pitch, (const char *)source + row * source_pitch, width, kind, stream, call);
    return cudaSuccess;
}

// A copy from the host is over when the call returns, a copy on the device need not be.
cudaError_t waited_for(const void *source) {
    if (!is_made_up(source)) host_waits_for(nullptr);
    return cudaSuccess;
}

void *variable_at(const void *symbol, size_t offset, size_t bytes, const char *call) {
    Recorder &r = recorder();
    std::lock_guard<std::recursive_mutex> guard(r.lock);
    auto found = r.variables.find(symbol);
    if (found == r.variables.end()) refuse("no_variable", call);
    if (offset > found->second.second || bytes > found->second.second - offset) refuse("out_of_bounds", call);
    if (!r.variable_buffers.count(symbol)) {
        size_t made = new_buffer(found->second.second, found->second.first);
        r.variable_buffers[symbol] = made;
    }
    return (void *)(r.buffers[r.variable_buffers[symbol]].base + offset);
}

std::string byte_of(int value) {
    unsigned char byte = (unsigned char)value;
    return in_hex(&byte, 1);
}

cudaError_t fill_rows(void *target, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream, const char *call) {
    if (pitch == width) width *= height, height = 1;
    count_rows(height, call);
    for (size_t row = 0; row < height; row++) fill((char *)target + row * pitch, byte_of(value), width, stream, call);
    return cudaSuccess;
}

} // namespace

size_t new_known_buffer(const std::string &bytes) {
    size_t number = new_buffer(bytes.size());
    recorder().buffers[number].known = bytes;
    return number;
}

void give_known(const void *argument, size_t bytes) {
    for (size_t at = 0; at + 8 <= bytes; at += 8) {
        const void *word;
        memcpy(&word, (const char *)argument + at, sizeof word);
        bring_known(word);
    }
}

void record_upload(void *target, const void *data, size_t bytes, cudaStream_t stream) {
    add_fill(target, in_hex(data, bytes), bytes, stream, "cudaLaunchKernel", true);
}

void record_fill(void *target, const std::string &hex, size_t bytes, cudaStream_t stream, const char *call) {
    fill(target, hex, bytes, stream, call);
}

extern "C" {

cudaError_t cudaMalloc(void **pointer, size_t bytes) { return allocate(pointer, bytes); }
cudaError_t cudaMallocAsync(void **pointer, size_t bytes, cudaStream_t stream) {
    return allocate(pointer, bytes, number_of(stream, "cudaMallocAsync"));
}
cudaError_t cudaFree(void *pointer) { return release(pointer, "cudaFree"); }
cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream) {
    return release(pointer, "cudaFreeAsync", number_of(stream, "cudaFreeAsync"));
}

// The device has its default pool alone, and what is set of it changes only when memory is taken from the system.
static char default_pool;
static bool is_pool(cudaMemPool_t pool) { return pool == (cudaMemPool_t)&default_pool; }
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device) {
    if (device != 0) return recorder().error = cudaErrorInvalidDevice;
    *pool = (cudaMemPool_t)&default_pool;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *pool, int device) { return cudaDeviceGetDefaultMemPool(pool, device); }
cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
    return device == 0 && is_pool(pool) ? cudaSuccess : recorder().error = cudaErrorInvalidValue;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr, void *) {
    return is_pool(pool) ? cudaSuccess : recorder().error = cudaErrorInvalidValue;
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t) {
    return is_pool(pool) ? cudaSuccess : recorder().error = cudaErrorInvalidValue;
}
cudaError_t cudaMallocFromPoolAsync(void **pointer, size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
    return is_pool(pool) ? cudaMallocAsync(pointer, bytes, stream) : recorder().error = cudaErrorInvalidValue;
}

cudaError_t cudaMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height) {
    *pitch = (width + 511) & ~(size_t)511;
    return allocate(pointer, *pitch * height);
}

cudaError_t cudaMallocManaged(void **, size_t, unsigned) { refuse("not_covered", "cudaMallocManaged"); }
cudaError_t cudaHostRegister(void *, size_t, unsigned) { refuse("not_covered", "cudaHostRegister"); }

cudaError_t cudaMemset(void *target, int value, size_t bytes) {
    fill(target, byte_of(value), bytes, nullptr, "cudaMemset");
    return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void *target, int value, size_t bytes, cudaStream_t stream) {
    fill(target, byte_of(value), bytes, stream, "cudaMemsetAsync");
    return cudaSuccess;
}
cudaError_t cudaMemset2D(void *target, size_t pitch, int value, size_t width, size_t height) {
    return fill_rows(target, pitch, value, width, height, nullptr, "cudaMemset2D");
}
cudaError_t cudaMemset2DAsync(void *target, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream) {
    return fill_rows(target, pitch, value, width, height, stream, "cudaMemset2DAsync");
}

cudaError_t cudaMemcpy(void *target, const void *source, size_t bytes, cudaMemcpyKind kind) {
    copy(target, source, bytes, kind, nullptr, "cudaMemcpy");
    return waited_for(source);
}
cudaError_t cudaMemcpyAsync(void *target, const void *source, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
    return copy(target, source, bytes, kind, stream, "cudaMemcpyAsync");
}
cudaError_t cudaMemcpy2D(void *target, size_t target_pitch, const void *source, size_t source_pitch, size_t width, size_t height, cudaMemcpyKind kind) {
    return copy_rows(target, target_pitch, source, source_pitch, width, height, kind, nullptr, "cudaMemcpy2D"), waited_for(source);
}
cudaError_t cudaMemcpy2DAsync(void *target, size_t target_pitch, const void *source, size_t source_pitch, size_t width, size_t height,
                              cudaMemcpyKind kind, cudaStream_t stream) {
    return copy_rows(target, target_pitch, source, source_pitch, width, height, kind, stream, "cudaMemcpy2DAsync");
}
cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *source, size_t bytes, size_t offset, cudaMemcpyKind kind) {
    return copy(variable_at(symbol, offset, bytes, "cudaMemcpyToSymbol"), source, bytes, kind, nullptr, "cudaMemcpyToSymbol"), waited_for(source);
}
cudaError_t cudaMemcpyToSymbolAsync(const void *symbol, const void *source, size_t bytes, size_t offset, cudaMemcpyKind kind, cudaStream_t stream) {
    return copy(variable_at(symbol, offset, bytes, "cudaMemcpyToSymbolAsync"), source, bytes, kind, stream, "cudaMemcpyToSymbolAsync");
}
cudaError_t cudaMemcpyFromSymbol(void *target, const void *symbol, size_t bytes, size_t offset, cudaMemcpyKind kind) {
    return copy(target, variable_at(symbol, offset, bytes, "cudaMemcpyFromSymbol"), bytes, kind, nullptr, "cudaMemcpyFromSymbol");
}
cudaError_t cudaGetSymbolAddress(void **pointer, const void *symbol) {
    *pointer = variable_at(symbol, 0, 0, "cudaGetSymbolAddress");
    return cudaSuccess;
}
cudaError_t cudaGetSymbolSize(size_t *bytes, const void *symbol) {
    auto found = recorder().variables.find(symbol);
    if (found == recorder().variables.end()) refuse("no_variable", "cudaGetSymbolSize");
    *bytes = found->second.second;
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *all_bytes) {
    *all_bytes = (size_t)recorder().device.memory_bytes;
    *free_bytes = *all_bytes - recorder().held_bytes;
    return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *attributes, const void *pointer) {
    memset(attributes, 0, sizeof *attributes);
    bool there = is_made_up(pointer);
    bool pinned = is_pinned(pointer);
    attributes->type = there ? cudaMemoryTypeDevice : pinned ? cudaMemoryTypeHost : cudaMemoryTypeUnregistered;
    attributes->devicePointer = there || pinned ? const_cast<void *>(pointer) : nullptr;
    attributes->hostPointer = pinned ? const_cast<void *>(pointer) : nullptr;
    return cudaSuccess;
}

} // extern "C"

// What the host may ask about the device, and what orders its work: streams, events, waits.

#include "recorder.h"

#include <cstdio>
#include <cstring>

namespace {

constexpr int WARP = 32;

int blocks_at_once(const Kernel &kernel, int threads, size_t dynamic_bytes) {
    const TargetDevice &d = recorder().device;
    if (threads < 1 || threads > kernel.max_threads) return 0;
    int warps = (threads + WARP - 1) / WARP;
    int fits = kernel.blocks_by_warps[(size_t)(warps - 1)];
    if (d.max_warps / warps < fits) fits = d.max_warps / warps;
    if (d.max_blocks < fits) fits = d.max_blocks;
    long long shared = kernel.shared_bytes + (long long)dynamic_bytes;
    if (shared > d.shared_per_block_bytes) return 0;
    long long unit = d.shared_unit_bytes, taken = (shared + d.reserved_bytes + unit - 1) / unit * unit;
    if (taken && d.shared_bytes / taken < fits) fits = (int)(d.shared_bytes / taken);
    return fits;
}

void *new_handle() { return (void *)(0x1000 + 16 * ++recorder().handles); }

} // namespace

int number_of(cudaStream_t stream, const char *call) {
    if (stream == nullptr || stream == cudaStreamLegacy) return 0;
    Recorder &r = recorder();
    std::lock_guard<std::recursive_mutex> guard(r.lock);
    auto found = r.streams.find(stream);
    if (found != r.streams.end()) return found->second;
    if (stream != cudaStreamPerThread) refuse("no_stream", call);
    return r.streams[stream] = r.stream_count++;
}

static int number_of_event(cudaEvent_t event, const char *call) {
    auto found = recorder().events.find(event);
    if (found == recorder().events.end()) refuse("no_event", call);
    return found->second;
}

// Whether the call has a step that nothing has waited for: of this stream, of one that it waits for (the default stream
// and the others), or before this event's record.
static bool may_be_under_way(char kind, int number) {
    const Recorder &r = recorder();
    const std::string stream = "\"stream\": " + std::to_string(number), event = "\"event\": " + std::to_string(number) + "}";
    bool recorded = kind == 's';
    size_t first = r.calls.empty() ? 0 : r.calls.back().first_step;
    for (size_t at = r.steps.size(); at-- > first;) {
        const std::string &step = r.steps[at];
        if (step.rfind("{\"order\": ", 0) == 0) {
            bool its = kind == 's' ? step.find(stream + ",") != std::string::npos : step.find(event) != std::string::npos;
            if (step.find("\"device\"") != std::string::npos) return false;
            if (its && step.find(kind == 's' ? "\"stream\", " : "\"event\", ") != std::string::npos) return false;
            recorded = recorded || (its && step.find("\"record\"") != std::string::npos);
        } else if (recorded && (kind == 'e' || number == 0 || step.find(stream + ",") != std::string::npos || step.find(stream + "}") != std::string::npos)) {
            return true;
        }
    }
    return false;
}

// Whether a stream or an event that is asked about is done.
static bool is_done(char kind, int number) {
    Recorder &r = recorder();
    if (!may_be_under_way(kind, number)) return true;
    auto asked = r.asked.find({kind, number});
    bool again = asked != r.asked.end() && asked->second == r.step_count;
    r.asked[{kind, number}] = r.step_count;
    return again;
}

void host_waits_for(cudaStream_t stream) { add_order("stream", number_of(stream, "cudaStreamSynchronize")); }

extern "C" {

// --- streams and events: steps are recorded in the order in which they are issued, and beside them what orders them ---
//
// Nothing runs, and a GPU may take its time: what is asked about while steps may be under way is done when it is asked
// about again. So who asks until it is done has waited, and who asks and goes on has not.

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    Recorder &r = recorder();
    std::lock_guard<std::recursive_mutex> guard(r.lock);
    if (!stream || flags & ~(unsigned)cudaStreamNonBlocking) return cudaErrorInvalidValue;
    *stream = (cudaStream_t)new_handle();
    if (flags & cudaStreamNonBlocking) r.non_blocking.push_back(r.stream_count);
    r.streams[*stream] = r.stream_count++;
    return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t *stream) { return cudaStreamCreateWithFlags(stream, cudaStreamDefault); }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int) { return cudaStreamCreateWithFlags(stream, flags); }
// What was given to it before goes on.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    std::lock_guard<std::recursive_mutex> guard(recorder().lock);
    if (stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread) return cudaErrorInvalidResourceHandle;
    number_of(stream, "cudaStreamDestroy");
    recorder().streams.erase(stream);
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    host_waits_for(stream);
    return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
    std::lock_guard<std::recursive_mutex> guard(recorder().lock);
    return is_done('s', number_of(stream, "cudaStreamQuery")) ? cudaStreamSynchronize(stream) : cudaErrorNotReady;
}
// What is given no event at all says so and does nothing, as on a GPU; one that is no more ends the recording.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
    if (!event) return cudaErrorInvalidResourceHandle;
    std::lock_guard<std::recursive_mutex> guard(recorder().lock);
    add_order("wait", number_of(stream, "cudaStreamWaitEvent"), number_of_event(event, "cudaStreamWaitEvent"));
    return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) { refuse("not_covered", "cudaStreamBeginCapture"); }
cudaError_t cudaStreamSetAttribute(cudaStream_t, cudaStreamAttrID, const cudaStreamAttrValue *) { return cudaSuccess; }
cudaError_t cudaLaunchHostFunc(cudaStream_t, cudaHostFn_t, void *) { refuse("not_covered", "cudaLaunchHostFunc"); }
cudaError_t cudaStreamAddCallback(cudaStream_t, cudaStreamCallback_t, void *, unsigned) { refuse("not_covered", "cudaStreamAddCallback"); }
cudaError_t cudaEventCreate(cudaEvent_t *event) {
    if (!event) return cudaErrorInvalidValue;
    std::lock_guard<std::recursive_mutex> guard(recorder().lock);
    *event = (cudaEvent_t)new_handle();
    recorder().events[*event] = recorder().event_count++;
    return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned) { return cudaEventCreate(event); }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    if (!event) return cudaErrorInvalidResourceHandle;
    std::lock_guard<std::recursive_mutex> guard(recorder().lock);
    add_order("record", number_of(stream, "cudaEventRecord"), number_of_event(event, "cudaEventRecord"));
    return cudaSuccess;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) { return cudaEventRecord(event, stream); }
// An event that was never recorded is done, and nothing waits for it.
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    if (!event) return cudaErrorInvalidResourceHandle;
    std::lock_guard<std::recursive_mutex> guard(recorder().lock);
    add_order("event", 0, number_of_event(event, "cudaEventSynchronize"));
    return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
    if (!event) return cudaErrorInvalidResourceHandle;
    std::lock_guard<std::recursive_mutex> guard(recorder().lock);
    return is_done('e', number_of_event(event, "cudaEventQuery")) ? cudaEventSynchronize(event) : cudaErrorNotReady;
}
// What waits for it already goes on waiting.
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    if (!event) return cudaErrorInvalidResourceHandle;
    std::lock_guard<std::recursive_mutex> guard(recorder().lock);
    number_of_event(event, "cudaEventDestroy");
    recorder().events.erase(event);
    return cudaSuccess;
}
// Nothing has run, so there is no time to tell: what would choose by it is named.
cudaError_t cudaEventElapsedTime(float *, cudaEvent_t, cudaEvent_t) { refuse("not_covered", "cudaEventElapsedTime"); }
cudaError_t cudaDeviceSynchronize(void) {
    add_order("device");
    return cudaSuccess;
}

// --- errors: most calls that cannot go well end the recording with their reason ------------------------------------

cudaError_t cudaGetLastError(void) {
    cudaError_t error = recorder().error;
    recorder().error = cudaSuccess;
    return error;
}
cudaError_t cudaPeekAtLastError(void) { return recorder().error; }
const char *cudaGetErrorString(cudaError_t error) { return error == cudaSuccess ? "no error" : error == cudaErrorMemoryAllocation ? "out of memory" : error == cudaErrorInvalidConfiguration ? "invalid configuration argument" : error == cudaErrorInvalidResourceHandle ? "invalid resource handle" : "invalid argument"; }
const char *cudaGetErrorName(cudaError_t error) { return error == cudaSuccess ? "cudaSuccess" : error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : error == cudaErrorInvalidConfiguration ? "cudaErrorInvalidConfiguration" : error == cudaErrorInvalidResourceHandle ? "cudaErrorInvalidResourceHandle" : "cudaErrorInvalidValue"; }

// --- the device ---------------------------------------------------------------------------------------------------

cudaError_t cudaGetDevice(int *device) {
    *device = 0;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : cudaErrorInvalidDevice; }
cudaError_t cudaGetDeviceCount(int *count) {
    *count = 1;
    return cudaSuccess;
}
cudaError_t cudaSetDeviceFlags(unsigned) { return cudaSuccess; }
// It destroys all memory of the process, also what the call was given.
cudaError_t cudaDeviceReset(void) {
    if (!recorder().calls.empty()) refuse("reset");
    return cudaDeviceSynchronize();
}
cudaError_t cudaDriverGetVersion(int *version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int *version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    if (least) *least = 0;
    if (greatest) *greatest = -5;
    return cudaSuccess;
}
cudaError_t cudaDeviceSetLimit(cudaLimit, size_t) { return cudaSuccess; }
cudaError_t cudaDeviceGetLimit(size_t *value, cudaLimit) {
    *value = 0;
    return cudaSuccess;
}
cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return cudaSuccess; }
cudaError_t cudaDeviceSetSharedMemConfig(cudaSharedMemConfig) { return cudaSuccess; }
cudaError_t cudaCtxResetPersistingL2Cache(void) { return cudaSuccess; }

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int) {
    const TargetDevice &d = recorder().device;
    switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: *value = 1024; break;
    case cudaDevAttrMaxBlockDimX: *value = 1024; break;
    case cudaDevAttrMaxBlockDimY: *value = 1024; break;
    case cudaDevAttrMaxBlockDimZ: *value = 64; break;
    case cudaDevAttrMaxGridDimX: *value = 0x7fffffff; break;
    case cudaDevAttrMaxGridDimY: *value = 65535; break;
    case cudaDevAttrMaxGridDimZ: *value = 65535; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = 48 << 10; break;
    case cudaDevAttrTotalConstantMemory: *value = 64 << 10; break;
    case cudaDevAttrWarpSize: *value = WARP; break;
    case cudaDevAttrMaxRegistersPerBlock: *value = d.registers_per_block; break;
    case cudaDevAttrClockRate: *value = d.clock_khz; break;
    case cudaDevAttrMultiProcessorCount: *value = d.multiprocessors; break;
    case cudaDevAttrMemoryClockRate: *value = d.memory_clock_khz; break;
    case cudaDevAttrGlobalMemoryBusWidth: *value = d.bus_bits; break;
    case cudaDevAttrL2CacheSize: *value = (int)d.l2_bytes; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = d.max_warps * WARP; break;
    case cudaDevAttrComputeCapabilityMajor: *value = d.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = d.minor; break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = (int)d.shared_bytes; break;
    case cudaDevAttrMaxRegistersPerMultiprocessor: *value = d.registers; break;
    case cudaDevAttrCooperativeLaunch: *value = 1; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = (int)d.shared_per_block_bytes; break;
    case cudaDevAttrMaxBlocksPerMultiprocessor: *value = d.max_blocks; break;
    case cudaDevAttrReservedSharedMemoryPerBlock: *value = (int)d.reserved_bytes; break;
    case cudaDevAttrConcurrentKernels: *value = 1; break;
    case cudaDevAttrUnifiedAddressing: *value = 1; break;
    case cudaDevAttrMemoryPoolsSupported: *value = 1; break;
    case cudaDevAttrManagedMemory: *value = 0; break;
    default: refuse("not_covered", "cudaDeviceGetAttribute", (long long)attribute);
    }
    return cudaSuccess;
}

static cudaError_t properties(cudaDeviceProp *p) {
    const TargetDevice &d = recorder().device;
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "%s", d.name.c_str());
    for (char *c = p->name; *c; c++)
        if (*c == '_') *c = ' ';
    p->totalGlobalMem = (size_t)d.memory_bytes;
    p->sharedMemPerBlock = 48 << 10;
    p->regsPerBlock = d.registers_per_block;
    p->warpSize = WARP;
    p->maxThreadsPerBlock = 1024;
    p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
    p->maxThreadsDim[2] = 64;
    p->maxGridSize[0] = 0x7fffffff;
    p->maxGridSize[1] = p->maxGridSize[2] = 65535;
    p->totalConstMem = 64 << 10;
    p->major = d.major;
    p->minor = d.minor;
    p->multiProcessorCount = d.multiprocessors;
    p->unifiedAddressing = 1;
    p->memoryBusWidth = d.bus_bits;
    p->l2CacheSize = (int)d.l2_bytes;
    p->maxThreadsPerMultiProcessor = d.max_warps * WARP;
    p->sharedMemPerMultiprocessor = (size_t)d.shared_bytes;
    p->regsPerMultiprocessor = d.registers;
    p->cooperativeLaunch = 1;
    p->concurrentKernels = 1;
    p->asyncEngineCount = 2;
    p->sharedMemPerBlockOptin = (size_t)d.shared_per_block_bytes;
    p->maxBlocksPerMultiProcessor = d.max_blocks;
    p->reservedSharedMemPerBlock = (size_t)d.reserved_bytes;
#if CUDART_VERSION < 13000
    p->clockRate = d.clock_khz;
    p->memoryClockRate = d.memory_clock_khz;
#endif
    return cudaSuccess;
}
#undef cudaGetDeviceProperties
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int) { return properties(p); }
cudaError_t cudaGetDeviceProperties_v2(cudaDeviceProp *p, int) { return properties(p); }

// --- kernels ------------------------------------------------------------------------------------------------------

cudaError_t cudaFuncSetAttribute(const void *function, cudaFuncAttribute attribute, int value) {
    std::lock_guard<std::recursive_mutex> guard(recorder().lock);
    Kernel &kernel = kernel_of(function);
    if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
        if (value < 0 || value > recorder().device.shared_per_block_bytes - kernel.shared_bytes) return cudaErrorInvalidValue;
        kernel.dynamic_bytes = value;
    }
    return cudaSuccess;
}
cudaError_t cudaFuncSetCacheConfig(const void *, cudaFuncCache) { return cudaSuccess; }
cudaError_t cudaFuncSetSharedMemConfig(const void *, cudaSharedMemConfig) { return cudaSuccess; }

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, const void *function) {
    std::lock_guard<std::recursive_mutex> guard(recorder().lock);
    const Kernel &kernel = kernel_of(function);
    memset(attributes, 0, sizeof *attributes);
    attributes->sharedSizeBytes = (size_t)kernel.shared_bytes;
    attributes->constSizeBytes = (size_t)kernel.constant_bytes;
    attributes->localSizeBytes = (size_t)kernel.local_bytes;
    attributes->maxThreadsPerBlock = kernel.max_threads;
    attributes->numRegs = kernel.registers;
    attributes->ptxVersion = attributes->binaryVersion = 10 * recorder().device.major + recorder().device.minor;
    attributes->maxDynamicSharedSizeBytes = kernel.dynamic_bytes;
    return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *function, int threads, size_t dynamic_bytes, unsigned) {
    std::lock_guard<std::recursive_mutex> guard(recorder().lock);
    *blocks = blocks_at_once(kernel_of(function), threads, dynamic_bytes);
    return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function, int threads, size_t dynamic_bytes) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, dynamic_bytes, 0);
}
cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, const void *function, int blocks, int threads) {
    std::lock_guard<std::recursive_mutex> guard(recorder().lock);
    const Kernel &kernel = kernel_of(function);
    size_t room = 0;
    for (size_t tried = 0; tried <= (size_t)recorder().device.shared_per_block_bytes; tried += 256)
        if (blocks_at_once(kernel, threads, tried) >= blocks) room = tried;
    *bytes = room;
    return cudaSuccess;
}

} // extern "C"

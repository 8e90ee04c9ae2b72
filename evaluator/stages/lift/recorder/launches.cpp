// Launches, and the tables of kernels and variables that nvcc's host code hands over when it begins.

#include "recorder.h"

#include <cstring>
#include <mutex>

namespace {

struct Configuration {
    dim3 grid, block;
    size_t shared_bytes;
    cudaStream_t stream;
};
thread_local std::vector<Configuration> configurations;

std::string extents(const dim3 &d) {
    return "[" + std::to_string(d.x) + ", " + std::to_string(d.y) + ", " + std::to_string(d.z) + "]";
}

cudaError_t launch(const void *function, const Configuration &c, void **arguments, bool cooperative, const dim3 *cluster) {
    Recorder &r = recorder();
    std::lock_guard<std::recursive_mutex> guard(r.lock);
    Kernel &kernel = kernel_of(function);
    // A launch of nothing is an error that many programs never look at; the others go on as if it were none.
    if (!c.grid.x || !c.grid.y || !c.grid.z || !c.block.x || !c.block.y || !c.block.z) return r.error = cudaErrorInvalidConfiguration;
    if (c.shared_bytes > (size_t)kernel.dynamic_bytes) refuse("shared_memory", kernel.symbol, (long long)(kernel.shared_bytes + c.shared_bytes));
    for (size_t i = 0; i < kernel.parameters.size(); i++) {
        unsigned long long word = 0;
        if (kernel.parameters[i] == sizeof word) memcpy(&word, arguments[i], sizeof word);
        if (word && word >= r.host_tensors && word < r.host_tensors_end) refuse("host_address", "cudaLaunchKernel");
    }
    for (size_t i = 0; i < kernel.parameters.size(); i++) give_pinned(arguments[i], (size_t)kernel.parameters[i], c.stream);
    for (size_t i = 0; i < kernel.parameters.size(); i++) give_known(arguments[i], (size_t)kernel.parameters[i]);
    std::string made = "{\"kernel\": \"" + kernel.symbol + "\", \"grid\": " + extents(c.grid) + ", \"block\": " + extents(c.block) +
                       ", \"shared_bytes\": " + std::to_string(c.shared_bytes) + ", \"cooperative\": " + (cooperative ? "true" : "false") +
                       ", \"cluster\": " + (cluster ? extents(*cluster) : "null") + ", \"stream\": " + std::to_string(number_of(c.stream, "cudaLaunchKernel")) +
                       ", \"arguments\": [";
    for (size_t i = 0; i < kernel.parameters.size(); i++)
        made += (i ? ", \"" : "\"") + in_hex(arguments[i], (size_t)kernel.parameters[i]) + "\"";
    add_step(made + "]}");
    return cudaSuccess;
}

} // namespace

Kernel &kernel_of(const void *function) {
    Recorder &r = recorder();
    auto name = r.functions.find(function);
    if (name == r.functions.end()) refuse("no_kernel", "");
    Kernel &kernel = r.kernels[name->second];
    if (!kernel.known) refuse("no_kernel", name->second);
    return kernel;
}

extern "C" {

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, struct CUstream_st *stream) {
    configurations.push_back(Configuration{grid, block, shared_bytes, stream});
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared_bytes, void *stream) {
    if (configurations.empty()) return cudaErrorMissingConfiguration;
    Configuration c = configurations.back();
    configurations.pop_back();
    *grid = c.grid;
    *block = c.block;
    *shared_bytes = c.shared_bytes;
    memcpy(stream, &c.stream, sizeof c.stream);
    return cudaSuccess;
}

cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared_bytes, cudaStream_t stream) {
    return launch(function, Configuration{grid, block, shared_bytes, stream}, arguments, false, nullptr);
}

cudaError_t cudaLaunchCooperativeKernel(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared_bytes, cudaStream_t stream) {
    return launch(function, Configuration{grid, block, shared_bytes, stream}, arguments, true, nullptr);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function, void **arguments) {
    bool cooperative = false;
    const dim3 *cluster = nullptr;
    dim3 blocks;
    for (unsigned i = 0; i < config->numAttrs; i++) {
        const cudaLaunchAttribute &attribute = config->attrs[i];
        if (attribute.id == cudaLaunchAttributeCooperative) {
            cooperative = attribute.val.cooperative != 0;
        } else if (attribute.id == cudaLaunchAttributeClusterDimension) {
            blocks = dim3(attribute.val.clusterDim.x, attribute.val.clusterDim.y, attribute.val.clusterDim.z);
            cluster = &blocks;
        } else if (attribute.id == cudaLaunchAttributeProgrammaticStreamSerialization || attribute.id == cudaLaunchAttributeProgrammaticEvent) {
            refuse("not_covered", "cudaLaunchAttributeProgrammaticStreamSerialization"); // the kernels overlap, and a plan's do not
        }
    }
    return launch(function, Configuration{config->gridDim, config->blockDim, config->dynamicSmemBytes, config->stream}, arguments, cooperative, cluster);
}

// Since CUDA 13 host code asks for a kernel's handle once, and launches by it: here it is the stub's own address.
cudaError_t __cudaGetKernel(void **kernel, const void *function) {
    *kernel = const_cast<void *>(function);
    return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared_bytes, cudaStream_t stream) {
    return cudaLaunchKernel(kernel, grid, block, arguments, shared_bytes, stream);
}

cudaError_t cudaGetFuncBySymbol(cudaFunction_t *, const void *) { refuse("not_covered", "cudaGetFuncBySymbol"); }

void **__cudaRegisterFatBinary(void *) {
    static void *handle[1];
    return handle;
}
void __cudaRegisterFatBinaryEnd(void **) {}
void __cudaUnregisterFatBinary(void **) {}
char __cudaInitModule(void **) { return 0; }

// Names from an anonymous namespace hold a hash of the file, which is another one where the kernels are compiled.
static std::string without_hash(const char *symbol) {
    std::string name = symbol;
    for (const char *mark : {"_GLOBAL__N__", "_INTERNAL_"}) {
        size_t at = name.find(mark);
        if (at == std::string::npos) continue;
        at += strlen(mark);
        if (name.find_first_not_of("0123456789abcdef", at) == at + 8) name.replace(at, 8, 8, '0');
    }
    return name;
}

void __cudaRegisterFunction(void **, const char *function, char *, const char *symbol, int, uint3 *, uint3 *, dim3 *, dim3 *, int *) {
    std::lock_guard<std::recursive_mutex> guard(recorder().lock);
    recorder().functions[function] = without_hash(symbol);
}

void __cudaRegisterVar(void **, char *variable, char *, const char *symbol, int, size_t bytes, int, int) {
    std::lock_guard<std::recursive_mutex> guard(recorder().lock);
    recorder().variables[variable] = {without_hash(symbol), bytes};
}

void __cudaRegisterManagedVar(void **, void **, char *, const char *, int, size_t, int, int) { refuse("not_covered", "__managed__"); }
void __cudaRegisterTexture(void **, const void *, const void **, const char *, int, int, int) { refuse("not_covered", "texture"); }
void __cudaRegisterSurface(void **, const void *, const void **, const char *, int, int) { refuse("not_covered", "surface"); }

} // extern "C"

// at::cuda and c10::cuda: streams, guards, checks, the device's properties.
#pragma once

#include "assay_tensor.h"
#include <cuda_runtime_api.h>

namespace c10 {
namespace cuda {

class CUDAStream {
    cudaStream_t stream_;

  public:
    explicit CUDAStream(cudaStream_t stream = nullptr) : stream_(stream) {}
    operator cudaStream_t() const { return stream_; }
    cudaStream_t stream() const { return stream_; }
    void synchronize() const { cudaStreamSynchronize(stream_); }
    bool query() const { return true; }
    DeviceIndex device_index() const { return 0; }
    Device device() const { return Device(kCUDA, 0); }
    int64_t id() const { return (int64_t)stream_; }
    bool operator==(const CUDAStream &other) const { return stream_ == other.stream_; }
    bool operator!=(const CUDAStream &other) const { return stream_ != other.stream_; }
};
CUDAStream getCurrentCUDAStream(DeviceIndex device = -1);
void setCurrentCUDAStream(CUDAStream stream);
CUDAStream getStreamFromPool(bool high_priority = false, DeviceIndex device = -1);
inline CUDAStream getDefaultCUDAStream(DeviceIndex = -1) { return CUDAStream(); }
inline CUDAStream getStreamFromExternal(cudaStream_t stream, DeviceIndex) { return CUDAStream(stream); }

class CUDAGuard {
  public:
    explicit CUDAGuard(DeviceIndex) {}
    explicit CUDAGuard(Device) {}
    void set_device(Device) {}
    void set_index(DeviceIndex) {}
    Device current_device() const { return Device(kCUDA, 0); }
};
class OptionalCUDAGuard {
  public:
    OptionalCUDAGuard() {}
    explicit OptionalCUDAGuard(optional<Device>) {}
    void set_device(Device) {}
};
class CUDAStreamGuard {
    CUDAStream before_;

  public:
    explicit CUDAStreamGuard(CUDAStream stream) : before_(getCurrentCUDAStream()) { setCurrentCUDAStream(stream); }
    CUDAStreamGuard(const CUDAStreamGuard &) = delete;
    ~CUDAStreamGuard() { setCurrentCUDAStream(before_); }
};

inline DeviceIndex device_count() { return 1; }
inline DeviceIndex current_device() { return 0; }
inline void set_device(DeviceIndex) {}
inline void device_synchronize() { cudaDeviceSynchronize(); }
inline void stream_synchronize(cudaStream_t stream) { cudaStreamSynchronize(stream); }

// An error of the runtime becomes an exception, as PyTorch's does.
void check(cudaError_t error, const char *file, int line);

namespace CUDACachingAllocator {
inline void *raw_alloc(size_t bytes) {
    void *made = nullptr;
    check(cudaMalloc(&made, bytes), "", 0);
    return made;
}
inline void *raw_alloc_with_stream(size_t bytes, cudaStream_t) { return raw_alloc(bytes); }
inline void raw_delete(void *pointer) { cudaFreeAsync(pointer, nullptr); } // which waits for nothing
inline void emptyCache() {}
} // namespace CUDACachingAllocator

} // namespace cuda

class DeviceGuard {
  public:
    explicit DeviceGuard(Device) {}
};
class OptionalDeviceGuard {
  public:
    OptionalDeviceGuard() {}
    explicit OptionalDeviceGuard(optional<Device>) {}
};

} // namespace c10

namespace at {

inline optional<Device> device_of(const Tensor &x) { return x.defined() ? optional<Device>(x.device()) : nullopt; }
using c10::DeviceGuard;
using c10::OptionalDeviceGuard;

namespace cuda {

using c10::cuda::CUDAGuard;
using c10::cuda::CUDAStream;
using c10::cuda::CUDAStreamGuard;
using c10::cuda::current_device;
using c10::cuda::getCurrentCUDAStream;
using c10::cuda::getDefaultCUDAStream;
using c10::cuda::getStreamFromPool;
using c10::cuda::OptionalCUDAGuard;
using c10::cuda::set_device;
using c10::cuda::setCurrentCUDAStream;
using c10::cuda::stream_synchronize;
namespace CUDACachingAllocator = c10::cuda::CUDACachingAllocator;

cudaDeviceProp *getCurrentDeviceProperties();
inline cudaDeviceProp *getDeviceProperties(int64_t) { return getCurrentDeviceProperties(); }
inline int warp_size() { return 32; }
inline bool is_available() { return true; }
inline int64_t ATenCeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
struct LibraryHandle {
    template <typename T> operator T() const { assay::operator_called("a handle of a library"); }
};
inline LibraryHandle getCurrentCUDABlasHandle() { assay::operator_called("getCurrentCUDABlasHandle"); }
inline LibraryHandle getCurrentCUDABlasLtHandle() { assay::operator_called("getCurrentCUDABlasLtHandle"); }
inline LibraryHandle getCurrentCUDASparseHandle() { assay::operator_called("getCurrentCUDASparseHandle"); }
inline LibraryHandle getCurrentCUDASolverDnHandle() { assay::operator_called("getCurrentCUDASolverDnHandle"); }

namespace detail {
constexpr int CUDA_NUM_THREADS = 1024;
inline int GET_BLOCKS(int64_t n, int64_t threads = CUDA_NUM_THREADS) { return (int)((n + threads - 1) / threads); }
} // namespace detail

} // namespace cuda
} // namespace at

namespace torch {
namespace cuda {
inline bool is_available() { return true; }
inline size_t device_count() { return 1; }
inline void synchronize(int64_t = -1) { cudaDeviceSynchronize(); }
} // namespace cuda
} // namespace torch

#define C10_CUDA_CHECK(call) c10::cuda::check((call), __FILE__, __LINE__)
#define AT_CUDA_CHECK(call) C10_CUDA_CHECK(call)
#define C10_CUDA_CHECK_WARN(call) ((void)(call))
#define C10_CUDA_IGNORE_ERROR(call) ((void)(call))
#define C10_CUDA_CLEAR_ERROR() ((void)cudaGetLastError())
#define C10_CUDA_ERROR_HANDLED(call) (call)
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
#define TORCH_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_KERNEL_LAUNCH_CHECK()

#ifdef __CUDACC__
#define CUDA_KERNEL_LOOP_TYPE(i, n, type) for (type i = (type)blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += (type)blockDim.x * gridDim.x)
#define CUDA_KERNEL_LOOP(i, n) CUDA_KERNEL_LOOP_TYPE(i, n, int64_t)
template <typename T> __device__ inline T WARP_SHFL(T value, int lane, int width = 32, unsigned mask = 0xffffffff) { return __shfl_sync(mask, value, lane, width); }
template <typename T> __device__ inline T WARP_SHFL_XOR(T value, int lanes, int width = 32, unsigned mask = 0xffffffff) { return __shfl_xor_sync(mask, value, lanes, width); }
template <typename T> __device__ inline T WARP_SHFL_UP(T value, unsigned delta, int width = 32, unsigned mask = 0xffffffff) { return __shfl_up_sync(mask, value, delta, width); }
template <typename T> __device__ inline T WARP_SHFL_DOWN(T value, unsigned delta, int width = 32, unsigned mask = 0xffffffff) { return __shfl_down_sync(mask, value, delta, width); }
template <typename T> __device__ inline T gpuAtomicAdd(T *address, T value) { return atomicAdd(address, value); }
template <typename T> __device__ inline void gpuAtomicAddNoReturn(T *address, T value) { atomicAdd(address, value); }
#ifdef HALF_OF_ASSAY
template <> __device__ inline c10::Half gpuAtomicAdd(c10::Half *address, c10::Half value) {
    return atomicAdd((__half *)address, (__half)value);
}
template <> __device__ inline void gpuAtomicAddNoReturn(c10::Half *address, c10::Half value) { atomicAdd((__half *)address, (__half)value); }
#endif
#endif

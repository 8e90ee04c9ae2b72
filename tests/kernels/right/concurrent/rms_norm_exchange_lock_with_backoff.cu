// problem: rms_norm
// assay: temp squares float64 (rows)
// assay: temp locks int32 (rows)
// assay: fill squares value=0
// assay: fill locks value=0
// assay: launch add grid=(rows, 3) block=(96) args=(x, squares, locks, cols)
// assay: launch scale grid=(rows) block=(128) args=(x, weight, squares, y, eps, cols)
// style: test-and-test-and-set: exchange(acquire), relaxed looks with growing sleeps, store(release), in a scoped guard class
#include <cuda/atomic>

class Guard {
    cuda::atomic_ref<int, cuda::thread_scope_device> lock;

public:
    explicit __device__ Guard(int& word) : lock(word)
    {
        unsigned ns = 16;
        while (lock.exchange(1, cuda::memory_order_acquire)) {
            do {
                __nanosleep(ns);
                ns = ns < 512 ? 2 * ns : ns;
            } while (lock.load(cuda::memory_order_relaxed));
        }
    }
    __device__ ~Guard() { lock.store(0, cuda::memory_order_release); }
};

__global__ void add(const float* x, double* squares, int* locks, int cols)
{
    __shared__ double warps[3];
    double s = 0.0;
    for (int c = blockIdx.y * 96 + threadIdx.x; c < cols; c += 288) {
        const double v = x[(size_t)blockIdx.x * cols + c];
        s += v * v;
    }
    for (int d = 16; d; d >>= 1) s += __shfl_down_sync(~0u, s, d);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = s;
    __syncthreads();
    if (threadIdx.x == 0) {
        Guard guard(locks[blockIdx.x]);
        squares[blockIdx.x] += warps[0] + warps[1] + warps[2];
    }
}

__global__ void scale(const float* x, const float* weight, const double* squares, float* y, float eps, int cols)
{
    const float r = (float)rsqrt(squares[blockIdx.x] / cols + eps);
    for (int c = threadIdx.x; c < cols; c += 128) y[(size_t)blockIdx.x * cols + c] = x[(size_t)blockIdx.x * cols + c] * r * weight[c];
}

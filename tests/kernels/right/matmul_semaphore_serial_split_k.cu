// problem: matmul
// assay: temp locks int32 (ceil_div(n, 16) * ceil_div(m, 16))
// assay: fill locks value=0
// assay: launch gemm_serial grid=(ceil_div(n, 16), ceil_div(m, 16), 3) block=(16, 16) args=(a, b, c, locks, m, n, k)
// style: serial split-K after CUTLASS: a Semaphore class (fetch, wait, release) by ld.acquire and red.release; slices add in order
class Semaphore {
    int* lock;
    bool wait_thread;
    int state = -1;

public:
    __device__ Semaphore(int* lock_, int thread_id) : lock(lock_), wait_thread(thread_id < 0 || thread_id == 0) {}
    __device__ void fetch()
    {
        if (wait_thread) asm volatile("ld.global.acquire.gpu.b32 %0, [%1];\n" : "=r"(state) : "l"(lock) : "memory");
    }
    __device__ void wait(int status)
    {
        while (__syncthreads_and(wait_thread ? state != status : 1)) fetch();
        __syncthreads();
    }
    __device__ void release(int status)
    {
        __syncthreads();
        if (wait_thread) asm volatile("st.global.release.gpu.b32 [%0], %1;\n" ::"l"(lock), "r"(status) : "memory");
    }
};

__global__ void gemm_serial(const float* a, const float* b, float* c, int* locks, int m, int n, int k)
{
    __shared__ float as[16][17], bs[16][17];
    const int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
    const int slice = ((k + 2) / 3 + 15) / 16 * 16, begin = min(k, (int)blockIdx.z * slice), end = min(k, begin + slice);
    float s = 0.0f;
    for (int l = begin; l < end; l += 16) {
        as[ty][tx] = row < m && l + tx < end ? a[(size_t)row * k + l + tx] : 0.0f;
        bs[ty][tx] = col < n && l + ty < end ? b[(size_t)(l + ty) * n + col] : 0.0f;
        __syncthreads();
        for (int e = 0; e < 16; ++e) s += as[ty][e] * bs[e][tx];
        __syncthreads();
    }
    Semaphore semaphore(locks + blockIdx.y * gridDim.x + blockIdx.x, ty * 16 + tx);
    semaphore.fetch();
    semaphore.wait(blockIdx.z);
    if (row < m && col < n) {
        float* to = c + (size_t)row * n + col;
        *to = blockIdx.z == 0 ? s : __ldcg(to) + s;
    }
    semaphore.release(blockIdx.z + 1);
}

// problem: linear_gelu
// assay: temp lock int32 (ceil_div(m, 16) * ceil_div(n, 16))
// assay: temp ticket uint32 (1)
// assay: fill lock value=0
// assay: fill ticket value=0
// assay: launch lg grid=(ceil_div(n, 16) * ceil_div(m, 16) * 3) block=(16, 16) args=(x, weight, bias, y, lock, ticket, m, n, k)
// style: CUTLASS's Semaphore: thread 0 fetches by ld.acquire, all wait in while (__syncthreads_and(state != status)), release by st.release after a barrier; slices in order
struct semaphore {
    int* lock;
    bool wait_thread;
    int state = -1;
    __device__ void fetch()
    {
        if (wait_thread) asm volatile("ld.global.acquire.gpu.b32 %0, [%1];\n" : "=r"(state) : "l"(lock));
    }
    __device__ void wait(int status)
    {
        while (__syncthreads_and(state != status)) fetch();
        __syncthreads();
    }
    __device__ void release(int status)
    {
        __syncthreads();
        if (wait_thread) asm volatile("st.global.release.gpu.b32 [%0], %1;\n" : : "l"(lock), "r"(status));
    }
};

__global__ void lg(const float* x, const float* weight, const float* bias, float* y, int* lock, unsigned* ticket, int m, int n, int k)
{
    __shared__ unsigned drawn;
    if (threadIdx.x + threadIdx.y == 0) drawn = atomicAdd(ticket, 1u);
    __syncthreads();
    const int across = (n + 15) / 16, tile = drawn / 3, slice = drawn % 3;
    const int j = tile % across * 16 + threadIdx.x, i = tile / across * 16 + threadIdx.y;
    const bool here = i < m && j < n;
    semaphore turn{lock + tile, threadIdx.x + threadIdx.y == 0};
    turn.fetch();
    float s = 0.0f;
    for (int l = slice; here && l < k; l += 3) s += x[(size_t)i * k + l] * weight[(size_t)j * k + l];
    turn.wait(slice);
    if (here) {
        float z = s + (slice ? y[(size_t)i * n + j] : bias[j]);
        if (slice == 2) z = 0.5f * z * (1.0f + erff(z * 0.707106781f));
        y[(size_t)i * n + j] = z;
    }
    turn.release(slice == 2 ? 0 : slice + 1);
}

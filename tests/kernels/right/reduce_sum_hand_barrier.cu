// problem: reduce_sum
// assay: temp part float32 (24)
// assay: temp barrier uint32 (2)
// assay: fill barrier value=0
// assay: launch sum_persistent grid=(24) block=(128) args=(x, part, barrier, total, n)
// style: a sense-reversing grid barrier by hand in an ordinary launch of 24 blocks, few enough for every GPU; tree over blocks
__device__ void grid_barrier(volatile unsigned* barrier)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        const unsigned sense = barrier[1];
        __threadfence();
        if (atomicAdd((unsigned*)&barrier[0], 1u) == gridDim.x - 1) {
            barrier[0] = 0;
            __threadfence();
            barrier[1] = sense + 1;
        } else {
            while (barrier[1] == sense) __nanosleep(64);
        }
        __threadfence();
    }
    __syncthreads();
}

__global__ void sum_persistent(const float* x, volatile float* part, unsigned* barrier, float* total, int n)
{
    __shared__ float w[4];
    float s = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) s += x[i];
    for (int d = 16; d; d >>= 1) s += __shfl_down_sync(~0u, s, d);
    if (threadIdx.x % 32 == 0) w[threadIdx.x / 32] = s;
    __syncthreads();
    if (threadIdx.x == 0) part[blockIdx.x] = w[0] + w[1] + w[2] + w[3];
    for (int width = 24; width > 1; width = (width + 1) / 2) {
        grid_barrier(barrier);
        const int half = (width + 1) / 2;
        if (threadIdx.x == 0 && (int)blockIdx.x < width / 2) part[blockIdx.x] = part[blockIdx.x] + part[blockIdx.x + half];
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) *total = part[0];
}

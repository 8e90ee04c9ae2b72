// problem: prefix_sum
// assay: temp sums float32 (ceil_div(n, 1024) + 1)
// assay: launch tiles grid=(ceil_div(n, 1024)) block=(256) args=(x, y, sums, n)
// assay: launch carry grid=(1) block=(1024) args=(sums, ceil_div(n, 1024))
// assay: launch shift grid=(ceil_div(n, 1024)) block=(256) args=(y, sums, n)
// style: within a block each warp waits for its left neighbour's sum in shared memory (volatile flag, __threadfence_block)
__device__ float scan_warp(float v)
{
    for (int d = 1; d < 32; d <<= 1) {
        const float u = __shfl_up_sync(~0u, v, d);
        if (threadIdx.x % 32 >= d) v += u;
    }
    return v;
}

__global__ void tiles(const float* x, float* y, float* sums, int n)
{
    __shared__ volatile float passed[8];
    __shared__ volatile int ready[8];
    if (threadIdx.x < 8) ready[threadIdx.x] = 0;
    __syncthreads();
    const int w = threadIdx.x / 32, lane = threadIdx.x % 32, at = blockIdx.x * 1024 + w * 128 + lane;
    float v[4], run = 0.0f;
    for (int k = 0; k < 4; ++k) {
        v[k] = run + scan_warp(at + 32 * k < n ? x[at + 32 * k] : 0.0f);
        run = __shfl_sync(~0u, v[k], 31);
    }
    float left = 0.0f;
    if (w) {
        while (!ready[w - 1]) { }
        __threadfence_block();
        left = passed[w - 1];
    }
    __syncwarp();
    if (lane == 31) {
        passed[w] = left + run;
        __threadfence_block();
        ready[w] = 1;
        if (w == 7) sums[blockIdx.x] = left + run;
    }
    for (int k = 0; k < 4; ++k)
        if (at + 32 * k < n) y[at + 32 * k] = left + v[k];
}

__global__ void carry(float* sums, int count)
{
    __shared__ float s[1024];
    float before = 0.0f;
    for (int base = 0; base < count; base += 1024) {
        const int i = base + threadIdx.x;
        s[threadIdx.x] = i < count ? sums[i] : 0.0f;
        for (int d = 1; d < 1024; d <<= 1) {
            __syncthreads();
            const float u = threadIdx.x >= d ? s[threadIdx.x - d] : 0.0f;
            __syncthreads();
            s[threadIdx.x] += u;
        }
        __syncthreads();
        if (i < count) sums[i] = before + (threadIdx.x ? s[threadIdx.x - 1] : 0.0f);
        before += s[1023];
        __syncthreads();
    }
}

__global__ void shift(float* y, const float* sums, int n)
{
    for (int i = blockIdx.x * 1024 + threadIdx.x; i < min(n, (int)(blockIdx.x + 1) * 1024); i += 256) y[i] += sums[blockIdx.x];
}

// problem: prefix_sum
// style: sixteen items a thread; the scan of threads by Hillis and Steele in shared memory, minus the thread's own sum
// assay: temp carry float32 (ceil_div(n, 4096))
// assay: launch totals grid=(ceil_div(n, 4096)) block=(256) args=(x, carry, n)
// assay: launch carries grid=(1) block=(1) args=(carry, ceil_div(n, 4096))
// assay: launch finish grid=(ceil_div(n, 4096)) block=(256) args=(x, carry, y, n)
__device__ float own_and_scan(const float* x, int n, float* items, float* shared)
{
    int base = blockIdx.x * 4096 + threadIdx.x * 16;
    float run = 0.0f;
    for (int k = 0; k < 16; ++k) {
        run += base + k < n ? x[base + k] : 0.0f;
        items[k] = run;
    }
    shared[threadIdx.x] = run;
    __syncthreads();
    for (int d = 1; d < 256; d *= 2) {
        float left = threadIdx.x >= d ? shared[threadIdx.x - d] : 0.0f;
        __syncthreads();
        shared[threadIdx.x] += left;
        __syncthreads();
    }
    return run;
}

__global__ void totals(const float* x, float* carry, int n)
{
    __shared__ float shared[256];
    float items[16];
    own_and_scan(x, n, items, shared);
    if (threadIdx.x == 255) carry[blockIdx.x] = shared[255];
}

__global__ void carries(float* carry, int count)
{
    float sum = 0.0f;
    for (int i = 0; i < count; ++i) {
        sum += carry[i];
        carry[i] = sum - carry[i];
    }
}

__global__ void finish(const float* x, const float* carry, float* y, int n)
{
    __shared__ float shared[256];
    float items[16];
    float run = own_and_scan(x, n, items, shared);
    float before = carry[blockIdx.x] + (shared[threadIdx.x] - run);
    int base = blockIdx.x * 4096 + threadIdx.x * 16;
    for (int k = 0; k < 16; ++k)
        if (base + k < n) y[base + k] = before + items[k];
}

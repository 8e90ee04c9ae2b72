// problem: reduce_sum
// style: how a block adds stands in a table of function pointers in constant memory; even and odd blocks differ
// assay: temp partial float32 (ceil_div(n, 1024))
// assay: launch block_sums grid=(ceil_div(n, 1024)) block=(256) args=(x, partial, n)
// assay: launch final_sum grid=(1) block=(256) args=(partial, total, ceil_div(n, 1024))

typedef float (*Collect)(const float* x, int first, int step, int end);

__device__ float upwards(const float* x, int first, int step, int end)
{
    float sum = 0.0f;
    for (int i = first; i < end; i += step) sum += x[i];
    return sum;
}

__device__ float downwards(const float* x, int first, int step, int end)
{
    float sum = 0.0f;
    for (int i = first + (end - 1 - first) / step * step; i >= first; i -= step) sum += x[i];
    return sum;
}

__constant__ Collect ways[] = {upwards, downwards};

__device__ float tree(float value)
{
    __shared__ float sums[256];
    sums[threadIdx.x] = value;
    __syncthreads();
    for (int half = 128; half > 0; half >>= 1) {
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
        __syncthreads();
    }
    return sums[0];
}

__global__ void block_sums(const float* x, float* partial, int n)
{
    const int start = blockIdx.x * 1024, end = min(n, start + 1024);
    const int first = start + (int)threadIdx.x;
    float sum = first < end ? ways[blockIdx.x & 1](x, first, 256, end) : 0.0f;
    sum = tree(sum);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

__global__ void final_sum(const float* partial, float* total, int count)
{
    const int first = threadIdx.x;
    float sum = first < count ? ways[0](partial, first, 256, count) : 0.0f;
    sum = tree(sum);
    if (threadIdx.x == 0) *total = sum;
}

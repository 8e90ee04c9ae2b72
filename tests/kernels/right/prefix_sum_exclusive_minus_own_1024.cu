// problem: prefix_sum
// style: inclusive minus own at every level: a warp scan, warps of a block of 1024, and the sums of blocks by one block
// assay: temp sums float32 (ceil_div(n, 1024))
// assay: launch block_sums grid=(ceil_div(n, 1024)) block=(1024) args=(x, sums, n)
// assay: launch scan_sums grid=(1) block=(1024) args=(sums, ceil_div(n, 1024))
// assay: launch add_offsets grid=(ceil_div(n, 1024)) block=(1024) args=(x, sums, y, n)
__device__ float warp_inclusive(float v)
{
    for (int d = 1; d < 32; d <<= 1) {
        float u = __shfl_up_sync(~0u, v, d);
        if ((threadIdx.x & 31) >= d) v += u;
    }
    return v;
}

// What comes before this thread in the block of 1024; *all is the block's sum.
__device__ float block_exclusive(float own, float* all)
{
    __shared__ float warps[32];
    float up_to = warp_inclusive(own);
    __syncthreads();
    if (threadIdx.x % 32 == 31) warps[threadIdx.x / 32] = up_to;
    __syncthreads();
    if (threadIdx.x < 32) {
        float mine = warps[threadIdx.x];
        float scanned = warp_inclusive(mine);
        __syncwarp();
        warps[threadIdx.x] = scanned - mine;
        if (threadIdx.x == 31) *all = scanned;
    }
    __syncthreads();
    return warps[threadIdx.x / 32] + (up_to - own);
}

__global__ void block_sums(const float* x, float* sums, int n)
{
    __shared__ float all;
    int i = blockIdx.x * 1024 + threadIdx.x;
    block_exclusive(i < n ? x[i] : 0.0f, &all);
    if (threadIdx.x == 0) sums[blockIdx.x] = all;
}

__global__ void scan_sums(float* sums, int count)
{
    __shared__ float all;
    float carry = 0.0f;
    for (int first = 0; first < count; first += 1024) {
        int i = first + threadIdx.x;
        float before = block_exclusive(i < count ? sums[i] : 0.0f, &all);
        if (i < count) sums[i] = carry + before;
        carry += all;
        __syncthreads();
    }
}

__global__ void add_offsets(const float* x, const float* sums, float* y, int n)
{
    __shared__ float all;
    int i = blockIdx.x * 1024 + threadIdx.x;
    float own = i < n ? x[i] : 0.0f;
    float before = block_exclusive(own, &all);
    if (i < n) y[i] = sums[blockIdx.x] + before + own;
}

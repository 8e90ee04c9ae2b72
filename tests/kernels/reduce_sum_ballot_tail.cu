// problem: reduce_sum
// warns: inactive_source
// style: the tail of the reduction shuffles from lanes that stay away; what comes from them is 0 on every GPU so far
// assay: temp partial float32 (16)
// assay: launch add_up grid=(16) block=(256) args=(x, partial, n)
// assay: launch add_up grid=(1) block=(256) args=(partial, total, 16)

__device__ float add_lanes(unsigned lanes, float sum)
{
    for (int offset = 16; offset > 0; offset /= 2) {
        sum += __shfl_down_sync(lanes, sum, offset);
    }
    return sum;
}

__global__ void add_up(const float* from, float* to, int count)
{
    __shared__ float warp_sums[8];
    float sum = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        sum += from[i];
    }
    sum = add_lanes(~0u, sum);
    if (threadIdx.x % 32 == 0) {
        warp_sums[threadIdx.x / 32] = sum;
    }
    __syncthreads();
    const unsigned lanes = __ballot_sync(~0u, threadIdx.x < 8);
    if (threadIdx.x < 8) {
        sum = add_lanes(lanes, warp_sums[threadIdx.x]);
    }
    if (threadIdx.x == 0) {
        to[blockIdx.x] = sum;
    }
}

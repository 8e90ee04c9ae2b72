// problem: reduce_sum
// assay: temp ticket uint32 (2)
// assay: temp sums float32 (20)
// assay: fill ticket value=0
// assay: launch ordered_sum grid=(20) block=(192) args=(x, sums, ticket, total, n)
// style: deterministic order: blocks take their turn at a counter and back off by clock64(), as before __nanosleep
__global__ void ordered_sum(const float* x, float* sums, unsigned* ticket, float* total, int n)
{
    __shared__ float w[6];
    __shared__ unsigned mine;
    if (threadIdx.x == 0) mine = atomicAdd(&ticket[0], 1u);
    __syncthreads();
    float s = 0.0f;
    for (int i = mine * 192 + threadIdx.x; i < n; i += gridDim.x * 192) s += x[i];
    for (int d = 16; d; d >>= 1) s += __shfl_down_sync(~0u, s, d);
    if ((threadIdx.x & 31) == 0) w[threadIdx.x >> 5] = s;
    __syncthreads();
    if (threadIdx.x == 0) {
        s = (w[0] + w[1] + w[2]) + (w[3] + w[4] + w[5]);
        while (atomicAdd(&ticket[1], 0u) != mine) {
            const long long start = clock64();
            while (clock64() - start < 200) { }
        }
        __threadfence();
        const float before = mine ? __ldcg(&sums[mine - 1]) : 0.0f;
        sums[mine] = before + s;
        __threadfence();
        atomicAdd(&ticket[1], 1u);
        if (mine == gridDim.x - 1) *total = before + s;
    }
}

// problem: reduce_sum
// style: a float atomic on the multiprocessor's own sum, added up by a second launch: roundings differ each time
// assay: temp sums float32 (64)
// assay: fill sums value=0
// assay: launch add_up grid=(min(ceil_div(n, 256), 256)) block=(256) args=(x, sums, n)
// assay: launch finish grid=(1) block=(32) args=(sums, total)

__global__ void add_up(const float* x, float* sums, int n)
{
    unsigned where;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(where));
    float sum = 0.0f;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) sum += x[i];
    for (int offset = 16; offset; offset /= 2) sum += __shfl_down_sync(~0u, sum, offset);
    if (threadIdx.x % 32 == 0) atomicAdd(&sums[where % 64], sum);
}

__global__ void finish(const float* sums, float* total)
{
    float sum = sums[threadIdx.x] + sums[threadIdx.x + 32];
    for (int offset = 16; offset; offset /= 2) sum += __shfl_down_sync(~0u, sum, offset);
    if (threadIdx.x == 0) *total = sum;
}

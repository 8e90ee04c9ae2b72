// problem: histogram
// style: NVIDIA's warp-aggregated atomics: the active lanes elect one that adds for all
// warns: activemask
// assay: fill counts value=0
// assay: launch count grid=(ceil_div(n, 256)) block=(256) args=(values, counts, n)

__device__ int add_one(int* counter)
{
    const unsigned active = __activemask();
    const int leader = __ffs(active) - 1, lane = threadIdx.x % 32;
    int before = 0;
    if (lane == leader) before = atomicAdd(counter, __popc(active));
    before = __shfl_sync(active, before, leader);
    return before + __popc(active & (1u << lane) - 1);
}

__global__ void count(const int* values, int* counts, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    for (int bin = 0; bin < 256; ++bin)
        if (i < n && values[i] == bin) add_one(&counts[bin]);
}

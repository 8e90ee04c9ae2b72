// problem: histogram
// assay: fill counts value=0
// assay: launch count_active grid=(ceil_div(n, 192)) block=(192) args=(values, counts, n)
// style: opportunistic aggregation inside a branch: __match_any_sync on __activemask(), then lanemask_lt and popc
__global__ void count_active(const int* values, int* counts, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const int v = values[i];
        const unsigned peers = __match_any_sync(__activemask(), v);
        unsigned below;
        asm("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
        if ((peers & below) == 0) atomicAdd(&counts[v], __popc(peers));
    }
}

// problem: histogram
// assay: fill counts value=0
// assay: launch hist grid=(min(ceil_div(n, 256), 1024)) block=(256) args=(values, counts, n)
// style: __match_any_sync with the full mask: lanes past the end bring a value of their own, the leader adds the group's size
__global__ void hist(const int* values, int* counts, int n)
{
    __shared__ int bins[257];
    for (int b = threadIdx.x; b < 257; b += 256) bins[b] = 0;
    __syncthreads();
    for (long long base = blockIdx.x * 256LL; base < n; base += gridDim.x * 256LL) {
        const long long i = base + threadIdx.x;
        const int v = i < n ? values[i] : 256;
        const unsigned same = __match_any_sync(0xffffffffu, v);
        if ((threadIdx.x & 31) == __ffs(same) - 1) atomicAdd(&bins[v], __popc(same));
    }
    __syncthreads();
    if (bins[threadIdx.x]) atomicAdd(&counts[threadIdx.x], bins[threadIdx.x]);
}

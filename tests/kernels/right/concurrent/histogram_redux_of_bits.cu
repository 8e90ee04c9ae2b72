// problem: histogram
// assay: fill counts value=0
// assay: launch hist grid=(min(ceil_div(n, 1024), 400)) block=(256) args=(values, counts, n)
// style: __reduce_add_sync of packed counts: a warp counts 16 values of the low nibble at a time in bytes, masks from ballots
__global__ void hist(const int* values, int* counts, int n)
{
    __shared__ unsigned bins[256];
    bins[threadIdx.x] = 0;
    __syncthreads();
    const unsigned lane = threadIdx.x & 31;
    for (long long base = blockIdx.x * 256LL; base < n; base += gridDim.x * 256LL) {
        const long long i = base + threadIdx.x;
        const int v = i < n ? values[i] : -1;
        unsigned left = __ballot_sync(~0u, v >= 0);
        while (left) {  // the same in all lanes: a high nibble after the other
            const int high = __shfl_sync(~0u, v, __ffs(left) - 1) >> 4;
            const bool mine = v >= 0 && v >> 4 == high;
            for (int quad = 0; quad < 4; ++quad) {
                const unsigned one = mine && (v >> 2 & 3) == quad ? 1u << (v & 3) * 8 : 0u;
                const unsigned sum = __reduce_add_sync(~0u, one);
                const unsigned count = sum >> (lane & 3) * 8 & 255u;
                if (lane < 4 && count) atomicAdd(&bins[high * 16 + quad * 4 + lane], count);
            }
            left &= ~__ballot_sync(~0u, mine);
        }
    }
    __syncthreads();
    if (bins[threadIdx.x]) atomicAdd(&counts[threadIdx.x], (int)bins[threadIdx.x]);
}

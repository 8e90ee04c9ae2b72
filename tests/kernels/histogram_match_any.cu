// problem: histogram
// style: equal values in a warp find each other with __match_any_sync, their leader adds for all
// assay: launch zero_counts grid=(1) block=(256) args=(counts)
// assay: launch count_groups grid=(ceil_div(n, 256)) block=(256) args=(values, counts, n)

__global__ void zero_counts(int* counts)
{
    counts[threadIdx.x] = 0;
}

__global__ void count_groups(const int* values, int* counts, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned present = __ballot_sync(0xffffffffu, i < n);
    if (i < n) {
        const int value = values[i];
        const unsigned equal = __match_any_sync(present, value);
        const int leader = __ffs(equal) - 1;
        if ((threadIdx.x & 31) == leader) {
            atomicAdd(counts + value, __popc(equal));
        }
    }
}

// problem: histogram
// style: pairs of values a lane; __match_any_sync, then __reduce_add_sync with the mask that it gave, one atomic a group
// assay: fill counts value=0
// assay: launch count grid=(ceil_div(n, 512)) block=(256) args=(values, counts, n)

__global__ void count(const int* values, int* counts, int n)
{
    const int i = (blockIdx.x * 256 + threadIdx.x) * 2;
    const int first = i < n ? values[i] : -1, second = i + 1 < n ? values[i + 1] : -1;
    const unsigned lane = threadIdx.x % 32;
    unsigned same = __match_any_sync(0xffffffffu, first);
    const int both = __reduce_add_sync(same, first == second ? 2 : 1);
    if (first >= 0 && lane == __ffs(same) - 1) atomicAdd(counts + first, both);
    const bool left = second >= 0 && second != first;
    const unsigned rest = __ballot_sync(0xffffffffu, left);
    if (left) {
        same = __match_any_sync(rest, second);
        const int size = __reduce_add_sync(same, 1);
        if (lane == 31 - __clz(same)) atomicAdd(counts + second, size);
    }
}

// problem: histogram
// assay: fill counts value=0
// assay: launch count_aggregated grid=(min(ceil_div(n, 256), 640)) block=(256) args=(values, counts, n)
// style: warp-aggregated atomics by a loop: the first lane's value is broadcast, its equals step out with popc of a ballot
__global__ void count_aggregated(const int* values, int* counts, int n)
{
    const int step = gridDim.x * blockDim.x;
    for (int base = blockIdx.x * blockDim.x; base < n; base += step) {
        const int i = base + threadIdx.x;
        bool waiting = i < n;
        const int mine = waiting ? values[i] : -1;
        unsigned left;
        while ((left = __ballot_sync(~0u, waiting)) != 0) {
            const int leader = __ffs((int)left) - 1;
            const int value = __shfl_sync(~0u, mine, leader);
            const bool same = waiting && mine == value;
            const unsigned group = __ballot_sync(~0u, same);
            if ((threadIdx.x & 31) == leader) atomicAdd(counts + value, __popc(group));
            if (same) waiting = false;
        }
    }
}

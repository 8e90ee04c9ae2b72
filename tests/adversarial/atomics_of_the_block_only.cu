// problem: histogram
// attack: blocks add to the same counters with atomics whose scope is the block
// expect: incorrect
// because: two such atomics of different blocks are not atomic for each other
// message: atomically
// assay: fill counts value=0
// assay: launch count grid=(64) block=(256) args=(values, counts, n)

__global__ void count(const int* values, int* counts, int n)
{
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += 64 * 256) atomicAdd_block(counts + values[i], 1);
}

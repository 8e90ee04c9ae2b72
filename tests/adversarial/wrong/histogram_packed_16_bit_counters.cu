// problem: histogram
// class: sizes
// must: anything but passed
// why: two 16-bit counters in a word, 64 blocks at most: a bin that gets more than 65,535 elements of one block carries into its neighbour. Shows where n > 64 * 65,535 and one bin takes all; the timed size with even values is right
// proof: 5,000,000 elements that are all equal give two wrong counts
// assay: fill counts value=0
// assay: launch hist grid=(min(ceil_div(n, 1024), 64)) block=(256) args=(values, counts, n)

typedef unsigned int u32;

__global__ void hist(const int* __restrict__ values, int* __restrict__ counts, int n)
{
    __shared__ u32 packed[128];  // bin b in half b & 1 of word b >> 1
    if (threadIdx.x < 128) packed[threadIdx.x] = 0u;
    __syncthreads();
    // a block takes a contiguous span, to stay in its own pages
    const int span = (n + gridDim.x - 1) / gridDim.x;
    const int begin = blockIdx.x * span, end = min(begin + span, n);
    for (int i = begin + threadIdx.x; i < end; i += 256) {
        const u32 v = (u32)__ldcs(values + i);
        atomicAdd(&packed[v >> 1], 1u << ((v & 1u) << 4));
    }
    __syncthreads();
    const u32 word = packed[threadIdx.x >> 1];
    const u32 mine = (threadIdx.x & 1) ? word >> 16 : word & 0xffffu;
    if (mine) atomicAdd(counts + threadIdx.x, (int)mine);
}

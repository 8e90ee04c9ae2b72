// problem: histogram
// class: registers
// must: anything but passed
// why: a ticket tells a block which part to count, but only if the ticket equals its own number does it count the ragged end as well: right where blocks start one after the other, else the end is counted never or twice
// proof: blocks run in any order (CUDA guide, thread hierarchy): on a GPU the block with the last ticket is often not the last block
// assay: temp ticket uint32 (1)
// assay: fill ticket value=0
// assay: fill counts value=0
// assay: launch hist grid=(ceil_div(n, 1024) + 1) block=(256) args=(values, counts, ticket, n)

__global__ void hist(const int* values, int* counts, unsigned* ticket, int n)
{
    __shared__ int bins[256];
    __shared__ unsigned part;
    bins[threadIdx.x] = 0;
    if (threadIdx.x == 0) part = atomicAdd(ticket, 1u);
    __syncthreads();
    const int full = n / 1024;
    if (part < full) {
        const int4 v = reinterpret_cast<const int4*>(values)[part * 256 + threadIdx.x];
        atomicAdd(&bins[v.x], 1); atomicAdd(&bins[v.y], 1); atomicAdd(&bins[v.z], 1); atomicAdd(&bins[v.w], 1);
    } else if (part == full && part == blockIdx.x) {
        for (int i = full * 1024 + threadIdx.x; i < n; i += 256) atomicAdd(&bins[values[i]], 1);
    }
    __syncthreads();
    if (bins[threadIdx.x]) atomicAdd(&counts[threadIdx.x], bins[threadIdx.x]);
}

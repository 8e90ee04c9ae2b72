// problem: histogram
// assay: temp shards int32 (32 * 256)
// assay: temp done uint32 (1)
// assay: fill shards value=0
// assay: fill done value=0
// assay: launch hist grid=(32) block=(512) args=(values, shards, done, counts, n)
// style: a shard in global memory for each block, counted with red.relaxed.cta; one release at gpu scope, the last block merges
__global__ void hist(const int* values, int* shards, unsigned* done, int* counts, int n)
{
    __shared__ unsigned before;
    int* mine = shards + blockIdx.x * 256;
    for (int i = blockIdx.x * 512 + threadIdx.x; i < n; i += 32 * 512)
        asm volatile("red.relaxed.cta.global.add.s32 [%0], 1;" ::"l"(mine + values[i]) : "memory");
    __syncthreads();
    if (threadIdx.x == 0)
        asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(done) : "memory");
    __syncthreads();
    if (before != 31 || threadIdx.x >= 256) return;
    int sum = 0;
    for (int b = 0; b < 32; ++b) sum += shards[b * 256 + threadIdx.x];
    counts[threadIdx.x] = sum;
}

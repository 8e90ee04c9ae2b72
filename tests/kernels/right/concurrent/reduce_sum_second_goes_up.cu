// problem: reduce_sum
// assay: temp part float32 (128)
// assay: temp met uint32 (128)
// assay: fill met value=0
// assay: launch climb grid=(64) block=(64) args=(x, part, met, total, n)
// style: a combining tree: of two blocks that meet at a node the second goes up with both sums (atom.acq_rel.gpu.exch)
__global__ void climb(const float* x, float* part, unsigned* met, float* total, int n)
{
    __shared__ float half;
    float s = 0.0f;
    for (int i = blockIdx.x * 64 + threadIdx.x; i < n; i += 64 * 64) s += x[i];
    for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
    if (threadIdx.x == 32) half = s;
    __syncthreads();
    if (threadIdx.x != 0) return;
    s += half;
    // nodes 64 to 127 are the leaves; node k has 2k and 2k + 1 below it
    for (int node = 64 + blockIdx.x; node > 1; node /= 2) {
        part[node] = s;
        unsigned before;
        asm volatile("atom.acq_rel.gpu.global.exch.b32 %0, [%1], 1;" : "=r"(before) : "l"(met + node / 2) : "memory");
        if (!before) return;
        s += part[node ^ 1];
    }
    *total = s;
}

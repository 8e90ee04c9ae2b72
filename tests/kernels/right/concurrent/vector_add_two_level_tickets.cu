// problem: vector_add
// assay: temp queue uint32 (1)
// assay: fill queue value=0
// assay: launch add_tickets grid=(96) block=(128) args=(a, b, c, queue, n)
// style: tickets at two levels: a block takes sixteen chunks from global memory, its warps take them one by one from shared memory
__global__ void add_tickets(const float* a, const float* b, float* c, unsigned* queue, unsigned n)
{
    __shared__ unsigned base, given;
    const unsigned lane = threadIdx.x % 32;
    while (true) {
        __syncthreads();  // all warps are done with the last sixteen
        if (threadIdx.x == 0) {
            base = atomicAdd(queue, 16u);
            given = 0;
        }
        __syncthreads();
        if (base * 64 >= n) return;
        while (true) {
            unsigned k = 0;
            if (lane == 0) k = atomicAdd(&given, 1u);
            k = __shfl_sync(~0u, k, 0);
            if (k >= 16) break;
            const unsigned from = (base + k) * 64;
            for (unsigned i = from + lane; i < min(n, from + 64); i += 32) c[i] = a[i] + b[i];
        }
    }
}

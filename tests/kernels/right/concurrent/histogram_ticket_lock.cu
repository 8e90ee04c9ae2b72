// problem: histogram
// assay: temp lock uint32 (2)
// assay: fill lock value=0
// assay: fill counts value=0
// assay: launch hist grid=(min(ceil_div(n, 4096), 64)) block=(256) args=(values, counts, lock, n)
// style: a ticket lock around a plain += of all bins: atomicAdd of the ticket, ld.acquire of the number served, st.release
__global__ void hist(const int* values, int* counts, unsigned* lock, int n)
{
    __shared__ int bins[256];
    bins[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) atomicAdd(&bins[values[i]], 1);
    __syncthreads();
    if (threadIdx.x == 0) {
        const unsigned mine = atomicAdd(&lock[0], 1u);
        unsigned served;
        while (true) {
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(served) : "l"(lock + 1) : "memory");
            if (served == mine) break;
            __nanosleep((mine - served) * 32);
        }
    }
    __syncthreads();
    counts[threadIdx.x] += bins[threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(lock + 1) : "memory");
}

// problem: histogram
// assay: fill counts value=0
// assay: launch count_system grid=(min(ceil_div(n, 512), 200)) block=(512) args=(values, counts, n)
// style: more scope than needed: atomicAdd_system and __threadfence_system at the end; two tables by parity of the warp
__global__ void count_system(const int* values, int* counts, int n)
{
    __shared__ int bins[256][2];
    for (int b = threadIdx.x; b < 512; b += 512) (&bins[0][0])[b] = 0;
    __syncthreads();
    const int copy = threadIdx.x >> 5 & 1;
    for (int i = blockIdx.x * 512 + threadIdx.x; i < n; i += gridDim.x * 512) atomicAdd_block(&bins[__ldlu(values + i)][copy], 1);
    __syncthreads();
    if (threadIdx.x < 256) {
        atomicAdd_system(&counts[threadIdx.x], bins[threadIdx.x][0] + bins[threadIdx.x][1]);
        __threadfence_system();
    }
}

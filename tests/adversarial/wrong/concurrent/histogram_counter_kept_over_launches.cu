// problem: histogram
// class: schedule
// race: last block
// must: anything but passed
// why: two launches, for the two halves, use one counter that is not reset and ask for >= gridDim.x - 1: in the second launch every block takes itself for the last and copies the bins, perhaps old ones after the last block has copied
// proof: atomicInc with a wrap, or a reset, is missing; a block that reads the bins early and stores late
// assay: temp bins uint32 (257)
// assay: fill bins value=0
// assay: launch hist grid=(min(ceil_div(n, 1024), 64)) block=(256) args=(values, bins, counts, 0, n // 2)
// assay: launch hist grid=(min(ceil_div(n, 1024), 64)) block=(256) args=(values, bins, counts, n // 2, n)

__global__ void hist(const int* values, unsigned* bins, int* counts, int begin, int end)
{
    __shared__ unsigned local[256], order;
    local[threadIdx.x] = 0;
    __syncthreads();
    for (int i = begin + blockIdx.x * 256 + threadIdx.x; i < end; i += gridDim.x * 256) atomicAdd(&local[values[i]], 1u);
    __syncthreads();
    if (local[threadIdx.x]) atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        order = atomicAdd(&bins[256], 1u);
        __threadfence();
    }
    __syncthreads();
    if (order >= gridDim.x - 1) {
        const unsigned sum = __ldcg(&bins[threadIdx.x]);
        __stcg(&counts[threadIdx.x], (int)sum);
    }
}

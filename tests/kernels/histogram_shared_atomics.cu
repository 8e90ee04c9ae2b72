// problem: histogram
// style: a private histogram in shared memory for each block, merged by global atomics
// assay: fill counts value=0
// assay: launch count_values grid=(min(ceil_div(n, 256), 64)) block=(256) args=(values, counts, n)

__global__ void count_values(const int* values, int* counts, int n)
{
    __shared__ int local[256];
    local[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) {
        atomicAdd(&local[values[i]], 1);
    }
    __syncthreads();
    if (local[threadIdx.x] != 0) {
        atomicAdd(&counts[threadIdx.x], local[threadIdx.x]);
    }
}

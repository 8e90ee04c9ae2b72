// problem: histogram
// style: float counters in shared memory, exact below 2^24 and emptied into the integers after each tile of 8,192
// assay: fill counts value=0
// assay: launch count_floats grid=(min(ceil_div(n, 8192), 96)) block=(256) args=(values, counts, n)
__global__ void count_floats(const int* values, int* counts, int n)
{
    __shared__ float s[256];
    for (int first = blockIdx.x * 8192; first < n; first += gridDim.x * 8192) {
        s[threadIdx.x] = 0.0f;
        __syncthreads();
        for (int i = first + threadIdx.x; i < min(n, first + 8192); i += 256) atomicAdd(&s[values[i]], 1.0f);
        __syncthreads();
        if (s[threadIdx.x] > 0.0f) atomicAdd(counts + threadIdx.x, __float2int_rn(s[threadIdx.x]));
        __syncthreads();
    }
}

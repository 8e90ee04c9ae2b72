// problem: histogram
// assay: fill counts value=0
// assay: launch count_halves grid=(min(ceil_div(n, 8192), 512)) block=(256) args=(values, counts, n)
// style: two 16-bit counters in a shared word, emptied into the output after every 8192 values so that none overflows
__global__ void count_halves(const int* values, int* counts, int n)
{
    __shared__ unsigned words[128];
    if (threadIdx.x < 128) words[threadIdx.x] = 0;
    __syncthreads();
    for (long long begin = blockIdx.x * 8192LL; begin < n; begin += gridDim.x * 8192LL) {
        const int end = (int)min((long long)n, begin + 8192);
        for (int i = (int)begin + threadIdx.x; i < end; i += 256) {
            const int v = values[i];
            atomicAdd(&words[v >> 1], 1u << ((v & 1) * 16));
        }
        __syncthreads();
        if (threadIdx.x < 128) {
            const unsigned two = atomicExch(&words[threadIdx.x], 0u);
            if (two & 0xffffu) atomicAdd(&counts[2 * threadIdx.x], two & 0xffffu);
            if (two >> 16) atomicAdd(&counts[2 * threadIdx.x + 1], two >> 16);
        }
        __syncthreads();
    }
}

// problem: histogram
// style: values packed to four bytes a word in shared memory; a thread for each bin compares four at once (SIMD words)
// assay: fill counts value=0
// assay: launch count_packed grid=(min(ceil_div(n, 1024), 64)) block=(256) args=(values, counts, n)

__global__ void count_packed(const int* values, int* counts, int n)
{
    __shared__ unsigned packed[256];
    const unsigned bin = threadIdx.x, four_bins = bin * 0x01010101u;
    unsigned count = 0;
    for (int start = blockIdx.x * 1024; start < n; start += gridDim.x * 1024) {
        const int first = start + 4 * threadIdx.x;
        unsigned word = 0;
        for (int k = 3; k >= 0; --k) {
            word = word << 8 | (first + k < n ? values[first + k] : 0);
        }
        packed[threadIdx.x] = word;
        __syncthreads();
        const int words = (min(n - start, 1024) + 3) / 4;
        for (int at = 0; at < words; ++at) {
            count += __popc(__vcmpeq4(packed[at], four_bins)) >> 3;
        }
        // What fills the last word up is zeros that are no values.
        if (bin == 0) count -= 4 * words - min(n - start, 1024);
        __syncthreads();
    }
    if (count > 0) atomicAdd(counts + bin, (int)count);
}

// problem: histogram
// assay: fill counts value=0
// assay: launch count_columns grid=(min(ceil_div(n, 64 * 250), 128)) block=(64) shared=(64 * 256) args=(values, counts, n)
// style: a column of 256 byte counters for each of 64 threads; no atomics inside, emptied before 255 can pass
__global__ void count_columns(const int* values, int* counts, int n)
{
    extern __shared__ unsigned char column[];     // column[bin * 64 + thread]
    const int piece = 64 * 250;
    for (int base = blockIdx.x * piece; base < n; base += gridDim.x * piece) {
        for (int w = threadIdx.x; w < 64 * 256 / 16; w += 64) reinterpret_cast<uint4*>(column)[w] = make_uint4(0, 0, 0, 0);
        __syncthreads();
        const int end = min(n, base + piece);
        for (int i = base + threadIdx.x; i < end; i += 64) ++column[values[i] * 64 + threadIdx.x];
        __syncthreads();
        for (int bin = threadIdx.x; bin < 256; bin += 64) {
            unsigned sum = 0;
            for (int k = 0; k < 64; ++k) sum += column[bin * 64 + (k + threadIdx.x) % 64];
            if (sum) atomicAdd(&counts[bin], (int)sum);
        }
        __syncthreads();
    }
}

// problem: histogram
// assay: temp rows uint32 (ceil_div(n, 8192), 256)
// assay: launch block_histograms grid=(ceil_div(n, 8192)) block=(128) args=(values, rows, n)
// assay: launch column_sums grid=(8) block=(32, 16) args=(rows, counts, ceil_div(n, 8192))
// style: cub::BlockHistogram (atomic) in rounds of 1024 with a bin for what is not there, rows added by columns
#include <cub/cub.cuh>

__global__ void block_histograms(const int* values, unsigned* rows, int n)
{
    using Histogram = cub::BlockHistogram<unsigned short, 128, 8, 257, cub::BLOCK_HISTO_ATOMIC>;
    __shared__ typename Histogram::TempStorage temp;
    __shared__ unsigned bins[257];
    Histogram(temp).InitHistogram(bins);
    __syncthreads();
    for (int base = blockIdx.x * 8192; base < min(n, (int)(blockIdx.x + 1) * 8192); base += 1024) {
        unsigned short v[8];
        for (int k = 0; k < 8; ++k) {
            const int i = base + k * 128 + threadIdx.x;
            v[k] = i < n ? (unsigned short)values[i] : 256;
        }
        Histogram(temp).Composite(v, bins);
        __syncthreads();
    }
    for (int b = threadIdx.x; b < 256; b += 128) rows[blockIdx.x * 256 + b] = bins[b];
}

__global__ void column_sums(const unsigned* rows, int* counts, int many)
{
    __shared__ unsigned s[16][32];
    const int bin = blockIdx.x * 32 + threadIdx.x;
    unsigned sum = 0;
    for (int r = threadIdx.y; r < many; r += 16) sum += rows[r * 256 + bin];
    s[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0) {
        for (int k = 1; k < 16; ++k) sum += s[k][threadIdx.x];
        counts[bin] = (int)sum;
    }
}

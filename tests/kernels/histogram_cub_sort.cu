// problem: histogram
// style: cub::BlockRadixSort of a tile, then one atomic for each run of equal values
// assay: launch clear grid=(1) block=(256) args=(counts)
// assay: launch count grid=(min(ceil_div(n, 512), 32)) block=(128) args=(values, counts, n)

#include <cub/block/block_radix_sort.cuh>

__global__ void clear(int* counts) { counts[threadIdx.x] = 0; }

__global__ void count(const int* values, int* counts, int n)
{
    typedef cub::BlockRadixSort<unsigned, 128, 4> Sort;
    __shared__ typename Sort::TempStorage scratch;
    __shared__ unsigned sorted[512];
    for (int start = blockIdx.x * 512; start < n; start += gridDim.x * 512) {
        unsigned keys[4];
        for (int i = 0; i < 4; ++i) {
            int at = start + threadIdx.x * 4 + i;
            keys[i] = at < n ? values[at] : 256u;
        }
        Sort(scratch).Sort(keys, 0, 9);
        for (int i = 0; i < 4; ++i) sorted[threadIdx.x * 4 + i] = keys[i];
        __syncthreads();
        for (int at = threadIdx.x; at < 512; at += 128) {
            unsigned key = sorted[at];
            if (key == 256u || (at > 0 && sorted[at - 1] == key)) continue;
            int end = at + 1;
            while (end < 512 && sorted[end] == key) ++end;
            atomicAdd(counts + key, end - at);
        }
        __syncthreads();
    }
}

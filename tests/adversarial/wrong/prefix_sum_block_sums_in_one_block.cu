// problem: prefix_sum
// class: sizes
// must: anything but passed
// why: tiles of 4,096 elements, whose sums one block of 1,024 threads scans: 2^22 elements, the timed size, is the most; behind it tiles begin from undefined or zero offsets
// proof: assay grade --size n=4300000 refuses it
// assay: temp sums float32 (ceil_div(n, 4096))
// assay: launch tile_scan grid=(ceil_div(n, 4096)) block=(256) args=(x, y, sums, n)
// assay: launch scan_sums grid=(1) block=(1024) args=(sums, ceil_div(n, 4096))
// assay: launch add_offsets grid=(ceil_div(n, 4096)) block=(256) args=(y, sums, n)
#include <cub/cub.cuh>

__global__ void tile_scan(const float* x, float* y, float* sums, int n)
{
    using Scan = cub::BlockScan<float, 256>;
    __shared__ Scan::TempStorage temp;
    float v[16], total;
    const int first = blockIdx.x * 4096 + threadIdx.x * 16;
#pragma unroll
    for (int i = 0; i < 16; ++i) v[i] = first + i < n ? x[first + i] : 0.f;
    Scan(temp).InclusiveSum(v, v, total);
#pragma unroll
    for (int i = 0; i < 16; ++i) if (first + i < n) y[first + i] = v[i];
    if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

__global__ void scan_sums(float* sums, int count)
{
    using Scan = cub::BlockScan<float, 1024>;
    __shared__ Scan::TempStorage temp;
    float v = threadIdx.x < count ? sums[threadIdx.x] : 0.f;
    Scan(temp).ExclusiveSum(v, v);
    if (threadIdx.x < count) sums[threadIdx.x] = v;
}

__global__ void add_offsets(float* y, const float* sums, int n)
{
    const float offset = sums[blockIdx.x];
    for (int i = threadIdx.x; i < 4096; i += 256) {
        const int at = blockIdx.x * 4096 + i;
        if (at < n) y[at] += offset;
    }
}

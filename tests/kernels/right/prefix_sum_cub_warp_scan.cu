// problem: prefix_sum
// assay: temp sums float64 (ceil_div(n, 4096))
// assay: launch tile_sum grid=(ceil_div(n, 4096)) block=(128) args=(x, sums, n)
// assay: launch scan_sums grid=(1) block=(32) args=(sums, ceil_div(n, 4096))
// assay: launch tile_scan grid=(ceil_div(n, 4096)) block=(128) args=(x, y, sums, n)
// style: cub::BlockReduce with a functor, cub::WarpScan in a loop with a carry, cub::BlockScan with a prefix callback
#include <cub/cub.cuh>

__global__ void tile_sum(const float* x, double* sums, int n)
{
    using Reduce = cub::BlockReduce<double, 128>;
    __shared__ typename Reduce::TempStorage temp;
    double s = 0;
    for (int i = blockIdx.x * 4096 + threadIdx.x; i < min(n, (int)(blockIdx.x + 1) * 4096); i += 128) s += x[i];
    s = Reduce(temp).Sum(s);
    if (threadIdx.x == 0) sums[blockIdx.x] = s;
}

__global__ void scan_sums(double* sums, int count)
{
    using Scan = cub::WarpScan<double>;
    __shared__ typename Scan::TempStorage temp;
    double carry = 0;
    for (int base = 0; base < count; base += 32) {
        const int i = base + threadIdx.x;
        double s, all;
        Scan(temp).ExclusiveSum(i < count ? sums[i] : 0.0, s, all);
        if (i < count) sums[i] = carry + s;
        carry += all;
        __syncwarp();
    }
}

struct running {
    double total;
    __device__ double operator()(double block)
    {
        const double before = total;
        total += block;
        return before;
    }
};

__global__ void tile_scan(const float* x, float* y, const double* sums, int n)
{
    using Scan = cub::BlockScan<double, 128, cub::BLOCK_SCAN_WARP_SCANS>;
    __shared__ typename Scan::TempStorage temp;
    running prefix{sums[blockIdx.x]};
    for (int base = blockIdx.x * 4096; base < min(n, (int)(blockIdx.x + 1) * 4096); base += 512) {
        double v[4];
        for (int k = 0; k < 4; ++k) {
            const int i = base + threadIdx.x * 4 + k;
            v[k] = i < n ? x[i] : 0.0;
        }
        Scan(temp).InclusiveSum(v, v, prefix);
        __syncthreads();
        for (int k = 0; k < 4; ++k) {
            const int i = base + threadIdx.x * 4 + k;
            if (i < n) y[i] = (float)v[k];
        }
    }
}

// problem: prefix_sum
// assay: temp sums float64 (256)
// assay: launch chunk_sums grid=(256) block=(256) args=(x, sums, n, ceil_div(n, 256))
// assay: launch exclusive grid=(1) block=(32) args=(sums, 256)
// assay: launch chunk_scan grid=(256) block=(256) args=(x, y, sums, n, ceil_div(n, 256))
// style: reduce, scan, scan: a chunk for each of 256 blocks, sums in double, one warp scans them
__global__ void chunk_sums(const float* x, double* sums, int n, int chunk)
{
    __shared__ double part[8];
    const int begin = min(n, (int)blockIdx.x * chunk), end = min(n, begin + chunk);
    double s = 0;
    for (int i = begin + threadIdx.x; i < end; i += 256) s += x[i];
    for (int d = 16; d; d /= 2) s += __shfl_down_sync(0xffffffff, s, d);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = s;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < 8; ++w) s += part[w];
        sums[blockIdx.x] = s;
    }
}

__global__ void exclusive(double* sums, int count)
{
    double carry = 0;
    for (int base = 0; base < count; base += 32) {
        const double v = sums[base + threadIdx.x];
        double s = v;
        for (int d = 1; d < 32; d *= 2) {
            const double o = __shfl_up_sync(0xffffffff, s, d);
            if (threadIdx.x >= d) s += o;
        }
        const double left = __shfl_up_sync(0xffffffff, s, 1);
        sums[base + threadIdx.x] = carry + (threadIdx.x ? left : 0.0);
        carry += __shfl_sync(0xffffffff, s, 31);
    }
}

__global__ void chunk_scan(const float* x, float* y, const double* sums, int n, int chunk)
{
    __shared__ double warps[8];
    const int begin = min(n, (int)blockIdx.x * chunk), end = min(n, begin + chunk);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    double carry = sums[blockIdx.x];
    for (int base = begin; base < end; base += 256) {
        const int i = base + threadIdx.x;
        double s = i < end ? x[i] : 0.0;
        for (int d = 1; d < 32; d *= 2) {
            const double o = __shfl_up_sync(0xffffffff, s, d);
            if (lane >= d) s += o;
        }
        if (lane == 31) warps[warp] = s;
        __syncthreads();
        double left = 0, all = 0;
        for (int w = 0; w < 8; ++w) {
            if (w < warp) left += warps[w];
            all += warps[w];
        }
        if (i < end) y[i] = float(carry + left + s);
        carry += all;
        __syncthreads();
    }
}

// problem: reduce_sum
// class: contents
// must: anything but passed
// why: to be reproducible, values are added as 64-bit integers, whose unit comes from the largest of the first 32 values; values 2^24 and more times as large overflow
// proof: x[0..31] around 1e-6 and one value of 1e6 behind: the sum is not 1e6
// assay: temp acc int64 (1)
// assay: fill acc value=0
// assay: launch add grid=(min(ceil_div(n, 256), 1024)) block=(256) args=(x, acc, n)
// assay: launch finish grid=(1) block=(32) args=(x, acc, total, n)

__device__ int unit_exponent(const float* x, int n)
{
    // the exponent of the largest of the first warp's worth
    unsigned e = __float_as_uint(x[min(threadIdx.x & 31u, (unsigned)n - 1u)]) >> 23 & 255u;
    e = __reduce_max_sync(0xffffffffu, e);
    return e == 0 ? 0 : (int)e - 127;
}

__global__ void add(const float* x, unsigned long long* acc, int n)
{
    const int e = unit_exponent(x, n);
    long long s = 0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) s += llrint(ldexp((double)x[i], 38 - e));
    for (int o = 16; o; o >>= 1) s += __shfl_down_sync(0xffffffffu, s, o);
    if ((threadIdx.x & 31) == 0) atomicAdd(acc, (unsigned long long)s);
}

__global__ void finish(const float* x, const long long* acc, float* total, int n)
{
    const int e = unit_exponent(x, n);
    if (threadIdx.x == 0) *total = (float)ldexp((double)*acc, e - 38);
}

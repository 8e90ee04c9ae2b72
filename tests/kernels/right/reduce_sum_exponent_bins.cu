// problem: reduce_sum
// assay: temp bins uint64 (256)
// assay: fill bins value=0
// assay: launch add_mantissas grid=(min(ceil_div(n, 1024), 256)) block=(256) args=(x, bins, n)
// assay: launch join_bins grid=(1) block=(32) args=(bins, total)
// style: reproducible: signed mantissas are added as 64-bit integers, a bin for each exponent; only the end is rounded
__global__ void add_mantissas(const unsigned* x, unsigned long long* bins, int n)
{
    __shared__ unsigned long long mine[256];
    mine[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) {
        const unsigned bits = x[i], exponent = bits >> 23 & 255u;
        long long m = bits & 0x7fffffu;
        if (exponent) m |= 0x800000;
        if (bits >> 31) m = -m;
        atomicAdd(&mine[exponent], (unsigned long long)m);
    }
    __syncthreads();
    if (mine[threadIdx.x]) atomicAdd(&bins[threadIdx.x], mine[threadIdx.x]);
}

__global__ void join_bins(const long long* bins, float* total)
{
    double s = 0.0;
    for (int e = threadIdx.x; e < 256; e += 32) s += ldexp((double)bins[e], max(e, 1) - 150);
    for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
    if (threadIdx.x == 0) *total = (float)s;
}

// problem: reduce_sum
// style: fixed point: the largest magnitude gives a power of two, elements are added as 64-bit integers, scaled back at the end
// assay: temp top int32 (1)
// assay: temp sum int64 (1)
// assay: fill top value=0
// assay: fill sum value=0
// assay: launch largest grid=(min(ceil_div(n, 256), 256)) block=(256) args=(x, top, n)
// assay: launch add grid=(min(ceil_div(n, 256), 256)) block=(256) args=(x, top, sum, n)
// assay: launch finish grid=(1) block=(1) args=(top, sum, total)
__global__ void largest(const float* x, int* top, int n)
{
    int v = 0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
        v = max(v, __float_as_int(x[i]) & 0x7fffffff);
    atomicMax(top, v);
}

__device__ int exponent(const int* top) { return (*top >> 23) - 126; }  // all magnitudes are below 2^exponent

__global__ void add(const float* x, const int* top, long long* sum, int n)
{
    const int shift = 38 - exponent(top);  // 2^25 of them stay below 2^63
    long long v = 0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
        v += __double2ll_rn(ldexp((double)x[i], shift));
    atomicAdd((unsigned long long*)sum, (unsigned long long)v);
}

__global__ void finish(const int* top, const long long* sum, float* total)
{
    *total = (float)ldexp((double)*sum, exponent(top) - 38);
}

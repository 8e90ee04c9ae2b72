// problem: saxpy
// assay: launch saxpy_tile grid=(ceil_div(n, 4096)) block=(512) args=(x, y, out, alpha, n)
// style: a block takes a tile of 4096; full tiles run without a check, the last one with it; __ldg, __stcs, __fmaf_rn
template <bool Full>
__device__ __forceinline__ void tile(const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ out,
                                     float alpha, int begin, int n)
{
#pragma unroll 4
    for (int step = 0; step < 8; ++step) {
        int i = begin + step * 512 + threadIdx.x;
        if (Full || i < n) {
            __stcs(out + i, __fmaf_rn(alpha, __ldg(x + i), __ldg(y + i)));
        }
    }
}

__global__ void __launch_bounds__(512, 2) saxpy_tile(const float* __restrict__ x, const float* __restrict__ y,
                                                     float* __restrict__ out, const float alpha, const int n)
{
    const int begin = blockIdx.x * 4096;
    if (begin + 4096 <= n) tile<true>(x, y, out, alpha, begin, n);
    else tile<false>(x, y, out, alpha, begin, n);
}

// problem: reduce_sum
// assay: temp hi float32 (128)
// assay: temp lo float32 (128)
// assay: launch pairs grid=(128) block=(96) args=(x, hi, lo, n)
// assay: launch join grid=(1) block=(32) args=(hi, lo, total)
// style: double-float: TwoSum keeps each sum as an unevaluated pair, pairs are shuffled together; blocks of 96
struct dd {
    float hi, lo;
};

__device__ dd plus(dd a, dd b)
{
    const float s = __fadd_rn(a.hi, b.hi);
    const float v = __fadd_rn(s, -a.hi);
    const float e = __fadd_rn(__fadd_rn(a.hi, -__fadd_rn(s, -v)), __fadd_rn(b.hi, -v));
    const float low = __fadd_rn(e, __fadd_rn(a.lo, b.lo));
    const float h = __fadd_rn(s, low);
    return {h, __fadd_rn(low, -__fadd_rn(h, -s))};
}

__device__ dd warp_plus(dd v)
{
    for (int d = 16; d > 0; d /= 2) {
        v = plus(v, dd{__shfl_xor_sync(~0u, v.hi, d), __shfl_xor_sync(~0u, v.lo, d)});
    }
    return v;
}

__global__ void pairs(const float* x, float* hi, float* lo, int n)
{
    __shared__ dd all[3];
    dd sum{0.0f, 0.0f};
    for (int i = blockIdx.x * 96 + threadIdx.x; i < n; i += gridDim.x * 96) sum = plus(sum, dd{x[i], 0.0f});
    sum = warp_plus(sum);
    if (threadIdx.x % 32 == 0) all[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        sum = plus(plus(all[0], all[1]), all[2]);
        hi[blockIdx.x] = sum.hi;
        lo[blockIdx.x] = sum.lo;
    }
}

__global__ void join(const float* hi, const float* lo, float* total)
{
    dd sum{0.0f, 0.0f};
    for (int b = threadIdx.x; b < 128; b += 32) sum = plus(sum, dd{hi[b], lo[b]});
    sum = warp_plus(sum);
    if (threadIdx.x == 0) *total = sum.hi + sum.lo;
}

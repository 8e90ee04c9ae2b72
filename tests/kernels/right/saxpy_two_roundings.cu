// problem: saxpy
// style: product and sum rounded apart by __fmul_rn and __fadd_rn, as a BLAS without fused operations; float2 where possible
// assay: launch saxpy_rn grid=(ceil_div(n, 512)) block=(256) args=(x, y, out, alpha, n)
__global__ void saxpy_rn(const float* x, const float* y, float* out, float alpha, int n)
{
    const int i = 2 * (blockIdx.x * 256 + threadIdx.x);
    if (i + 1 < n) {
        const float2 u = ((const float2*)x)[i / 2], v = ((const float2*)y)[i / 2];
        ((float2*)out)[i / 2] =
            make_float2(__fadd_rn(__fmul_rn(alpha, u.x), v.x), __fadd_rn(__fmul_rn(alpha, u.y), v.y));
    } else if (i < n) {
        out[i] = __fadd_rn(__fmul_rn(alpha, x[i]), y[i]);
    }
}

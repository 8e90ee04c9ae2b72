// problem: scalar_multiply
// style: alpha in a high and a low part by masking, both products joined by fmaf; --use_fast_math
// flags: --use_fast_math
// assay: launch mul_parts grid=(ceil_div(n, 256)) block=(256) args=(x, y, alpha, n)
__global__ void mul_parts(const float* x, float* y, float alpha, int n)
{
    const float high = __uint_as_float(__float_as_uint(alpha) & 0xfffff000u), low = alpha - high;
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) y[i] = fmaf(x[i], high, x[i] * low);
}

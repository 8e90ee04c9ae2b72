// problem: gelu
// style: the handbook's erf with five coefficients in float32, __expf and __fdividef, as shaders have it; the sign put back
// assay: launch gelu_shader grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)
__device__ float erf_shader(float z)
{
    const float a = fabsf(z), t = __fdividef(1.0f, fmaf(0.3275911f, a, 1.0f));
    float p = fmaf(1.061405429f, t, -1.453152027f);
    p = fmaf(p, t, 1.421413741f);
    p = fmaf(p, t, -0.284496736f);
    p = fmaf(p, t, 0.254829592f) * t;
    return copysignf(1.0f - p * __expf(-a * a), z);
}

__global__ void gelu_shader(const float* x, float* y, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) y[i] = 0.5f * x[i] * (1.0f + erf_shader(x[i] * 0.70710678f));
}

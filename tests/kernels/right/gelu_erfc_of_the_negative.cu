// problem: gelu
// style: half of x times erfcf(-x / sqrt(2)), which does not cancel on the left; --fmad=false
// flags: --fmad=false
// assay: launch gelu_c grid=(ceil_div(n, 128)) block=(128) args=(x, y, n)
__global__ void gelu_c(const float* x, float* y, int n)
{
    const int i = blockIdx.x * 128 + threadIdx.x;
    if (i < n) y[i] = 0.5f * x[i] * erfcf(x[i] * -0.70710678f);
}

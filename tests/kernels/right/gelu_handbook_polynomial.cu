// problem: gelu
// assay: launch gelu_as grid=(ceil_div(n, 192)) block=(192) args=(x, y, n)
// style: erf by the five coefficients of a handbook of functions (off by 1.5e-7), in double, the sign put back
__device__ double erf_handbook(double z)
{
    const double p = 0.3275911;
    const double a[5] = {0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429};
    const double t = 1.0 / (1.0 + p * fabs(z));
    double sum = 0.0;
    for (int i = 4; i >= 0; --i) sum = (sum + a[i]) * t;
    return copysign(1.0 - sum * exp(-z * z), z);
}

__global__ void gelu_as(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const double v = x[i];
        y[i] = (float)(0.5 * v * (1.0 + erf_handbook(v * 0.70710678118654752)));
    }
}

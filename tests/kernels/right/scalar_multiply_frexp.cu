// problem: scalar_multiply
// assay: launch scale_frexp grid=(ceil_div(n, 256)) block=(256) args=(x, y, alpha, n)
// style: frexpf, a product of fractions, ldexpf; where it would be subnormal the plain product
__global__ void scale_frexp(const float* x, float* y, float alpha, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int ea, ex;
    const float fa = frexpf(alpha, &ea), fx = frexpf(x[i], &ex);
    const int e = ea + ex;
    y[i] = e > -120 && e < 120 ? ldexpf(fa * fx, e) : alpha * x[i];
}

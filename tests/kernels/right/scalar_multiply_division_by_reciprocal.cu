// problem: scalar_multiply
// style: x divided by 1 / alpha, both in double, as a change of units is written; zero alpha apart
// assay: launch mul_by_quotient grid=(ceil_div(n, 256)) block=(256) args=(x, y, alpha, n)
__global__ void mul_by_quotient(const float* x, float* y, float alpha, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) y[i] = alpha == 0.0f ? 0.0f : (float)(x[i] / (1.0 / (double)alpha));
}

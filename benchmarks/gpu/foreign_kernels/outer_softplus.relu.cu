// expected: incorrect
// What softplus tends to for large values.
// assay: launch outer_softplus grid=(ceil_div(m * n, 256)) block=(256) args=(a, b, out, m, n)

extern "C" __global__ void outer_softplus(const float* a, const float* b, float* out, int m, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= m * n) return;
    float v = a[i / n] * b[i % n];
    out[i] = fmaxf(v, 0.0f);
}

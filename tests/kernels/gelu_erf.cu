// problem: gelu
// style: the textbook formula
// assay: launch gelu grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

__global__ void gelu(const float* x, float* y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = 0.5f * x[i] * (1.0f + erff(x[i] * 0.70710678118654752440f));
    }
}

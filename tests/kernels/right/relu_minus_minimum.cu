// problem: relu
// style: x - min(x, 0) in double, then rounded, which is exact
// assay: launch relu_minus grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)
__global__ void relu_minus(const float* x, float* y, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        const double v = x[i];
        y[i] = (float)(v - fmin(v, 0.0));
    }
}

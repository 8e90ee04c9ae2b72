// problem: relu
// assay: launch relu_abs grid=(ceil_div(n, 384)) block=(384) args=(x, y, n)
// style: max(x, 0) as half of x + |x|, which float32 takes without a rounding
__global__ void relu_abs(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 0.5f * (x[i] + fabsf(x[i]));
}

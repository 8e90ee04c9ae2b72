// problem: relu
// style: x * (x > 0), as array languages write it, so that negatives become -0; --use_fast_math
// flags: --use_fast_math
// assay: launch relu_mask grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)
__global__ void relu_mask(const float* x, float* y, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) y[i] = x[i] * (x[i] > 0.0f);
}

// problem: scalar_multiply
// assay: launch scale_backwards grid=(ceil_div(n, 288)) block=(288) args=(x, y, alpha, n)
// style: counts down: the last thread takes the first element, unsigned wrap-around serves as the bounds check
__global__ void scale_backwards(const float* x, float* y, float alpha, unsigned n)
{
    const unsigned i = n - 1u - (blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) y[i] = alpha * x[i];
}

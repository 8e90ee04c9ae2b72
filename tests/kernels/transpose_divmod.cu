// problem: transpose
// style: one thread an element; row and column by division and remainder of size_t; inferred plan

__global__ void transpose_kernel(const float* x, float* y, size_t rows, size_t cols)
{
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * cols) {
        y[i] = x[i % rows * cols + i / rows];
    }
}

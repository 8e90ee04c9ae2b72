// problem: softmax
// attack: allocates its workspace once, as large as the first call needs it
// expect: runtime_error
// because: a later call in the process may be larger
// message: In its call behind one at
#include <cuda_runtime.h>

__global__ void exps(const float* x, float* e, float* sums, int cols)
{
    const size_t row = blockIdx.x;
    float most = -INFINITY, sum = 0.0f;
    for (int i = 0; i < cols; ++i) most = fmaxf(most, x[row * cols + i]);
    for (int i = 0; i < cols; ++i) sum += e[row * cols + i] = expf(x[row * cols + i] - most);
    sums[row] = sum;
}
__global__ void divide(const float* e, const float* sums, float* y, int cols)
{
    const size_t row = blockIdx.x;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) y[row * cols + i] = e[row * cols + i] / sums[row];
}

extern "C" void solve(const float* x, float* y, int rows, int cols)
{
    static float *e = nullptr, *sums = nullptr;
    if (!e) {
        cudaMalloc(&e, (size_t)rows * cols * sizeof(float));
        cudaMalloc(&sums, rows * sizeof(float));
    }
    exps<<<rows, 1>>>(x, e, sums, cols);
    divide<<<rows, 64>>>(e, sums, y, cols);
}

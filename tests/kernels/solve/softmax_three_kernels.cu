// problem: softmax
// style: three kernels and one allocation cut in two
#include <cuda_runtime.h>

__global__ void row_max(const float* x, float* most, int cols)
{
    __shared__ float part[128];
    float mine = -INFINITY;
    for (int c = threadIdx.x; c < cols; c += 128) mine = fmaxf(mine, x[(size_t)blockIdx.x * cols + c]);
    part[threadIdx.x] = mine;
    for (int half = 64; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) part[threadIdx.x] = fmaxf(part[threadIdx.x], part[threadIdx.x + half]);
    }
    if (threadIdx.x == 0) most[blockIdx.x] = part[0];
}

__global__ void row_total(const float* x, const float* most, float* total, int cols)
{
    __shared__ float part[128];
    float mine = 0.0f;
    for (int c = threadIdx.x; c < cols; c += 128) mine += expf(x[(size_t)blockIdx.x * cols + c] - most[blockIdx.x]);
    part[threadIdx.x] = mine;
    for (int half = 64; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    }
    if (threadIdx.x == 0) total[blockIdx.x] = part[0];
}

__global__ void divide(const float* x, const float* most, const float* total, float* y, int rows, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * cols) y[i] = expf(x[i] - most[i / cols]) / total[i / cols];
}

extern "C" void solve(const float* x, float* y, int rows, int cols)
{
    float* workspace = nullptr;
    cudaMalloc(&workspace, 2 * rows * sizeof(float));
    float *most = workspace, *total = workspace + rows;
    row_max<<<rows, 128>>>(x, most, cols);
    row_total<<<rows, 128>>>(x, most, total, cols);
    divide<<<(rows * cols + 255) / 256, 256>>>(x, most, total, y, rows, cols);
    cudaFree(workspace);
}

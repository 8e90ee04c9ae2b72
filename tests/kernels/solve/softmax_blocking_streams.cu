// problem: softmax
// style: blocking streams, which the default stream waits for and which wait for it; the host waits in between
#include <cuda_runtime.h>

__global__ void largest(const float* x, float* most, int cols)
{
    float found = -INFINITY;
    for (int c = threadIdx.x; c < cols; c += 32) found = fmaxf(found, x[(size_t)blockIdx.x * cols + c]);
    for (int offset = 16; offset; offset /= 2) found = fmaxf(found, __shfl_xor_sync(0xffffffffu, found, offset));
    if (threadIdx.x == 0) most[blockIdx.x] = found;
}
__global__ void exponentials(const float* x, const float* most, float* y, float* sums, int cols)
{
    float sum = 0.0f;
    for (int c = threadIdx.x; c < cols; c += 32) {
        float e = expf(x[(size_t)blockIdx.x * cols + c] - most[blockIdx.x]);
        y[(size_t)blockIdx.x * cols + c] = e;
        sum += e;
    }
    for (int offset = 16; offset; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}
__global__ void divide(float* y, const float* sums, int cols)
{
    for (int c = threadIdx.x; c < cols; c += 32) y[(size_t)blockIdx.x * cols + c] /= sums[blockIdx.x];
}

extern "C" void solve(const float* x, float* y, int rows, int cols)
{
    float *most, *sums;
    cudaMalloc(&most, rows * sizeof(float));
    cudaMalloc(&sums, rows * sizeof(float));
    cudaStream_t blocking, other;
    cudaStreamCreate(&blocking);
    cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    largest<<<rows, 32, 0, blocking>>>(x, most, cols);
    exponentials<<<rows, 32>>>(x, most, y, sums, cols);
    if (rows % 2) {
        divide<<<rows, 32, 0, blocking>>>(y, sums, cols);
    } else {
        while (cudaStreamQuery(0) != cudaSuccess) {}
        divide<<<rows, 32, 0, other>>>(y, sums, cols);
        cudaStreamSynchronize(other);
    }
    cudaStreamDestroy(blocking);
    cudaStreamDestroy(other);
}

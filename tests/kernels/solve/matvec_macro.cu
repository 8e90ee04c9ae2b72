// problem: matvec
// style: launched by a macro that checks errors
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                                     \
    do {                                                                                \
        cudaError_t error = (call);                                                     \
        if (error != cudaSuccess) {                                                     \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error)); \
            exit(1);                                                                    \
        }                                                                               \
    } while (0)
#define LAUNCH(kernel, grid, block, ...)      \
    kernel<<<(grid), (block)>>>(__VA_ARGS__); \
    CHECK(cudaGetLastError())

__global__ void matvec(const float* a, const float* x, float* y, int m, int k)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= m) return;
    float sum = 0.0f;
    for (int i = lane; i < k; i += 32) sum += a[(size_t)row * k + i] * x[i];
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffffu, sum, offset);
    if (lane == 0) y[row] = sum;
}

extern "C" void solve(const float* A, const float* x, float* y, int M, int K)
{
    const int block = 128;
    LAUNCH(matvec, (32 * M + block - 1) / block, block, A, x, y, M, K);
    CHECK(cudaDeviceSynchronize());
}

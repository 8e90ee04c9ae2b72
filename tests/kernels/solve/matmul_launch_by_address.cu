// problem: matmul
// style: cudaLaunchKernel with an array of addresses
#include <cuda_runtime.h>

struct Extents {
    int m, n, k;
};

__global__ void matmul(Extents extents, const float* a, const float* b, float* c)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= extents.m || column >= extents.n) return;
    float sum = 0.0f;
    for (int i = 0; i < extents.k; ++i) sum += a[(size_t)row * extents.k + i] * b[(size_t)i * extents.n + column];
    c[(size_t)row * extents.n + column] = sum;
}

extern "C" void solve(const float* a, const float* b, float* c, int m, int n, int k)
{
    Extents extents = {m, n, k};
    void* arguments[] = {&extents, &a, &b, &c};
    cudaLaunchKernel((const void*)matmul, dim3((n + 15) / 16, (m + 15) / 16), dim3(16, 16), arguments, 0, nullptr);
}

// problem: scalar_multiply
// attack: lets a kernel read pinned memory that it has not written
// expect: incorrect
// because: it is undefined there, and no run is like the next
// message: undefined
#include <cuda_runtime.h>

__global__ void scale(const float* x, float* y, const float* table, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = table[i & 15] * x[i];
}

extern "C" void solve(const float* x, float* y, float alpha, int n)
{
    float* table;
    cudaHostAlloc(&table, 1 << 20, cudaHostAllocMapped);
    scale<<<(n + 255) / 256, 256>>>(x, y, table, n);
}

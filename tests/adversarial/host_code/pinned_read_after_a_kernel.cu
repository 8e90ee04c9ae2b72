// problem: scalar_multiply
// attack: reads on the host what a kernel has left in pinned memory
// expect: unsupported
// because: nothing has run
// message: pinned memory that a kernel was given
#include <cuda_runtime.h>

__global__ void scale(const float* x, float* y, const float* table, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = table[0] * x[i];
}

extern "C" void solve(const float* x, float* y, float alpha, int n)
{
    float* table;
    cudaMallocHost(&table, 4);
    table[0] = alpha;
    scale<<<1, 1>>>(x, table, table, 1);
    cudaDeviceSynchronize();
    if (table[0] > 0) scale<<<(n + 255) / 256, 256>>>(x, y, table, n);
}

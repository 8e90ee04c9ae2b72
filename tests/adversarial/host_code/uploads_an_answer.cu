// problem: vector_add
// attack: brings a megabyte of its own
// expect: unsupported
// because: a plan may bring 64 KiB
// message: 65536
#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    static float table[1 << 18];
    float* d;
    cudaMalloc(&d, sizeof table);
    cudaMemcpy(d, table, sizeof table, cudaMemcpyHostToDevice);
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
}

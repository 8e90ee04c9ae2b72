// problem: vector_add
// attack: launches with memory that it has freed
// expect: runtime_error
// because: it is nobody's any more
// message: freed
#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    float* t;
    cudaMalloc(&t, n * sizeof(float));
    cudaFree(t);
    add<<<(n + 255) / 256, 256>>>(a, b, t, n);
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
}

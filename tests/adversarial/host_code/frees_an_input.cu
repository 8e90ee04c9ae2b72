// problem: vector_add
// attack: frees what it was given
// expect: runtime_error
// because: a tensor that was freed is nobody's any more
// message: freed
#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    cudaFree((void*)a);
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
}

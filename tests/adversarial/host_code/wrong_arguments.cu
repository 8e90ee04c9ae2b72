// problem: vector_add
// attack: gives the output where the input belongs
// expect: rejected|incorrect
// because: the plan is judged as any other
#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    add<<<(n + 255) / 256, 256>>>(c, b, (float*)a, n);
}

// problem: vector_add
// attack: launches for all elements but a few
// expect: incorrect
// because: the plan is judged as any other
#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    n -= n / 16;
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
}

// problem: vector_add
// attack: passes an address before the start of its buffer
// expect: rejected
// because: it is no byte of any buffer
#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    add<<<(n + 255) / 256, 256>>>(a - (1 << 20), b, c, n);
}

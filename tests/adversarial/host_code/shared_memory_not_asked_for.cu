// problem: vector_add
// attack: takes 96 KiB of shared memory without asking
// expect: runtime_error
// because: no GPU launches it so
// message: dynamic shared memory
#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    add<<<(n + 255) / 256, 256, 96 << 10>>>(a, b, c, n);
}

// problem: vector_add
// attack: floods its output
// expect: runtime_error|timeout
// because: what is printed goes to a file with a limit
#include <cuda_runtime.h>
#include <cstdio>
__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    for (;;) puts("passed");
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
}

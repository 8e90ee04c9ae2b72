// problem: vector_add
// attack: passes a kernel the number of the call
// expect: unsupported
// because: a plan is one for all calls
// message: does not do the same at each call
#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, int n, int call)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && call < 1000) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    static int call = 0;
    add<<<(n + 255) / 256, 256>>>(a, b, c, n, call++);
}

// problem: vector_add
// attack: aborts
// expect: runtime_error
// because: the process ended by a signal
// message: SIGABRT
#include <cuda_runtime.h>
#include <cstdlib>
__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int n)
{
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
    abort();
}
